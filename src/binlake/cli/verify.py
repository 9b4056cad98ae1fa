"""`binlake verify FILE|DIR…`: check that every log is complete, and that the files follow one
another.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from binlake.cli.common.flags import HOW_LOGS_ARE_OPENED, with_flags, with_options
from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Argument, Exit, Option
from binlake.cli.common.terminal import note
from binlake.format.event_types import event_name
from binlake.source.access import Access
from binlake.source.bytes import refuse_pipes
from binlake.stream.verify.chains import VerifyReport
from binlake.stream.verify.chains import verify as check
from binlake.stream.verify.log_file import FileReport
from binlake.stream.verify.problems import Kind
from binlake.stream.verify.reencode import Reencoding
from binlake.values.options import ReadOptions
from binlake.values.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlake.errors import BinlogError
    from binlake.source.window import Window
    from binlake.stream.verify.bodies import ImageCheck
    from binlake.table.checks.logged_fractions import LoggedFractions
    from binlake.table.checks.row_bytes import RowBytes
    from binlake.table.schema.declared import DeclaredSchema

_NAMED = 3  # of the ignored files


@with_options("schema", *HOW_LOGS_ARE_OPENED)
def verify(
    files: Annotated[
        list[str], Argument(metavar="FILE|DIR…", help="Logs, directories, .index files.")
    ],
    options: ReadOptions,
    as_json: Annotated[bool, Option("--json", help="Print the report as one JSON object.")] = False,
    reencode: Annotated[
        bool,
        Option("--reencode", help="Also encode every event again and compare the bytes."),
    ] = False,
) -> None:
    """Verify checksums and framing of every event, and the chain of files.

    In a log without checksums, every event and every row image is decoded.

    The chain of files is correct if no number is missing, each file is named by the one before it and
    ends with ROTATE or STOP, and GTIDs (PREVIOUS_GTIDS, GTID_LIST) have no gaps or overlaps. The exit
    code is 0 if there are no problems (a file in use is not a problem), and 1 otherwise.

    verify checks whole logs and has no filters. --schema describes tables whose DDL is not in the
    logs; MariaDB's old temporal formats need that.

    --reencode tests whether binlake understands all of a log: it decodes every event, encodes it again
    from its fields and its rows from their values, and compares the bytes (for compressed data, the
    uncompressed bytes).

    Examples:
      binlake verify /var/lib/mysql/

      binlake verify --json s3://logs/shop/binlog.index | jq .chain

      binlake verify --reencode binlog.000012
    """
    access = Access.of(options)
    rows = _RowChecks(options)
    reencoding = Reencoding(rows.encoded, access)
    checks = [reencoding] if reencode else []
    if reencode:
        refuse_pipes(files, "--reencode reads a log twice")
    report = check(
        files,
        index_directories=options.index_directory,
        images=rows.images,
        checks=checks,
        keyring=access.keyring,
        max_memory=access.max_memory,
    )
    if as_json:
        print(json.dumps(report.to_json(), ensure_ascii=False, indent=1))
    else:
        _print_report(report)
    if reencode:
        note(f"identical after encoding again: {counted(reencoding.events, 'event')}")
    if not report.ok:
        raise Exit(1)


class _RowChecks:
    """The checks of row images. Logs with checksums need none, so pyarrow is imported only for a
    log without them.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        if options.schema is not None:
            _ = self._schema  # a wrong one is reported before anything is read

    @cached_property
    def _schema(self) -> DeclaredSchema:
        from binlake.table.schema.schema_file import declared_schema

        return declared_schema(self._options)

    def _fractions(self) -> LoggedFractions:
        from binlake.table.checks.logged_fractions import LoggedFractions

        return LoggedFractions(self._schema)

    _compared = cached_property(_fractions)
    _decoded = cached_property(_fractions)

    def encoded(self) -> RowBytes:
        """Compares row images with the encoding of their values."""
        from binlake.table.checks.row_bytes import RowBytes

        return RowBytes(self._compared)

    def images(self) -> ImageCheck:
        """Decodes every row image of one log."""
        made: ImageCheck | None = None

        def check(window: Window) -> Iterator[BinlogError]:
            nonlocal made
            if made is None:
                from binlake.table.checks.image_check import RowImages

                made = RowImages(self._decoded)
            return made(window)

        return check


def _print_report(report: VerifyReport) -> None:
    for file in report.files:
        show(_file_line(file))
        for problem in file.problems:
            show(f"    {problem.kind.value} at {problem.pos}: {with_flags(problem.message)}")
    for link in report.chain:
        show(f"{link.file}: {link.kind.value}: {link.message}")
    for link in report.remarks:
        show(f"{link.file}: {link.message}")
    if report.ignored:
        names = [path.rpartition("/")[2] for path in report.ignored]
        listed = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        count = counted(len(names), "file")
        note(f"ignored {count} ({listed}): a second copy, or not named like a log")
    problems = sum(p.kind is not Kind.IN_USE for f in report.files for p in f.problems)
    total = problems + len(report.chain)
    events = sum(f.types.total() for f in report.files)
    verdict = "all is well" if report.ok else counted(total, "problem")
    show(f"{counted(len(report.files), 'file')}, {counted(events, 'event')}: {verdict}")


def _file_line(file: FileReport) -> str:
    if not file.types:
        return f"{file.file}: PROBLEMS, {counted(file.bytes, 'byte')}, no event that can be read"
    top = ", ".join(f"{event_name(code)} {count:,}" for code, count in file.types.most_common(3))
    if file.algorithm is None:
        checksums = "no checksums (old server)"
    elif file.algorithm == "NONE":
        checksums = "checksums off"
    else:
        checksums = f"{counted(file.verified, 'checksum')} verified, {file.bad:,} bad"
    state = "ok" if file.ok else "PROBLEMS"
    size, events = counted(file.bytes, "byte"), counted(file.types.total(), "event")
    return f"{file.file}: {state}, {size}, {events} ({top}), {checksums}"
