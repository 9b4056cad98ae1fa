"""The logs behind a page: one pass over them in a thread, and narrow reads afterwards.

    session = LogSession(chains, options, files)
    session.begin()                       # reads the logs, in a thread
    session.overview, session.state()
    for chain, options in session.parts(selection): …

The pass keeps which bytes hold which times. A read of a span of time opens only those.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any, TypeVar

from binlake.errors import BinlogError, FormatError, OptionError
from binlake.source.chain import Chain
from binlake.stream.positions.chosen_chains import chosen_chains
from binlake.stream.spread import ReaderWithRuns, ReadsRuns
from binlake.stream.statistics import Statistics
from binlake.table.batches import Changes
from binlake.table.counting.gather import gather
from binlake.table.reading import as_they_are, read_changes
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.ui.overview import Overview
from binlake.ui.request_options import Selection
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition
from binlake.values.times import utc_text

T = TypeVar("T")

#: How many transactions a list of the largest has.
TOP = 50
#: Options that choose places in the log: with them a read is not narrowed further.
_PLACES = ("start", "stop", "at", "gtid", "exclude_gtid")


class Stopped(Exception):  # noqa: N818 - no error: its result is not needed
    """A read was stopped because its result is no longer needed."""


class LogSession:
    """Opened logs, and the results of a pass over them. It writes nothing.

    `files` are the arguments of the command, `options` its options.
    """

    def __init__(self, chains: Sequence[Chain], options: ReadOptions, files: Sequence[str]) -> None:
        self.chains = tuple(chains)
        self.options = options
        self.files = tuple(files)
        self.overview = Overview(Statistics(top=TOP))
        self.ledger = Ledger()
        self.error: BinlogError | None = None
        self.ready = Event()
        self._begun_at = datetime.now(UTC)
        self._stop = Event()
        self._thread = Thread(target=self._read, name="binlake-ui-reader", daemon=True)

    # -- the pass ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Read the logs in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _read(self) -> None:
        try:
            gather(self.chains, self.options, self.ledger, self.overview, stoppable(self._stop))
        except BinlogError as error:
            self.error = error
        except Stopped:
            return
        finally:
            self.ready.set()

    def state(self) -> dict[str, Any]:
        """Return the files, the progress and the errors; JSON-ready."""
        sizes = [chain.known_bytes for chain in self.chains]
        names = [file.shown for chain in self.chains for file in chain.files]
        return {
            "files": {"count": len(names), "first": names[0], "last": names[-1]},
            "bytes": self.ledger.total.bytes,
            "total_bytes": None if None in sizes else sum(size or 0 for size in sizes),
            "ready": self.ready.is_set(),
            "error": None if self.error is None else str(self.error),
            "can_skip": isinstance(self.error, FormatError) and self.options.on_error == "stop",
            "read_at": self._begun_at.strftime("%Y-%m-%d %H:%M:%S"),
            "filters": [
                f"{name}: {_shown(name, getattr(self.options, name))}"
                for name in self.options.filters_given
            ],
        }

    # -- reads ---------------------------------------------------------------------------------

    def parts(self, selection: Selection) -> Iterator[tuple[Chain, ReadOptions]]:
        """Yield the chains that a selection can be in, each with the options of a read of it.

        Raises OptionError.
        """
        options = selection.options
        for chain in self.chains:
            narrowed = self._narrowed(chain, options)
            if narrowed is not None:
                yield chain, narrowed

    def _narrowed(self, chain: Chain, options: ReadOptions) -> ReadOptions | None:
        """Return the options with the bytes that hold a span of time; None: there are none."""
        known = self.ready.is_set() and self.error is None
        if not known or any(getattr(options, name) is not None for name in _PLACES):
            return options
        if options.since is None and options.until is None:
            return options
        ordinals = {file.shown: ordinal for ordinal, file in enumerate(chain.files)}
        found = [
            (ordinals[one.file], one)
            for one in self.overview.segments
            if one.file in ordinals and one.overlaps(options.since, options.until)
        ]
        if not found:
            return None
        first = min((ordinal, one.start) for ordinal, one in found)
        last = max((ordinal, one.end) for ordinal, one in found)
        names = chain.names
        return replace(
            options,
            start=FilePosition(names[first[0]], first[1], chain.source),
            stop=FilePosition(names[last[0]], last[1], chain.source),
        )

    def meant(self, options: ReadOptions) -> list[Chain]:
        """Return the chains that a position or a GTID in options means. Raises OptionError."""
        return chosen_chains(self.chains, options)

    def schema(self, options: ReadOptions) -> closing[DeclaredSchema]:
        """Return the declared tables for a `with` block, which closes them. Raises SchemaError, OptionError."""
        return closing(declared_schema(options, self.files))

    def gathered(self, selection: Selection, stop: Event) -> tuple[Overview, Ledger]:
        """Count a selection. Raises BinlogError, Stopped."""
        overview, ledger = Overview(Statistics(top=TOP)), Ledger()
        if selection.where is not None:
            raise OptionError(
                "a condition selects single row changes, which the overview does not look at",
                name="where",
            )
        for chain, options in self.parts(selection):
            gather([chain], options, ledger, overview, stoppable(stop))
        return overview, ledger

    def changes(
        self, chain: Chain, options: ReadOptions, ledger: Ledger, stop: Event
    ) -> Generator[Changes]:
        """Yield the row changes of a chain as text. Raises BinlogError, Stopped."""

        def watched(reader: ReadsRuns) -> ReadsRuns:
            return ReaderWithRuns(reader, lambda on_ddl: stoppable(stop)(reader.runs(on_ddl)))

        with self.schema(options) as schema:
            yield from read_changes(
                [chain], options, ledger, Target.TEXT, schema, as_they_are, watched=watched
            )


def stoppable(stop: Event) -> Callable[[Iterable[T]], Iterator[T]]:
    """Return a wrapper of a loop that raises Stopped once `stop` is set."""

    def watched(items: Iterable[T]) -> Iterator[T]:
        for item in items:
            if stop.is_set():
                raise Stopped
            yield item

    return watched


def _shown(name: str, value: Any) -> str:
    if name in ("since", "until"):
        return (utc_text(value) or "")[:19].replace("T", " ")
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
