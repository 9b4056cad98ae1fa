"""Apply an ALTER TABLE to a table's columns, key and character sets.

Everything else that it may do (indexes, partitions, engines, constraints …) concerns no row image
and is skipped by its first words. Anything else is an error.

The order of the server's steps (MySQL sql/sql_table.cc, mysql_prepare_alter_table; MariaDB the
same): first it drops, changes and renames old columns by their old names, at their places. Then it
inserts the others, new ones and those with a place, in the order of the statement.

One module, although it is long: the steps share the columns of the table that they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from binlake.table.schema.create_table import (
    charset_in,
    check_count,
    column_of,
    has_versions,
    is_column,
    is_key_column,
    primary_key_of,
)
from binlake.table.schema.declared import ROW_ID, DeclaredColumn, DeclaredTable, ForeignKey
from binlake.table.schema.defaults import Unknown, altered_default
from binlake.table.schema.foreign_keys import foreign_key_of, named_keys
from binlake.table.schema.sql_tokens import (
    Token,
    UnreadableTableError,
    closing,
    outer,
    outer_words,
    split,
)
from binlake.table.types.registry import STRING_TYPES
from binlake.values.charset_text import lower_case

# First words of items that concern no column. Items about partitions come last or alone, and may contain lists.
_PARTITIONS = {"PARTITION", "TRUNCATE", "REORGANIZE", "REBUILD", "ANALYZE", "CHECK", "OPTIMIZE", "REPAIR", "DISCARD",
               "IMPORT", "COALESCE", "EXCHANGE", "REMOVE", "UPGRADE"}  # fmt: skip
_OPTIONS = {"ENGINE", "TYPE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "TABLE_CHECKSUM", "PAGE_CHECKSUM",
            "COMMENT", "CONNECTION", "COMPRESSION", "DATA", "INDEX", "DELAY_KEY_WRITE", "ENCRYPTION", "ENCRYPTED",
            "ENCRYPTION_KEY_ID", "INSERT_METHOD", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS",
            "PASSWORD", "ROW_FORMAT", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES",
            "TABLESPACE", "TRANSACTIONAL", "UNION", "IETF_QUOTES", "SECONDARY_ENGINE", "AUTOEXTEND_SIZE",
            "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL",
            "SEQUENCE", "WITH", "STORAGE", "NODEGROUP", "START"}  # fmt: skip
_INERT = {"ALGORITHM", "CONVERT", "LOCK", "FORCE", "ENABLE", "DISABLE", "WITHOUT", "NOWAIT", "WAIT",
          "SECONDARY_LOAD", "SECONDARY_UNLOAD"}  # fmt: skip
_CHARSET_WORDS = {"DEFAULT", "CHARACTER", "CHARSET", "COLLATE"}
#: The first words of options of the table. Others may follow, separated by spaces.
OPTIONS = _OPTIONS | _CHARSET_WORDS
_UNRELATED = OPTIONS | _INERT
_KEYS = {"INDEX", "KEY", "FOREIGN", "CHECK", "CONSTRAINT", "PARTITION", "PERIOD", "SYSTEM"}


@dataclass
class _Placed:
    """A column to insert: at the end, first, or after another."""

    column: DeclaredColumn
    after: str | None = None
    first: bool = False


@dataclass
class _Work:
    """The table while its statement is read. Names for lookups are in lower case."""

    table: DeclaredTable
    charset: str | None
    versioned: bool
    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    changed: dict[str, DeclaredColumn] = field(default_factory=dict)  # by their old names
    defined: set[str] = field(default_factory=set)  # the names of added and changed columns
    put_in: list[_Placed] = field(default_factory=list)  # new columns, and changed ones that move
    key: tuple[str, ...] | None = None  # a new one; () for none
    converted: str | None = None
    # what follows the names in ALTER COLUMN
    defaults: dict[str, Sequence[Token]] = field(default_factory=dict)
    # whether the names in ALTER COLUMN … SET are INVISIBLE
    invisible: dict[str, bool] = field(default_factory=dict)
    foreign_dropped: set[str] = field(default_factory=set)
    foreign_added: list[ForeignKey] = field(default_factory=list)
    names: frozenset[str] | None = None  # of the table's columns, in lower case, once one is wanted

    def has(self, name: str) -> bool:
        if self.names is None:
            self.names = _lower_names(self.table.columns)
        return lower_case(name) in self.names

    def keeps(self, name: str) -> bool:
        """Whether a column has a name that the statement has not changed so far."""
        return self.has(name) and lower_case(name) not in self.dropped | self.renamed.keys()

    def need(self, name: str) -> None:
        if not self.has(name):
            raise UnreadableTableError(f"there is no column {name}")


def renamed_columns(items: Sequence[Sequence[Token]]) -> list[tuple[str, str]]:
    """Return old and new name of each column that the items rename, for any table."""
    renamed = []
    for item in items:
        words = [token.word for token in item]
        pair: Sequence[Token] = ()
        if words[:2] == ["RENAME", "COLUMN"]:
            rest = item[2:]
            rest = rest[2:] if words[2:4] == ["IF", "EXISTS"] else rest
            pair = (rest[0], rest[2]) if len(rest) == 3 else ()
        elif words[:1] == ["CHANGE"] and len(item) > 3:
            pair = _after_column_word(item)[0][:2]
        if len(pair) == 2 and lower_case(pair[0].text) != lower_case(pair[1].text):
            renamed.append((pair[0].text, pair[1].text))
    return renamed


def dropped_columns(items: Sequence[Sequence[Token]]) -> set[str]:
    """Return the names, in lower case, of the columns that the items drop if the table has them."""
    dropped = set()
    for item in items:
        at = _dropped_at(item) if item[0].word == "DROP" else None
        if at is not None and at < len(item):
            dropped.add(lower_case(item[at].text))
    return dropped


def altered_columns(items: Sequence[Sequence[Token]], table: str) -> list[DeclaredColumn]:
    """Return the columns that the items add or redefine, for a table whose other columns are
    unknown.

    Raises UnreadableTableError.
    """
    return [column_of(part, None, table) for part in altered_definitions(items, table)]


def altered_definitions(items: Sequence[Sequence[Token]], table: str) -> list[Sequence[Token]]:
    """Return the definitions of the columns that the items add or redefine. Raises UnreadableTableError."""
    found = added_definitions(items, table)
    for word, rest in _redefinitions(items):
        found += _definitions([rest[word == "CHANGE" :]])
    return found


def redefined_columns(items: Sequence[Sequence[Token]]) -> set[str]:
    """Return the names, in lower case, of the columns that MODIFY or CHANGE defines again."""
    return {lower_case(rest[0].text) for _, rest in _redefinitions(items)}


def numbered_columns(items: Sequence[Sequence[Token]]) -> set[str]:
    """Return the names, in lower case, of the columns that the items redefine as AUTO_INCREMENT."""
    numbered = set()
    for word, rest in _redefinitions(items):
        name, *definition = rest[word == "CHANGE" :]
        if {"AUTO_INCREMENT", "SERIAL"} & set(outer_words(definition)):
            numbered.add(lower_case(name.text))
    return numbered


def _redefinitions(items: Sequence[Sequence[Token]]) -> Iterator[tuple[str, Sequence[Token]]]:
    """MODIFY or CHANGE, and the rest of the item from the column's name on."""
    for item in items:
        if item[0].word in ("MODIFY", "CHANGE"):
            yield item[0].word, _after_column_word(item)[0]


