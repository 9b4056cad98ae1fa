"""A login to a live server, and the server's facts about itself and its logs.

    with connect(ServerUrl.parse("mysql://repl@db1/")) as server:
        server.flavour, server.version, server.logs(), server.position()

`login` does the login, by the rules of `login_rules`; PyMySQL runs the queries and is needed for live
servers only. No error and no text of this module contains a password.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binlake.errors import (
    AuthError,
    BinlogError,
    ConnectionLostError,
    OptionError,
    ServerError,
    SourceError,
    needing,
)
from binlake.events.common.format_description import version_numbers
from binlake.format.magic import FIRST_EVENT
from binlake.source.replica.answers import AnswerLimits, whole_number
from binlake.source.replica.option_file import client_options
from binlake.source.replica.passwords import Secret, ask, given_password
from binlake.source.replica.url import (
    DEFAULT_PORT,
    ServerUrl,
    choice_option,
    port_number,
    seconds_option,
)
from binlake.values.closing import Closing
from binlake.values.position import LogPosition, Position

if TYPE_CHECKING:
    from binlake.source.replica.driver import Driver

_CONNECT_SECONDS = 10.0
_LIMITS = AnswerLimits()
# of the session that ends a statement of another one: the caller may have to end, too
_LIMITS_OF_KILL = AnswerLimits(seconds=10.0, silence_s=10.0)
_COMPARED_CHARACTERS = 500
_MOST_ZSTD_LEVEL = 22
_MARIADB_PREFIX = "5.5.5-"  # for clients that refuse newer versions; MariaDB 10 and later send it

# Errors of a login that another password could fix.
_ACCESS_DENIED = (1045, 1698, 1251, 2059, 2061, 1524, 3118, 1820, 1862)
# Errors of a server that is not available now, but may be later: connection refused or lost,
# starting or shutting down, too many clients, too many connections or queries of the account.
_PASSING = (1040, 1041, 1053, 1077, 1080, 1152, 1153, 1158, 1159, 1160, 1161, 1203, 1226, 1927,
            2002, 2003, 2006, 2013, 2055, 3159, 3168)  # fmt: skip
_TLS_BROKEN = 2026
#: Code of the error that a session has waited too long for a table that another session has locked.
LOCK_WAIT_TIMEOUT = 1205
#: Code of the error that another session has ended a query: KILL QUERY.
QUERY_INTERRUPTED = 1317
_MOST_CHARACTERS = 2000
# sql_select_limit cuts results off silently; with sql_big_selects=0, the server refuses to examine many rows
_ALL_ROWS = "SET SESSION sql_select_limit = 18446744073709551615, sql_big_selects = 1"
_TLS_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError, ConnectionError)


@dataclass(frozen=True, slots=True)
class ServerLog:
    """One log of a server: `size_bytes` as positions count, without what encryption adds."""

    name: str
    size_bytes: int
    encrypted: bool


def connect(url: ServerUrl, limits: AnswerLimits = _LIMITS) -> ServerConnection:
    """Log in. Raises AuthError, ServerError (retryable: ConnectionLostError), OptionError.

    If the server refuses a login without a password, binlake asks for the password on the terminal, once.
    """
    file_options = _file_options(url)
    password = given_password(
        url.account, url.option("password-file"), file_options.get("password")
    )
    try:
        return _connected(url, file_options, password, limits)
    except AuthError:
        if password is not None:
            raise
        password = ask(url.account, url.where)
        if password is None:
            raise
        return _connected(url, file_options, password, limits)


def connect_any(urls: Sequence[ServerUrl]) -> ServerConnection:
    """Log in to the first of several servers that answers. Raises as `connect`, for the first."""
    lost: ConnectionLostError | None = None
    for url in urls:
        try:
            return connect(url)
        except ConnectionLostError as error:
            lost = lost or error
    assert lost is not None, "no server is named"
    raise lost


def check_options(url: ServerUrl) -> None:
    """Check the options of a URL and the files that they name, without a connection.

    Raises OptionError.
    """
    _driver(url, _file_options(url), None, _LIMITS)


def _file_options(url: ServerUrl) -> dict[str, str]:
    """Return the settings of the option files. Raises OptionError."""
    return client_options(
        url.option("option-file"),
        url.option("extra-option-file"),
        url.option("option-group-suffix"),
        url.option("login-path"),
    )


def _connected(
    url: ServerUrl, file_options: dict[str, str], password: Secret | None, limits: AnswerLimits
) -> ServerConnection:
    driver, where = _driver(url, file_options, password, limits)
    try:
        driver.connect()
    except Exception as error:  # noqa: BLE001 - PyMySQL trusts what it parses
        raise _login_error(error, where) from None
    return ServerConnection(url, where, driver)


def _driver(
    url: ServerUrl, file_options: dict[str, str], password: Secret | None, limits: AnswerLimits
) -> tuple[Driver, str]:
    """Return a connection that is not open yet, and the server's name for messages. Raises OptionError."""
    with needing("a live server needs PyMySQL", "server", SourceError):
        from binlake.source.replica.driver import Driver
        from binlake.source.replica.login_rules import Credentials
        from binlake.source.replica.tls import tls_policy

    unix_socket = url.unix_socket
    host, port = url.host, url.port
    if not host and not unix_socket:
        unix_socket = file_options.get("socket", "") if "host" not in file_options else ""
        host = file_options.get("host", "")
    port = port or port_number(file_options.get("port", "0"), "the options file: port")
    where = unix_socket or ServerUrl("mysql", host, port).where
    driver = Driver(
        compression=choice_option(url, "compress", ("", "zlib", "zstd"), ""),
        zstd_level=_zstd_level(url.option("zstd-compression-level", "3")),
        bind_address=url.option("bind-address") or file_options.get("bind-address", ""),
        patience_s=seconds_option(url, "connect-timeout", _CONNECT_SECONDS),
        silence_s=seconds_option(url, "read-timeout", limits.silence_s),
        user=url.user or file_options.get("user") or None,
        host=host or "localhost",
        port=port or DEFAULT_PORT,
        unix_socket=unix_socket or None,
        charset="utf8mb4",
        conv={},
        autocommit=None,
        program_name="binlake",
        tls=tls_policy(url, file_options, unix_socket),
        credentials=Credentials(password, _public_key(url), where),
        where=where,
        limits=limits,
    )
    return driver, where


