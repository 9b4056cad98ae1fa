"""The tests and columns of a filter that DuckDB pushes into a scan.

    asked = Asked.of(filter)
    asked.columns      # the columns that it needs
    asked.tests        # comparisons that each row of the result passes

DuckDB gives a `pyarrow.compute.Expression`, which has no methods to look inside. Its pickled form is a
record batch with the tree in the metadata of its schema, and the constants as columns. A filter that is
not understood needs all columns and has no tests: it is applied after decoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from binlake.values.where import MIRRORED

_LINE = re.compile(r"(call|end|field_ref|nested_field_ref|literal|options): '(.*)'", re.DOTALL)
_METADATA = "-- schema metadata --\n"
_OPERATORS = {
    "equal": "=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_AND = ("and_kleene", "and")


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A test of one column that every row of the result passes.

    `operator` is one of = < <= > >=, with one value, or `in`, with several. Values are Arrow scalars.
    """

    column: str
    operator: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """The requirements of a filter: `columns` are those that it needs (None: it may need any)."""

    columns: frozenset[str] | None
    tests: tuple[ColumnTest, ...] = ()

    @classmethod
    def of(cls, condition: pc.Expression | None) -> Self:
        """Return the requirements of a filter; None means no filter."""
        if condition is None:
            return cls(frozenset())
        try:
            tree = _Reader(condition).tree()
        except (_UnknownFormError, pa.ArrowException, TypeError, ValueError):
            return cls(None)
        return cls(frozenset(_columns(tree)), tuple(_tests(tree)))


class _UnknownFormError(Exception):
    """The pickled form of an expression is not the one that this module knows."""


@dataclass(frozen=True, slots=True)
class _Field:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Any


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    arguments: tuple[_Node, ...]
    options: Any = None


_Node = _Field | _Constant | _Call


class _Reader:
    """Reads the pickled form of an expression."""

    def __init__(self, condition: pc.Expression) -> None:
        _, (pickled, *_) = condition.__reduce__()
        file = pa.ipc.open_file(pickled)
        self._values = file.get_batch(0)
        # as a dict the metadata would lose repeated keys
        _, _, text = file.schema.to_string(truncate_metadata=False).partition(_METADATA)
        self._entries = [self._entry(line) for line in text.split("\n")]
        self._at = 0

    def tree(self) -> _Node:
        found = self._node()
        if self._at != len(self._entries):
            raise _UnknownFormError
        return found

    def _entry(self, line: str) -> tuple[str, str]:
        found = _LINE.fullmatch(line)
        if found is None:  # also for a column whose name has a line break
            raise _UnknownFormError
        return found[1], found[2]

    def _next(self) -> tuple[str, str]:
        if self._at == len(self._entries):
            raise _UnknownFormError
        self._at += 1
        return self._entries[self._at - 1]

    def _node(self) -> _Node:
        kind, text = self._next()
        if kind == "field_ref":
            return _Field((text,))
        if kind == "nested_field_ref":
            names = [self._next() for _ in range(int(text))]
            if any(kind != "field_ref" for kind, _ in names):
                raise _UnknownFormError
            return _Field(tuple(name for _, name in names))
        if kind == "literal":
            return _Constant(self._values.column(int(text))[0])
        if kind != "call":
            raise _UnknownFormError
        return self._call(text)

    def _call(self, function: str) -> _Call:
        arguments: list[_Node] = []
        options = None
        while True:
            kind, text = self._entries[self._at] if self._at < len(self._entries) else ("", "")
            if kind == "end":
                if text != function:
                    raise _UnknownFormError
                self._at += 1
                return _Call(function, tuple(arguments), options)
            if kind == "options":
                self._at += 1
                options = self._values.column(int(text))[0]
            else:
                arguments.append(self._node())


def _columns(node: _Node) -> Iterator[str]:
    if isinstance(node, _Field):
        yield node.path[0]
    elif isinstance(node, _Call):
        for argument in node.arguments:
            yield from _columns(argument)


def _tests(node: _Node) -> Iterator[ColumnTest]:
    """Yield the tests that a filter is an AND of; other parts are left out."""
    match node:
        case _Call(function, parts) if function in _AND:
            for part in parts:
                yield from _tests(part)
        case _Call("if_else", (_Call("is_valid"), _Call("is_in") as inner, _Constant())):
            yield from _tests(inner)  # IN, of which NULL is unknown
        case _Call("is_in", (_Field((column,)),), options) if options is not None:
            values = options["value_set"]
            if isinstance(values, pa.ListScalar) and values.is_valid:
                yield ColumnTest(column, "in", tuple(values.values))
        case _Call(function, (_Field((column,)), _Constant(value))) if function in _OPERATORS:
            yield ColumnTest(column, _OPERATORS[function], (value,))
        case _Call(function, (_Constant(value), _Field((column,)))) if function in _OPERATORS:
            operator = _OPERATORS[function]
            yield ColumnTest(column, MIRRORED.get(operator, operator), (value,))
