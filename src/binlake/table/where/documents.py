"""Comparisons of values at a path of JSON documents.

`->` gives a JSON value, which binlake compares with numbers only: how a server compares it with a text depends
on types that the document's text does not show (a DATE is written as a string is). `->>` gives text under
utf8mb4_bin. A path that a document lacks is NULL.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.values.json_diff import MARK
from binlake.source.arrays import array
from binlake.table.types.base import ColumnType
from binlake.table.types.json import JsonType
from binlake.table.where.collations import rules_of
from binlake.table.where.comparing import Operator, Test
from binlake.values.where import Document

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING = object()


class _Number(NamedTuple):
    """A JSON number as it is written."""

    text: str
    is_integer: bool

    def against(self, other: int | Decimal | float) -> tuple[Any, Any]:
        """The number and a constant, as numbers that compare as the server's do."""
        if self.is_integer and isinstance(other, int):
            return int(self.text), other
        return float(self.text), float(other)


def is_document(kind: ColumnType) -> bool:
    """Whether paths of a column can be taken."""
    return isinstance(kind, JsonType) or kind.charset in ("utf8mb4", "utf8mb3")


class DocumentTests:
    """Tests of one path of a column."""

    def __init__(self, kind: ColumnType, document: Document) -> None:
        self._path = document.path
        self._unquoted = document.unquoted
        self._is_native = isinstance(kind, JsonType)

    def compare(self, operator: Operator, value: object) -> Test:
        """The test against a constant. Raises ValueError with what is wrong with it."""
        if self._unquoted:
            return self._compare_text(operator, value)
        if not self._is_native:
            # MariaDB compares the text of JSON_EXTRACT, with a number by its first characters
            raise ValueError("-> needs MySQL's JSON; compare the text of ->> instead")
        if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
            raise ValueError("-> is compared with numbers; ->> gives text, also 'true' and 'null'")
        return self._each(lambda found: _number_is(found, operator, value))

    def like(self, pattern: str, escape: str) -> Test:
        """LIKE. Raises ValueError."""
        if not self._unquoted:
            raise ValueError("-> gives JSON; use ->> for LIKE")
        rules = rules_of("utf8mb4", "utf8mb4_bin")
        assert rules is not None
        return lambda values, _: rules.like(self._texts(values), pattern, escape)

    def is_null(self, values: pa.Array) -> pa.Array:
        """Whether there is nothing at the path, or no document."""
        return array([found is _MISSING for found in self._found(values)], pa.bool_())

    def undecided(self, values: pa.Array) -> pa.Array | None:
        """The values that are differences to an unknown document; None for no such value."""
        return pc.starts_with(values, MARK) if self._is_native else None

    def _compare_text(self, operator: Operator, value: object) -> Test:
        if not isinstance(value, str):
            raise ValueError(
                "->> gives text: compare it with a text in quotes, or use -> for numbers"
            )
        if operator != "=":
            raise ValueError("->> compares with = <> <=> IN and LIKE")
        literal = value.rstrip(" ")
        return lambda values, _: array(
            [
                None if text is None else text.rstrip(" ") == literal
                for text in self._texts(values).to_pylist()
            ],
            pa.bool_(),
        )

    def _each(self, decide: Callable[[Any], bool]) -> Test:
        return lambda values, _: array(
            [None if found is _MISSING else decide(found) for found in self._found(values)],
            pa.bool_(),
        )

    def _texts(self, values: pa.Array) -> pa.Array:
        texts = [None if f is _MISSING else self._text(f) for f in self._found(values)]
        return array(texts, pa.string())

    def _text(self, found: Any) -> str:
        if isinstance(found, str):
            return found
        if isinstance(found, _Number):
            return found.text
        if found is None or isinstance(found, bool):
            return {None: "null", True: "true", False: "false"}[found]
        raise ValueError(
            "->> compares strings, numbers, true, false and null, not arrays or objects"
        )

    def _found(self, values: pa.Array) -> Iterable[Any]:
        for text in values.to_pylist():
            yield _MISSING if text is None or text.startswith(MARK) else self._at_path(text)

    def _at_path(self, text: str) -> Any:
        found = _parsed(text)
        for step in self._path:
            if isinstance(step, int):
                if not isinstance(found, list):
                    if step or found is _MISSING:
                        return _MISSING
                    continue  # the servers treat a value as an array of one
                found = found[step] if step < len(found) else _MISSING
            else:
                found = found.get(step, _MISSING) if isinstance(found, dict) else _MISSING
        return found


def _number_is(found: Any, operator: Operator, value: int | Decimal | float) -> bool:
    if isinstance(found, _Number):
        return _COMPARE[operator](*found.against(value))
    if operator == "=":
        return False
    raise ValueError(
        "-> compares the order of numbers only, and a document has another value there"
    )


def _parsed(text: str) -> Any:
    try:
        return _decoder().decode(text)
    except (ValueError, RecursionError):  # MariaDB's documents are texts, of any depth
        raise ValueError("a text is no JSON document") from None


@cache
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_int=lambda text: _Number(text, True),
        parse_float=lambda text: _Number(text, False),
        object_pairs_hook=_unique,
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a document has a key twice")
    return made
