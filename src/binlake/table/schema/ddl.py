"""Apply one DDL statement of a log to a catalogue of tables.

    CREATE [OR REPLACE] [TEMPORARY] TABLE … (columns) | LIKE … | … SELECT, CREATE SEQUENCE
    ALTER TABLE …                       table/schema/alter.py
    RENAME TABLE a TO b, c TO d         as gh-ost and pt-online-schema-change end
    DROP TABLE, DROP DATABASE, CREATE [OR REPLACE] DATABASE, ALTER DATABASE
    DROP INDEX `PRIMARY` ON t

Other statements do not change columns. If a statement about a table is not understood, its columns
become unknown. With row events servers log the resulting columns of a CREATE TABLE … SELECT. So a
logged statement with a SELECT is statement-based, and the columns that it makes are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from binlake.format.sql_names import TableName, unquoted_name
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.alter import alter_table, altered_columns
from binlake.table.schema.catalogue import DROPPED, Catalogue
from binlake.table.schema.create_table import (
    charset_in,
    lists_columns,
    parse_create_table,
    table_of,
)
from binlake.table.schema.ddl_tokens import after_wait, clauses, tokens_of
from binlake.table.schema.sql_tokens import (
    Token,
    UnreadableTableError,
    closing,
    read_name,
    split,
)

_ABOUT_TABLES = re.compile(
    r"\b(?:TABLES?|DATABASE|SCHEMA|SEQUENCE|INDEX\s++(?:IF\s++EXISTS\s++)?[`\"]PRIMARY)\b",
    re.IGNORECASE,
)
# not `sql_names.ANSI_NAME`: names here are at most as long as the servers allow, so that a search stays short
_NAME = r"(?:`(?:[^`]|``){1,64}`|\"[^\"]{1,64}\"|[\w$]{1,64})"
_OF_ONE_TABLE = re.compile(
    rf"\b(?:CREATE|ALTER)\b[^'\"`(;]{{0,200}}?\bTABLE\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
    rf"(?:(?P<database>{_NAME})\s*\.\s*)?(?P<table>{_NAME})",
    re.IGNORECASE,
)
_HEAD = 1 << 16  # number of characters in which the name of the table is searched
_MODIFIERS = {"OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE"}

# MariaDB's sequences are tables of one row (sql/sql_sequence.cc)
_SEQUENCE = (
    "CREATE TABLE t (next_not_cached_value {kind}, minimum_value {kind}, maximum_value {kind},"
    " start_value {kind}, increment BIGINT, cache_size BIGINT UNSIGNED,"
    " cycle_option TINYINT UNSIGNED, cycle_count BIGINT)"
)


class _Statement:
    """A statement that is being applied: its tokens, and the context of names."""

    def __init__(self, catalogue: Catalogue, ddl: DdlStatement, tokens: list[Token]) -> None:
        self.catalogue = catalogue
        self.ddl = ddl
        self.tokens = tokens
        self.at = 0

    def words(self, count: int) -> list[str]:
        return [token.word for token in self.tokens[self.at : self.at + count]]

    def skip(self, *words: str) -> bool:
        """Consume these words, if they come next."""
        there = self.words(len(words)) == list(words)
        self.at += len(words) * there
        return there

    def name(self) -> TableName:
        """Consume and return the next name."""
        database, table, self.at = read_name(self.tokens, self.at, self.ddl.database)
        return database or "", table

    def skip_wait(self) -> None:
        """MariaDB: WAIT n | NOWAIT."""
        self.at = after_wait(self.tokens, self.at)

    def is_temporary(self, name: TableName) -> bool:
        return self.catalogue.is_temporary(self.ddl.thread_id, name)


def apply_ddl(catalogue: Catalogue, ddl: DdlStatement) -> None:
    """Apply the statement to the catalogue, which is at the statement's place."""
    if not _ABOUT_TABLES.search(ddl.sql):
        return
    try:
        if "\ufffd" in ddl.sql:
            raise UnreadableTableError("(it is not text in its character set)")
        statement = _Statement(catalogue, ddl, tokens_of(ddl))
        _dispatch(statement)
    except UnreadableTableError as error:
        _not_understood(catalogue, ddl, str(error))


