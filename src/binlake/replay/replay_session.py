"""The state of the replaying session, so that only changes are printed.

A statement in a log carries the session variables that it needs; the text sets those that are not
what the statement before left. This is the only place that knows what was set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from binlake.errors import MalformedError
from binlake.events.common.query import QueryEvent
from binlake.events.old.load_data import LoadEvent
from binlake.format.collations import COLLATIONS, collation_name
from binlake.format.flags import (
    LOG_EVENT_SUPPRESS_USE_F,
    LOG_EVENT_THREAD_SPECIFIC_F,
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    OPTION_AUTO_IS_NULL,
    OPTION_NO_FOREIGN_KEY_CHECKS,
    OPTION_NOT_AUTOCOMMIT,
    OPTION_RELAXED_UNIQUE_CHECKS,
)
from binlake.format.sql_names import quoted_name
from binlake.replay.client import LAST_BYTES, ClientLexer, is_swallowed
from binlake.replay.event_text import END

#: utf8mb3_general_ci
UTF8 = 33
# an offset, SYSTEM, or a name of the servers' tables of zones
_TIME_ZONE = re.compile(r"[A-Za-z0-9_+/:. -]{1,64}")
_ANY_THREAD = 999999999  # --short-form: the text does not depend on the thread


# words that need no database
TRANSACTION_WORDS = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE SAVEPOINT", "XA ")


class ReplaySession:
    """The variables that the text has set; `short_form` prints no thread numbers."""

    #: session variable, its bit in FLAGS2, and whether the bit turns it off
    flags: ClassVar[tuple[tuple[str, int, bool], ...]] = (
        ("foreign_key_checks", OPTION_NO_FOREIGN_KEY_CHECKS, True),
        ("sql_auto_is_null", OPTION_AUTO_IS_NULL, False),
        ("unique_checks", OPTION_RELAXED_UNIQUE_CHECKS, True),
        ("autocommit", OPTION_NOT_AUTOCOMMIT, True),
    )

    def __init__(self, *, short_form: bool) -> None:
        self._short_form = short_form
        self._database = ""
        self._thread: int | None = None
        self._flags: int | None = None
        self._sql_mode: int | None = None
        self._auto_increment: tuple[int, int] | None = None
        self.charset: Mapping[str, int] | None = None
        self._time_zone = ""
        self._lc_time_names: int | None = None
        self._charset_database: int | None = None

    def prepare(self, query: QueryEvent, database: str) -> Iterator[bytes]:
        """Return the lines to print before a statement in `database`."""
        status = query.status_values
        yield from self._use(query, database)
        timestamp = f"{query.frame.timestamp}"
        if query.microseconds:
            timestamp += f".{query.microseconds:06d}"
        yield _set(f"TIMESTAMP={timestamp}")
        specific = query.frame.flags & LOG_EVENT_THREAD_SPECIFIC_F
        if self._thread is None or (specific and self._thread != query.thread_id):
            self._thread = query.thread_id
            shown = _ANY_THREAD if self._short_form else query.thread_id
            yield _set(f"@@session.pseudo_thread_id={shown}")
        yield from self._set_flags(status)
        mode = status.get("sql_mode")
        if mode is not None and mode != self._sql_mode:
            self._sql_mode = mode
            yield _set(f"@@session.sql_mode={mode}")
        yield from self._set_auto_increment(status)
        if (charset := status.get("charset")) is not None and charset != self.charset:
            self.charset = charset
            yield from self.charset_lines(charset)
        yield from self._own_charsets(status)
        zone = status.get("time_zone", "")
        if zone and zone != self._time_zone:
            if not _TIME_ZONE.fullmatch(zone):
                raise MalformedError(f"{zone!r} is not a time zone", field="time_zone")
            self._time_zone = zone
            yield _set(f"@@session.time_zone='{zone}'")
        yield from self._set_names(status)
        yield from self._own(status)

    def lexer(self, flavour: str) -> ClientLexer:
        """How the client reads a statement in this session."""
        mode = self._sql_mode or 0
        return ClientLexer(
            flavour,
            self._charset_of_client(),
            bool(mode & MODE_NO_BACKSLASH_ESCAPES),
            bool(mode & MODE_ANSI_QUOTES),
        )

    def _charset_of_client(self) -> str | None:
        """The name of the client's character set; None if it is not known."""
        known = None if self.charset is None else COLLATIONS.get(self.charset["client"])
        return None if known is None else known.charset

    def reads_name(self, quoted: bytes) -> Iterator[bytes]:
        """Return the statement that makes the client read a quoted name, which is UTF-8: "" if it does anyway."""
        if is_swallowed(quoted, self._charset_of_client()):
            yield from self._set_utf8()

    def _set_utf8(self) -> Iterator[bytes]:
        known = self.charset or {"connection": UTF8, "server": UTF8}
        self.charset = {**known, "client": UTF8}
        yield from self.charset_lines(self.charset)

    def _reads_bytes(self) -> Iterator[bytes]:
        """Return the statement that makes the client read literals with backslash escapes, of bytes in any character set."""
        if self._charset_of_client() in LAST_BYTES:
            yield from self._set_utf8()
        if (self._sql_mode or 0) & MODE_NO_BACKSLASH_ESCAPES:
            self._sql_mode = 0
            yield _set("@@session.sql_mode=0")

    def _use(self, query: QueryEvent, database: str) -> Iterator[bytes]:
        if query.frame.flags & LOG_EVENT_SUPPRESS_USE_F:
            if not is_transaction_word(query):
                self._database = ""  # the statement may have dropped it
        else:
            yield from self._use_database(database)

    def _use_database(self, database: str) -> Iterator[bytes]:
        if database != self._database:
            self._database = database
            if database:
                name = quoted_name(database).encode()
                yield from self.reads_name(name)
                yield b"use " + name + END

    def prepare_load(self, event: LoadEvent, database: str) -> Iterator[bytes]:
        """Print what the session needs before a LOAD DATA of a server before MySQL 5.0: its events record only this."""
        yield from self._use_database(database)
        yield from self._reads_bytes()
        yield _set(f"TIMESTAMP={event.frame.timestamp}")
        if self._thread != event.thread_id:
            self._thread = event.thread_id
            yield _set(
                f"@@session.pseudo_thread_id={_ANY_THREAD if self._short_form else event.thread_id}"
            )

    def _set_flags(self, status: Mapping[str, Any]) -> Iterator[bytes]:
        flags = status.get("flags2")
        if flags is None or flags == self._flags:
            return
        changed = ~0 if self._flags is None else flags ^ self._flags
        self._flags = flags
        said = [
            f"@@session.{name}={bool(flags & bit) != off:d}"
            for name, bit, off in self.flags
            if changed & bit
        ]
        yield _set(", ".join(said))

    def _set_auto_increment(self, status: Mapping[str, Any]) -> Iterator[bytes]:
        said = status.get("auto_increment")
        wanted = (1, 1) if said is None else (said["increment"], said["offset"])
        if wanted != self._auto_increment:
            self._auto_increment = wanted
            yield _set(
                f"@@session.auto_increment_increment={wanted[0]}"
                f", @@session.auto_increment_offset={wanted[1]}"
            )

    def charset_lines(self, charset: Mapping[str, int]) -> Iterator[bytes]:
        """Set the client's, the connection's and the server's character set."""
        client = COLLATIONS.get(charset["client"])
        if client is not None:
            yield f"/*!\\C {self._charset_name(client.charset)} */".encode() + END
        yield _set(
            f"@@session.character_set_client={self._client(charset['client'])}"
            f",@@session.collation_connection={charset['connection']}"
            f",@@session.collation_server={charset['server']}"
        )

    def _client(self, collation_id: int) -> str:
        return str(collation_id)

    def _charset_name(self, name: str) -> str:
        return name

    def _set_names(self, status: Mapping[str, Any]) -> Iterator[bytes]:
        names = status.get("lc_time_names", 0)
        if names != self._lc_time_names:
            self._lc_time_names = names
            yield _set(f"@@session.lc_time_names={names}")
        database = status.get("charset_database", 0)
        if database != self._charset_database:
            self._charset_database = database
            yield _set(f"@@session.collation_database={database or 'DEFAULT'}")

    def _own_charsets(self, _status: Mapping[str, Any]) -> Iterator[bytes]:
        """Settings of one flavour beside its character sets."""
        yield from ()

    def _own(self, _status: Mapping[str, Any]) -> Iterator[bytes]:
        """Settings of one flavour that come last."""
        yield from ()