def added_definitions(items: Sequence[Sequence[Token]], table: str) -> list[Sequence[Token]]:
    """Return the definitions of the columns that the items add. Raises UnreadableTableError."""
    return [part for item in items for part in _added(item, table)]


def _added(item: Sequence[Token], table: str) -> list[Sequence[Token]]:
    if item[0].word != "ADD":
        return []
    rest = item[1 + (len(item) > 1 and item[1].word == "COLUMN") :]
    rest = rest[3:] if [t.word for t in rest[:3]] == ["IF", "NOT", "EXISTS"] else rest
    in_list = rest[:1] and rest[0].word == "("
    return _definitions(split(rest[1 : closing(rest, 0, table)]) if in_list else [rest])


def _definitions(parts: Sequence[Sequence[Token]]) -> list[Sequence[Token]]:
    """Return the parts that define columns, not keys or SYSTEM VERSIONING."""
    return [
        part
        for part in parts
        if len(part) > 1
        and is_column(part)
        and part[0].word != "PARTITION"
        and [token.word for token in part[:2]] != ["SYSTEM", "VERSIONING"]
    ]


def alter_table(
    table: DeclaredTable, items: Sequence[Sequence[Token]], database_charset: str | None
) -> DeclaredTable:
    """Return the table after the items of an ALTER TABLE. Raises UnreadableTableError."""
    work = _Work(table, table.charset, table.system_versioned)
    _read_charsets(work, items, database_charset)
    ordered = False  # ORDER BY a, b: further names stand alone
    for item in items:
        first = item[0].word
        if first in _PARTITIONS:
            break
        if first in _ACTIONS:
            if _ACTIONS[first](work, item):
                break
        elif first == "ORDER":
            ordered = True
        elif first in OPTIONS and has_versions(item):
            work.versioned = True
        elif first not in _UNRELATED and not (ordered and len(item) <= 2):
            raise UnreadableTableError(f"{item[0].text} … is not understood")
    return _done(work)


