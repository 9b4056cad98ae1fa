"""Parse one CREATE TABLE statement into a DeclaredTable.

For each column, this reads the name and everything that determines its values: type, sign,
character set, members, default; for the table its key and its default character set. The rest is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from binlake.format import column_types as ct
from binlake.format.collations import COLLATIONS
from binlake.format.column_types import MOST_COLUMNS
from binlake.table.schema.declared import ROW_ID, DeclaredColumn, DeclaredTable
from binlake.table.schema.defaults import default_of
from binlake.table.schema.foreign_keys import foreign_key_of, named_keys
from binlake.table.schema.sql_tokens import (
    Token,
    UnreadableTableError,
    closing,
    outer,
    outer_words,
    read_name,
    source_text,
    split,
    statement_tokens,
)
from binlake.values.charset_text import lower_case


@dataclass(frozen=True, slots=True)
class _Kind:
    """A SQL type: the types that TABLE_MAP may have for it, and how to parse it further."""

    type_codes: tuple[int, ...]
    charset: str | None = None  # "binary", or fixed by the type
    is_text: bool = False
    special: str | None = None


def _codes(*codes: int) -> _Kind:
    return _Kind(codes)


_BLOBS = (
    ct.MYSQL_TYPE_BLOB,
    ct.MYSQL_TYPE_BLOB_COMPRESSED,
    ct.MYSQL_TYPE_TINY_BLOB,
    ct.MYSQL_TYPE_MEDIUM_BLOB,
    ct.MYSQL_TYPE_LONG_BLOB,
)
_VARCHARS = (ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_VARCHAR_COMPRESSED, ct.MYSQL_TYPE_VAR_STRING)
_STRING = (ct.MYSQL_TYPE_STRING,)

_TEXT = _Kind(_BLOBS, is_text=True)
_BLOB = _Kind(_BLOBS, charset="binary")
_VARCHAR = _Kind(_VARCHARS, is_text=True)
_CHAR = _Kind(_STRING, is_text=True)
_TINYINT = _codes(ct.MYSQL_TYPE_TINY)
_SMALLINT = _codes(ct.MYSQL_TYPE_SHORT)
_MEDIUMINT = _codes(ct.MYSQL_TYPE_INT24)
_INT = _codes(ct.MYSQL_TYPE_LONG)
_BIGINT = _codes(ct.MYSQL_TYPE_LONGLONG)
_FLOAT = _codes(ct.MYSQL_TYPE_FLOAT)
_DOUBLE = _codes(ct.MYSQL_TYPE_DOUBLE)
_DECIMAL = _codes(ct.MYSQL_TYPE_NEWDECIMAL, ct.MYSQL_TYPE_DECIMAL)
_GEOMETRY = _codes(ct.MYSQL_TYPE_GEOMETRY)

# every spelling that a server takes
_KINDS: dict[str, _Kind] = {
    "BOOL": _TINYINT, "BOOLEAN": _TINYINT, "TINYINT": _TINYINT, "INT1": _TINYINT,
    "SMALLINT": _SMALLINT, "INT2": _SMALLINT,
    "MEDIUMINT": _MEDIUMINT, "INT3": _MEDIUMINT, "MIDDLEINT": _MEDIUMINT,
    "INT": _INT, "INTEGER": _INT, "INT4": _INT,
    "BIGINT": _BIGINT, "INT8": _BIGINT, "SERIAL": _BIGINT,
    "FLOAT": _FLOAT, "FLOAT4": _FLOAT, "DOUBLE": _DOUBLE, "FLOAT8": _DOUBLE, "REAL": _DOUBLE,
    "DECIMAL": _DECIMAL, "DEC": _DECIMAL, "NUMERIC": _DECIMAL, "FIXED": _DECIMAL,
    "BIT": _codes(ct.MYSQL_TYPE_BIT), "YEAR": _codes(ct.MYSQL_TYPE_YEAR),
    "DATE": _codes(ct.MYSQL_TYPE_DATE, ct.MYSQL_TYPE_NEWDATE),
    "TIME": _codes(ct.MYSQL_TYPE_TIME, ct.MYSQL_TYPE_TIME2),
    "DATETIME": _codes(ct.MYSQL_TYPE_DATETIME, ct.MYSQL_TYPE_DATETIME2),
    "TIMESTAMP": _codes(ct.MYSQL_TYPE_TIMESTAMP, ct.MYSQL_TYPE_TIMESTAMP2),
    "CHAR": _CHAR, "CHARACTER": _CHAR, "NCHAR": _Kind(_STRING, charset="utf8mb3"),
    "VARCHAR": _VARCHAR, "VARCHARACTER": _VARCHAR, "NVARCHAR": _Kind(_VARCHARS, charset="utf8mb3"),
    "BINARY": _Kind(_STRING, charset="binary"), "VARBINARY": _Kind(_VARCHARS, charset="binary"),
    "TINYTEXT": _TEXT, "TEXT": _TEXT, "MEDIUMTEXT": _TEXT, "LONGTEXT": _TEXT, "LONG": _TEXT,
    "TINYBLOB": _BLOB, "BLOB": _BLOB, "MEDIUMBLOB": _BLOB, "LONGBLOB": _BLOB,
    "ENUM": _codes(ct.MYSQL_TYPE_ENUM), "SET": _codes(ct.MYSQL_TYPE_SET),
    "JSON": _Kind((ct.MYSQL_TYPE_JSON, ct.MYSQL_TYPE_BLOB), charset="utf8mb4", special="json"),
    "VECTOR": _Kind((ct.MYSQL_TYPE_VECTOR, ct.MYSQL_TYPE_VARCHAR), charset="binary", special="vector"),
    "UUID": _Kind(_STRING, charset="binary", special="uuid"),
    "INET6": _Kind(_STRING, charset="binary", special="inet6"),
    "INET4": _Kind(_STRING, charset="binary", special="inet4"),
    "GEOMETRY": _GEOMETRY, "POINT": _GEOMETRY, "LINESTRING": _GEOMETRY, "POLYGON": _GEOMETRY,
    "MULTIPOINT": _GEOMETRY, "MULTILINESTRING": _GEOMETRY, "MULTIPOLYGON": _GEOMETRY,
    "GEOMETRYCOLLECTION": _GEOMETRY, "GEOMCOLLECTION": _GEOMETRY,
}  # fmt: skip

_NOT_COLUMNS = {"PRIMARY", "KEY", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "CONSTRAINT",
                "FOREIGN", "CHECK", "PERIOD"}  # fmt: skip
_CHARSETS = frozenset(collation.charset for collation in COLLATIONS.values())
_CHARSET_ALIASES = {"utf8": "utf8mb3"}
_DEFAULT_DECIMAL = (10, 0)


def parse_create_table(
    sql: str, database: str | None, database_charsets: Mapping[str, str], line: int
) -> DeclaredTable | None:
    """Return the table that a statement declares; None if it lists no columns (LIKE, AS SELECT).

    `database` is the current one, for a name without a database; `database_charsets` are the
    default character sets of databases, if known. Raises UnreadableTableError.
    """
    tokens = statement_tokens(sql)
    words = [token.word for token in tokens]
    if "TABLE" not in words:  # `CREATE TABLE$x`: one word to the servers
        raise UnreadableTableError(f"{sql[:60]!r}: no word TABLE")
    at = words.index("TABLE") + 1
    if [t.word for t in tokens[at : at + 3]] == ["IF", "NOT", "EXISTS"]:
        at += 3
    database, name, at = read_name(tokens, at, database)
    if not lists_columns(tokens, at):
        return None
    return table_of(tokens, at, name, database, database_charsets.get(database or ""), line)


def lists_columns(tokens: Sequence[Token], at: int) -> bool:
    """Whether columns follow the name of a CREATE TABLE (not LIKE, or a SELECT)."""
    words = [token.word for token in tokens[at : at + 2]]
    return words[:1] == ["("] and words[1:] not in ([], ["LIKE"], ["SELECT"], ["("], ["WITH"])


def table_of(
    tokens: Sequence[Token],
    opening: int,
    name: str,
    database: str | None,
    database_charset: str | None,
    line: int = 0,
) -> DeclaredTable:
    """Return the table whose columns follow the parenthesis at `opening`.

    Raises UnreadableTableError.
    """
    end = closing(tokens, opening, name)
    items = split(tokens[opening + 1 : end])
    charset = charset_in(tokens[end + 1 :]) or database_charset
    check_count(sum(map(is_column, items)), name)
    columns: list[DeclaredColumn] = []
    key: tuple[str, ...] = ()
    periods = dict(map(_period, filter(_is_period, items)))
    for item in items:
        if is_column(item):
            columns.append(column_of(item, charset, name))
            if not key and is_key_column(item):
                key = (item[0].text,)
        else:
            key = key or primary_key_of(item, periods)
    foreign = [found for item in items if (found := foreign_key_of(item, database)) is not None]
    options = (tokens[end + 1 :], *filter(is_column, items))
    return DeclaredTable(
        database,
        name,
        tuple(columns),
        key,
        any(map(has_versions, options)),
        line,
        charset,
        foreign_keys=named_keys((), foreign, name),
    )


def has_versions(options: Sequence[Token]) -> bool:
    """Whether options of a table or of a column make the table system-versioned."""
    words = [token.word for token in options]
    found = zip(words, words[1:], words[2:], strict=False)
    return ("WITH", "SYSTEM", "VERSIONING") in found


def check_count(columns: int, table: str) -> None:
    """Raise UnreadableTableError for more columns than a table of any server has."""
    if columns > MOST_COLUMNS:
        raise UnreadableTableError(
            f"{table}: {columns:,} columns, and servers allow {MOST_COLUMNS:,}"
        )


def is_column(item: Sequence[Token]) -> bool:
    """Whether an item of a list of columns and keys is a column."""
    first, second = item[0].word, item[1].word if len(item) > 1 else ""
    if first == "PERIOD":  # not reserved: may be the name of a column
        return second != "FOR"
    if first == "VECTOR":
        return second not in ("KEY", "INDEX")
    return first not in _NOT_COLUMNS


def column_of(item: Sequence[Token], table_charset: str | None, table: str) -> DeclaredColumn:
    """Return the column that an item declares. Raises UnreadableTableError."""
    if len(item) < 2:
        raise UnreadableTableError(f"{table}: column {item[0].text} has no type")
    name = item[0].text
    word, at = _type_word(item)
    kind = _KINDS.get(word)
    if kind is None:
        raise UnreadableTableError(
            f"{table}: type {word.lower() or '(none)'} of column {name} is not known"
        )
    args, after = _arguments(item, at)
    attributes = item[after:]
    words = _attribute_words(attributes)
    length, decimals = _numbers(word, args)
    if word == "FLOAT" and len(args) == 1 and length > 24:
        kind = _KINDS["DOUBLE"]
    charset, codes = _column_charset(kind, words, table_charset), kind.type_codes
    if kind.is_text and "BYTE" in words[:1]:
        charset = "binary"
    members = _members(args, charset, name, table) if word in ("ENUM", "SET") else None
    plain = word.removeprefix("N") if word in ("NCHAR", "NVARCHAR") else word
    shown = plain.lower() + (f"({','.join(token.text for token in args)})" if args else "")
    unsigned = word == "SERIAL" or "UNSIGNED" in words or "ZEROFILL" in words
    shown += " unsigned" if unsigned else ""
    shown += " zerofill" if "ZEROFILL" in words else ""
    nullable = _may_be_null(word, words)
    return DeclaredColumn(
        name,
        shown,
        frozenset(codes),
        length,
        decimals,
        unsigned,
        charset,
        members,
        kind.special,
        generated="AS" in words,  # GENERATED ALWAYS AS (…), AS (…), AS ROW START
        nullable=nullable,
        virtual="AS" in words and not {"STORED", "PERSISTENT", "ROW"} & set(words),
        expression=_expression(attributes, table) if "AS" in words else "",
        default=default_of(attributes, shown, nullable),
        is_hidden_key="INVISIBLE" in words and lower_case(name) == ROW_ID,
    )


def attributes_of(item: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens behind the type in the definition of a column."""
    _, at = _type_word(item)
    _, after = _arguments(item, at)
    return item[after:]


