"""MariaDB logs in the words of mariadb-binlog 11.8."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from binlake.core.text.event_kinds import KindTable
from binlake.core.text.replay_lines import base64_lines
from binlake.core.text.replay_text import ReplayText
from binlake.events.base import Event
from binlake.events.common.query import QueryEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.mariadb.annotate_rows import AnnotateRowsEvent
from binlake.events.mariadb.binlog_checkpoint import BinlogCheckpointEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.format import flags
from binlake.format.event_types import (
    EVENT_TYPES,
)
from binlake.printable import comment_lines, printable
from binlake.replay.event_text import (
    END,
    TextOptions,
    mariadb_dump,
)
from binlake.replay.gtids import (
    MariadbGtids,
    gtid_list_text,
)
from binlake.replay.load_files import LoadFiles
from binlake.replay.printer import Printer
from binlake.replay.replay_session import MariadbSession
from binlake.replay.shown import Shown
from binlake.replay.table_metadata import metadata_lines

_ALTER = flags.FL_START_ALTER | flags.FL_COMMIT_ALTER | flags.FL_ROLLBACK_ALTER


class MariadbPrinter(Printer):
    """Prints events in the form of mariadb-binlog 11.8."""

    session_class = MariadbSession
    hex_literal = "X'{}'"
    xa_word = "XID ="

    def __init__(
        self,
        options: TextOptions,
        write: Callable[[bytes | memoryview], object],
        load_files: LoadFiles,
        warn: Callable[[str], None],
    ) -> None:
        super().__init__(options, write, load_files, warn)
        self._gtids = MariadbGtids()
        self._annotation: tuple[Shown, AnnotateRowsEvent] | None = None

    def replay_text(self, table: KindTable) -> ReplayText:
        return ReplayText(
            table,
            mariadb=True,
            prints_base64=self.options.prints_base64,
            says_queries=True,
            counts_rows=self._counts_rows,
        )

    def lend(self, text: ReplayText) -> None:
        super().lend(text)
        text.parallel, text.domain_id, text.server_id = self._gtids.last_set

    @property
    def is_between_statements(self) -> bool:
        return super().is_between_statements and self._annotation is None

    def _dump(self, shown: Shown) -> Iterator[bytes]:
        return mariadb_dump(shown.raw, shown.at)

    def _own_preamble(self) -> Iterator[bytes]:
        yield b"/*!40019 SET @@session.max_delayed_threads=0*/;\n"

    def _end_torn(self) -> None:
        self.write(b"ROLLBACK /* added by mysqlbinlog */;\n")

    def next_file(self) -> None:
        """Begin the next log, with a new session state."""
        self.end_file()
        self.write(b"DELIMITER ;\nDELIMITER /*!*/;\n")
        self.session = self.session_class(short_form=self.options.short_form)
        self._gtids = MariadbGtids()

    def _print_statement(self, shown: Shown, event: QueryEvent) -> None:
        phase = event.status_values.get("gtid_flags3", {}).get("flags", 0) & _ALTER
        if not phase:
            super()._print_statement(shown, event)
            return
        # an ALTER in two phases: as text it would be done twice
        if self.options.prints_base64:
            begin, end = (b"/*!100600 ", b" */") if phase & flags.FL_START_ALTER else (b"", b"")
            self.write(begin + b"BINLOG '\n" + base64_lines(shown.raw) + b"'" + end + END)
        if self._decodes_rows:
            self.write(comment_lines(event.sql_raw, b"### "))

    def end(self) -> None:
        super().end()
        if self.options.restores_gtid_variables:
            for name in (b"SERVER_ID", b"GTID_DOMAIN_ID"):
                self.write(b"/*!100001 SET @@SESSION.%s=@@GLOBAL.%s */;\n" % (name, name))

    def _xid_word(self, event: QueryEvent) -> str:
        return f"\txid={event.status_values.get('xid', 0)}"

    def _variable(self, shown: Shown, event: Event) -> None:
        self._print_variable(shown)

    def _mariadb_gtid(self, shown: Shown, event: MariadbGtidEvent) -> None:
        self.write(self.header(shown, b"\tGTID " + self._gtids.words(event)))
        if not self.options.short_form and not self.options.skip_gtids:
            for line in self._gtids.lines(event):
                self.write(line)
        self.write(self._gtids.begin(event))

    def _gtid_list(self, shown: Shown, event: GtidListEvent) -> None:
        self.write(self.header(shown, b"\tGtid list " + gtid_list_text(event)))

    def _checkpoint(self, shown: Shown, event: BinlogCheckpointEvent) -> None:
        self.write(self.header(shown, f"\tBinlog checkpoint {printable(event.file)}\n".encode()))

    def _annotate(self, shown: Shown, event: AnnotateRowsEvent) -> None:
        if not self.options.skip_annotate_row_events:
            self._annotation = (shown, event)

    def _print_table_map(self, shown: Shown, event: TableMapEvent, words: bytes) -> None:
        self._print_annotation()
        triggers = b" (has triggers)" if event.flags & flags.TM_BIT_HAS_TRIGGERS_F else b""
        self.write(self.header(shown, words + triggers + b"\n"))
        if self.options.print_table_metadata and not self.options.short_form:
            self.write(b"".join(metadata_lines(event)))

    def _print_annotation(self) -> None:
        if self._annotation is None:
            return
        shown, event = self._annotation
        self._annotation = None
        self.write(self.header(shown, b"\tAnnotate_rows:\n") or b"# Annotate_rows:\n")
        self.write(comment_lines(event.query_raw, b"#Q> "))

    def _rows_word(self, event: RowsEvent) -> str:
        if not EVENT_TYPES[event.frame.type_code].compressed:
            return super()._rows_word(event)
        return super()._rows_word(event).replace("_rows", "_compressed_rows")

    def _print_rows(self, shown: Shown, words: bytes) -> None:
        self.statement.heads.append(self.header(shown, words))

    @property
    def _counts_rows(self) -> bool:
        return self.options.print_row_count and not self.options.short_form

    def _statement_ends(self) -> None:
        self._annotation = None
        rows = self.statement.rows
        was_open = self.statement.is_open
        super()._statement_ends()
        if was_open and self._counts_rows:
            self.write(f"# Number of rows: {rows}\n".encode())
