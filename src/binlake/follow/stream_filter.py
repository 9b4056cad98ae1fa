"""The filter of the batches of a stream, from the options of the read."""

from __future__ import annotations

from dataclasses import replace

from binlake.errors import OptionError
from binlake.stream.filters import TransactionFilter
from binlake.values.gtid_filter import GtidFilter, parse_gtid_filter
from binlake.values.log_names import LogName
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition, FilePosition


def stream_filter(options: ReadOptions) -> TransactionFilter:
    """Return the options' filter; positions in it name files by number (see `StreamSplit`). Raises OptionError."""
    if options.at is not None:
        raise OptionError(
            "option at selects one transaction, but a stream does not end",
            name="at",
            hint="use spark.read.format('binlog') to read that transaction",
        )
    return replace(
        TransactionFilter.of(replace(options, start=None, stop=None), ()),
        start=_numbered_position(options.start, "start"),
        stop=_numbered_position(options.stop, "stop"),
    )


def number_in(file: str) -> int | None:
    """Return the number at the end of a log's base name; None if there is none."""
    name = LogName.parse(file)
    return None if name is None or name.is_ibb else name.number


def excluded_gtids(options: ReadOptions, shown: str) -> GtidFilter:
    """Return the excluded GTIDs: those of the option, and those that were shown before, in the same form."""
    asked = options.exclude_gtid
    return parse_gtid_filter(shown if asked is None else f"{asked},{shown}")


def _numbered_position(position: FilePosition | None, option: str) -> ChainPosition | None:
    if position is None:
        return None
    number = number_in(position.file)
    if number is None:
        raise OptionError(
            f"option {option}: {str(position)!r}: a position needs a file, because a stream's"
            " logs come and go",
            name=option,
            hint="use FILE:POS, for example binlog.000012:4",
        )
    return ChainPosition(number, position.file, position.offset)