def _dispatch(statement: _Statement) -> None:
    verb = statement.words(1)[0] if statement.tokens else ""
    statement.at = 1
    while statement.words(1) and statement.words(1)[0] in _MODIFIERS:
        statement.at += 1
    temporary = statement.skip("TEMPORARY")
    kind = (statement.words(1) or [""])[0]
    kind = {"TABLES": "TABLE", "SCHEMA": "DATABASE"}.get(kind, kind)
    apply = _VERBS.get((verb, kind))
    if apply is None:
        return
    statement.at += 1
    if temporary:
        _temporary(statement, verb)
    else:
        apply(statement)


def _not_understood(catalogue: Catalogue, ddl: DdlStatement, why: str) -> None:
    found = _OF_ONE_TABLE.search(ddl.sql, 0, _HEAD)
    if found is None or "TEMPORARY" in found[0].upper():
        return
    database = unquoted_name(found["database"]) if found["database"] else ddl.database
    name = catalogue.spelled((database, unquoted_name(found["table"])))
    if not catalogue.is_mute(name) or found[0][:1] in "cC":
        catalogue.forget(name, f"the DDL at {catalogue.position} is not understood: {why}")


# -- CREATE ----------------------------------------------------------------------------------------


def _create_table(statement: _Statement) -> None:
    catalogue = statement.catalogue
    lenient = statement.skip("IF", "NOT", "EXISTS")
    name = statement.name()
    if lenient and catalogue.known(catalogue.spelled(name)) is not None:
        return
    tokens, at = statement.tokens, statement.at
    like = _like(statement)
    if like is not None:
        known = catalogue.known(catalogue.spelled(like))
        if known is not None:
            catalogue.put(name, replace(known, foreign_keys=()))  # LIKE copies no foreign keys
        else:
            catalogue.forget(name, f"{like[0]}.{like[1]}, the table of its LIKE, is unknown")
        return
    if lists_columns(tokens, at):
        rest = tokens[closing(tokens, at, name[1]) + 1 :]
    else:
        rest = tokens[at:]
    if any(token.word == "SELECT" for token in rest):
        catalogue.forget(name, f"the columns at {catalogue.position} come from a SELECT")
        return
    if not lists_columns(tokens, at):
        raise UnreadableTableError(f"{name[1]}: the statement lists no columns")
    charset = catalogue.charset_of(name[0])
    catalogue.put(name, table_of(tokens, at, name[1], name[0], charset))


def _like(statement: _Statement) -> TableName | None:
    """Return the table of LIKE, in parentheses or not."""
    bracket = statement.skip("(")
    if statement.skip("LIKE"):
        return statement.name()
    statement.at -= bracket
    return None


def _create_sequence(statement: _Statement) -> None:
    lenient = statement.skip("IF", "NOT", "EXISTS")
    name = statement.name()
    if lenient and statement.catalogue.known(name) is not None:
        return
    kind = "BIGINT"
    if statement.skip("AS"):  # MariaDB 11.5
        (kind,) = statement.words(1) or [kind]
        statement.at += 1
        kind += " UNSIGNED" * statement.skip("UNSIGNED")
    table = parse_create_table(_SEQUENCE.format(kind=kind), None, {}, 0)
    assert table is not None
    statement.catalogue.put(name, table)


def _create_database(statement: _Statement) -> None:
    if statement.skip("IF", "NOT", "EXISTS"):
        return  # the log does not record whether it was created, or existed with another character set
    _, name, at = read_name(statement.tokens, statement.at, None)
    if [token.word for token in statement.tokens[1:3]] == ["OR", "REPLACE"]:
        statement.catalogue.drop_database(name)
    charset = charset_in(statement.tokens[at:]) or statement.ddl.server_charset
    statement.catalogue.put_database(name, charset)


def _alter_database(statement: _Statement) -> None:
    words = statement.words(1)
    name = statement.ddl.database
    if words and words[0] not in ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT"):
        _, name, statement.at = read_name(statement.tokens, statement.at, None)
    charset = charset_in(statement.tokens[statement.at :])
    if charset is not None:
        statement.catalogue.put_database(name, charset)


# -- ALTER, RENAME, DROP ---------------------------------------------------------------------------