class MysqlSession(ReplaySession):
    """MySQL's variables: some are for one statement, so they are set for each that has them."""

    def __init__(self, *, short_form: bool) -> None:
        super().__init__(short_form=short_form)
        self._utf8mb4: int | None = None

    def _own(self, status: Mapping[str, Any]) -> Iterator[bytes]:
        if (explicit := status.get("explicit_defaults_for_timestamp")) is not None:
            yield _set(f"@@session.explicit_defaults_for_timestamp={explicit}")
        utf8mb4 = status.get("default_collation_for_utf8mb4")
        if utf8mb4 is not None and utf8mb4 != self._utf8mb4:
            self._utf8mb4 = utf8mb4
            yield _versioned(80011, f"@@session.default_collation_for_utf8mb4={utf8mb4}")
        if (key := status.get("sql_require_primary_key")) is not None:
            yield _versioned(80013, f"@@session.sql_require_primary_key={key}")
        if (encryption := status.get("default_table_encryption")) is not None:
            yield _versioned(80016, f"@@session.default_table_encryption={encryption}")


class MariadbSession(ReplaySession):
    """MariaDB's variables: character sets by name, and its own flags."""

    flags = (
        *ReplaySession.flags,
        ("check_constraint_checks", 1 << 29, True),
        ("sql_if_exists", 1 << 28, False),
        ("explicit_defaults_for_timestamp", 1 << 24, False),
        ("system_versioning_insert_history", 1 << 30, False),
    )

    def _client(self, collation_id: int) -> str:
        known = COLLATIONS.get(collation_id)
        return str(collation_id) if known is None else known.charset

    def _own_charsets(self, status: Mapping[str, Any]) -> Iterator[bytes]:
        pairs = status.get("character_set_collations")
        if pairs is None:
            return
        said = ",".join(
            f"{self._client(pair['charset'])}={_collation_name(pair['collation'])}"
            for pair in pairs
        )
        yield _set(f"@@session.character_set_collations='{said}'")


def is_transaction_word(query: QueryEvent) -> bool:
    """Whether a statement only begins or ends (a part of) a transaction."""
    return query.sql_raw.decode("ascii", "replace").upper().startswith(TRANSACTION_WORDS)


def _collation_name(collation_id: int) -> str:
    return collation_name(collation_id, "mariadb") or str(collation_id)


def _set(text: str) -> bytes:
    return b"SET " + text.encode() + END


def _versioned(version: int, text: str) -> bytes:
    """A SET that older servers ignore."""
    return f"/*!{version} SET {text}*/".encode() + END