def _read_charsets(
    work: _Work, items: Sequence[Sequence[Token]], database_charset: str | None
) -> None:
    """Read the character sets that a statement gives the table. They are also those of columns that the statement defines
    before them: `ADD c CHAR(1), CHARSET = utf8mb4`.
    """
    for item in items:
        first = item[0].word
        if first in _PARTITIONS:
            break
        if first == "CONVERT" and item[1:] and item[1].word == "TO":
            work.converted = work.charset = _named_charset(item, database_charset)
        elif first in OPTIONS and charset_in(item) is not None:
            work.charset = _named_charset(item, database_charset)


def _named_charset(item: Sequence[Token], default: str | None) -> str:
    """Return the character set that an item names; DEFAULT means the character set of the database."""
    named = charset_in(item)
    if named == "default":
        named = default
    if named is None:
        raise UnreadableTableError("the character set of the database is unknown")
    return named


# -- one function per action; each returns whether it is about partitions -------------------------


def _add(work: _Work, item: Sequence[Token]) -> bool:
    at = 1 + (len(item) > 1 and item[1].word == "COLUMN")
    rest = item[at:]
    lenient = [token.word for token in rest[:3]] == ["IF", "NOT", "EXISTS"]
    rest = rest[3:] if lenient else rest
    add = _add_missing if lenient else _add_part
    if not rest:
        raise UnreadableTableError("ADD … is not understood")
    if rest[0].word == "(":
        inner = rest[1 : closing(rest, 0, work.table.table)]
        for part in split(inner):
            add(work, part)
        return False
    second = rest[1].word if len(rest) > 1 else ""
    if at == 1 and (rest[0].word, second) == ("SYSTEM", "VERSIONING"):
        work.versioned = True
        return False
    if at == 1 and rest[0].word == "PARTITION":
        return True
    add(work, rest)
    return False


def _add_missing(work: _Work, part: Sequence[Token]) -> None:
    """Add a part of the table, unless it is a column that the table had before the statement, or one that the statement has
    defined already.
    """
    if is_column(part) and (work.has(part[0].text) or lower_case(part[0].text) in work.defined):
        _add_foreign_key(work, part)
    else:
        _add_part(work, part)


def _add_part(work: _Work, part: Sequence[Token]) -> None:
    _add_foreign_key(work, part)
    if not is_column(part):
        work.key = primary_key_of(part, {}) or work.key
        return
    name = part[0].text
    if work.keeps(name):
        raise UnreadableTableError(f"there is a column {name} already")
    work.put_in.append(_placed(work, part))


def _add_foreign_key(work: _Work, part: Sequence[Token]) -> None:
    foreign = foreign_key_of(part, work.table.database)
    if foreign is not None:
        work.foreign_added.append(foreign)


def _placed(work: _Work, definition: Sequence[Token]) -> _Placed:
    """Return a column's definition with its place."""
    column = column_of(definition, work.charset, work.table.table)
    work.defined.add(column.lower_name)
    if is_key_column(definition):
        work.key = (column.name,)
    for at, token in outer(definition):
        if at > 1:
            if token.word == "FIRST":
                return _Placed(column, first=True)
            if token.word == "AFTER" and at + 1 < len(definition):
                return _Placed(column, after=definition[at + 1].text)
    return _Placed(column)


