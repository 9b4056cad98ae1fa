"""The effect of a DDL statement on one table, as far as its text determines it: whether it concerns the table, and the new columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from binlake.errors import UnsupportedError
from binlake.format.charsets import BINARY
from binlake.format.flags import (
    MARIADB_SQL_MODES,
    MODE_MAXDB,
    MODE_ORACLE,
    MODE_REAL_AS_FLOAT,
    flag_names,
)
from binlake.format.sql_names import END, NAME, lower_name, unquoted_name
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import (
    changed_tables,
    dropped_database,
    may_change,
    renamed_tables,
)
from binlake.table.schema.alter import (
    OPTIONS,
    altered_definitions,
    dropped_columns,
    redefined_columns,
)
from binlake.table.schema.catalogue import Catalogue
from binlake.table.schema.ddl import apply_ddl
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.declared import DeclaredColumn, DeclaredTable
from binlake.table.schema.new_columns import with_certain_default
from binlake.table.schema.sql_tokens import Token, UnreadableTableError, closing, statement_tokens
from binlake.values.charset_text import lower_case

#: The reason why a statement that adds such a foreign key is refused.
CASCADES = "a foreign key is added that changes rows"
_TEMPORARY = re.compile(r"\s*(?:CREATE|DROP)\s+(?:/\*!?\d*\s*)?TEMPORARY\b", re.IGNORECASE)
_TRUNCATE = re.compile(r"\s*TRUNCATE\b", re.IGNORECASE)
_INDEX = re.compile(r"\s*(?:CREATE|DROP)\s+(?:OR\s+REPLACE\s+)?(?:\w+\s+)?INDEX\b", re.IGNORECASE)
_DROPS_KEY = re.compile(
    r"\s*DROP\s+(?:ONLINE\s+|OFFLINE\s+)?INDEX\s+(?:IF\s+EXISTS\s+)?[`\"]PRIMARY[`\"]",
    re.IGNORECASE,
)
_ADDS_INDEX = re.compile(r"\s*CREATE\s+(?!OR\b)(?:\w+\s+)?INDEX\b", re.IGNORECASE)
_ALTER = re.compile(r"\s*ALTER\s+(?:ONLINE\s+)?(?P<ignore>IGNORE\s+)?TABLE\b", re.IGNORECASE)
# These switch the updates of indexes of MyISAM off and on.
_SWITCHES_KEYS = re.compile(
    rf"\s*ALTER\s+TABLE\s+(?:{NAME}\s*\.\s*)?{NAME}\s+(?:DISABLE|ENABLE)\s+KEYS{END}",
    re.IGNORECASE,
)
_ALTERED = re.compile(
    rf"\s*ALTER\s+(?:ONLINE\s+)?(?:IGNORE\s+)?TABLE\s+(?:IF\s+EXISTS\s+)?(?:(?P<database>{NAME})\s*\.\s*)?(?P<table>{NAME})\s",
    re.IGNORECASE,
)
_WITH_OTHERS = re.compile(r"\b(?:EXCHANGE|CONVERT\s+(?:PARTITION|TABLE))\b", re.IGNORECASE)
_CREATE = re.compile(r"\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?TABLE\b", re.IGNORECASE)
_CREATE_IF_NEW = re.compile(r"\s*CREATE\s+TABLE\s+IF\s+NOT\s+EXISTS\b", re.IGNORECASE)
_DROP = re.compile(
    r"\s*(?:DROP\s+TABLES?|(?:DROP|CREATE\s+OR\s+REPLACE)\s+(?:DATABASE|SCHEMA))\b", re.IGNORECASE
)
# changes of rows that no row event shows
_MOVES_PARTITIONS = re.compile(
    r"\b(?:(?:TRUNCATE|DROP|EXCHANGE)\s+(?:PARTITION|SUBPARTITION)|CONVERT\s+(?:PARTITION|TABLE))\b",
    re.IGNORECASE,
)
_MOVES_TABLESPACE = re.compile(
    r"\b(?:IMPORT|DISCARD)\s+(?:PARTITION|SUBPARTITION|TABLESPACE)\b", re.IGNORECASE
)
_BRINGS_ROWS = re.compile(
    r"\b(?:EXCHANGE\s+(?:PARTITION|SUBPARTITION)|CONVERT\s+TABLE|IMPORT\s+(?:PARTITION|SUBPARTITION|TABLESPACE))\b",
    re.IGNORECASE,
)
_RENAME_TABLE = re.compile(
    r"(?:^\s*RENAME\s+TABLE|\bRENAME\s+(?:TO\b|AS\b|=|(?!COLUMN\b|INDEX\b|KEY\b)[`\w]))",
    re.IGNORECASE,
)
_ADDED_BESIDE_COLUMNS = {"INDEX", "KEY", "FULLTEXT", "SPATIAL", "UNIQUE", "PARTITION"}
_OF_NO_COLUMN = {"ALGORITHM", "AUTO_INCREMENT", "COMMENT", "LOCK", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES"}  # fmt: skip
_LONGEST_OPTION = 3  # its name, = and a value; more may be another option behind it
# Types that mean another one with a value of sql_mode.
_MEANT = {
    "DATE": (MODE_ORACLE, "DATETIME"),
    "TIMESTAMP": (MODE_MAXDB, "DATETIME"),
    "REAL": (MODE_REAL_AS_FLOAT, "FLOAT"),
}
# A quote without an end is only one with sql_mode NO_BACKSLASH_ESCAPES, so clauses may follow it. To search for the end of
# each later quote would be quadratic.
_QUOTED = re.compile(
    r"'(?:[^'\\]|\\.|'')*+'|\"(?:[^\"\\]|\\.|\"\")*+\"|`[^`]*+`|(?P<unclosed>['\"`].*)", re.DOTALL
)


def concerns(ddl: DdlStatement, database: str, table: str) -> bool:
    """Whether a statement may be about a table. One that is not recognised is, if it names it."""
    return not _TEMPORARY.match(ddl.sql) and may_change(ddl, database, table)


def spells_another(ddl: DdlStatement, database: str, table: str) -> bool:
    """Whether a statement that `concerns` a table is about other tables only, on a server that distinguishes names by case."""
    if (dropped := dropped_database(ddl)) is not None:
        return dropped != database
    changed = changed_tables(ddl)
    return changed is not None and (database, table) not in changed


def alters_another(ddl: DdlStatement, database: str, table: str) -> bool:
    """Whether a statement that names a table is certainly an ALTER of another one, and leaves the rows and the name of this
    one: a server refuses to rename a table to a name that exists. The statement has no comments.
    """
    found = _ALTERED.match(ddl.sql)
    if found is None or _WITH_OTHERS.search(ddl.sql):
        return False
    altered = (
        unquoted_name(found["database"]) if found["database"] else ddl.database,
        unquoted_name(found["table"]),
    )
    return lower_name(altered) != lower_name((database, table))


def concerns_certainly(ddl: DdlStatement) -> bool:
    """Whether a statement of which `concerns` is true is certainly about that table."""
    return dropped_database(ddl) is not None or changed_tables(ddl) is not None


def truncates(sql: str) -> bool:
    """Whether a statement empties its table."""
    return _TRUNCATE.match(sql) is not None


def creates(sql: str) -> bool:
    """Whether a statement creates its table, or replaces it."""
    return _CREATE.match(sql) is not None


def creates_if_new(sql: str) -> bool:
    """Whether a statement creates its table only if there is none of this name."""
    return _CREATE_IF_NEW.match(sql) is not None


def creates_another(ddl: DdlStatement) -> bool:
    """Whether a statement creates a table, and surely none that exists. It may name others: in foreign keys, in a query."""
    creates_new = creates(ddl.sql) and not replaces(ddl.sql) and not concerns_certainly(ddl)
    return creates_if_new(ddl.sql) or creates_new


def replaces(sql: str) -> bool:
    """Whether a statement drops its table, if there is one, and creates it."""
    found = _CREATE.match(sql)
    return found is not None and found["replace"] is not None


def drops(sql: str) -> bool:
    """Whether a statement drops its tables, or drops or replaces a database."""
    return _DROP.match(sql) is not None


def adds_index(sql: str) -> bool:
    """Whether a statement creates an index and drops none."""
    return _ADDS_INDEX.match(sql) is not None


def changes_index(sql: str) -> bool:
    """Whether a statement creates or drops an index that is not the primary key."""
    return _INDEX.match(sql) is not None and not drops_primary_key(sql)


def drops_primary_key(sql: str) -> bool:
    """Whether a statement other than ALTER TABLE drops the primary key of its table."""
    return _DROPS_KEY.match(sql) is not None


def switches_keys(sql: str) -> bool:
    """Whether a statement disables the indexes of a table, or enables them. Dumps contain such statements."""
    return _SWITCHES_KEYS.fullmatch(sql) is not None


def changes_no_column(ddl: DdlStatement) -> bool:
    """Whether a statement surely leaves the columns of tables as they are."""
    is_of_indexes = changes_index(ddl.sql) or switches_keys(ddl.sql)
    return is_of_indexes or truncates(ddl.sql) or creates_another(ddl)


def _is_of_no_column(item: Sequence[Token]) -> bool:
    """Whether an item of ALTER TABLE surely concerns neither columns nor rows: indexes, partitions that are added, and some options."""
    words = [token.word for token in item[:3]]
    if words[0] == "ADD":
        return len(words) > 1 and words[1] in _ADDED_BESIDE_COLUMNS
    if words[0] == "DROP":
        return (
            len(words) > 2
            and words[1] in ("INDEX", "KEY")
            and words[2] != "PRIMARY"
            and item[2].text.upper() != "PRIMARY"
        )
    return words[0] in _OF_NO_COLUMN and len(item) <= _LONGEST_OPTION


def alters_no_column(ddl: DdlStatement) -> bool:
    """Whether a statement is an ALTER TABLE that surely changes no column and no row: of indexes, added partitions and some options."""
    altered = _ALTER.match(ddl.sql)
    if altered is None or altered["ignore"]:  # it may remove rows
        return False
    try:
        items = items_of(ddl)
    except UnsupportedError:
        return False
    return bool(items) and all(map(_is_of_no_column, items))


def why_not_followed(sql: str) -> str:
    """Return the reason why a statement is not an ALTER TABLE, or a `DROP INDEX` of the primary key, whose effect follows from its
    text, or "".
    """
    if drops_primary_key(sql):
        return ""
    if (altered := _ALTER.match(sql)) is None:
        return "the statement replaces, renames or drops it"
    if altered["ignore"]:
        return "the option IGNORE may remove rows without row events"
    text = _without_strings(sql)
    if _MOVES_PARTITIONS.search(text) or _MOVES_TABLESPACE.search(text):
        return "rows come or go without row events"
    return "the table is renamed" if _RENAME_TABLE.search(text) else ""


def new_engine(items: Sequence[Sequence[Token]]) -> str:
    """Return the name of the engine that the items give the table, as written; "" if they give it none."""
    engine = ""
    for item in items:
        depth = 0
        for at, token in enumerate(item):
            depth += (token.word == "(") - (token.word == ")")
            rest = item[at + 1 :]
            if depth or token.word not in ("ENGINE", "TYPE") or not rest:
                continue  # partitions have engines, too, in parentheses
            if rest[0].word == "=":
                engine = rest[1].text if len(rest) > 1 else engine
            elif at == 0 or item[0].word in OPTIONS:  # else it may be the name of a column
                engine = rest[0].text
    return engine


def moves_partitions(sql: str) -> bool:
    """Whether an ALTER TABLE removes or exchanges the rows of partitions, which no row event shows."""
    return bool(_ALTER.match(sql) and _MOVES_PARTITIONS.search(_without_strings(sql)))


def brings_rows(sql: str) -> bool:
    """Whether an ALTER TABLE may give a table rows of another one, or of a file, which no row event shows."""
    return bool(_ALTER.match(sql) and _BRINGS_ROWS.search(_without_strings(sql)))


def new_name(ddl: DdlStatement, database: str, table: str) -> tuple[str, str] | None:
    """The new database and name of a table that a statement renames; None if it certainly renames others only, or
    none. Raises UnsupportedError if the text does not determine it.
    """
    renamed = renamed_tables(ddl)
    if renamed is None:
        if _RENAME_TABLE.search(_without_strings(ddl.sql)):
            raise UnsupportedError("it is not certain which tables the statement renames")
        return None
    if (name := renamed.get((database, table))) is not None:
        return name
    return next((new for old, new in renamed.items() if _same(old, (database, table))), None)


def altered_table(ddl: DdlStatement, table: tuple[str, str], old: DeclaredTable) -> DeclaredTable:
    """Return the table of this name after an ALTER TABLE. Raises UnsupportedError for one that is not understood."""
    catalogue = Catalogue(lambda *name: old if _same(name, table) else None)
    catalogue.follows_defaults = True
    apply_ddl(catalogue, ddl)
    new = catalogue.entry(table)
    if new is None:
        spelled = [name for name in catalogue.changed if _same(name, table)]
        new = catalogue.entry(spelled[0]) if spelled else None
    if new is None:
        return old
    if not new.columns:
        raise UnsupportedError(new.missing or "the statement is not understood")
    kept = {id(column) for column in old.columns}
    columns = (c if id(c) in kept else with_certain_default(ddl, c) for c in new.columns)
    return replace(new, columns=tuple(columns))


def check_foreign_keys(new: DeclaredTable, old: DeclaredTable) -> None:
    """Raise UnsupportedError for a new foreign key that changes rows, which not every server logs."""
    if adds_cascades(new, old):
        raise UnsupportedError(CASCADES)


def adds_cascades(new: DeclaredTable, old: DeclaredTable) -> bool:
    """Whether a table gets a foreign key that changes rows, which not every server logs."""
    return any(key.actions for key in set(new.foreign_keys) - set(old.foreign_keys))


def created_table(ddl: DdlStatement, table: tuple[str, str]) -> DeclaredTable:
    """Return the table that a CREATE TABLE makes. Raises UnsupportedError for one that is not understood."""
    catalogue = Catalogue(lambda *_name: None)
    apply_ddl(catalogue, ddl)
    made = [
        entry
        for name in catalogue.changed
        if _same(name, table) and (entry := catalogue.entry(name))
    ]
    if not made or not made[0].columns:
        why = made[0].missing if made else ""
        raise UnsupportedError(why or "its columns are not in the text of the statement")
    return made[0]


def _same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return [part.lower() for part in one] == [part.lower() for part in other]


def why_values_may_change(old: DeclaredColumn, new: DeclaredColumn) -> str | None:
    """Return the reason why existing values may change, or None."""
    what = f"column {new.name} changes from {old.sql} to {new.sql}"
    if old.generated and new.generated and not _is_same_expression(old, new):
        return (
            f"the expression of column {new.name} changes from {old.expression} to {new.expression},"
            " and the server computes its values again"
        )
    kinds = [
        _kind(column).removesuffix(" zerofill") for column in (old, new)
    ]  # ZEROFILL changes the text of a number only
    if kinds[0] == kinds[1] and (old.charset, old.members, old.unsigned, old.generated) == (
        new.charset, new.members, new.unsigned, new.generated
    ):  # fmt: skip
        return None
    if (old.generated, old.special) != (new.generated, new.special):
        return what
    families = [_family(old), _family(new)]
    if families[0] is None or families[0] != families[1]:
        return what
    if old.members is not None or new.members is not None:
        grown = (new.members or ())[: len(old.members or ())]
        return None if old.sql[:3] == new.sql[:3] and grown == old.members else what
    if families[0] == "integer":
        return (
            None
            if old.unsigned == new.unsigned and _SIZES[_word(old)] <= _SIZES[_word(new)]
            else what
        )
    if families[0] in ("varchar", "varbinary"):
        return None if old.charset == new.charset and old.length <= new.length else what
    if families[0] == "text":
        same = old.charset == new.charset
        return None if same and _TEXTS[_word(old)] <= _TEXTS[_word(new)] else what
    if families[0] == "decimal":
        fits = old.decimals == new.decimals and old.length <= new.length
        return None if fits and old.unsigned == new.unsigned else what
    return what


def why_computed_again(ddl: DdlStatement, old: DeclaredTable) -> str | None:
    """Return the reason why the server may compute values of generated columns again, or None: a text column that they use may get
    another collation. Definitions have no collations here.
    """
    items = items_of(ddl)
    texts = {c.lower_name for c in old.columns if c.charset not in (None, BINARY)}
    changed = texts if _converts_charset(items) else texts & redefined_columns(items)
    for column in old.columns:
        used = changed & _names_in(column.expression) if column.generated else ()
        if used:
            return (
                f"column {min(used)} may get another collation, and then the server computes the values of column"
                f" {column.name} again"
            )
    return None


def _converts_charset(items: Sequence[Sequence[Token]]) -> bool:
    """Whether the items convert all text columns to a character set, or to another collation of theirs."""
    return any(item[0].word == "CONVERT" for item in items)


def why_other_type(ddl: DdlStatement) -> str | None:
    """Return the reason why a column that an ALTER TABLE defines has another type than its text names, or None: a type means another
    one with some values of sql_mode. Raises UnsupportedError.
    """
    try:
        definitions = altered_definitions(items_of(ddl), "")
    except UnreadableTableError as error:
        raise UnsupportedError(f"the statement cannot be read: {error}") from None
    for name, kind, *_ in definitions:
        mode, meant = _MEANT.get(kind.word, (0, ""))
        # only MariaDB has other types with the mode ORACLE
        if ddl.sql_mode & mode and (mode != MODE_ORACLE or ddl.flavour != "mysql"):
            [mode_name] = flag_names(MARIADB_SQL_MODES, mode)
            return f"{kind.word} of column {name.text} means {meant} with the sql_mode {mode_name}"
    return None


def computed_from(name: str, columns: Sequence[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return the generated columns that use a column, directly or through other generated columns."""
    found: dict[str, DeclaredColumn] = {}
    names = {lower_case(name)}
    generated = [column for column in columns if column.generated]
    while more := [
        column
        for column in generated
        if column.lower_name not in found and names & _names_in(column.expression)
    ]:
        found |= {column.lower_name: column for column in more}
        names |= found.keys()
    return tuple(found.values())


