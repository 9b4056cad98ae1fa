"""Classify statements that the log holds as text; binlake counts them and never executes them.

Row events show the resulting rows. Only the text describes some changes (statement-format DML,
LOAD DATA, TRUNCATE, DDL, account management); they cannot be shown as rows, so they are counted by
kind and reported at the end. The kind comes from the first words of the text. Comments before
them, which proxies and frameworks add, are skipped; executable comments (`/*!50003 …`) are read.
"""

from __future__ import annotations

import re

DML = "statement DML"
LOAD_DATA = "LOAD DATA"
TRUNCATE = "TRUNCATE"
DDL = "DDL"
ACCOUNT = "account management"
MAINTENANCE = "maintenance"
CONTROL = "transaction control"
ROWS_TEXT = "text of row events"
WITHOUT_TEXT = "row events without text"

#: Short names of kinds, for options.
KIND_WORDS = {
    "dml": frozenset((DML,)),
    "load": frozenset((LOAD_DATA,)),
    "truncate": frozenset((TRUNCATE,)),
    "ddl": frozenset((DDL,)),
    "account": frozenset((ACCOUNT,)),
    "maintenance": frozenset((MAINTENANCE,)),
    "control": frozenset((CONTROL,)),
    "rows": frozenset((ROWS_TEXT, WITHOUT_TEXT)),
}

#: The closed list of results of `statement_kind`. (ROWS_TEXT is a statement that is logged only as
#: the text behind row events: the rows show its effect.)
KINDS = (DML, LOAD_DATA, TRUNCATE, DDL, ACCOUNT, MAINTENANCE, CONTROL)

#: Kinds whose text changes the data of the server (rows, tables, programs, accounts) without row
#: events.
CHANGE_KINDS = frozenset({DML, LOAD_DATA, TRUNCATE, DDL, ACCOUNT})

INCIDENT = "INCIDENT"
ROLLED_BACK_STATEMENT = "statement in a rolled back transaction"
ORPHAN_XA_COMMIT = "XA COMMIT whose XA PREPARE is not in the input"

#: The keys of `Ledger.unshown`: the kinds of `CHANGE_KINDS`, and other content of a log that rows
#: cannot show. A statement in a rolled back transaction may still have changed non-transactional
#: tables: that is why a server logs such a transaction at all.
UNSHOWN_KINDS = (
    DML,
    LOAD_DATA,
    TRUNCATE,
    DDL,
    ACCOUNT,
    INCIDENT,
    ROLLED_BACK_STATEMENT,
    ORPHAN_XA_COMMIT,
)

_SKIP = re.compile(
    rb"(?:[\s(;]+|/\*M?!\d*|\*/|/\*.*?\*/|--[ \t\r\n][^\n]*(?:\n|\Z)|--\Z|#[^\n]*(?:\n|\Z))*", re.S
)
_WORD = re.compile(rb"[A-Za-z_]+")

