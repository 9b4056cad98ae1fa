"""QUERY_EVENT (2) and MariaDB's QUERY_COMPRESSED_EVENT (165): a statement.

BEGIN, COMMIT, DDL and statement-based changes. Source:
libs/mysql/binlog/event/statement_events.cpp, Query_event; MariaDB sql/log_event.cc,
Query_log_event, Query_compressed_log_event.
Body:
    4     thread_id
    4     exec_time       seconds
    1     length of database
    2     error_code
    2     length of the status variables    not before version 4
    n     status          status_variables.py
    n+1   database        and a zero byte
    rest  statement       compressed in 165
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from binlake.core.events.inflate import inflate_event_data
from binlake.errors import MalformedError
from binlake.events.base import HIDDEN, Event, json_value
from binlake.events.body.collated_text import collation_text
from binlake.events.body.deflate import deflate_event_data
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.events.common.status_variables import (
    StatusItem,
    decode_status,
    encode_status,
    status_values,
)
from binlake.format import flags
from binlake.format.collations import COLLATIONS
from binlake.format.event_types import EVENT_TYPES, QUERY_EVENT
from binlake.format.flags import flag_names
from binlake.format.query_status import Q_CHARSET_CODE, Q_HRNOW, Q_MICROSECONDS
from binlake.values.frame import EventFormat, Frame, most_inflated

_POST_HEADER_BYTES = EVENT_TYPES[QUERY_EVENT].post_header_length


@dataclass(slots=True)
class QueryEvent(Event):
    """A statement and the session state that it needs.

    `exec_time` in seconds. `status_items` are the status variables as (code, value), in order
    (events/common/status_variables.py); `status_unknown` the rest from an unknown code on. `sql_raw` is
    the statement, decompressed, in the client's character set; `sql` the same as text. `logs_cascades`: see `EventFormat`. A subclass
    names in `layout` the fields that it adds to the post-header.
    """

    renders = {
        "status_items": HIDDEN,
        "sql_raw": HIDDEN,
        "flavour": HIDDEN,
        "logs_cascades": HIDDEN,
    }
    extra_fields = ("status", "sql")

    thread_id: int
    exec_time: int
    error_code: int
    database: str
    status_items: tuple[StatusItem, ...]
    status_unknown: bytes
    sql_raw: bytes
    flavour: str
    logs_cascades: bool

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        thread_id = reader.u32("thread_id")
        exec_time = reader.u32("exec_time")
        database_bytes = reader.u8("database_length")
        error_code = reader.u16("error_code")
        status_bytes = reader.u16("status_length") if _has_status(fmt) else 0
        own = [wire.read(reader, name) for name, wire in cls.layout.items()]
        if fmt is not None:
            listed = fmt.post_header_length(QUERY_EVENT, _POST_HEADER_BYTES)
            reader.at("post_header").skip(max(listed - _POST_HEADER_BYTES, 0))
        items, unknown = decode_status(reader, status_bytes)
        database = reader.name_text("database", reader.take("database", database_bytes))
        reader.nul("database")
        sql_raw = reader.rest("sql")
        if EVENT_TYPES[frame.type_code].compressed:
            sql_raw = inflate_event_data(sql_raw, most_inflated(fmt))
        flavour = "mysql" if fmt is None else fmt.flavour
        return cls(
            frame, thread_id, exec_time, error_code, database, items, unknown, sql_raw, flavour,
            fmt is not None and fmt.logs_cascades, *own,
        )  # fmt: skip

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        database = self.database.encode("utf-8")
        status = encode_status(self.status_items, self.status_unknown)
        writer.u32("thread_id", self.thread_id)
        writer.u32("exec_time", self.exec_time)
        writer.u8("database_length", len(database))
        writer.u16("error_code", self.error_code)
        if _has_status(fmt):
            writer.u16("status_length", len(status))
        elif status:
            raise MalformedError("logs before version 4 have no status variables", field="status")
        Event.encode(self, writer, fmt)  # the fields of `layout`
        if fmt is not None:
            listed = fmt.post_header_length(QUERY_EVENT, _POST_HEADER_BYTES)
            writer.rest("post_header", bytes(max(listed - _POST_HEADER_BYTES, 0)))
        writer.rest("status", status)
        writer.rest("database", database)
        writer.nul("database")
        compressed = EVENT_TYPES[self.frame.type_code].compressed
        writer.rest("sql", deflate_event_data(self.sql_raw) if compressed else self.sql_raw)

    @property
    def status_values(self) -> dict[str, Any]:
        """The status variables by name: integers or text.

        `auto_increment`, `charset`, `invoker` and `gtid_flags3` are dicts, `updated_db_names`
        (None: too many databases to name) and `character_set_collations` lists; collations are
        ids.
        """
        return status_values(self.status_items)

    @property
    def user(self) -> str | None:
        """The invoker, as `user@host`; None if it is not logged."""
        invoker = self.status_values.get("invoker")
        return f"{invoker['user']}@{invoker['host']}" if isinstance(invoker, Mapping) else None

    @property
    def client_collation(self) -> int | None:
        """Id of a collation with the character set of the statement; None if it is not logged."""
        found = dict(self.status_items).get(Q_CHARSET_CODE)
        return None if found is None else int(found[0])

    @property
    def client_charset(self) -> str | None:
        """Name of the character set of the statement; None if it is not logged, or not known."""
        collation = COLLATIONS.get(self.client_collation or 0)  # no collation has id 0
        return None if collation is None else collation.charset

    @property
    def microseconds(self) -> int | None:
        """Microseconds of the statement's start, to add to the header's seconds."""
        items = dict(self.status_items)
        found = items.get(Q_MICROSECONDS, items.get(Q_HRNOW))
        return None if found is None else int(found[0])

    @property
    def sql(self) -> str:
        """The statement as text, or 0x… in hex if it is not valid in the client's character set."""
        return collation_text(self.client_collation, self.sql_raw)

    @property
    def status(self) -> dict[str, Any]:
        """The status variables as `to_fields` shows them: bit sets as lists of names."""
        shown_status: dict[str, Any] = json_value(self.status_values)
        mariadb = self.flavour == "mariadb"
        if "flags2" in shown_status:
            table = flags.MARIADB_OPTION_FLAGS if mariadb else flags.MYSQL_OPTION_FLAGS
            shown_status["flags2"] = flag_names(table, shown_status["flags2"])
        if "sql_mode" in shown_status:
            table = flags.MARIADB_SQL_MODES if mariadb else flags.MYSQL_SQL_MODES
            shown_status["sql_mode"] = flag_names(table, shown_status["sql_mode"])
        return shown_status


def _has_status(fmt: EventFormat | None) -> bool:
    """Whether the log is of a version with status variables: 4."""
    return fmt is None or fmt.binlog_version >= 4