def why_text_may_change(old: DeclaredColumn, new: DeclaredColumn) -> str | None:
    """Return the reason why expressions may use another text of a number, whose value stays, or None: ZEROFILL fills it up to the
    width of its type.
    """
    if _kind(old) != _kind(new) and any(column.sql.endswith(" zerofill") for column in (old, new)):
        return f"column {new.name} changes from {old.sql} to {new.sql}"
    return None


def _is_same_expression(old: DeclaredColumn, new: DeclaredColumn) -> bool:
    """Whether two generated columns certainly have the same values. Servers write an expression in their own way."""
    return _expression_words(old.expression) == _expression_words(new.expression)


def _names_in(expression: str) -> set[str]:
    """The words of an expression that may be columns: neither quoted texts nor functions."""
    words = _expression_words(expression)
    following = [word for word, _ in words[1:]] + [""]
    pairs = zip(words, following, strict=True) if words else ()
    return {word for (word, is_text), after in pairs if not is_text and after != "("}


def _expression_words(text: str) -> list[tuple[str, bool]]:
    """The words and signs of an expression, and whether each is a quoted text. The case of others has no meaning."""
    tokens = statement_tokens(text)
    while tokens and tokens[0].word == "(" and closing(tokens, 0, text) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return [
        (token.text if token.kind == "string" else token.text.lower(), token.kind == "string")
        for token in tokens
    ]