def _dropped_at(item: Sequence[Token]) -> int | None:
    """Return where the name of the column that DROP drops is; None if it drops something else."""
    words = [token.word for token in item[:4]]
    second = words[1] if len(words) > 1 else ""
    is_no_column = len(item) > 2 and words[2] not in ("RESTRICT", "CASCADE")
    if second == "PRIMARY" or (second in _KEYS and is_no_column):
        return None
    at = 1 + (second == "COLUMN")
    return at + 2 * (words[at : at + 2] == ["IF", "EXISTS"])


def _drop(work: _Work, item: Sequence[Token]) -> bool:
    words = [token.word for token in item]
    second = words[1] if len(words) > 1 else ""
    if second == "PRIMARY":
        work.key = ()
        return False
    at = _dropped_at(item)
    if at is None:
        if second in ("INDEX", "KEY", "CONSTRAINT") and item[-1].text.upper() == "PRIMARY":
            work.key = ()
        if second in ("FOREIGN", "CONSTRAINT"):
            work.foreign_dropped.add(lower_case(item[-1].text))
        if (second, words[2]) == ("SYSTEM", "VERSIONING"):
            work.versioned = False
        return second == "PARTITION"
    lenient = words[at - 1] == "EXISTS"
    if at >= len(item):
        raise UnreadableTableError("DROP … is not understood")
    name = item[at].text
    if lenient and not work.has(name):
        return False
    work.need(name)
    work.dropped.add(lower_case(name))
    return False


def _modify(work: _Work, item: Sequence[Token]) -> bool:
    rest, lenient = _after_column_word(item)
    if lenient and not work.has(rest[0].text):
        return False
    _replace(work, rest[0].text, rest)
    return False


def _change(work: _Work, item: Sequence[Token]) -> bool:
    rest, lenient = _after_column_word(item)
    old = rest[0].text
    if lenient and not work.has(old):
        return False
    work.renamed[lower_case(old)] = rest[1].text
    _replace(work, old, rest[1:])
    return False


def _replace(work: _Work, old: str, definition: Sequence[Token]) -> None:
    work.need(old)
    placed = _placed(work, definition)
    work.changed[lower_case(old)] = placed.column
    if placed.first or placed.after is not None:
        work.put_in.append(placed)


def _after_column_word(item: Sequence[Token]) -> tuple[Sequence[Token], bool]:
    """Return the tokens after MODIFY, CHANGE or ALTER [COLUMN] [IF EXISTS], and whether the latter is
    there.
    """
    rest = item[1:]
    if len(rest) > 2 and rest[0].word == "COLUMN":
        rest = rest[1:]
    lenient = [token.word for token in rest[:2]] == ["IF", "EXISTS"]
    rest = rest[2:] if lenient else rest
    if len(rest) < 2:
        raise UnreadableTableError(f"{item[0].text} … is not understood")
    return rest, lenient


def _rename(work: _Work, item: Sequence[Token]) -> bool:
    if len(item) > 1 and item[1].word == "COLUMN":
        rest = item[2:]
        lenient = [token.word for token in rest[:2]] == ["IF", "EXISTS"]
        rest = rest[2:] if lenient else rest
        if len(rest) != 3 or rest[1].word != "TO":
            raise UnreadableTableError("RENAME COLUMN … is not understood")
        if not lenient or work.has(rest[0].text):
            work.need(rest[0].text)
            work.renamed[lower_case(rest[0].text)] = rest[2].text
    return False


def _alter(work: _Work, item: Sequence[Token]) -> bool:
    if len(item) > 1 and item[1].word in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        return False
    (name, *rest), _ = _after_column_word(item)
    words = [token.word for token in rest]
    if words in (["SET", "VISIBLE"], ["SET", "INVISIBLE"]):
        work.invisible[lower_case(name.text)] = words[1] == "INVISIBLE"
    else:
        work.defaults[lower_case(name.text)] = rest
    return False


_ACTIONS = {
    "ADD": _add, "DROP": _drop, "MODIFY": _modify, "CHANGE": _change, "RENAME": _rename, "ALTER": _alter,
}  # fmt: skip


# -- joining the parts ---------------------------------------------------------------------------


_LOWER_NAME = attrgetter("lower_name")


def _lower_names(columns: Iterable[DeclaredColumn]) -> frozenset[str]:
    return frozenset(map(_LOWER_NAME, columns))


