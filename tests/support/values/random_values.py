"""Random values of every column type, as SQL literals: what edge values do not think of."""

from __future__ import annotations

import json
import math
import random
import re
import struct
from collections.abc import Callable
from dataclasses import replace

from dev.golden.types import Column, Table, literal
from support.values.json_expressions import Expressions

__all__ = ["with_random_values"]

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_HEX = re.compile(r"_utf8mb4 x'([0-9a-f]*)'")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LONGEST = 300  # characters or bytes of a random value


def with_random_values(table: Table, rng: random.Random, count: int) -> Table:
    """The table with `count` random values of each column among its edges, in random order."""
    return replace(table, columns=tuple(_mixed(column, rng, count) for column in table.columns))


def _mixed(column: Column, rng: random.Random, count: int) -> Column:
    make = _maker(column, rng)
    made = [make() for _ in range(count)] if make is not None else []
    edges = [*column.edges, *made]
    rng.shuffle(edges)
    return replace(column, edges=tuple(edges))


def _maker(column: Column, rng: random.Random) -> Callable[[], str] | None:
    """The function that makes a value of a column; None for types whose edges are all their values."""
    found = re.match(r"(\w+)(?:\(([\d, ]*)\))?", column.type)
    assert found, column.type
    kind = found[1].lower()
    numbers = [int(n) for n in (found[2] or "").split(",") if n.strip()]
    unsigned = "UNSIGNED" in column.type
    if kind in _INTEGER_BITS:
        return lambda: _integer(rng, _INTEGER_BITS[kind], unsigned)
    if kind in _MAKERS:
        return lambda: _MAKERS[kind](rng, numbers, column)
    return None


def _integer(rng: random.Random, bits: int, unsigned: bool) -> str:
    value = rng.getrandbits(rng.randrange(1, bits + 1))
    return str(value if unsigned else value - (1 << bits - 1) if value >> bits - 1 else value)


def _year(rng: random.Random, numbers: list[int], column: Column) -> str:
    return str(rng.randrange(1901, 2156))


def _decimal(rng: random.Random, numbers: list[int], column: Column) -> str:
    precision, scale = numbers
    digits = str(rng.randrange(10 ** rng.randrange(1, precision + 1))).rjust(precision, "0")
    sign = "" if "UNSIGNED" in column.type else rng.choice(("", "-"))
    return f"{sign}{digits[: precision - scale] or '0'}.{digits[precision - scale :]}"


def _float(rng: random.Random, numbers: list[int], column: Column) -> str:
    if len(numbers) == 2:
        precision, scale = numbers
        digits = min(precision, 15)
        return f"{rng.randrange(10**digits)}e-{max(scale, digits - precision + scale)}"
    while True:
        single = struct.unpack("<f", rng.randbytes(4))[0]
        if math.isfinite(single):
            return repr(abs(single) if "UNSIGNED" in column.type else single)


def _double(rng: random.Random, numbers: list[int], column: Column) -> str:
    if numbers and column.type.startswith("DOUBLE("):
        return f"{rng.uniform(-1e9, 1e9)!r}"
    while True:
        value = struct.unpack("<d", rng.randbytes(8))[0]
        if math.isfinite(value):
            return repr(value)


def _bit(rng: random.Random, numbers: list[int], column: Column) -> str:
    return f"b'{rng.getrandbits(numbers[0]):b}'"


def _fraction(rng: random.Random, numbers: list[int]) -> str:
    digits = numbers[0] if numbers else 0
    return f".{rng.randrange(10**digits):0{digits}}" if digits else ""


def _day(rng: random.Random, first: int, last: int) -> str:
    return f"{rng.randrange(first, last):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"


def _clock(rng: random.Random, hour: int) -> str:
    return f"{hour:02}:{rng.randrange(60):02}:{rng.randrange(60):02}"


def _date(rng: random.Random, numbers: list[int], column: Column) -> str:
    return f"'{_day(rng, 1, 10000)}'"


def _time(rng: random.Random, numbers: list[int], column: Column) -> str:
    clock = _clock(rng, rng.randrange(rng.choice((24, 838))))
    return f"'{rng.choice(('', '-'))}{clock}{_fraction(rng, numbers)}'"