_SIZES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_TEXTS = {
    size + kind: number
    for number, size in enumerate(("tiny", "", "medium", "long"), 1)
    for kind in ("text", "blob")
}


_SYNONYMS = {
    "bool": "tinyint", "boolean": "tinyint", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint",
    "int4": "int", "integer": "int", "int8": "bigint", "dec": "decimal", "numeric": "decimal", "fixed": "decimal",
    "float4": "float", "float8": "double", "real": "double", "character": "char", "varcharacter": "varchar", "long": "mediumtext",
    "geomcollection": "geometrycollection",
}  # fmt: skip
#: The lengths that a type has by default, and the one that it has without parentheses.
_DEFAULT_LENGTHS = {
    "char": ("(1)", "(1)"), "binary": ("(1)", "(1)"), "bit": ("(1)", "(1)"), "decimal": ("(10)", "(10,0)"), "year": ("(4)", ""),
    "datetime": ("(0)", ""), "timestamp": ("(0)", ""), "time": ("(0)", ""),
}  # fmt: skip
_TYPE = re.compile(r"(?P<word>\w+)(?P<length>\([\d,]+\))?(?P<rest>.*)", re.DOTALL)


def _kind(column: DeclaredColumn) -> str:
    """The type as SHOW CREATE TABLE prints it, without synonyms and default lengths."""
    found = _TYPE.match(column.sql)
    if found is None:
        return column.sql
    word, length = found["word"], found["length"] or ""
    word = _SYNONYMS.get(word, word)
    if word == "float" and length[1:-1].isdecimal():  # a number of bits
        word, length = ("double" if int(length[1:-1]) > 24 else "float"), ""
    short, default = _DEFAULT_LENGTHS.get(word, ("", ""))
    if length in ("", short):
        length = default
    elif word == "decimal" and "," not in length:
        length = f"{length[:-1]},0)"
    return f"{word}{length}{found['rest']}"


