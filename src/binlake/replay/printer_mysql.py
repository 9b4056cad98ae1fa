"""MySQL logs in the words of mysqlbinlog 9.7."""

from __future__ import annotations

from collections.abc import Iterator

from binlake.core.text.event_kinds import KindTable
from binlake.core.text.replay_text import ReplayText
from binlake.errors import UnsupportedError
from binlake.events.base import Event
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.common.query import QueryEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.common.user_var import UserVarEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.events.mysql.rows_query import RowsQueryEvent
from binlake.format.event_types import (
    ANONYMOUS_GTID_LOG_EVENT,
    PARTIAL_UPDATE_ROWS_EVENT,
)
from binlake.format.flags import TM_GENERATED_INVISIBLE_PK_F
from binlake.printable import comment_lines, printable
from binlake.replay.event_text import (
    END,
    Base64,
    mysql_dump,
)
from binlake.replay.gtids import (
    mysql_gtid_lines,
    mysql_gtid_words,
    previous_gtids_text,
)
from binlake.replay.printer import Printer
from binlake.replay.replay_session import UTF8, MysqlSession
from binlake.replay.shown import Shown
from binlake.replay.statement_events import (
    user_variable,
)
from binlake.replay.table_metadata import metadata_lines
from binlake.stream.log_events import LogEvent

_FIRST_WITH_INVISIBLE_KEYS = 80030


