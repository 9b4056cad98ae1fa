"""Random conditions over the columns of a table, in SQL that servers and binlake read alike."""

from __future__ import annotations

import random
from collections.abc import Sequence

from dev.golden.types import Column

__all__ = ["Conditions", "kind_of"]

_OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_KINDS = {
    "number": ("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year", "decimal", "float", "double"),
    "moment": ("date", "time", "datetime", "timestamp"),
    "text": ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"),
    "bytes": ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
}  # fmt: skip


def kind_of(column: Column) -> str:
    """The kind of comparison that a column takes: number, moment, text, bytes or other."""
    word = column.type.lower().split("(")[0].split()[0]
    return next((kind for kind, words in _KINDS.items() if word in words), "other")


def quoted(text: str) -> str:
    """A string literal as people write it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class Conditions:
    """Conditions over columns; `values` are texts that the server shows for each, bytes as hex."""

    def __init__(
        self, rng: random.Random, columns: Sequence[Column], values: dict[str, list[str]]
    ) -> None:
        self._rng = rng
        self._columns = columns
        self._values = values

    def any(self, depth: int) -> str:
        """A condition of at most so many nested operators."""
        if depth == 0 or self._rng.random() < 0.3:
            return self._one()
        word = self._rng.choice(("AND", "OR", "XOR", "NOT", "AND", "OR"))
        if word == "NOT":
            return f"NOT ({self.any(depth - 1)})"
        return f"({self.any(depth - 1)}) {word} ({self.any(depth - 1)})"

    def _one(self) -> str:
        rng = self._rng
        column = rng.choice(self._columns)
        name, kind = f"`{column.name}`", kind_of(column)
        choice = rng.random()
        if kind == "other" or choice < 0.08:
            return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
        if choice < 0.2:
            listed = ", ".join(self._literal(column, kind) for _ in range(rng.randint(1, 4)))
            return f"{name} {rng.choice(('', 'NOT '))}IN ({listed})"
        if choice < 0.3 and kind != "text":
            low, high = self._literal(column, kind), self._literal(column, kind)
            return f"{name} {rng.choice(('', 'NOT '))}BETWEEN {low} AND {high}"
        if choice < 0.5 and kind == "text":
            return f"{name} {rng.choice(('', 'NOT '))}LIKE {quoted(self._pattern(column))}"
        return f"{name} {rng.choice(_OPERATORS)} {self._literal(column, kind)}"

    def _literal(self, column: Column, kind: str) -> str:
        rng, known = self._rng, self._values[column.name]
        value = rng.choice(known) if known else "0"
        if column.type.lower().startswith(("float", "double")):
            return value if "e" in value.lower() else f"{value}e0"
        if kind == "number":
            if "e" in value.lower() or rng.random() < 0.6:
                return value
            return rng.choice((value + ("5" if "." in value else ".5"), "0", "-1", "1e3", "2000"))
        if kind == "bytes":
            return f"0x{value}" if value else "''"
        if kind == "moment":
            return quoted(value if rng.random() < 0.8 else value.split(".")[0])
        changed = rng.choice((value, value, value.swapcase(), value + " ", value[:1], ""))
        return quoted(changed)

    def _pattern(self, column: Column) -> str:
        rng, known = self._rng, self._values[column.name]
        value = rng.choice(known) if known else ""
        at = rng.randint(0, len(value))
        return rng.choice(
            (
                value[:at] + "%",
                "%" + value[at:],
                value[:at] + "_" + value[at + 1 :],
                value.swapcase(),
                "%",
            )
        )