def _word(column: DeclaredColumn) -> str:
    return re.split(r"\W", _kind(column), maxsplit=1)[0]


def _family(column: DeclaredColumn) -> str | None:
    """Types whose values stay unchanged when the type is extended."""
    word = _word(column)
    if word in _SIZES:
        return "integer"
    if word in _TEXTS:
        return "text"
    if word in ("varchar", "varbinary", "decimal", "enum", "set"):
        return word
    return None


def retaken_names(ddl: DdlStatement, old: DeclaredTable, new: DeclaredTable) -> list[str]:
    """Return the names of columns that an ALTER TABLE drops and gives to others. Raises UnsupportedError."""
    gone = dropped_columns(items_of(ddl)) & {column.lower_name for column in old.columns}
    return [column.name for column in new.columns if column.lower_name in gone]


def check_retaken_names(ddl: DdlStatement, old: DeclaredTable, new: DeclaredTable) -> None:
    """Raise UnsupportedError for a name that one column leaves to another: values are followed by name."""
    if taken := retaken_names(ddl, old, new):
        raise UnsupportedError(f"column {taken[0]} is dropped, and another one gets its name")


def _without_strings(sql: str) -> str:
    """The statement with "x" for each quoted text and name. The text after a quote without an end stays as it is."""
    return _QUOTED.sub(lambda found: "x" if found["unclosed"] is None else found[0], sql)
