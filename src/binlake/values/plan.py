"""Table definitions (TableDefinition), and how row images are decoded (ColumnPlan).

A TableDefinition contains what the log or a schema records about a table. A ColumnPlan is
made from it (`table/plan.py`) and contains everything that the compiled kernels in `core/` need:
the kernel that reads the wire bytes, its parameters, and its buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class NameSource:
    """Where column names came from."""

    METADATA = "metadata"  # TABLE_MAP optional metadata (binlog_row_metadata=FULL)
    DDL = "ddl"  # DDL that the log holds
    SCHEMA = "schema"  # a schema supplied beside the log
    NONE = "none"  # unknown, shown as col_0, col_1 …


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """One column as TABLE_MAP or, if that lacks something, a schema describes it.

    `type_code` is the *real* type (ENUM 247, SET 248 and CHAR 254 are distinguished),
    `length` its byte length or width (CHAR/VARCHAR max bytes, ENUM/SET/BLOB prefix
    bytes, BIT bits, FLOAT 4 / DOUBLE 8), `decimals` the scale or fractional digits,
    `precision` of DECIMAL. `unsigned`, `collation_id`, `members` are None when unknown.
    `declared` is the lower-case SQL type from a supplied schema, for types that the log does not
    distinguish (uuid, inet4, inet6, vector, json), else None. `generated`: the server computes the
    value, and no statement can set it. `virtual`: the server does not store the value either, so the
    after-image of an update may lack a changed value (MariaDB). `bounds_version`: it is the start or the end of a
    version of a row (AS ROW START, AS ROW END), so the table is system-versioned; None if no schema shows that. Only a
    schema contains these three.
    `is_collation_known` is False where `collation_id` is any collation of the right character set.
    """

    ordinal: int
    name: str
    type_code: int
    length: int = 0
    precision: int = 0
    decimals: int = 0
    nullable: bool = True
    unsigned: bool | None = None
    collation_id: int | None = None
    members: tuple[str, ...] | None = None
    geometry_type: int | None = None
    dimensionality: int | None = None
    visible: bool = True
    declared: str | None = None
    generated: bool = False
    virtual: bool = False
    bounds_version: bool | None = None
    is_collation_known: bool = True


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table as the log describes it at one position.

    `primary_key`: ordinals in key order, () when none is known. `flavour` ("mysql" or
    "mariadb") matters for what counts as a character column and for text rendering.
    `name_origin` is the position of the DDL, or the schema, that supplied the names.
    """

    database: str
    table: str
    columns: tuple[ColumnDefinition, ...]
    flags: int = 0
    primary_key: tuple[int, ...] = ()
    key_prefixes: tuple[int, ...] = ()
    name_source: str = NameSource.NONE
    flavour: str = "mysql"
    name_origin: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return hash((self.database, self.table, len(self.columns)))  # columns may be thousands

    @property
    def full_name(self) -> str:
        """`database.table` (unquoted)."""
        return f"{self.database}.{self.table}"


class Kernel(IntEnum):
    """A compiled decoder of one wire layout; `core/columns/sink.pyx` picks it.

    After each: parameters (ColumnPlan.p0, .p1) -> physical output of the sink. "text" means
    an Arrow string layout (int32 offsets + UTF-8 bytes), "bytes" the same layout, any bytes.
    All wire integers are little-endian unless BE is written.
    """

    INT = 1  # p0 = wire bytes 1,2,3,4,8; p1 = 1 unsigned -> i8 i16 i32 i64 (unsigned: next wider)
    UINT64 = 2  # 8 bytes -> u64
    UINT64_DECIMAL = 3  # 8 bytes -> decimal128(20,0), 16 bytes little-endian
    FLOAT = 4  # 4 bytes -> f32
    DOUBLE = 5  # 8 bytes -> f64
    BIT = 6  # p0 = wire bytes 1..8 BE -> i64 (u64 bit pattern when 8)
    BIT_DECIMAL = 7  # 8 bytes BE -> decimal128(20,0)
    YEAR = 8  # u8 -> i16 (0 stays 0)
    DATE = 10  # 3 bytes -> date32 days; zero or partial: null + counted
    DATE_TEXT = 11  # -> text "YYYY-MM-DD"
    TIME2 = 12  # p0 = fsp -> i64 us
    TIME2_TEXT = 13  # p0 = fsp -> text "[-]HHH:MM:SS[.f…]"
    DATETIME2 = 14  # p0 = fsp -> i64 us; zero or partial: null + counted
    DATETIME2_TEXT = 15
    TIMESTAMP2 = 16  # p0 = fsp -> i64 us UTC; zero: null + counted
    TIMESTAMP2_TEXT = 17
    TIME_OLD = 18  # p0 = fsp; 3 bytes signed HHMMSS -> i64 us; more of MariaDB's with a fraction
    TIME_OLD_TEXT = 19
    DATETIME_OLD = 20  # p0 = fsp; u64 YYYYMMDDhhmmss -> i64 us; BE with a fraction
    DATETIME_OLD_TEXT = 21
    TIMESTAMP_OLD = 22  # p0 = fsp; u32 -> i64 us UTC; BE with a fraction
    TIMESTAMP_OLD_TEXT = 23
    DECIMAL = 24  # p0 = precision <= 38, p1 = scale -> decimal128
    DECIMAL_TEXT = 25  # p0 = precision <= 65, p1 = scale -> text
    BYTES = 26  # p0 = length prefix bytes 1,2,3,4; p1 = pad with 0x00 to this length -> bytes
    LATIN = 27  # as BYTES through a 256-entry table of UTF-8 (ColumnPlan.table) -> text
    FIXED_UINT = 28  # p0 = bytes 1,2,3,4,8 -> u64 (ENUM index, SET bitmap)
    JSON = 29  # p0 = length prefix bytes (4); JSONB -> text as the server renders it
    NULL = 30  # no bytes -> null


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The decoding of one column: plain data, made once per table definition.

    `kernel` None means that the column cannot be decoded, for the reason `why`; a row that needs it
    is an error. `wanted` False: the kernel only skips. `table` is the 256-entry tuple of UTF-8
    byte strings of a single-byte character set (Kernel.LATIN); an entry None is invalid there.
    Making an array of the kernel's buffers adds at most `finished_bytes` to a value (the text of an
    ENUM), and inflates the values of a column that is `compressed`.
    """

    definition: ColumnDefinition
    kernel: Kernel | None
    p0: int = 0
    p1: int = 0
    wanted: bool = True
    text_target: bool = False
    table: tuple[bytes | None, ...] | None = None
    why: str = ""
    finished_bytes: int = 0
    compressed: bool = False


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The column plans of one table definition for one target (typed or server text)."""

    definition: TableDefinition
    columns: tuple[ColumnPlan, ...]
    text_target: bool = False
    warnings: tuple[str, ...] = field(default=())
