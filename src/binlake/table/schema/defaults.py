"""The default of a column: the value of a row whose INSERT does not name the column.

    default = default_of(attributes, "int", nullable=True)      # None: NULL

A default is known if it is NULL or a literal. Expressions and functions are not known; neither are texts whose meaning
depends on the session. `new_columns.literal_value` converts a literal to a value of the column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from binlake.table.schema.sql_tokens import (
    Token,
    UnreadableTableError,
    closing,
    outer_words,
    read_name,
)

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?", re.IGNORECASE)
_BITS = re.compile(r"b'([01]+)'|0b([01]+)", re.IGNORECASE)
_HEX = re.compile(r"x'((?:[0-9a-f]{2})*)'|0x((?:[0-9a-f]{2})+)", re.IGNORECASE)

_ACTIONS = ("CASCADE", "RESTRICT", "NO ACTION", "SET NULL", "SET DEFAULT")
# attributes that do not matter here, and how many words and names follow each
_ATTRIBUTES: dict[tuple[str, ...], int] = {
    ("NOT", "NULL"): 0, ("NULL",): 0, ("UNIQUE", "KEY"): 0, ("UNIQUE",): 0, ("FIRST",): 0, ("AFTER",): 1,
    ("UNSIGNED",): 0, ("SIGNED",): 0, ("ZEROFILL",): 0, ("BINARY",): 0, ("ASCII",): 0, ("UNICODE",): 0,
    ("CHARACTER", "SET"): 1, ("CHAR", "SET"): 1, ("CHARSET",): 1, ("COLLATE",): 1, ("COMMENT",): 1, ("COMPRESSED",): 0,
    ("VISIBLE",): 0, ("INVISIBLE",): 0, ("COLUMN_FORMAT",): 1, ("STORAGE",): 1, ("SRID",): 1,
    ("ENGINE_ATTRIBUTE",): 1, ("SECONDARY_ENGINE_ATTRIBUTE",): 1, ("NOT", "SECONDARY"): 0,
    ("WITH", "SYSTEM", "VERSIONING"): 0, ("WITHOUT", "SYSTEM", "VERSIONING"): 0,
    ("ENFORCED",): 0, ("NOT", "ENFORCED"): 0, ("MATCH",): 1,
    **{("ON", event, *action.split()): 0 for event in ("DELETE", "UPDATE") for action in _ACTIONS},
}  # fmt: skip
_LONGEST = max(map(len, _ATTRIBUTES))
_COMPUTED = {"AUTO_INCREMENT", "AS", "PRIMARY", "SERIAL"}
_NOW = {"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"}
# They have characters that SHOW CREATE TABLE, which converts all texts to utf8mb3, cannot print.
_BEYOND_UTF8MB3 = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030", None})
_LOST = frozenset("?\ufffd")


class Constant(NamedTuple):
    """A literal without its quotes. `form`: "number" (with its sign), "string", "bits", "hex", or "implied" for the value
    that NOT NULL without DEFAULT stands for.
    """

    text: str
    form: str


class Unknown(NamedTuple):
    """A default that binlake does not know, and why."""

    why: str


#: None: NULL.
Default = Constant | Unknown | None

IMPLIED = Constant("", "implied")


def default_of(attributes: Sequence[Token], sql: str, nullable: bool | None) -> Default:
    """Return the default that a definition gives a column: the tokens behind its type, the type in lower case, and whether
    the column may be NULL (None: the definition does not determine it).
    """
    try:
        return literal_default(_without_on_update(attributes), sql, nullable)
    except UnreadableTableError as error:
        return Unknown(str(error))


def altered_default(item: Sequence[Token], sql: str, nullable: bool | None) -> Default:
    """Return the default of a column after the tokens that follow its name in ALTER COLUMN."""
    words = [token.word for token in item]
    try:
        if words == ["DROP", "DEFAULT"]:
            return _no_default(sql, nullable)
        if words[:2] == ["SET", "DEFAULT"]:
            return literal_default(item[1:], sql, nullable)
    except UnreadableTableError as error:
        return Unknown(str(error))
    return Unknown("ALTER COLUMN … is not understood")


def shown_default(default: Default, sql: str, charset: str | None) -> Default:
    """Return a default that was read from SHOW CREATE TABLE, which does not print all of them exactly."""
    if not isinstance(default, Constant) or default.form == "implied":
        return default
    if sql.startswith("float") and default.text.strip("0."):
        return Unknown("SHOW CREATE TABLE prints six digits of a FLOAT")
    if default.form == "string" and charset in _BEYOND_UTF8MB3 and _LOST & set(default.text):
        return Unknown("SHOW CREATE TABLE prints ? for characters of four bytes")
    return default


def literal_default(
    attributes: Sequence[Token], sql: str, nullable: bool | None
) -> Constant | None:
    """Return the literal of a definition, None for NULL. Raises UnreadableTableError with the reason if there is none."""
    words = set(outer_words(attributes))
    if sql.startswith("serial") or words & _COMPUTED:
        raise UnreadableTableError("the server computes them")
    if "DEFAULT" not in words and nullable is not False:
        return _no_default(sql, nullable)
    found: Constant | None = IMPLIED if nullable is False else None
    is_given, at = False, 0
    while at < len(attributes):
        if attributes[at].word == "DEFAULT":
            found, at = _literal(attributes, at + 1)
            is_given = True
        else:
            at = _after_attribute(attributes, at)
    if not is_given and nullable is not False:  # another attribute has the word DEFAULT
        return _no_default(sql, nullable)
    return _without_zone(found, sql)


def _after_attribute(attributes: Sequence[Token], at: int) -> int:
    """The place after an attribute that does not matter. Raises UnreadableTableError for one that is not known."""
    words = [token.word for token in attributes[at : at + _LONGEST]]
    word, following = words[0], words[1:2]
    if word and following == ["="]:  # also options of an engine
        return at + 3
    if word == "CONSTRAINT":  # perhaps with a name, and then CHECK or REFERENCES
        return at + 1 + (following not in (["CHECK"], ["REFERENCES"]))
    if word == "CHECK" and following == ["("]:
        return closing(attributes, at + 1, word) + 1
    if word == "REFERENCES":
        _, parent, at = read_name(attributes, at + 1, None)
        is_list = [token.word for token in attributes[at : at + 1]] == ["("]
        return closing(attributes, at, parent) + 1 if is_list else at
    for count in range(len(words), 0, -1):
        if (names := _ATTRIBUTES.get(tuple(words[:count]))) is not None:
            return at + count + names
    raise UnreadableTableError(f"{attributes[at].text} is not understood")


def _no_default(sql: str, nullable: bool | None) -> Constant | None:
    """The default of a column without DEFAULT. A server that is strict refuses an INSERT that needs the implied one."""
    if nullable is False:
        return _without_zone(IMPLIED, sql)
    if sql.startswith("timestamp") and nullable is None:
        raise UnreadableTableError("whether it may be NULL depends on a setting of the server")
    return None


def _without_zone(constant: Constant | None, sql: str) -> Constant | None:
    if sql.startswith("timestamp") and constant is not None:
        raise UnreadableTableError("a TIMESTAMP depends on the time zone of the session")
    return constant


def _without_on_update(attributes: Sequence[Token]) -> Sequence[Token]:
    """The attributes without ON UPDATE, which has no effect on an INSERT."""
    words = [token.word for token in attributes]
    for at, (word, event, function) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if (word, event) == ("ON", "UPDATE") and function in _NOW:
            end = at + 3
            if words[end : end + 1] == ["("]:
                end = closing(attributes, end, "ON UPDATE") + 1
            return [*attributes[:at], *attributes[end:]]
    return attributes


def _literal(tokens: Sequence[Token], at: int) -> tuple[Constant | None, int]:
    """The literal at a place, None for NULL, and the place after it. Raises UnreadableTableError."""
    sign = ""
    opening = tokens[at : at + 3]
    if [token.word for token in opening] == ["(", "UNKNOWN", ""]:
        raise UnreadableTableError(opening[2].text)  # `schema_text` has written the reason
    if at < len(tokens) and tokens[at].word in ("+", "-"):
        sign, at = tokens[at].word, at + 1
    token = tokens[at] if at < len(tokens) else Token("", "word", "", "")
    source = token.source.strip()
    if _NUMBER.fullmatch(source):
        return Constant(sign + source, "number"), at + 1
    if not sign:
        if token.word == "NULL":
            return None, at + 1
        if token.word in ("TRUE", "FALSE"):
            return Constant("1" if token.word == "TRUE" else "0", "number"), at + 1
        if token.kind == "string" and _is_plain(token.text, source):
            return Constant(token.text, "string"), at + 1
        for pattern, form in ((_BITS, "bits"), (_HEX, "hex")):
            if (digits := pattern.fullmatch(source)) is not None:
                return Constant(digits[1] or digits[2] or "", form), at + 1
    raise UnreadableTableError(f"DEFAULT {sign}{source} is not a constant that binlake knows")


def _is_plain(text: str, source: str) -> bool:
    """Whether a quoted text is certain. A backslash is not: its meaning depends on the session."""
    quote = source[:1]
    inner = source[1:-1].replace(quote * 2, quote)
    return quote in ("'", '"') and inner == text and "\\" not in text
