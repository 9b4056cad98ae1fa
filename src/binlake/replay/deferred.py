"""Triggers and events of a log, kept back until its row changes have been applied.

The log contains the rows that a trigger or an event changed. So the trigger or event must not run while these rows
are applied. A statement that creates or alters one waits until the end of the script. A statement that drops one, or
that renames or drops the table of a trigger, changes the waiting statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from binlake.errors import UnsupportedError
from binlake.format.charsets import CHARSETS
from binlake.format.sql_names import (
    ANSI_NAME,
    GAP,
    SPACE,
    lower_name,
    quoted_name,
    unquoted_name,
)
from binlake.replay.programs import QUALIFIED_NAME, program_statement
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.ddl import new_name
from binlake.table.schema.ddl_tokens import tokens_of
from binlake.table.schema.sql_tokens import (
    Token,
    UnreadableTableError,
    read_name,
    split,
)
from binlake.values.charset_text import decode, encode

#: The hint of errors about statements that the script cannot contain.
BY_OTHER_MEANS = "leave --ddl out, and run the statement separately"
#: Database and name of a table, trigger or event, as the statement spells them.
Name = tuple[str, str]

_DEFERRED_KINDS = ("TRIGGER", "EVENT")
# It follows the name of the trigger: BEFORE INSERT OR UPDATE OF a, b ON t FOR EACH ROW.
_TABLE_OF_TRIGGER = re.compile(
    rf"{GAP}(?:(?!ON\b)(?:{ANSI_NAME}|,){GAP})*+ON\b{GAP}(?P<table>{QUALIFIED_NAME.format('of_')})"
    rf"{GAP}FOR{SPACE}EACH{SPACE}ROW\b",
    re.IGNORECASE,
)
_NEW_EVENT_NAME = re.compile(rf"\bRENAME\s+TO\s+{QUALIFIED_NAME.format('')}", re.IGNORECASE)
_MOVES_TABLES = re.compile(r"\b(?:RENAME|DROP|REPLACE)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Deferred:
    """A waiting statement about a trigger or an event.

    `number` is how the caller identifies the statement. `table` is the table of a trigger; None for an event. `moved`
    is the table's present name, if it differs from the name in the statement.
    """

    number: int
    kind: str
    verb: str
    name: Name
    table: Name | None
    moved: Name | None = None

    def text(self, sql: bytes, charset: str | None) -> bytes:
        """Return the statement for the table's name now; with the database only if the statement needs it.

        `charset` is the character set of the statement, None for UTF-8. Raises UnsupportedError if the
        statement is not text in it, or if it cannot hold the name.
        """
        if self.moved is None or self.table is None:
            return sql
        before, found, after = _around_table(sql, charset)
        parts: tuple[str, ...] = self.moved
        if found["of_database"] is None and self.moved[0] == self.table[0]:
            parts = self.moved[1:]  # as the server writes it in SHOW CREATE TRIGGER
        return before + sql_bytes(quoted_name(*parts), charset) + after


def sql_bytes(sql: str, charset: str | None) -> bytes:
    """Return SQL in a character set (None: UTF-8). Raises UnsupportedError if it cannot hold the text."""
    try:
        return encode(_known(charset), sql)
    except UnicodeEncodeError:
        raise UnsupportedError(
            f"{sql} has characters that the statement's character set {charset} does not have",
            hint=BY_OTHER_MEANS,
        ) from None


def _around_table(sql: bytes, charset: str | None) -> tuple[bytes, re.Match[str], bytes]:
    """Return the bytes before the table of a CREATE TRIGGER, its match, and the bytes after it."""
    known = _known(charset)
    try:
        text = decode(known, sql)
    except UnicodeDecodeError as error:
        text = decode(known, sql[: error.start])  # the body may have bytes that are not text
    found = _table_of_trigger(text)
    if found is not None:
        before, name = encode(known, text[: found.start("table")]), encode(known, found["table"])
        if sql.startswith(before + name):  # if not, it spells a character with another code
            return before, found, sql[len(before + name) :]
    raise UnsupportedError(
        f"the table of a trigger was renamed, and binlake cannot find its name in the statement as text in {known}",
        hint=BY_OTHER_MEANS,
    )


def _table_of_trigger(sql: str) -> re.Match[str] | None:
    """Return the match of the table of a CREATE TRIGGER; None if it is not found."""
    head = program_statement(sql)
    return None if head is None else _TABLE_OF_TRIGGER.match(sql, head.end())


def _known(charset: str | None) -> str:
    return charset if charset in CHARSETS else "utf8mb4"


class Deferring:
    """The statements that wait for the end of one script."""

    def __init__(self) -> None:
        self._waiting: list[Deferred] = []
        self._count = 0

    def __iter__(self) -> Iterator[Deferred]:
        return iter(self._waiting)

    def take(self, ddl: DdlStatement) -> Deferred | str | None:
        """Return the text to print instead of a statement ("": nothing, it waits), or
        None: the statement itself.

        Raises UnsupportedError for a statement that moves or drops a table while a trigger waits whose table is unknown.
        """
        found = program_statement(ddl.sql)
        if found is None or found["kind"].upper() not in _DEFERRED_KINDS:
            if self._waiting and _MOVES_TABLES.search(ddl.sql):
                self._follow(ddl)
            return None
        kind, verb = found["kind"].upper(), found["verb"].upper()
        name = _name(found, "", ddl.database)
        if verb != "DROP":
            return self._defer(ddl, kind, verb, name)
        mine = [w for w in self._waiting if w.kind == kind and _same(w.name, name)]
        self._waiting = [waiting for waiting in self._waiting if waiting not in mine]
        if any(waiting.verb == "CREATE" for waiting in mine):
            return ""
        # one of the time before the log may not have been restored yet
        return f"DROP {kind} IF EXISTS {quoted_name(*name)}"

    def _defer(self, ddl: DdlStatement, kind: str, verb: str, name: Name) -> Deferred:
        table = None
        if kind == "TRIGGER":
            on = _table_of_trigger(ddl.sql)
            table = _name(on, "of_", ddl.database) if on is not None else None
        elif verb == "ALTER" and (renamed := _NEW_EVENT_NAME.search(ddl.sql)) is not None:
            now = _name(renamed, "", ddl.database)
            self._waiting = [
                replace(w, name=now) if w.kind == kind and _same(w.name, name) else w
                for w in self._waiting
            ]
            name = now
        self._count += 1
        deferred = Deferred(self._count, kind, verb, name, table)
        self._waiting.append(deferred)
        return deferred

    def _follow(self, ddl: DdlStatement) -> None:
        """Apply a statement to the waiting triggers of its tables and databases."""
        try:
            tokens = tokens_of(ddl)
            words = [token.word for token in tokens]
            if words[:1] == ["RENAME"] and words[1:2] in (["TABLE"], ["TABLES"]):
                self._rename(tokens, ddl.database)
            elif words[:1] == ["ALTER"] and "TABLE" in words[:4]:
                at = _after_condition(words, words.index("TABLE") + 1)
                database, table, at = read_name(tokens, at, ddl.database)
                if (new := new_name(split(tokens[at:]))) is not None:
                    to = read_name(new, 0, ddl.database)
                    self._move((database or "", table), (to[0] or "", to[1]))
            elif words[:1] == ["DROP"]:
                self._drop(tokens, words, 1, ddl.database)
            elif words[:3] == ["CREATE", "OR", "REPLACE"]:
                _, _, end = read_name(tokens, 4, ddl.database)
                self._drop(tokens[:end], words, 3, ddl.database)
        except UnreadableTableError:
            return  # if it moved a table, the statement that waits fails, and says which

    def _rename(self, tokens: list[Token], current: str) -> None:
        for pair in split(tokens[_after_condition([t.word for t in tokens], 2) :]):
            database, table, at = read_name(pair, 0, current)
            while at < len(pair) and pair[at].word != "TO":  # MariaDB: WAIT n
                at += 1
            to = read_name(pair, at + 1, current)
            self._move((database or "", table), (to[0] or "", to[1]))

    def _drop(self, tokens: list[Token], words: list[str], at: int, current: str) -> None:
        """Forget what a statement drops or replaces; `at` is the place of TABLE or DATABASE."""
        kind, names = words[at : at + 1], _after_condition(words, at + 1)
        if kind in (["DATABASE"], ["SCHEMA"]):
            _, name, _ = read_name(tokens, names, None)
            self._waiting = [w for w in self._waiting if w.name[0].lower() != name.lower()]
        elif kind in (["TABLE"], ["TABLES"]):
            self._check_tables()
            for item in split(tokens[names:]):
                database, table, _ = read_name(item, 0, current)
                gone = (database or "", table)
                self._waiting = [w for w in self._waiting if not _same(w.moved or w.table, gone)]

    def _check_tables(self) -> None:
        """Raise UnsupportedError if the table of a waiting trigger is unknown: a statement may move or drop it."""
        for waiting in self._waiting:
            if waiting.kind == "TRIGGER" and waiting.table is None:
                name = quoted_name(*waiting.name)
                raise UnsupportedError(
                    f"the statement moves or drops a table, and binlake cannot find out whether it is that of the trigger {name}",
                    hint=BY_OTHER_MEANS,
                )

    def _move(self, old: Name, new: Name) -> None:
        self._check_tables()
        self._waiting = [
            replace(w, moved=new) if _same(w.moved or w.table, old) else w for w in self._waiting
        ]


def _after_condition(words: list[str], at: int) -> int:
    return at + 2 * (words[at : at + 2] == ["IF", "EXISTS"])


def _same(one: Name | None, other: Name) -> bool:
    return one is not None and lower_name(one) == lower_name(other)


def _name(found: re.Match[str], prefix: str, database: str) -> Name:
    said = found[f"{prefix}database"]
    return (unquoted_name(said) if said else database, unquoted_name(found[f"{prefix}name"]))