def _kept(work: _Work) -> list[DeclaredColumn]:
    """Return the columns without new ones. Those that move are still at their old places, where AFTER finds them.

    Most statements change few of a table's columns, and a log may contain thousands of statements
    about a wide table, so unchanged columns are not built again.
    """
    if not (work.dropped or work.renamed or work.changed):
        return list(work.table.columns)
    touched = work.dropped | work.renamed.keys() | work.changed.keys()
    kept = []
    for column in work.table.columns:
        name = column.lower_name
        if name not in touched:
            kept.append(column)
            continue
        if name in work.renamed:
            column = replace(column, name=work.renamed[name])
        if name not in work.dropped:
            kept.append(work.changed.get(name, column))
    return kept


def _done(work: _Work) -> DeclaredTable:
    columns = _kept(work)
    for placed in work.put_in:
        _put_in(columns, placed)
    columns = _with_key_first(work, columns)
    check_count(len(columns), work.table.table)
    if not columns or len(_lower_names(columns)) < len(columns):
        raise UnreadableTableError("two columns have the same name, or no column is left")
    if work.converted is not None:
        columns = [_converted(column, work.converted) for column in columns]
    if work.defaults:
        columns = [_with_default(work, column) for column in columns]
    key = work.key
    if key is None:
        left = [part for part in work.table.primary_key if lower_case(part) not in work.dropped]
        key = tuple(work.renamed.get(lower_case(part), part) for part in left)
    return replace(
        work.table,
        columns=tuple(columns),
        primary_key=key,
        system_versioned=work.versioned,
        charset=work.charset,
        foreign_keys=_foreign_keys(work),
    )


def _with_key_first(work: _Work, columns: list[DeclaredColumn]) -> list[DeclaredColumn]:
    """Return the columns with that of a generated invisible primary key where MySQL keeps it, and as visible as the statement makes it.

    It stays the first column, also if the statement makes it visible.
    """
    first, *_ = work.table.columns
    is_key = (first.sql, *map(lower_case, work.table.primary_key)) == ("bigint unsigned", ROW_ID)
    if first.is_hidden_key and is_key and ROW_ID not in work.dropped:
        columns.sort(key=lambda column: column.lower_name != ROW_ID)
    if (hidden := work.invisible.get(ROW_ID)) is None:
        return columns
    return [replace(c, is_hidden_key=hidden) if c.lower_name == ROW_ID else c for c in columns]


def _with_default(work: _Work, column: DeclaredColumn) -> DeclaredColumn:
    """Return a column with the default that ALTER COLUMN gives it."""
    names = {old for old, new in work.renamed.items() if lower_case(new) == column.lower_name}
    if not (names | {column.lower_name}) & work.defaults.keys():
        return column
    added = {placed.column.lower_name for placed in work.put_in}
    if names or column.lower_name in work.renamed.keys() | work.changed.keys() | added:
        # ALTER COLUMN may mean the old column of this name or the new one
        why = "the same statement changes the column in another way"
        return replace(column, default=Unknown(why))
    item = work.defaults[column.lower_name]
    return replace(column, default=altered_default(item, column.sql, column.nullable))


def _foreign_keys(work: _Work) -> tuple[ForeignKey, ...]:
    kept = [
        key._replace(
            columns=tuple(work.renamed.get(lower_case(name), name) for name in key.columns)
        )
        for key in work.table.foreign_keys
        if lower_case(key.name) not in work.foreign_dropped
    ]
    return named_keys(kept, work.foreign_added, work.table.table)


def _put_in(columns: list[DeclaredColumn], placed: _Placed) -> None:
    old = next((i for i, column in enumerate(columns) if column is placed.column), None)
    if old is not None:
        del columns[old]
    if placed.first:
        columns.insert(0, placed.column)
        return
    if placed.after is None:
        columns.append(placed.column)
        return
    wanted = lower_case(placed.after)
    at = next((i for i, column in enumerate(columns) if lower_case(column.name) == wanted), None)
    if at is None:
        raise UnreadableTableError(f"there is no column {placed.after} for AFTER")
    columns.insert(at + 1, placed.column)


def _converted(column: DeclaredColumn, charset: str) -> DeclaredColumn:
    """Return text columns in another character set; binary columns and those with their own set
    stay.
    """
    is_text = bool(column.type_codes & STRING_TYPES) and column.special is None
    if not is_text or column.charset == "binary":
        return column
    return replace(column, charset=charset)