def _alter_table(statement: _Statement) -> None:
    catalogue = statement.catalogue
    statement.skip("IF", "EXISTS")
    name = statement.name()
    if statement.is_temporary(name):
        return
    name = catalogue.spelled(name)
    statement.skip_wait()
    items = clauses(statement.tokens[statement.at :])
    renamed = new_name(items)
    table = catalogue.known(name)
    if table is not None:
        altered = alter_table(table, items, catalogue.charset_of(name[0]))
        other_default = catalogue.follows_defaults and altered.defaults != table.defaults
        if altered != table or other_default:
            catalogue.put(name, altered)
    elif catalogue.is_mute(name):
        catalogue.note_columns(name, altered_columns(items, name[1]))
    if renamed is not None:
        database, short, _ = read_name(renamed, 0, statement.ddl.database)
        catalogue.rename(name, (database or "", short))


def new_name(items: Sequence[Sequence[Token]]) -> Sequence[Token] | None:
    """Return the tokens of the name that RENAME [TO | AS | =] gives the table, or None."""
    for item in items:
        words = [token.word for token in item[:2]]
        if words[:1] == ["RENAME"] and words[1:] not in (["COLUMN"], ["INDEX"], ["KEY"], []):
            return item[2:] if words[1] in ("TO", "AS", "=") else item[1:]
    return None


def _rename_table(statement: _Statement) -> None:
    statement.skip("IF", "EXISTS")
    for item in split(statement.tokens[statement.at :]):
        one = _Statement(statement.catalogue, statement.ddl, item)
        old = one.name()
        one.skip_wait()
        if not one.skip("TO"):
            raise UnreadableTableError("RENAME TABLE … is not understood")
        new = one.name()
        if one.is_temporary(old):
            one.catalogue.drop_temporary(one.ddl.thread_id, old)
            one.catalogue.put_temporary(one.ddl.thread_id, new)
        else:
            one.catalogue.rename(one.catalogue.spelled(old), new)


def _drop_table(statement: _Statement) -> None:
    for name in _dropped_names(statement):
        if statement.is_temporary(name):
            statement.catalogue.drop_temporary(statement.ddl.thread_id, name)
        else:
            statement.catalogue.forget(statement.catalogue.spelled(name), DROPPED)


def _dropped_names(statement: _Statement) -> list[TableName]:
    statement.skip("IF", "EXISTS")
    items = split(statement.tokens[statement.at :])
    return [_Statement(statement.catalogue, statement.ddl, item).name() for item in items]


def _drop_index(statement: _Statement) -> None:
    statement.skip("IF", "EXISTS")
    index, statement.at = statement.tokens[statement.at :][:1], statement.at + 1
    if [token.text.upper() for token in index] != ["PRIMARY"] or not statement.skip("ON"):
        return
    name = statement.name()
    table = statement.catalogue.known(statement.catalogue.spelled(name))
    if table is not None and table.primary_key and not statement.is_temporary(name):
        statement.catalogue.put(statement.catalogue.spelled(name), replace(table, primary_key=()))


def _drop_database(statement: _Statement) -> None:
    statement.skip("IF", "EXISTS")
    _, name, _ = read_name(statement.tokens, statement.at, None)
    statement.catalogue.drop_database(name)


def _temporary(statement: _Statement, verb: str) -> None:
    """Note temporary tables: their rows are not logged, but their names hide others."""
    catalogue, thread = statement.catalogue, statement.ddl.thread_id
    if verb == "CREATE":
        statement.skip("IF", "NOT", "EXISTS")
        catalogue.put_temporary(thread, statement.name())
    elif verb == "DROP":
        for name in _dropped_names(statement):
            catalogue.drop_temporary(thread, name)


_VERBS: dict[tuple[str, str], Callable[[_Statement], None]] = {
    ("CREATE", "TABLE"): _create_table,
    ("CREATE", "SEQUENCE"): _create_sequence,
    ("CREATE", "DATABASE"): _create_database,
    ("ALTER", "TABLE"): _alter_table,
    ("ALTER", "DATABASE"): _alter_database,
    ("RENAME", "TABLE"): _rename_table,
    ("DROP", "TABLE"): _drop_table,
    ("DROP", "SEQUENCE"): _drop_table,
    ("DROP", "DATABASE"): _drop_database,
    ("DROP", "INDEX"): _drop_index,
}
