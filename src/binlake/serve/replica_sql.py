"""Parse the small part of SQL that replicas and their tools use: no statement has an effect on
data.

    SELECT <expression> [[AS] alias], …        variables, functions, literals
    SET <variable> = <expression>, …           user variables and those of the session
    SHOW …                                     told apart by `queries`
    KILL n                                     MariaDB's replicas end their stream by it

`parse` knows words, not their meaning. For anything else it raises NotUnderstoodError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# At most one alternative matches at any place, and none looks further than its token, so the text
# is read once. Comments are not among them: an unterminated comment would be searched again at
# each "/*".
_TOKEN = re.compile(
    r"""(?:
      (?P<blank>\s+|/\*!\d*|\*/|(?:--\s|\#)[^\n]*)
    | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<number>-?\d+(?:\.\d+)?)
    | (?P<system>@@(?:`[^`]*`|[\w$.])+)
    | (?P<user>@(?:`[^`]*`|'[^']*'|[\w$.]+))
    | (?P<word>`[^`]*`|[^\W\d][\w$.]*)
    | (?P<sign>:=|[=,();*<>%.+-]|/(?!\*))
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "Z": "\x1a", "b": "\b"}
_CLAUSES = ("FROM", "WHERE", "INTO", "UNION", "PROCEDURE")
_MAX_ITEMS = 64  # expressions of a SELECT, assignments of a SET, words of a SHOW
_MAX_DIGITS = 20
_MAX_PATTERN = 256
_MAX_ARGUMENTS = 8
_MAX_DEPTH = 4
_SCOPES = ("global", "session", "local", "persist")


class NotUnderstoodError(Exception):
    """The statement is none of the known ones."""


@dataclass(frozen=True, slots=True)
class SqlLiteral:
    """A number, a string, NULL; a bare word (ON, utf8mb4) is a string too."""

    value: str | int | None


@dataclass(frozen=True, slots=True)
class SystemVariable:
    """`@@name`; `scope` is "global", "session" or "" (either), `name` lower case."""

    name: str
    scope: str


@dataclass(frozen=True, slots=True)
class UserVariable:
    """`@name`, lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)`, upper case."""

    name: str
    arguments: tuple[Expression, ...]


Expression = SqlLiteral | SystemVariable | UserVariable | Call


@dataclass(frozen=True, slots=True)
class Select:
    """`names[i]` is the name of the column `expressions[i]`."""

    expressions: tuple[Expression, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """`target = value`."""

    target: SystemVariable | UserVariable
    value: Expression


@dataclass(frozen=True, slots=True)
class Set:
    """`SET NAMES` and the like have no assignments."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Show:
    """`what` are its words, upper case; `like` is the pattern or None."""

    what: tuple[str, ...]
    like: str | None


@dataclass(frozen=True, slots=True)
class Kill:
    """The number of a connection to end."""

    connection_id: int


Statement = Select | Set | Show | Kill


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def parse(sql: str) -> Statement:
    """The statement in `sql`. Raises NotUnderstoodError."""
    words = _Words(sql.rstrip().rstrip(";"))
    verb = words.word()
    if verb == "SELECT":
        return _select(words)
    if verb == "SET":
        return _set(words)
    if verb == "SHOW":
        return _show(words)
    if verb == "KILL":
        return _kill(words)
    raise NotUnderstoodError


class _Words:
    """The tokens of a statement, consumed from the front."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._tokens = list(_tokens(sql))
        self._at = 0

    @property
    def next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def take(self) -> _Token:
        token = self.next
        if token is None:
            raise NotUnderstoodError
        self._at += 1
        return token

    def word(self) -> str:
        """Return the next word, upper case; "" (and nothing consumed) if there is none."""
        token = self.next
        if token is None or token.kind != "word":
            return ""
        self._at += 1
        return token.text.upper()

    def sign(self, *signs: str) -> bool:
        """Whether one of these follows, which is then consumed."""
        token = self.next
        if token is None or token.kind != "sign" or token.text not in signs:
            return False
        self._at += 1
        return True

    def text(self, start: int) -> str:
        """Return the text from `start` to the end of the last consumed token."""
        return self.sql[start : self._tokens[self._at - 1].end]


def _tokens(sql: str) -> Iterator[_Token]:
    at = 0
    while at < len(sql):
        if sql.startswith("/*", at) and not sql.startswith("/*!", at):
            end = sql.find("*/", at + 2)
            if end < 0:
                raise NotUnderstoodError
            at = end + 2
            continue
        match = _TOKEN.match(sql, at)
        if match is None:
            raise NotUnderstoodError
        at = match.end()
        kind = str(match.lastgroup)
        if kind != "blank":
            yield _Token(kind, match[kind], match.start(kind), at)


def _select(words: _Words) -> Select:
    expressions: list[Expression] = []
    names: list[str] = []
    while True:
        first = words.next
        if len(expressions) == _MAX_ITEMS:
            raise NotUnderstoodError
        expressions.append(_expression(words))
        name = words.text(first.start if first else 0)
        following = words.next
        if following is not None and following.kind in ("word", "string"):
            if following.text.upper() == "LIMIT":
                names.append(name)
                break
            if following.text.upper() == "AS":
                words.take()
            elif following.text.upper() in _CLAUSES:
                raise NotUnderstoodError
            name = _plain(words.take())
        names.append(name)
        if not words.sign(","):
            break
    if words.next is not None and (words.word() != "LIMIT" or words.take().kind != "number"):
        raise NotUnderstoodError
    if words.next is not None:
        raise NotUnderstoodError
    return Select(tuple(expressions), tuple(names))


def _set(words: _Words) -> Set:
    assignments: list[Assignment] = []
    while words.next is not None:
        if len(assignments) == _MAX_ITEMS:
            raise NotUnderstoodError
        scope = ""
        token = words.take()
        if token.kind == "word" and token.text.lower() in _SCOPES:
            scope, token = token.text.lower(), words.take()
        if token.kind == "word" and token.text.upper() in (
            "NAMES",
            "CHARACTER",
            "CHARSET",
            "TRANSACTION",
        ):
            return Set(tuple(assignments))
        target: SystemVariable | UserVariable
        if token.kind == "user":
            target = UserVariable(_plain(token).lower())
        elif token.kind == "system":
            target = _system(token.text)
        elif token.kind == "word":
            target = SystemVariable(
                _plain(token).lower(), "global" if scope == "global" else "session"
            )
        else:
            raise NotUnderstoodError
        if not words.sign("=", ":="):
            raise NotUnderstoodError
        assignments.append(Assignment(target, _expression(words)))
        if not words.sign(",") and words.next is not None:
            raise NotUnderstoodError
    if not assignments:
        raise NotUnderstoodError
    return Set(tuple(assignments))


def _show(words: _Words) -> Show:
    what: list[str] = []
    while word := words.word():
        if word in ("LIKE", "WHERE"):
            if word == "WHERE":  # Variable_name = 'x', which is a pattern without wildcards
                words.take()
                if not words.sign("=") and words.word() != "LIKE":
                    raise NotUnderstoodError
            token = words.take()
            if token.kind != "string" or words.next is not None:
                raise NotUnderstoodError
            if len(token.text) > _MAX_PATTERN:
                raise NotUnderstoodError
            return Show(tuple(what), _plain(token))
        if len(what) == _MAX_ITEMS:
            raise NotUnderstoodError
        what.append(word)
    if words.next is not None:
        raise NotUnderstoodError
    return Show(tuple(what), None)


def _kill(words: _Words) -> Kill:
    words.word()  # CONNECTION or nothing
    token = words.take()
    if token.kind != "number" or not token.text.isdigit() or words.next is not None:
        raise NotUnderstoodError
    return Kill(_integer(token))


def _expression(words: _Words, depth: int = 0) -> Expression:
    token = words.take()
    if token.kind == "string":
        return SqlLiteral(_plain(token))
    if token.kind == "number":
        return SqlLiteral(token.text if "." in token.text else _integer(token))
    if token.kind == "system":
        return _system(token.text)
    if token.kind == "user":
        return UserVariable(_plain(token).lower())
    if token.kind != "word":
        raise NotUnderstoodError
    if not words.sign("("):
        return SqlLiteral(None if token.text.upper() == "NULL" else _plain(token))
    arguments: list[Expression] = []
    while not words.sign(")"):
        if arguments and not words.sign(","):
            raise NotUnderstoodError
        if len(arguments) == _MAX_ARGUMENTS or depth == _MAX_DEPTH:
            raise NotUnderstoodError
        arguments.append(_expression(words, depth + 1))
    return Call(token.text.upper(), tuple(arguments))


def _integer(token: _Token) -> int:
    """Return a number that a server would accept: MySQL's have 64 bits."""
    if len(token.text) > _MAX_DIGITS:
        raise NotUnderstoodError
    return int(token.text)


def _system(text: str) -> SystemVariable:
    scope, dot, name = text[2:].replace("`", "").lower().partition(".")
    if not dot:
        return SystemVariable(scope, "")
    if scope not in _SCOPES:
        raise NotUnderstoodError
    return SystemVariable(name, "global" if scope == "global" else "session")


def _plain(token: _Token) -> str:
    """Return the text of a name or string, without its quotes."""
    text = token.text.removeprefix("@") if token.kind == "user" else token.text
    if text[:1] == "`":
        return text[1:-1]
    if text[:1] not in ("'", '"'):
        return text
    return _ESCAPE.sub(
        lambda match: _ESCAPED.get(match[1], match[1]) if match[1] else match[0][0], text[1:-1]
    )
