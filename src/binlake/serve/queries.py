"""Answer the statements of one session: the queries of replicas, mysqlbinlog and clients.

The list was found by running them: MySQL 5.6 and 9.7, MariaDB 10.11 and 11.8 as replicas, their
mysqlbinlog, and their clients. A statement changes only the session's variables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from binlake.errors import BinlogError
from binlake.printable import truncated
from binlake.serve.answers import (
    NO_SUCH_THREAD,
    NOT_SUPPORTED,
    SPECIFIC_ACCESS_DENIED,
    UNKNOWN_SYSTEM_VARIABLE,
    WRONG_VALUE_FOR_VAR,
    Value,
    ok,
    refused,
    result_set,
)
from binlake.serve.library import Library
from binlake.serve.login import Identity
from binlake.serve.replica_sql import (
    Expression,
    Kill,
    NotUnderstoodError,
    Select,
    Set,
    Show,
    SqlLiteral,
    SystemVariable,
    UserVariable,
    parse,
)
from binlake.serve.replicas import Replicas
from binlake.serve.variables import ServerVariables
from binlake.stream.positions.gtid_search import state_at
from binlake.values.gtid import MariaGtidSet

_MAX_VARIABLES = 64
_MAX_VALUE_BYTES = 256 << 10
_SHOWN = 80

_STATUS: dict[str, Value] = {
    "Rpl_semi_sync_master_status": "ON",
    "Rpl_semi_sync_source_status": "ON",
}


class Queries:
    """The statements of one session and its user variables (`user`, lower-case names).

    `answer` returns the payloads of the answer. Raises ServerError for statements that a server
    would refuse, BinlogError if the logs cannot be read.
    """

    def __init__(
        self, who: Identity, library: Library, replicas: Replicas, account: str, connection_id: int
    ) -> None:
        self.user: dict[str, Value] = {}
        self.session: dict[str, Value] = {}
        self._who = who
        self._library = library
        self._replicas = replicas
        self._variables = ServerVariables(who, library)
        self._functions: dict[str, Callable[[Sequence[Value]], Value]] = {
            "UNIX_TIMESTAMP": lambda _: int(time.time()),
            "VERSION": lambda _: who.version,
            "CONNECTION_ID": lambda _: connection_id,
            "USER": lambda _: account,
            "CURRENT_USER": lambda _: account,
            "DATABASE": lambda _: None,
            "SCHEMA": lambda _: None,
        }
        if who.flavour == "mariadb":
            self._functions["BINLOG_GTID_POS"] = self._gtid_position

    def answer(self, sql: str) -> list[bytes]:
        """Return the answer of a server to `sql`."""
        try:
            statement = parse(sql)
            if isinstance(statement, Select):
                row = [self._value(expression) for expression in statement.expressions]
                return result_set(statement.names, [row])
            if isinstance(statement, Set):
                self._set(statement)
                return [ok()]
            if isinstance(statement, Kill):
                return self._kill(statement)
            return self._show(statement)
        except NotUnderstoodError:
            shown = truncated(" ".join(sql.split()), _SHOWN)
            raise refused(
                NOT_SUPPORTED, "42000",
                f"binlake serve sends binary logs to replicas and does not answer: {shown}",
            ) from None  # fmt: skip

    def _value(self, expression: Expression) -> Value:
        if isinstance(expression, SqlLiteral):
            return expression.value
        if isinstance(expression, UserVariable):
            return self.user.get(expression.name)
        if isinstance(expression, SystemVariable):
            if expression.scope != "global" and expression.name in self.session:
                return self.session[expression.name]
            return self._variables.value(expression.name)
        function = self._functions.get(expression.name)
        if function is None:
            raise NotUnderstoodError
        return function([self._value(argument) for argument in expression.arguments])

    def _set(self, statement: Set) -> None:
        for assignment in statement.assignments:
            target, value = assignment.target, self._value(assignment.value)
            if isinstance(target, SystemVariable) and target.scope == "global":
                raise refused(
                    SPECIFIC_ACCESS_DENIED, "42000",
                    "Access denied; you need (at least one of) the SUPER privilege(s) for"
                    " this operation",
                )  # fmt: skip
            kept = self.user if isinstance(target, UserVariable) else self.session
            if len(kept) >= _MAX_VARIABLES and target.name not in kept:
                raise refused(
                    UNKNOWN_SYSTEM_VARIABLE, "HY000",
                    f"a session has at most {_MAX_VARIABLES} variables",
                )  # fmt: skip
            if len(target.name) + len(str(value)) > _MAX_VALUE_BYTES:
                raise refused(WRONG_VALUE_FOR_VAR, "42000", f"'{target.name[:64]}' is too long")
            kept[target.name] = value

    def _kill(self, statement: Kill) -> list[bytes]:
        """End a connection: all connections belong to one user, who may end them."""
        if not self._replicas.end(statement.connection_id):
            raise refused(NO_SUCH_THREAD, "HY000", f"Unknown thread id: {statement.connection_id}")
        return [ok()]

    # -- SHOW --------------------------------------------------------------------------------------

    def _show(self, statement: Show) -> list[bytes]:
        what = tuple(
            word for word in statement.what if word not in ("GLOBAL", "SESSION", "LOCAL", "FULL")
        )
        if what == ("VARIABLES",):
            return result_set(
                ("Variable_name", "Value"), list(self._variables.matching(statement.like))
            )
        if what == ("STATUS",):
            rows = [
                (name, value)
                for name, value in _STATUS.items()
                if statement.like is None or statement.like.lower() == name.lower()
            ]
            return result_set(("Variable_name", "Value"), rows)
        if statement.like is not None:
            raise NotUnderstoodError
        if what in (("BINARY", "LOGS"), ("MASTER", "LOGS")):
            return self._binary_logs()
        if what in (("MASTER", "STATUS"), ("BINARY", "LOG", "STATUS"), ("BINLOG", "STATUS")):
            return self._status()
        if what in (("SLAVE", "HOSTS"), ("REPLICA", "HOSTS"), ("REPLICAS",)):
            columns = ("Server_id", "Host", "Port", "Master_id", "Slave_UUID")
            if what == ("REPLICAS",):
                columns = ("Server_Id", "Host", "Port", "Source_Id", "Replica_UUID")
            hosts: list[tuple[Value, ...]] = [
                (one.server_id, one.host, one.port, self._who.server_id, one.uuid)
                for one in self._replicas.listed()
            ]
            return result_set(columns, hosts)
        if what in (("WARNINGS",), ("ERRORS",)):
            return result_set(("Level", "Code", "Message"), [])
        if what == ("DATABASES",):
            return result_set(("Database",), [])
        raise NotUnderstoodError

    def _binary_logs(self) -> list[bytes]:
        sizes = [(file.name, self._library.size(file)) for file in self._library.chain.files]
        if self._who.flavour == "mysql" and self._who.numbers >= (8, 0, 14):
            rows = [(name, size, "No") for name, size in sizes]
            return result_set(("Log_name", "File_size", "Encrypted"), rows)
        return result_set(("Log_name", "File_size"), sizes)

    def _status(self) -> list[bytes]:
        last = self._library.chain.files[-1]
        columns = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"]
        row: list[Value] = [last.name, self._library.size(last), "", ""]
        if self._who.flavour == "mysql" and self._who.numbers >= (5, 6, 0):
            columns.append("Executed_Gtid_Set")
            row.append(self._variables.value("gtid_executed"))
        return result_set(columns, [row])

    # -- functions ---------------------------------------------------------------------------------

    def _gtid_position(self, arguments: Sequence[Value]) -> Value:
        """BINLOG_GTID_POS(file, position): how far each domain had come there; None for an unknown
        place.
        """
        if len(arguments) != 2 or not isinstance(arguments[1], int):
            raise NotUnderstoodError
        file = self._library.find(str(arguments[0]))
        if file is None:
            return None
        try:
            with self._library.open(file) as log:
                return str(MariaGtidSet(state_at(log, arguments[1]).position().values()))
        except BinlogError:
            return None