def _zstd_level(text: str) -> int:
    if not (text.isdecimal() and len(text) <= 2 and 1 <= int(text) <= _MOST_ZSTD_LEVEL):
        raise OptionError(
            f"zstd-compression-level={text}: not a number from 1 to {_MOST_ZSTD_LEVEL}",
            name="zstd-compression-level",
            value=text,
        )
    return int(text)


def _public_key(url: ServerUrl) -> bytes | None:
    path = url.option("server-public-key")
    if not path:
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a name as the user gave it
            return file.read(64 << 10)
    except OSError as error:
        raise OptionError(
            f"cannot read the public key {path}: {error.strerror}", name="server_public_key"
        ) from None


def _login_error(error: Exception, where: str) -> BinlogError:
    """Convert the error of a login to a binlake error."""
    found = server_error(error, where)
    cause = getattr(error, "original_exception", None)
    if isinstance(error, _TLS_CUT) or isinstance(cause, _TLS_CUT):
        return ConnectionLostError(f"{where}: the connection was lost while TLS began")
    if isinstance(error, ssl.SSLError) or isinstance(cause, ssl.SSLError):
        reason = getattr(cause or error, "verify_message", "") or str(cause or error)
        return AuthError(
            f"{where}: TLS failed: {reason}",
            hint="ssl-ca names the authority; ssl-mode sets the checks",
        )
    return found


def server_error(error: Exception, where: str) -> BinlogError:
    """Convert an error of PyMySQL to a binlake error: one line that names the server."""
    import pymysql

    if isinstance(error, BinlogError):
        return error
    if isinstance(error, RuntimeError) and "LOAD_LOCAL" in str(error):
        return ServerError(f"{where} asks for a file of this machine (LOAD DATA LOCAL): refused")
    if not isinstance(error, pymysql.MySQLError):
        # errors of a parser that a malformed greeting or answer can cause
        message = f"{type(error).__name__}: {error}"[:_MOST_CHARACTERS]
        return ServerError(f"{where} does not follow the protocol: {message}")
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    if isinstance(error, pymysql.InterfaceError) and not code:  # PyMySQL: a closed connection
        return ConnectionLostError(f"{where}: the connection was lost")
    return error_of_answer(code, str(error.args[-1]) if error.args else str(error), where)


def error_of_answer(code: int, message: str, where: str) -> BinlogError:
    """Convert a server's error to a binlake error."""
    message = " ".join(message.split())[:_MOST_CHARACTERS]
    text = message if where in message else f"{where}: {message}"
    if code in _ACCESS_DENIED:
        return AuthError(text, code=code)
    if code == _TLS_BROKEN:
        return AuthError(text, code=code, hint="ssl-mode sets whether TLS is required")
    if code in _PASSING:
        return ConnectionLostError(text, code=code)
    if code == LOCK_WAIT_TIMEOUT:
        return ServerError(
            text, code=code, hint="another session has locked the table, or waits to alter it"
        )
    return ServerError(text, code=code or None)