def _members(
    args: Sequence[Token], charset: str | None, column: str, table: str
) -> tuple[str, ...]:
    """Return the members of an ENUM or SET. Servers delete spaces at their ends, except in a binary column."""
    if any(token.kind != "string" for token in args):
        raise UnreadableTableError(f"{table}: a member of column {column} is not a quoted text")
    if charset == "binary":
        return tuple(token.text for token in args)
    return tuple(token.text.rstrip(" ") for token in args)


def _expression(attributes: Sequence[Token], table: str) -> str:
    """Return the text after AS: an expression in parentheses, ROW START, ROW END."""
    for at, token in outer(attributes):
        if token.word == "AS":
            rest = attributes[at + 1 :]
            if rest[:1] and rest[0].word == "(":
                return source_text(rest[: closing(rest, 0, table) + 1])
            return source_text(rest[:2])
    return ""


def _may_be_null(kind: str, words: list[str]) -> bool | None:
    """Return whether a column's attributes allow NULL; None if they do not determine it."""
    if kind == "SERIAL" or "PRIMARY" in words or "AUTO_INCREMENT" in words:
        return False
    for before, word in pairwise(["", *words]):
        if word == "NULL" and before != "SET":  # ON DELETE SET NULL
            return before != "NOT"
    return None


def _type_word(item: Sequence[Token]) -> tuple[str, int]:
    """Return the type's name in the spelling of `_KINDS`, and the place after it."""
    words = [token.word for token in item[1:5]]
    words += [""] * (4 - len(words))
    if words[0] == "NATIONAL":
        varying = words[1] in ("VARCHAR", "VARCHARACTER") or words[2] == "VARYING"
        return ("NVARCHAR" if varying else "NCHAR"), 3 + (words[2] == "VARYING")
    if words[0] in ("CHAR", "CHARACTER", "NCHAR") and words[1] in ("VARYING", "VARCHAR"):
        return ("NVARCHAR" if words[0] == "NCHAR" else "VARCHAR"), 3
    if words[0] == "LONG":
        return ("MEDIUMBLOB" if words[1] == "VARBINARY" else "LONG"), 2 + words[1].startswith("VAR")
    return words[0], 2 + (words[:2] == ["DOUBLE", "PRECISION"])


