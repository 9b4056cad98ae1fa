"""The column metadata of TABLE_MAP as comments (--print-table-metadata)."""

from __future__ import annotations

from collections.abc import Iterator

from binlake.events.common.table_map import TableMapEvent
from binlake.format import column_types as ct
from binlake.format.charsets import BINARY, CHARSETS
from binlake.format.collations import COLLATIONS, charset_of, collation_name
from binlake.format.flags import TM_GENERATED_INVISIBLE_PK_F
from binlake.format.sql_names import quoted_name
from binlake.printable import printable
from binlake.table.sql.pseudo_values import quoted_text
from binlake.table.types.sql_types import sql_type
from binlake.values.plan import ColumnDefinition, TableDefinition

_TEXTS = ct.STRING_TYPES | {ct.MYSQL_TYPE_BLOB_COMPRESSED, ct.MYSQL_TYPE_VARCHAR_COMPRESSED}
_BLOB_SIZES = {1: "TINY", 2: "", 3: "MEDIUM", 4: "LONG"}
_MADE_KEY = "my_row_id"  # MySQL 8.0.30, sql_generate_invisible_primary_key


def metadata_lines(event: TableMapEvent) -> Iterator[bytes]:
    """`# Columns(…)` and `# Primary Key(…)`, what the log tells of them."""
    table = event.definition()
    named = event.description.columns.optional.column_names is not None
    members = _members_of(event)
    lead = b"# Columns("
    # of the key that the server made itself, its flag tells what optional metadata may leave out
    made_key = table.columns[0] if table.flags & TM_GENERATED_INVISIBLE_PK_F else None
    for column in table.columns:
        if column.type_code in (ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET):
            words = _members(column, members.get(column.ordinal), table.flavour)
        else:
            words = _type_words(column, table.flavour)
        name = _name(column.name, table.flavour) if named else b""
        hidden = b"" if column.visible else b" INVISIBLE"
        if column is made_key:
            name, hidden = _name(_MADE_KEY, table.flavour), b" INVISIBLE AUTO_INCREMENT"
        end = b")\n" if column.ordinal + 1 == len(table.columns) else b",\n"
        said = b"" if column.nullable else b" NOT NULL"
        yield (lead + name + words + said + _charset_words(column, table.flavour) + hidden + end)
        lead = b"#         "
    if made_key is not None:
        yield b"# Primary Key(" + _MADE_KEY.encode() + b")\n"
    elif event.description.columns.optional.primary_key is not None:
        yield b"# Primary Key(" + b", ".join(_key_parts(table)) + b")\n"


def _name(name: str, flavour: str) -> bytes:
    # MariaDB's tool does not double backticks here, MySQL's does
    shown = printable(name)
    return (
        b"`" + shown.encode() + b"` "
        if flavour == "mariadb"
        else quoted_name(shown).encode() + b" "
    )


def _key_parts(table: TableDefinition) -> Iterator[bytes]:
    for ordinal, prefix in zip(table.primary_key, table.key_prefixes, strict=True):
        yield printable(table.columns[ordinal].name).encode() + (
            b"(%d)" % prefix if prefix else b""
        )


def _type_words(column: ColumnDefinition, flavour: str) -> bytes:
    if column.type_code in _TEXTS:
        return _string_words(column).encode()
    words = sql_type(column, None).upper()
    if column.unsigned and column.type_code in (*ct.FLOAT_TYPES, ct.MYSQL_TYPE_NEWDECIMAL):
        words += " UNSIGNED"
    if flavour == "mysql":
        words = words.replace("GEOMETRYCOLLECTION", "GEOMCOLLECTION")
    return words.encode()


def _members(column: ColumnDefinition, members: tuple[bytes, ...] | None, flavour: str) -> bytes:
    word = b"ENUM" if column.type_code == ct.MYSQL_TYPE_ENUM else b"SET"
    if members is None:
        return word
    # as they are stored, as names and values are everywhere in the text
    separator = b"," if flavour == "mariadb" else b", "
    return word + b"(" + separator.join(quoted_text(raw, flavour) for raw in members) + b")"


def _members_of(event: TableMapEvent) -> dict[int, tuple[bytes, ...]]:
    """The members of each ENUM and SET by column, as bytes in the column's character set."""
    optional = event.description.columns.optional
    found: dict[int, tuple[bytes, ...]] = {}
    for code, lists in (
        (ct.MYSQL_TYPE_ENUM, optional.enum_members),
        (ct.MYSQL_TYPE_SET, optional.set_members),
    ):
        columns = [c.ordinal for c in event.definition().columns if c.type_code == code]
        if lists is not None:
            found.update(zip(columns, lists, strict=True))
    return found


def _charset_words(column: ColumnDefinition, flavour: str) -> bytes:
    number = column.collation_id
    charset = charset_of(number)
    if number is None or charset is None or charset == BINARY:
        return b""
    return f" CHARSET {charset} COLLATE {collation_name(number, flavour)}".encode()


def _string_words(column: ColumnDefinition) -> str:
    code = column.type_code
    known = COLLATIONS.get(column.collation_id) if column.collation_id is not None else None
    is_bytes = known is None or known.charset == BINARY  # as the tools: bytes until told otherwise
    if code in (ct.MYSQL_TYPE_STRING, ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_VAR_STRING,
                ct.MYSQL_TYPE_VARCHAR_COMPRESSED):  # fmt: skip
        wide = known is not None and not is_bytes and known.charset in CHARSETS
        length = (
            column.length // CHARSETS[known.charset].max_bytes if wide and known else column.length
        )
        kinds = ("BINARY", "CHAR") if code == ct.MYSQL_TYPE_STRING else ("VARBINARY", "VARCHAR")
        tail = " COMPRESSED" if code == ct.MYSQL_TYPE_VARCHAR_COMPRESSED else ""
        return f"{kinds[not is_bytes]}({length}){tail}"
    size = _BLOB_SIZES.get(column.length, "")
    tail = " COMPRESSED" if code == ct.MYSQL_TYPE_BLOB_COMPRESSED else ""
    word = "BLOB" if is_bytes else "TEXT"
    return f"{size}{word}{tail}"
