"""The variables that a session can read, with the values of a server of the archive's flavour.

A variable that such a server does not have is an error (1193) here too: replicas use that to find
out the kind of their source.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

from binlake.serve.answers import UNKNOWN_SYSTEM_VARIABLE, Value, refused
from binlake.serve.library import Library
from binlake.serve.login import Identity
from binlake.values.gtid import MariaGtid, MariaGtidIntervals

_SEMI_SYNC_NAMES = ("master", "source")
_NEW_NAMES_SINCE = (8, 0, 26)

_COMMON: dict[str, Value] = {
    "version_comment": "binlake serve",
    "log_bin": 1,
    "binlog_format": "ROW",
    "read_only": 1,
    "autocommit": 1,
    "sql_mode": "",
    "time_zone": "SYSTEM",
    "system_time_zone": "UTC",
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_database": "utf8mb4",
    "character_set_results": "utf8mb4",
    "character_set_server": "utf8mb4",
    "collation_connection": "utf8mb4_general_ci",
    "collation_database": "utf8mb4_general_ci",
    "collation_server": "utf8mb4_general_ci",
    "init_connect": "",
    "interactive_timeout": 28800,
    "wait_timeout": 28800,
    "net_read_timeout": 30,
    "net_write_timeout": 60,
    "net_buffer_length": 16384,
    "max_allowed_packet": 1 << 30,
    "lower_case_table_names": 0,
    "license": "Apache-2.0",
    "auto_increment_increment": 1,
    "performance_schema": 0,
    "query_cache_size": 0,
    "query_cache_type": "OFF",
    "tx_isolation": "REPEATABLE-READ",
}
_OF_MYSQL: dict[str, Value] = {
    "enforce_gtid_consistency": "ON",
    "super_read_only": 1,
    "transaction_isolation": "REPEATABLE-READ",
    "server_id_bits": 32,
}
_OF_MARIADB: dict[str, Value] = {
    "gtid_domain_id": 0,
    "gtid_strict_mode": 0,
    "gtid_slave_pos": "",
    "skip_replication": 0,
    "tx_isolation": "REPEATABLE-READ",
}


class ServerVariables:
    """System variables by name, of one server: constants, and values from its logs.

    `value` raises ServerError (1193) for a name that a server like this does not have, and
    BinlogError if the logs cannot be read.
    """

    def __init__(self, who: Identity, library: Library) -> None:
        self._library = library
        fixed: dict[str, Value] = {
            **_COMMON,
            "server_id": who.server_id,
            "version": who.version,
            "hostname": socket.gethostname(),
        }
        made: dict[str, Callable[[], Value]] = {"binlog_checksum": self._checksum}
        if who.flavour == "mysql":
            fixed |= _OF_MYSQL
            if who.numbers >= (5, 6, 0):
                fixed["server_uuid"] = who.server_uuid
                made |= {
                    "gtid_mode": lambda: "ON" if library.has_gtids() else "OFF",
                    "gtid_executed": lambda: str(library.executed()),
                    "gtid_purged": lambda: str(library.purged()),
                }
        else:
            fixed |= _OF_MARIADB
            made |= {
                "gtid_binlog_state": self._state,
                "gtid_binlog_pos": self._position,
                "gtid_current_pos": self._position,
            }
        for name in _SEMI_SYNC_NAMES:
            if name == "master" or (who.flavour == "mysql" and who.numbers >= _NEW_NAMES_SINCE):
                fixed[f"rpl_semi_sync_{name}_enabled"] = 1
                fixed[f"rpl_semi_sync_{name}_timeout"] = 10000
        self._made = made
        self._fixed = fixed

    def value(self, name: str) -> Value:
        made = self._made.get(name)
        if made is not None:
            return made()
        if name not in self._fixed:
            raise refused(
                UNKNOWN_SYSTEM_VARIABLE, "HY000", f"Unknown system variable '{name[:64]}'"
            )
        return self._fixed[name]

    def matching(self, pattern: str | None) -> Iterator[tuple[str, str]]:
        """Return name and value, as in SHOW VARIABLES, of those whose names match a LIKE pattern."""
        for name in sorted({*self._fixed, *self._made}):
            if pattern is None or like(name, pattern):
                value = self.value(name)
                yield name, ("ON" if value else "OFF") if _is_switch(name) else str(value)

    def _checksum(self) -> Value:
        return "CRC32" if self._library.format.checksum_bytes else "NONE"

    def _gtids(self) -> list[MariaGtid]:
        found = self._library.executed()
        assert isinstance(found, MariaGtidIntervals)
        return [MariaGtid(*stream, last) for stream, last in found.last_numbers()]

    def _state(self) -> Value:
        return ",".join(map(str, self._gtids()))

    def _position(self) -> Value:
        newest: dict[int, MariaGtid] = {}
        for gtid in sorted(self._gtids(), key=lambda gtid: gtid.seq_no):
            newest[gtid.domain_id] = gtid
        return ",".join(str(newest[domain]) for domain in sorted(newest))


def _is_switch(name: str) -> bool:
    return name.endswith("_enabled") or name in (
        "log_bin",
        "autocommit",
        "read_only",
        "super_read_only",
    )


def like(text: str, pattern: str) -> bool:
    """Whether a pattern of SQL's LIKE matches a name, ignoring case."""
    text, pattern = text.lower(), pattern.lower()
    # rows of the usual table: after each sign of the pattern, which beginnings of `text` match
    reached = [True] + [False] * len(text)
    escaped = False
    for sign in pattern:
        if sign == "\\" and not escaped:
            escaped = True
            continue
        if sign == "%" and not escaped:
            seen = False
            reached = [seen := seen or here for here in reached]
        else:
            reached = [False] + [
                reached[at] and (sign == character or (sign == "_" and not escaped))
                for at, character in enumerate(text)
            ]
        escaped = False
    return reached[-1]