def _datetime(rng: random.Random, numbers: list[int], column: Column) -> str:
    clock = _clock(rng, rng.randrange(24))
    return f"'{_day(rng, 1, 10000)} {clock}{_fraction(rng, numbers)}'"


def _timestamp(rng: random.Random, numbers: list[int], column: Column) -> str:
    clock = _clock(rng, rng.randrange(24))
    return f"'{_day(rng, 1971, 2038)} {clock}{_fraction(rng, numbers)}'"


def _text(rng: random.Random, numbers: list[int], column: Column) -> str:
    """Characters of the column's edges, which its character set is known to hold."""
    held = "".join(bytes.fromhex(h).decode() for edge in column.edges for h in _HEX.findall(edge))
    most = min([*numbers, 20])
    # spaces at the end of a CHAR are its own matter, and among the edges
    return literal("".join(rng.choices(held or "x", k=rng.randrange(most + 1))).rstrip())


def _bytes(rng: random.Random, numbers: list[int], column: Column) -> str:
    return f"x'{rng.randbytes(rng.randrange(min([*numbers, _LONGEST]) + 1)).hex()}'"


def _member(rng: random.Random, numbers: list[int], column: Column) -> str:
    return str(rng.randrange(1, max(_whole(column)) + 1))


def _members(rng: random.Random, numbers: list[int], column: Column) -> str:
    return str(rng.getrandbits(max(_whole(column)).bit_length()))


def _whole(column: Column) -> list[int]:
    return [int(edge) for edge in column.edges if edge.isdigit()]


def _shape(rng: random.Random, numbers: list[int], column: Column) -> str:
    """An edge, moved: polygons stay closed, and the point of a real place stays on earth."""
    edge = rng.choice(column.edges)
    if "4326" in edge:
        return (
            f"ST_GeomFromText('POINT({rng.uniform(-89, 89)!r} {rng.uniform(-179, 179)!r})', 4326)"
        )
    by = rng.choice((rng.randrange(-9, 9), rng.uniform(-1e6, 1e6)))
    text, srid = re.fullmatch(r"ST_GeomFromText\('(.*)'(.*)\)", edge).groups()  # type: ignore[union-attr]
    return f"ST_GeomFromText('{_NUMBER.sub(lambda n: repr(float(n[0]) + by), text)}'{srid})"


def _document(rng: random.Random, numbers: list[int], column: Column) -> str:
    if "'{}'" in column.edges:  # MariaDB's, which is text
        return literal(json.dumps({"k": [rng.random(), rng.choice(("é", "x" * 200)), None]}))
    return Expressions(rng.getrandbits(32)).value(rng.randrange(4))


def _vector(rng: random.Random, numbers: list[int], column: Column) -> str:
    function = column.edges[0].partition("(")[0]
    values = ",".join(f"{rng.uniform(-1e6, 1e6):.6g}" for _ in range(numbers[0]))
    return f"{function}('[{values}]')"


def _inet6(rng: random.Random, numbers: list[int], column: Column) -> str:
    return f"'{':'.join(f'{rng.getrandbits(16):x}' for _ in range(8))}'"


def _inet4(rng: random.Random, numbers: list[int], column: Column) -> str:
    return f"'{'.'.join(str(rng.getrandbits(8)) for _ in range(4))}'"


def _uuid(rng: random.Random, numbers: list[int], column: Column) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return f"'{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}'"


_MAKERS: dict[str, Callable[[random.Random, list[int], Column], str]] = {
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _text),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _bytes),
    **dict.fromkeys(("point", "linestring", "polygon", "multipoint", "multilinestring"), _shape),
    **dict.fromkeys(("multipolygon", "geometrycollection", "geometry"), _shape),
    "year": _year, "decimal": _decimal, "float": _float, "double": _double, "bit": _bit,
    "date": _date, "time": _time, "datetime": _datetime, "timestamp": _timestamp,
    "enum": _member, "set": _members, "json": _document, "vector": _vector,
    "inet6": _inet6, "inet4": _inet4, "uuid": _uuid,
}  # fmt: skip
