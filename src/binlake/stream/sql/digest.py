"""Statements that differ only in their values, as one text: the digest.

    UPDATE orders SET state = 'paid' WHERE id IN (7, 8)      UPDATE orders SET state = ? WHERE id IN (...)
    insert into t values (1, NULL), (2, 'x') -- nightly      INSERT INTO t VALUES (...)

Literals become `?`, lists of them `(...)`, several such lists one. Comments and superfluous white
space are removed; keywords are in upper case. The text is for people and for grouping; it need not
be valid SQL.
"""

from __future__ import annotations

import re

_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """ADD AFTER ALL ALTER AND ANY AS ASC BEGIN BETWEEN BY CALL CASCADE CASE CHANGE CHARACTER CHECK COLUMN COMMENT
    COMMIT CONSTRAINT CREATE CROSS DATABASE DATA DEFAULT DEFINER DELETE DESC DISTINCT DO DROP DUPLICATE EACH ELSE
    END ENGINE EVENT EXISTS FOR FOREIGN FROM FULL FUNCTION GRANT GROUP HAVING IDENTIFIED IF IGNORE IN INDEX INFILE
    INNER INSERT INTERVAL INTO IS JOIN KEY LEFT LIKE LIMIT LOAD LOCAL LOW_PRIORITY MODIFY NATURAL NOT NULL OFFSET ON
    OR ORDER OUTER PARTITION PRIMARY PROCEDURE REFERENCES REGEXP RENAME REPLACE REVOKE RIGHT ROLLBACK ROW SELECT SET
    SHARE STRAIGHT_JOIN TABLE TABLES TEMPORARY THEN TO TRIGGER TRUNCATE UNION UNIQUE UPDATE USER USING VALUES VALUE
    VIEW WHEN WHERE WITH XOR""",
    )
)
#: One token of a statement: the groups are the kinds. Signs are between tokens.
TOKEN = re.compile(
    r"""(?P<name>`(?:[^`]|``)*+`)
    |(?P<gap>\s++|--(?=\s|\Z)[^\n]*+|\#[^\n]*+|/\*(?!M?!)(?:[^*]|\*(?!/))*+\*/)
    |(?P<literal>(?:\b[nNxXbB]|\b_[a-zA-Z0-9]++\s*+)?'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"
      |(?<![\w$@.`])(?:0[xX][0-9a-fA-F]++|0b[01]++|(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?)(?![\w$]))
    |(?P<word>[^\W\d][\w$]*+)""",
    re.VERBOSE | re.DOTALL,
)
# Also a literal or comment without an end: to search for the end of each later one would be quadratic.
_TOKEN = re.compile(
    TOKEN.pattern + r"""|(?P<cut_literal>['"`].*)|(?P<cut_gap>/\*(?!M?!).*)""",
    re.VERBOSE | re.DOTALL,
)
_SIGN = re.compile(r"(?<=[(,=<>])( ?)[-+] ?\?")
_NULL = re.compile(r"(?<=[(,=])( ?)NULL\b(?=\s*(?:[,);]|\Z|WHERE\b|LIMIT\b|ORDER\b))")
_ONE_OF = re.compile(r"\bIN ?\( ?\? ?\)")
_LIST = re.compile(r"\( ?\?(?: ?, ?\?)++ ?\)")
_ROWS = re.compile(r"(\(\.\.\.\)|\(\?\))(?: ?, ?\1)++")
_SPACE = re.compile(r" {2,}")


def _replaced(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind in ("gap", "cut_gap"):
        return " "
    if kind in ("literal", "cut_literal"):
        return "?"
    text = found[0]
    if kind == "word":
        upper = text.upper()
        return upper if upper in _KEYWORDS else text
    return text


def digest_text(sql: str) -> str:
    """Return the statement without its values."""
    text = _TOKEN.sub(_replaced, sql)
    text = _SPACE.sub(" ", text).strip(" ;")
    text = _NULL.sub(r"\1?", _SIGN.sub(r"\1?", text))
    text = _LIST.sub("(...)", _ONE_OF.sub("IN (...)", text))
    return _ROWS.sub(r"\1", text)