class ServerConnection(Closing):
    """An open connection. `flavour` and `version` are those that the server reports."""

    def __init__(self, url: ServerUrl, where: str, driver: Driver) -> None:
        self.url = url
        self.where = where
        self.driver = driver
        text = str(driver.server_version)
        self.flavour = "mariadb" if "mariadb" in text.lower() else "mysql"
        if self.flavour == "mariadb":
            text = text.removeprefix(_MARIADB_PREFIX)
        self.version_text = text
        self.version = version_numbers(text)
        #: The query whose rows are being read, "" for none.
        self.running = ""
        self._identity = ""

    def rows(self, sql: str, columns: int = 1) -> list[tuple[str | None, ...]]:
        """The rows of one query with at least `columns` columns; values as the text protocol writes
        them. Raises ServerError.
        """
        names, rows = self.table(sql)
        if rows and len(names) < columns:
            raise ServerError(
                f"{self.where} answers {sql[:80]} with {len(names)} columns, not {columns}"
            )
        return rows

    def row(self, sql: str, columns: int = 1) -> tuple[str | None, ...]:
        """The only row of one query, which always has one. Raises ServerError."""
        rows = self.rows(sql, columns)
        if len(rows) != 1:
            raise ServerError(f"{self.where} answers {sql[:80]} with {len(rows)} rows, not one")
        return rows[0]

    def table(self, sql: str) -> tuple[list[str], list[tuple[str | None, ...]]]:
        """The names of the columns and the rows of one query. Raises ServerError."""
        try:
            with self.driver.cursor() as cursor:
                cursor.execute(sql)
                names = [column[0] for column in cursor.description or ()]
                rows = [tuple(map(_text, row)) for row in cursor.fetchall()]
        except Exception as error:  # noqa: BLE001 - PyMySQL trusts what it parses
            raise server_error(error, self.where) from None
        if any(len(row) != len(names) for row in rows):  # PyMySQL accepts any number of columns
            raise ServerError(f"{self.where} does not follow the protocol: a row lacks values")
        return names, rows

    def execute(self, sql: str) -> None:
        """Run a statement without rows. Raises ServerError."""
        self.rows(sql)

    def lift_row_limits(self) -> None:
        """Have every SELECT return all of its rows: an administrator may have limited them for all sessions. Raises ServerError."""
        self.execute(_ALL_ROWS)

    def value(self, sql: str) -> str | None:
        """The first value of the first row, None for NULL and where there is no row."""
        rows = self.rows(sql)
        return rows[0][0] if rows and rows[0] else None

    def command(self, code: int, payload: bytes) -> None:
        """Send a command. Raises ServerError."""
        try:
            self.driver._execute_command(code, payload)
        except Exception as error:  # noqa: BLE001 - PyMySQL trusts what it parses
            raise server_error(error, self.where) from None

    def answer(self) -> None:
        """Wait for the first packet of a command's answer. Raises ServerError."""
        try:
            self.driver._read_packet()
        except Exception as error:  # noqa: BLE001 - PyMySQL trusts what it parses
            raise server_error(error, self.where) from None

    def variable(self, name: str) -> str | None:
        """A global variable; None if the server does not have it."""
        rows = self.rows(f"SHOW GLOBAL VARIABLES LIKE '{name.replace('_', chr(92) + '_')}'", 2)
        return rows[0][1] if rows else None

    @property
    def server_id(self) -> int:
        """`server_id` of the server."""
        return whole_number(self.value("SELECT @@GLOBAL.server_id"), "server_id")

    @property
    def uid(self) -> str:
        """MariaDB's `server_uid`, "" where there is none. It is made of the port and the hardware's
        address: it can change when a server moves, and containers on two hosts can have one.
        """
        return (self.variable("server_uid") or "") if self.flavour == "mariadb" else ""

    @property
    def identity(self) -> str:
        """The identity of this server: its UUID, or `server-<server_id>` for MariaDB, which has none."""
        if not self._identity:
            uuid = self.value("SELECT @@GLOBAL.server_uuid") if self.flavour == "mysql" else None
            self._identity = uuid or f"server-{self.server_id}"
        return self._identity

    def logs(self) -> list[ServerLog]:
        """The server's logs, oldest first. Raises ServerError (binary logging is off)."""
        try:
            listed = self.rows("SHOW BINARY LOGS", 2)
        except ServerError as error:
            raise error.hinted(
                "reading logs needs REPLICATION CLIENT (MariaDB: BINLOG MONITOR), and log_bin on"
            ) from None
        logs = []
        for row in listed:
            name, size = checked_log_name(row[0] or ""), whole_number(row[1], "File_size")
            encrypted = len(row) > 2 and (row[2] or "").lower() == "yes"
            # MySQL counts the header of an encrypted file, positions do not
            logs.append(ServerLog(name, size - (512 if encrypted else 0), encrypted))
        return logs

    def position(self) -> Position:
        """The end of the server's log, between two transactions, and the GTIDs before it.

        On MySQL, the set may lack a transaction that committed meanwhile. It never contains one that lies behind the
        position: a reader that continues elsewhere by the set would lose that transaction.
        """
        name, offset, executed = self._end()
        if self.flavour == "mariadb":
            executed = self.gtids_at(name, offset) or ""
        return Position(self.identity, name, offset, executed)

    @property
    def gives_gtids(self) -> bool:
        """Whether each new transaction gets a GTID. Raises ServerError."""
        return self.flavour == "mariadb" or (self.variable("gtid_mode") or "").upper() == "ON"

    def purged(self) -> str:
        """The GTIDs in purged logs; "" if the server does not report them (MariaDB)."""
        if self.flavour == "mariadb" or self.version < (5, 6, 5):
            return ""
        return without_spaces(self.value("SELECT @@GLOBAL.gtid_purged"))

    def gtids_before(self, name: str, offset: int) -> str | None:
        """The GTIDs before a position in the logs; None if the server does not report them.
        Raises ServerError.
        """
        if self.flavour == "mariadb":
            return self.gtids_at(name, offset) or ""
        is_oldest = (name, offset) == (self.logs()[0].name, FIRST_EVENT)
        return self.purged() if is_oldest and self.version >= (5, 6, 5) else None

    def end(self) -> LogPosition:
        """The current log and its length. Raises ServerError."""
        name, offset, _ = self._end()
        return LogPosition(name, offset)

    def _end(self) -> tuple[str, int, str]:
        """The current log, its length, and the set of MySQL's GTIDs that the server read just before these."""
        rows = self.log_status(2)
        if not rows:
            raise ServerError(f"{self.where} writes no binary log", hint="start it with log_bin")
        name, offset = checked_log_name(rows[0][0] or ""), whole_number(rows[0][1], "Position")
        return name, offset, without_spaces(rows[0][4] if len(rows[0]) > 4 else "")

    def log_status(self, columns: int) -> list[tuple[str | None, ...]]:
        """The row of SHOW BINARY LOG STATUS, with at least so many columns; none if the server writes no log."""
        newer = self.flavour == "mysql" and self.version >= (8, 2, 0)
        return self.rows("SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS", columns)

    def gtids_at(self, name: str, offset: int) -> str | None:
        """MariaDB's GTIDs before a position; None if the server does not have that position. Raises ServerError."""
        return self.value(f"SELECT BINLOG_GTID_POS('{name}', {offset})")

    def close(self) -> None:
        """End the connection; never raises."""
        try:
            self.driver.close()
        except Exception:  # noqa: BLE001 - it may be gone, which is what is wanted
            self.driver._force_close()

    def abort(self) -> None:
        """End the connection immediately, and wake a thread that waits for its data."""
        self.interrupt()
        self.driver._force_close()

    def interrupt(self) -> None:
        """Wake a thread that waits for data of the connection: it gets an error.

        The socket stays open. Otherwise a new one could get its number before the thread runs, and the thread would wait for data of
        the new one.
        """
        with contextlib.suppress(OSError, AttributeError):
            self.driver._sock.shutdown(socket.SHUT_RDWR)

    def abort_statement(self) -> None:
        """End the connection immediately, and the query that it was running; never raises.

        A server that computes does not notice that its client is gone. It would keep the snapshot and the locks of the session until
        the query has ended.
        """
        session, running = self.driver.thread_id(), self.running
        self.abort()
        if not running:
            return
        with contextlib.suppress(BinlogError), connect(self.url, _LIMITS_OF_KILL) as other:
            for row in other.rows("SHOW FULL PROCESSLIST", 8):
                # After a restart, on another server, or beside a proxy, another session has this number.
                if row[0] == str(session) and _is_same_query(row[7], running):
                    other.execute(f"KILL {session}")

    def __repr__(self) -> str:
        return f"<ServerConnection {self.where}>"


def _is_same_query(shown: str | None, sql: str) -> bool:
    """Whether a server shows this query in its list of sessions."""
    return (shown or "")[:_COMPARED_CHARACTERS] == sql[:_COMPARED_CHARACTERS]


def checked_log_name(name: str) -> str:
    """Return a log's base name as a server sent it. Raises ServerError for an invalid file name."""
    if not 0 < len(name) <= 255 or name in (".", "..") or any(c in "/\\" or c < " " for c in name):
        raise ServerError(f"the server names a log {name[:80]!r}: refused")
    return name


def without_spaces(text: str | None) -> str:
    """Return a set of GTIDs without its line breaks and spaces; "" for NULL."""
    return "".join((text or "").split())


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