def _attribute_words(tokens: Sequence[Token]) -> list[str]:
    """Words outside parentheses, and quoted names of character sets and collations."""
    words: list[str] = []
    for _, token in outer(tokens):
        if token.word or words[-1:] in (["SET"], ["CHARSET"], ["COLLATE"]):
            words.append(token.text.upper())
    return words


def _arguments(item: Sequence[Token], at: int) -> tuple[Sequence[Token], int]:
    if at >= len(item) or item[at].word != "(":
        return [], at
    end = next((i for i in range(at, len(item)) if item[i].word == ")"), len(item))
    return [token for token in item[at + 1 : end] if token.word != ","], end + 1


def _numbers(word: str, args: Sequence[Token]) -> tuple[int, int]:
    """Return length or precision, and decimals or fractional digits."""
    values = [int(token.text[:9]) for token in args if token.word.isdecimal()]
    if word in ("DECIMAL", "DEC", "NUMERIC", "FIXED"):
        return (values[0], values[1] if len(values) > 1 else 0) if values else _DEFAULT_DECIMAL
    if word in ("TIME", "DATETIME", "TIMESTAMP"):
        return 0, values[0] if values else 0
    if word == "BIT":
        return (values[0] if values else 1), 0
    return (values[0] if values else 0), 0


def _column_charset(kind: _Kind, words: list[str], table_charset: str | None) -> str | None:
    if not kind.is_text:
        return kind.charset
    return _charset_of_words(words) or table_charset


