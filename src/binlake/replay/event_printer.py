"""The common part of printing events: begin and end, positions, headers, statements.

`EventPrinter` knows how text around events is made; which event comes out how is with those that
build on it: LOAD DATA in `load_printer.py`, all the rest in `printer.py`, the flavours' own words in
`printer_mysql.py` and `printer_mariadb.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

from binlake.events.base import Event
from binlake.events.common.query import QueryEvent
from binlake.events.common.statement_context import IntvarEvent, RandEvent
from binlake.events.common.user_var import UserVarEvent
from binlake.events.old.load_data import LoadEvent
from binlake.printable import comment_lines
from binlake.replay.client import delimited
from binlake.replay.event_text import END, TextOptions
from binlake.replay.load_files import LoadFiles
from binlake.replay.replay_session import ReplaySession, is_transaction_word
from binlake.replay.row_events import PseudoSql, RowStatement, table_name
from binlake.replay.shown import Shown
from binlake.replay.statement_events import intvar_text, quoted_bytes, rand_text, user_variable
from binlake.stream.groups.fragments import FragmentJoiner
from binlake.stream.log_events import LogEvent
from binlake.values.quantities import counted

_CHARSET_VARIABLES = ("CHARACTER_SET_CLIENT", "CHARACTER_SET_RESULTS", "COLLATION_CONNECTION")


class EventPrinter(ABC):
    """The state of a printer. `write` takes bytes; `warn` a sentence for the user."""

    session_class: ClassVar[type[ReplaySession]] = ReplaySession
    hex_literal: ClassVar[str]
    xa_word: ClassVar[str]

    def __init__(
        self,
        options: TextOptions,
        write: Callable[[bytes | memoryview], object],
        load_files: LoadFiles,
        warn: Callable[[str], None],
    ) -> None:
        self.options = options
        self.write = write
        self.load_files = load_files
        self.warn = warn
        self.session = self.session_class(short_form=options.short_form)
        self.statement = RowStatement(options)
        self.pseudo = PseudoSql(options, lambda event: table_name(event, options))
        self.hidden_tables: set[int] = set()
        self.in_transaction = False
        self.old_loads: dict[int, LoadEvent] = {}
        self._hidden_without_database = 0
        self._variables: list[Shown] = []
        self._fragments = FragmentJoiner()
        self._inside_payload = False
        self._log: LogEvent | None = None

    # -- the frame of it all

    def begin(self) -> None:
        """The text before all events."""
        for line in self._preamble():
            self.write(line)
        self.write(b"DELIMITER /*!*/;\n")

    def _preamble(self) -> Iterator[bytes]:
        yield b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;\n"
        yield from self._own_preamble()
        if self.options.disable_log_bin:
            yield b"/*!32316 SET @OLD_SQL_LOG_BIN=@@SQL_LOG_BIN, SQL_LOG_BIN=0*/;\n"
        yield b"/*!50003 SET @OLD_COMPLETION_TYPE=@@COMPLETION_TYPE,COMPLETION_TYPE=0*/;\n"
        if self.options.set_charset:
            yield b"\n"
            for name in _CHARSET_VARIABLES:
                yield f"/*!40101 SET @OLD_{name}=@@{name} */;\n".encode()
            yield f"/*!40101 SET NAMES {self.options.set_charset} */;\n".encode()

    def _own_preamble(self) -> Iterator[bytes]:
        yield from ()

    def end(self) -> None:
        """Print the end of the text, also after a read error."""
        self.end_file()
        if self._hidden_without_database:
            self.warn(
                f"--database leaves out {counted(self._hidden_without_database, 'statement')} of"
                " sessions without a default database, as the servers' tools do"
            )
        self.write(b"DELIMITER ;\n# End of log file\n")
        self._end_torn()
        self.write(b"/*!50003 SET COMPLETION_TYPE=@OLD_COMPLETION_TYPE*/;\n")
        if self.options.disable_log_bin:
            self.write(b"/*!32316 SET SQL_LOG_BIN=@OLD_SQL_LOG_BIN*/;\n")
        if self.options.set_charset:
            for name in _CHARSET_VARIABLES:
                self.write(f"/*!40101 SET {name}=@OLD_{name} */;\n".encode())
        self.write(b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=0*/;\n")

    def _end_torn(self) -> None:
        """Print the statement that rolls back an incomplete transaction."""
        return

    def next_file(self) -> None:
        """The next log of the chain begins."""
        self.end_file()

    def end_file(self) -> None:
        """End a log: close what it left open."""
        self._leave_payload()
        if self.statement.is_open:
            self.warn(
                "the events end inside a statement of row changes, which is left out: its last"
                " part is missing"
            )
            self.statement.drop(self.write)
        if self._variables:
            self.warn("the events end before the statement that a variable was set for")
            self._variables = []
        self._fragments = FragmentJoiner()

    def hide(self, log_event: LogEvent) -> None:
        """Skip an event whose GTID is excluded."""
        return

    def _before(self, event: Event) -> None:
        """Print what must precede the position of an event."""
        return

    def _at(self, position: int) -> None:
        if not self.options.short_form:
            self.write(f"# at {position}\n".encode())

    def _leave_payload(self) -> None:
        if self._inside_payload:
            self._inside_payload = False
            if not self.options.short_form:
                self.write(b"# End of compressed events.\n")

    def header(self, shown: Shown, words: bytes) -> bytes:
        """The comment about an event: its header, its bytes if wanted, and `words`."""
        if self.options.short_form:
            return b""
        dump = b"".join(self._dump(shown)) if self.options.hexdump else b""
        return shown.line() + dump + words

    @abstractmethod
    def _dump(self, shown: Shown) -> Iterator[bytes]:
        """The bytes of an event, as comments."""

    def _is_hidden(self, event: QueryEvent) -> bool:
        """Whether a statement is of a database that is not shown."""
        if is_transaction_word(event):
            return False
        return not self._shows(event.database)

    def _pass_over(self, database: str) -> None:
        """Leave out a statement of this default database, and the variables set for it."""
        self._variables = []
        self._hidden_without_database += not database

    def _shows(self, database: str) -> bool:
        """Whether --database includes a database, given by its name in the log."""
        return self.options.shows(database)

    def _group_ends(self) -> None:
        self.in_transaction = False

    def _print_query(self, shown: Shown, event: QueryEvent, name: bytes, database: str) -> None:
        words = f"\tthread_id={event.thread_id}\texec_time={event.exec_time}"
        words += f"\terror_code={event.error_code}{self._xid_word(event)}\n"
        self.write(self.header(shown, name + words.encode()))
        for line in self.session.prepare(event, database):
            self.write(line)

    def _print_sql(self, statement: bytes, flavour: str) -> None:
        """Print a statement, or an error that stops the replay if a client would misread it."""
        problem = self.session.lexer(flavour).misreading(statement)
        if problem is None:
            self.write(delimited(statement))
            return
        place = self._place
        self.warn(
            f"the statement at {place.file}:{place.pos} is a comment, and the replay ends there with"
            f" an error: a client would misread it, because {problem}"
        )
        self.write(f"# The client would misread this statement: {problem}\n".encode())
        self.write(comment_lines(statement, b"# "))
        self.write(b"RELOAD DATABASE" + END)  # a syntax error, as after an incident

    @abstractmethod
    def _xid_word(self, event: QueryEvent) -> str:
        """The part of a statement's comment about its transaction."""

    def _flush_variables(self) -> None:
        for shown in self._variables:
            self._print_variable(shown)
        self._variables = []

    def _print_variable(self, shown: Shown) -> None:
        event = shown.event
        if isinstance(event, IntvarEvent):
            self.write(self.header(shown, b"\tIntvar\n") + intvar_text(event))
        elif isinstance(event, RandEvent):
            self.write(self.header(shown, b"\tRand\n") + rand_text(event))
        elif isinstance(event, UserVarEvent):
            self._print_user_variable(shown, event)

    def _print_user_variable(self, shown: Shown, event: UserVarEvent) -> None:
        self.write(self.header(shown, b"\tUser_var\n"))
        for line in self.session.reads_name(quoted_bytes(event.name_raw)):
            self.write(line)
        self.write(user_variable(event, self.hex_literal, shown.format.flavour))

    @property
    def _place(self) -> LogEvent:
        assert self._log is not None
        return self._log
