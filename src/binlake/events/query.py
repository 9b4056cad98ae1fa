"""QUERY_EVENT (2) and MariaDB's QUERY_COMPRESSED_EVENT (165): a statement.

BEGIN, COMMIT, DDL and statement-based changes. Source:
libs/mysql/binlog/event/statement_events.cpp, Query_event; MariaDB sql/log_event.cc,
Query_log_event, Query_compressed_log_event; formats.md §8, §9.4.
Body:
    4     thread_id
    4     exec_time       seconds
    1     length of database
    2     error_code
    2     length of the status variables
    n     status          format/query_status.py; an unknown code ends it
    n+1   database        and a zero byte
    rest  statement       compressed in 165
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from binlake.core.inflate import inflate_event_data
from binlake.events.base import HIDDEN, BodyReader, Event, Render, json_value, text_or_hex
from binlake.events.texts import collation_text
from binlake.format.event_types import EVENT_TYPES, QUERY_EVENT
from binlake.format.flags import (
    MARIADB_OPTION_FLAGS,
    MARIADB_SQL_MODES,
    MYSQL_OPTION_FLAGS,
    MYSQL_SQL_MODES,
    flag_names,
)
from binlake.format.query_status import (
    OVER_MAX_DBS_IN_EVENT_MTS,
    Q_AUTO_INCREMENT,
    Q_CHARSET_CODE,
    STATUS_VARIABLES,
    StatusVariable,
)
from binlake.values.frame import EventFormat, Frame

__all__ = ["QueryEvent"]

_POST_HEADER_BYTES = 13

# GTID_FLAGS3 carries the sequence number of a START ALTER with these bits (FL_COMMIT_ALTER_E1,
# FL_ROLLBACK_ALTER_E1 of MariaDB's GTID event)
_ALTER_END = 0x04 | 0x08

_PARTS = {
    Q_AUTO_INCREMENT: ("increment", "offset"),
    Q_CHARSET_CODE: ("client", "connection", "server"),
}


def _integers(reader: BodyReader, variable: StatusVariable) -> Any:
    cursor = reader.at(variable.name)
    values = [cursor.le_uint(width) for width in variable.widths or ()]
    names = _PARTS.get(variable.code)
    return dict(zip(names, values, strict=True)) if names else values[0]


def _text8(reader: BodyReader, variable: StatusVariable) -> str:
    return text_or_hex(reader.short(variable.name))


def _text8_nul(reader: BodyReader, variable: StatusVariable) -> str:
    raw = reader.short(variable.name)
    if raw:
        reader.nul(variable.name)
    return text_or_hex(raw)


def _text8_twice(reader: BodyReader, variable: StatusVariable) -> dict[str, str]:
    return {"user": _text8(reader, variable), "host": _text8(reader, variable)}


def _nul_texts(reader: BodyReader, variable: StatusVariable) -> list[str] | None:
    count = reader.u8(variable.name)
    if count == OVER_MAX_DBS_IN_EVENT_MTS:
        return None
    return [text_or_hex(reader.until_nul(variable.name)) for _ in range(count)]


def _gtid_flags3(reader: BodyReader, variable: StatusVariable) -> dict[str, int]:
    flags = reader.u8(variable.name)
    if flags & _ALTER_END:
        return {"flags": flags, "start_alter_seq_no": reader.u64(variable.name)}
    return {"flags": flags}


def _collation_pairs(reader: BodyReader, variable: StatusVariable) -> list[dict[str, int]]:
    count = reader.u8(variable.name)
    return [
        {"charset": reader.u16(variable.name), "collation": reader.u16(variable.name)}
        for _ in range(count)
    ]


def _padding(reader: BodyReader, variable: StatusVariable) -> int:
    return len(reader.rest(variable.name))


_LAYOUTS: dict[str, Callable[[BodyReader, StatusVariable], Any]] = {
    "integers": _integers,
    "text8": _text8,
    "text8_nul": _text8_nul,
    "text8_twice": _text8_twice,
    "nul_texts": _nul_texts,
    "gtid_flags3": _gtid_flags3,
    "collation_pairs": _collation_pairs,
    "padding": _padding,
}


def _decode_status(reader: BodyReader, status_bytes: int) -> tuple[dict[str, Any], bytes]:
    """The status variables by name, and what was not understood (from an unknown code on)."""
    status: dict[str, Any] = {}
    unknown = b""
    with reader.block("status", status_bytes):
        while reader.left:
            code = reader.u8("status")
            variable = STATUS_VARIABLES.get(code)
            if variable is None:
                unknown = bytes((code,)) + reader.rest("status")
                break
            status[variable.name] = _LAYOUTS[variable.layout](reader, variable)
    return status, unknown


@dataclass(slots=True)
class QueryEvent(Event):
    """A statement and the session state that it needs.

    `exec_time` in seconds. `status_values` are the status variables by name: integers or text;
    `auto_increment`, `charset`, `invoker` and `gtid_flags3` are dicts, `updated_db_names` (None:
    too many databases to name) and `character_set_collations` lists; collations are ids.
    `status_unknown` is the rest from an unknown code on. `sql_raw` is the statement,
    decompressed, in the client's character set; `sql` the same as text.
    """

    renders: ClassVar[Mapping[str, Render | None]] = {
        "status_values": HIDDEN,
        "sql_raw": HIDDEN,
        "flavour": HIDDEN,
    }
    extra_fields: ClassVar[tuple[str, ...]] = ("status", "sql")

    thread_id: int
    exec_time: int
    error_code: int
    database: str
    status_values: dict[str, Any]
    status_unknown: bytes
    sql_raw: bytes
    flavour: str

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        thread_id = reader.u32("thread_id")
        exec_time = reader.u32("exec_time")
        database_bytes = reader.u8("database_length")
        error_code = reader.u16("error_code")
        status_bytes = reader.u16("status_length")
        if fmt is not None:
            listed = fmt.post_header_length(QUERY_EVENT, _POST_HEADER_BYTES)
            reader.at("post_header").skip(max(listed - _POST_HEADER_BYTES, 0))
        status, unknown = _decode_status(reader, status_bytes)
        database = reader.name_text("database", reader.take("database", database_bytes))
        reader.nul("database")
        sql_raw = reader.rest("sql")
        if EVENT_TYPES[frame.type_code].compressed:
            sql_raw = inflate_event_data(sql_raw)
        flavour = "mysql" if fmt is None else fmt.flavour
        return cls(
            frame, thread_id, exec_time, error_code, database, status, unknown, sql_raw, flavour
        )

    @property
    def client_collation(self) -> int | None:
        """Id of the collation whose character set the statement is in, None when not logged."""
        charset = self.status_values.get("charset")
        return None if charset is None else int(charset["client"])

    @property
    def microseconds(self) -> int | None:
        """Microseconds of the statement's start, to add to the header's seconds."""
        value = self.status_values.get("microseconds", self.status_values.get("hrnow"))
        return None if value is None else int(value)

    @property
    def sql(self) -> str:
        """The statement as text; 0x… in hex when it is not text in the client's charset."""
        return collation_text(self.client_collation, self.sql_raw)

    @property
    def status(self) -> dict[str, Any]:
        """The status variables as `to_fields` shows them: bit sets as lists of names."""
        shown_status: dict[str, Any] = json_value(self.status_values)
        mariadb = self.flavour == "mariadb"
        if "flags2" in shown_status:
            table = MARIADB_OPTION_FLAGS if mariadb else MYSQL_OPTION_FLAGS
            shown_status["flags2"] = flag_names(table, shown_status["flags2"])
        if "sql_mode" in shown_status:
            table = MARIADB_SQL_MODES if mariadb else MYSQL_SQL_MODES
            shown_status["sql_mode"] = flag_names(table, shown_status["sql_mode"])
        return shown_status