def charset_in(tokens: Sequence[Token]) -> str | None:
    """Return the character set in the options of a table or database, or of their collation."""
    return _charset_of_words(
        [t.text.upper() if t.kind != "string" else t.text for t in tokens if t.word != "="]
    )


def _charset_of_words(words: list[str]) -> str | None:
    """Return the set from CHARACTER SET, CHARSET, ASCII, UNICODE, else from the collation's name."""
    padded = [*words, ""]
    for i, word in enumerate(words):
        if word == "CHARSET" or (word == "SET" and i and words[i - 1] in ("CHARACTER", "CHAR")):
            return _CHARSET_ALIASES.get(padded[i + 1].lower(), padded[i + 1].lower()) or None
    for i, word in enumerate(words):
        if word == "COLLATE":
            name = padded[i + 1].lower().partition("_")[0]
            name = _CHARSET_ALIASES.get(name, name)
            return name if name in _CHARSETS else None  # MariaDB's uca1400_ai_ci is of any
    if words[:1] == ["ASCII"]:
        return "latin1"  # the server's meaning of this old attribute
    return "ucs2" if words[:1] == ["UNICODE"] else None


def is_key_column(item: Sequence[Token]) -> bool:
    """Whether a column is declared to be the primary key."""
    words = outer_words(item[2:])
    return any(
        word == "KEY" and (words[i - 1] if i else "") not in ("UNIQUE", "FOREIGN")
        for i, word in enumerate(words)
    )


def primary_key_of(
    item: Sequence[Token], periods: Mapping[str, tuple[str, str]]
) -> tuple[str, ...]:
    """Return the columns of the primary key that an item declares; () if it declares something
    else.

    A key with WITHOUT OVERLAPS ends with a period of the table. `periods` are the columns of each, by its name in
    lower case; () if it is not among them.
    """
    words = [token.word for token in item]
    if "PRIMARY" not in words:
        return ()
    opening = words.index("(") if "(" in words else len(words)
    inner = item[opening + 1 : -1] if words[-1:] == [")"] else item[opening + 1 :]
    key: list[str] = []
    for part in split(inner):
        if [token.word for token in part[1:3]] == ["WITHOUT", "OVERLAPS"]:
            if (columns := periods.get(part[0].text.lower())) is None:
                return ()
            key += reversed(columns)  # as the server orders them
        elif part[0].word != ")":
            key.append(part[0].text)
    return tuple(key)


def _is_period(item: Sequence[Token]) -> bool:
    """Whether an item of a list of columns and keys declares a period: PERIOD FOR name (start, end)."""
    words = [token.word for token in item]
    return words[:2] == ["PERIOD", "FOR"] and words[3:4] == ["("] and words[5::2] == [",", ")"]


def _period(item: Sequence[Token]) -> tuple[str, tuple[str, str]]:
    """Return the name of a period in lower case, and its columns."""
    return item[2].text.lower(), (item[4].text, item[6].text)