class MysqlPrinter(Printer):
    """Prints events in the form of MySQL's mysqlbinlog 9.7."""

    session_class = MysqlSession
    hex_literal = "0x{}"
    xa_word = "XA PREPARE"

    _has_gtid = False
    _names_next = False
    _server_version = 0  # of the transaction, as its GTID event says it

    def replay_text(self, table: KindTable) -> ReplayText:
        return ReplayText(
            table,
            mariadb=False,
            prints_base64=self.options.prints_base64,
            says_queries=self.options.verbose > 1,
            counts_rows=False,
        )

    def lend(self, text: ReplayText) -> None:
        super().lend(text)
        text.has_gtid, text.names_next = self._has_gtid, self._names_next
        text.server_version = self._server_version

    def take_back(self, text: ReplayText) -> None:
        super().take_back(text)
        self._has_gtid, self._names_next = text.has_gtid, text.names_next
        self._server_version = text.server_version

    @property
    def is_between_statements(self) -> bool:
        if self.options.base64_output is Base64.NEVER:
            return False  # rows are refused
        return super().is_between_statements

    def hide(self, log_event: LogEvent) -> None:
        if log_event.inner is None:
            self._at(log_event.pos)

    def _shows(self, database: str) -> bool:
        # MySQL's tool renames first; MariaDB's does not
        return self.options.shows(self.options.renamed(database))

    def _before(self, event: Event) -> None:
        if not isinstance(event, QueryEvent) or not self._is_hidden(event):
            return
        if self._names_next and not self.in_transaction:
            # the GTID that was just named is of what is hidden: it has to be used up
            self._names_next = False
            self.write(b"COMMIT /* added by mysqlbinlog */" + END)

    def _group_ends(self) -> None:
        super()._group_ends()
        self._names_next = False

    def _dump(self, shown: Shown) -> Iterator[bytes]:
        return mysql_dump(shown.raw, shown.at)

    def _preamble(self) -> Iterator[bytes]:
        yield b"# The proper term is pseudo_replica_mode, but we use this compatibility alias\n"
        yield b"# to make the statement usable on server versions 8.0.24 and older.\n"
        yield from super()._preamble()
        if self.options.idempotent:
            yield b"/*!50700 SET @@SESSION.RBR_EXEC_MODE=IDEMPOTENT*/;\n\n"

    def end(self) -> None:
        super().end()
        if self.options.idempotent:
            self.write(b"/*!50700 SET @@SESSION.RBR_EXEC_MODE=STRICT*/;\n")

    def end_file(self) -> None:
        super().end_file()
        if self.in_transaction:
            self.in_transaction = False
            self.write(b"ROLLBACK /* added by mysqlbinlog */ " + END)
        if self._has_gtid:
            self._has_gtid = False
            self.write(b"SET @@SESSION.GTID_NEXT= 'AUTOMATIC' /* added by mysqlbinlog */ " + END)

    def _format(self, shown: Shown, event: FormatDescriptionEvent) -> None:
        super()._format(shown, event)
        if self.options.skip_gtids:
            self.write(b"/*!50616 SET @@SESSION.GTID_NEXT='AUTOMATIC'*/" + END)

    def _previous_gtids(self, shown: Shown, event: PreviousGtidsEvent) -> None:
        if not self.options.skip_gtids:
            self.write(self.header(shown, b"\tPrevious-GTIDs\n") + previous_gtids_text(event))

    def _gtid(self, shown: Shown, event: GtidEvent) -> None:
        if self.options.skip_gtids:
            return
        anonymous = event.frame.type_code == ANONYMOUS_GTID_LOG_EVENT
        word = b"\tAnonymous_GTID" if anonymous else b"\tGTID"
        self.write(self.header(shown, word + mysql_gtid_words(event)))
        for line in mysql_gtid_lines(event):
            self.write(line)
        self._has_gtid = self._names_next = True
        self._server_version = event.immediate_server_version or 0

    def _name_in_comment(self, event: TableMapEvent) -> bytes:
        # names are not quoted where nothing reads them
        database = printable(self.options.renamed(event.database))
        return f"`{database}`.`{printable(event.table)}`".encode()

    def _rows_word(self, event: RowsEvent) -> str:
        partial = event.frame.type_code == PARTIAL_UPDATE_ROWS_EVENT
        return super()._rows_word(event) + "_partial" * partial

    def _xid_word(self, event: QueryEvent) -> str:
        xid = event.status_values.get("ddl_logged_with_xid")
        return "" if xid is None else f"\tXid = {xid}"

    def _variable(self, shown: Shown, event: Event) -> None:
        self._variables.append(shown)

    def _print_user_variable(self, shown: Shown, event: UserVarEvent) -> None:
        self.write(self.header(shown, b"\tUser_var\n"))
        # names of variables are in utf8mb3, whatever the client of the statement speaks
        number = event.type is not None and event.type != "STRING"
        collation = event.collation_id if number and event.collation_id is not None else UTF8
        said = {"client": UTF8, "connection": collation, "server": UTF8}
        before = self.session.charset
        if said != before:
            self.write(b"".join(self.session.charset_lines(said)))
        self.write(user_variable(event, self.hex_literal, shown.format.flavour))
        if before is not None and said != before:
            self.write(b"".join(self.session.charset_lines(before)))

    def _print_table_map(self, shown: Shown, event: TableMapEvent, words: bytes) -> None:
        self.write(self.header(shown, words + b"\n"))
        if self.options.short_form:
            return
        hidden_key = bool(event.flags & TM_GENERATED_INVISIBLE_PK_F)
        if self._server_version >= _FIRST_WITH_INVISIBLE_KEYS:
            self.write(f"# has_generated_invisible_primary_key={hidden_key:d}\n".encode())
        if self.options.print_table_metadata:
            self.write(b"".join(metadata_lines(event)))

    def _print_rows(self, shown: Shown, words: bytes) -> None:
        self.write(self.header(shown, words))

    def _refuse_rows(self) -> None:
        if self.options.base64_output is Base64.NEVER:
            raise UnsupportedError(
                "the log has row changes, which --base64-output=never cannot print",
                hint="leave it out, or use --base64-output=decode-rows -v to read them",
            )

    def _rows_query(self, shown: Shown, event: RowsQueryEvent) -> None:
        if self.options.verbose < 2 or self.options.short_form:
            return
        self.write(self.header(shown, b"\tRows_query\n"))
        self.write(comment_lines(event.query_raw, b"# "))
        self.statement.add(shown)  # the server that replays it logs it again