_BY_FIRST_WORD = {
    **dict.fromkeys(
        (b"INSERT", b"UPDATE", b"DELETE", b"REPLACE", b"CALL", b"DO", b"SELECT", b"WITH", b"VALUES",
         b"TABLE", b"HANDLER", b"EXECUTE", b"IMPORT"), DML),
    b"LOAD": LOAD_DATA,
    b"TRUNCATE": TRUNCATE,
    **dict.fromkeys((b"CREATE", b"ALTER", b"DROP", b"RENAME", b"INSTALL", b"UNINSTALL"), DDL),
    **dict.fromkeys((b"GRANT", b"REVOKE"), ACCOUNT),
    **dict.fromkeys(
        (b"ANALYZE", b"OPTIMIZE", b"REPAIR", b"CHECK", b"FLUSH", b"SET", b"CACHE",
         b"LOCK", b"UNLOCK", b"RESET", b"CHANGE", b"START", b"STOP", b"USE", b"PURGE", b"BINLOG"), MAINTENANCE),
    **dict.fromkeys((b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT", b"RELEASE", b"XA"), CONTROL),
}  # fmt: skip

# MariaDB's ANALYZE executes other statements: ANALYZE UPDATE …, ANALYZE FORMAT=JSON DELETE …
_ANALYZES_TABLES = frozenset((b"", b"TABLE", b"TABLES", b"LOCAL", b"NO_WRITE_TO_BINLOG"))
_ACCOUNT_OBJECTS = frozenset((b"USER", b"ROLE", b"PASSWORD", b"DEFAULT"))
_START_TRANSACTION = b"TRANSACTION"
_SET_STATEMENT = [b"SET", b"STATEMENT"]
_HEAD_BYTES = 65536  # longer leading comments are not read; the kind is then statement DML


def _words(text: bytes, pos: int = 0) -> list[bytes]:
    """Return the first words (two, or those after OR REPLACE) from a place on, upper case, after comments,
    parentheses and white space.
    """
    words: list[bytes] = []
    while len(words) < 2 or words[1:] == [b"OR"] or words[1:] == [b"OR", b"REPLACE"]:
        skipped = _SKIP.match(text, pos, min(len(text), _HEAD_BYTES))
        pos = skipped.end() if skipped else pos
        word = _WORD.match(text, pos)
        if word is None:
            break
        words.append(word[0].upper())
        pos = word.end()
    if words[1:3] == [b"OR", b"REPLACE"]:
        del words[1:3]
    return words


def statement_kind(text: bytes) -> str:
    """Return the kind (one of `KINDS`) of a statement's text, as logged.

    A text with an unknown first word counts as statement DML: it may change rows, and a count too
    many is better than an unreported change.
    """
    words = _words(text)
    if words == _SET_STATEMENT:
        words = _words(without_set_statement(text))
        if words == _SET_STATEMENT and _FOR.search(text):
            return DML  # it is not certain where the other statement begins
    if not words:
        return DML
    kind = _BY_FIRST_WORD.get(words[0], DML)
    second = words[1] if len(words) > 1 else b""
    if kind is DDL and second in (b"USER", b"ROLE"):
        return ACCOUNT
    if words[0] == b"SET" and second in _ACCOUNT_OBJECTS:
        return ACCOUNT
    if words[0] == b"ANALYZE" and second not in _ANALYZES_TABLES:
        return DML
    if words[0] == b"START" and second == _START_TRANSACTION:
        return CONTROL
    return kind


# The parts of SET STATEMENT whose FOR is none, then words, and quoted texts and comments without an end.
_SETTING = re.compile(
    rb"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|`[^`]*+`"
    rb"|/\*(?!M?!)(?:[^*]|\*(?!/))*+\*/|--(?=[\x00-\x20\x7f]|\Z)[^\n]*+|#[^\n]*+"
    rb"|(?P<open>/\*M?!\d*)|(?P<close>\*/)|(?P<bracket>[()])|(?P<word>[\w$@.\x80-\xff]++)|(?P<unclosed>['\"`]|/\*)",
    re.S,
)
_FOR = re.compile(rb"FOR", re.I)
_END_OF_COMMENT = re.compile(rb"\s*\*/")


def without_set_statement(text: bytes) -> bytes:
    """Return the statement for which MariaDB's `SET STATEMENT variable = value, … FOR` is set.

    If an executable comment contains the FOR and the statement after it, the result begins with the comment.
    """
    if _words(text) != _SET_STATEMENT:
        return text
    depth, opening = 0, b""
    for item in _SETTING.finditer(text, 0, min(len(text), _HEAD_BYTES)):
        kind = item.lastgroup
        if kind == "unclosed":
            break
        if kind in ("open", "close"):
            opening = item[0] if kind == "open" else b""
        elif kind == "bracket":
            depth += 1 if item[0] == b"(" else -1
        elif (
            kind == "word"
            and not depth
            and item[0].upper() == b"FOR"
            and _words(text, item.end()) != _SET_STATEMENT  # the statement may be one, too
        ):
            return _after_for(text, item.end(), opening)
    return text


def _after_for(text: bytes, at: int, opening: bytes) -> bytes:
    """Return the text from a place on. `opening` begins the executable comment that contains the place, b"" if there is none."""
    if opening and (closed := _END_OF_COMMENT.match(text, at)):
        opening, at = b"", closed.end()
    rest = text[at:].lstrip()
    return opening + b" " + rest if opening else rest


_XID_PART = rb"(?:[xX]'((?:[0-9a-fA-F]{2})*)'|0[xX]((?:[0-9a-fA-F]{2})*)|'((?:[^'\\]|''|\\.)*)'|\"((?:[^\"\\]|\"\"|\\.)*)\")"
_XID = re.compile(
    rb"XA\s+[A-Z]+\s+"
    + _XID_PART
    + rb"(?:\s*,\s*"
    + _XID_PART
    + rb"(?:\s*,\s*(0[xX][0-9a-fA-F]+|\d+))?)?",
    re.I | re.S,
)
_ESCAPE = re.compile(rb"\\(.)|''|\"\"", re.S)

#: format id, gtrid, bqual
Xid = tuple[int, bytes, bytes]


def _xid_part(hex1: bytes | None, hex2: bytes | None, *quoted: bytes | None) -> bytes:
    digits = hex1 if hex1 is not None else hex2
    if digits is not None:
        return bytes.fromhex(digits.decode("ascii"))
    for text in quoted:
        if text is not None:
            return _ESCAPE.sub(lambda m: m[1] if m[1] is not None else m[0][:1], text)
    return b""


def xid_of_statement(text: bytes) -> Xid | None:
    """Return the (format id, gtrid, bqual) that an XA statement names, or None.

    Servers log them as `XA COMMIT X'6f6e65',X'6231',7`; quoted texts are accepted too. The parts
    default to an empty bqual and format id 1.
    """
    found = _XID.search(text)
    if found is None:
        return None
    groups = found.groups()
    format_id = int(groups[8], 0) if groups[8] else 1
    return format_id, _xid_part(*groups[0:4]), _xid_part(*groups[4:8])
