"""One text for each value, made by the server's SQL and from the lake's Arrow arrays alike.

A text stands for one value only: two sides are equal if and only if their texts are. Texts of strings and
bytes are digests, so that a row's text is short and needs no quoting. SQL shortens some floating-point numbers: `exact_sql`
finds them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.format import column_types as ct
from binlake.values.plan import ColumnDefinition

#: Stands for NULL. No value has this text.
NULL = "~"
SEPARATOR = "|"
#: The texts of a column; None for null.
Texts = list[str | None]
#: The text of bytes.
Digest = Callable[[bytes], str]

_INTEGERS = ct.INTEGER_TYPES | {ct.MYSQL_TYPE_YEAR}
_NOT_BYTES = (ct.MYSQL_TYPE_GEOMETRY, ct.MYSQL_TYPE_VECTOR)  # no hash takes them as they are
_MOST_FIXED = 15  # digits before or after the point, beyond which a server writes an exponent
_HALF_OF_LAST_BIT = 2.0**-25  # of a FLOAT, relative to the number, at least


@dataclass(frozen=True, slots=True)
class Hash:
    """A hash that a server knows; `expression` has the place of its argument."""

    name: str
    expression: str

    def sql(self, argument: str) -> str:
        """The lower-case hexadecimal digest in SQL."""
        return self.expression.format(argument)

    def hex(self, data: bytes) -> str:
        """The digest, computed by binlake."""
        return hashlib.new(self.name, data, usedforsecurity=False).hexdigest()


#: Of servers before MySQL 8, some of which have no other.
MD5 = Hash("md5", "MD5({})")
#: MySQL 9.6 and later have no MD5() any more.
SHA256 = Hash("sha256", "SHA2({}, 256)")


def sql_text(
    column: ColumnDefinition, name: str, source: pa.DataType, lake: pa.DataType, digest: Hash
) -> str:
    """SQL for the text of a column's value, never NULL. `source`: its type as it is decoded, `lake`: as the lake has it."""
    if pa.types.is_string(lake) and not is_text(source):
        found = digest.sql(_kept_as_text(column, name, source, digest))
    else:
        found = _sql(column, name, lake, digest)
    return f"COALESCE({found}, '{NULL}')"


def exact_sql(column: ColumnDefinition, name: str, source: pa.DataType, lake: pa.DataType) -> str:
    """An SQL condition, never NULL: no other value has the same `sql_text`. Empty where this is always so.

    Adding zero turns -0.0 into 0.0. MySQL 9.7 writes at most 22 characters of a DOUBLE, and all servers 6 digits of a FLOAT (seen on MySQL 5.6 and 9.7, MariaDB 10.11
    and 11.8).
    """
    if column.type_code not in ct.FLOAT_TYPES:
        return ""
    value = f"({name} + 0e0)"
    if pa.types.is_string(lake) and pa.types.is_float32(source):
        far = f"ABS(CONCAT({name}) - {value})"
        return f"COALESCE({far} <= ABS({value}) * {_HALF_OF_LAST_BIT!r}, 1)"
    is_positive = f"({value} <> 0 OR LEFT(CONCAT({name}), 1) <> '-')"
    return f"COALESCE(CONCAT({value}) + 0e0 = {value} AND {is_positive}, 1)"


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text."""
    of = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def _kept_as_text(column: ColumnDefinition, name: str, kind: pa.DataType, digest: Hash) -> str:
    """SQL for the text of a value that the lake keeps as text, see `columns.texts`."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"LOWER(HEX({name}))"
    if pa.types.is_float32(kind):
        return f"CONCAT({name})"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _date(name, f"CONCAT({name})")
    return _sql(column, name, kind, digest)


def _date(name: str, shown: str) -> str:
    """SQL for a date or moment; NULL for zero and partial dates, and for days that the month lacks."""
    partial = f"YEAR({name}) = 0 OR MONTH({name}) = 0 OR DAYOFMONTH({name}) = 0"
    first = f"CONCAT(LPAD(YEAR({name}), 4, '0'), '-', MONTH({name}), '-01')"
    beyond = f"DAYOFMONTH({name}) > 28 AND DAYOFMONTH({name}) > DAYOFMONTH(LAST_DAY({first}))"
    return f"IF({partial} OR ({beyond}), NULL, {shown})"


def _sql(column: ColumnDefinition, name: str, kind: pa.DataType, digest: Hash) -> str:
    code = column.type_code
    if code == ct.MYSQL_TYPE_NEWDECIMAL:
        name = f"({name} + 0)"  # ZEROFILL: without its leading zeros
    if code in _NOT_BYTES or column.declared == "vector":
        return digest.sql(f"UNHEX(HEX({name}))")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return digest.sql(name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return digest.sql(f"CONVERT({name} USING utf8mb4)")
    if code in _INTEGERS:
        return f"CONCAT({name} + 0)"
    if code in (ct.MYSQL_TYPE_BIT, ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET):
        return f"CONCAT(CAST({name} AS UNSIGNED))"
    if code in ct.FLOAT_TYPES:
        return f"CONCAT({name} + 0e0)"
    if code == ct.MYSQL_TYPE_TIME2:
        size = (
            f"(HOUR({name}) * 3600000000 + MINUTE({name}) * 60000000 + SECOND({name}) * 1000000"
            f" + MICROSECOND({name}))"
        )
        return f"CONCAT(IF({name} < '00:00:00', -1, 1) * {size})"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        padding = _padding(column) if pa.types.is_timestamp(kind) else ""
        return _date(name, f"CONCAT({name}{padding})")
    return f"CONCAT({name})"


def _padding(column: ColumnDefinition) -> str:
    """The SQL suffix that gives a moment six fractional digits."""
    lacking = 6 - column.decimals
    if not lacking:
        return ""
    return f", '{'' if column.decimals else '.'}{'0' * lacking}'"


def is_digested(kind: pa.DataType) -> bool:
    """Whether the texts of a type are digests."""
    return any(is_kind(kind) for is_kind in (*_DIGESTED, pa.types.is_list, pa.types.is_large_list))


def texts_of(values: pa.Array, digest: Digest) -> Texts:
    """The texts of an array of the lake; None for null."""
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _vectors(values, digest)
    if any(is_kind(kind) for is_kind in _DIGESTED):
        raw = values.cast(pa.large_binary()).to_pylist()
        return [None if one is None else digest(one) for one in raw]
    for is_kind, make in _BY_TYPE:
        if is_kind(kind):
            return make(values)
    raise TypeError(f"no text for {kind}")


def _plain(values: pa.Array) -> Texts:
    texts: Texts = values.cast(pa.large_string()).to_pylist()
    return texts


def _vectors(values: pa.Array, digest: Digest) -> Texts:
    found: Texts = []
    for row in values:
        if not row.is_valid:
            found.append(None)
            continue
        raw = pa.array(row.values, pa.float32()).to_numpy(zero_copy_only=False).tobytes()
        found.append(digest(raw))
    return found


def _decimals(values: pa.Array) -> Texts:
    return [None if one is None else format(one, "f") for one in _decimal_values(values)]


def _decimal_values(values: pa.Array) -> list[Decimal | None]:
    found: list[Decimal | None] = values.to_pylist()
    return found


def _reals(values: pa.Array) -> Texts:
    coded = values.cast(pa.float64())
    return [None if one is None else _real(one) for one in coded.to_pylist()]


def _real(value: float) -> str:
    """A double as a server writes it: the shortest digits that read back the same."""
    return real_text(Decimal(repr(value)))


def real_text(value: Decimal) -> str:
    """The digits of a floating-point number as a server writes them."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return str(value)  # infinite or not a number: no server stores it
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return "-0" if sign else "0"
    point = len(digits) + exponent  # digits before the point
    minus = "-" if sign else ""
    if -_MOST_FIXED < point <= _MOST_FIXED:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        whole, fraction = text[:point].ljust(point, "0"), text[point:]
        return f"{minus}{whole}{'.' + fraction if fraction else ''}"
    fraction = f".{text[1:]}" if text[1:] else ""
    return f"{minus}{text[0]}{fraction}e{point - 1}"


_DIGESTED = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
_Make = Callable[[Any], Texts]
_BY_TYPE: Sequence[tuple[Callable[[pa.DataType], bool], _Make]] = (
    (pa.types.is_integer, _plain),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_floating, _reals),
    (pa.types.is_date, _plain),
    (pa.types.is_timestamp, lambda values: _plain(values.cast(pa.timestamp("us")))),
    (pa.types.is_duration, lambda values: _plain(values.cast(pa.duration("us")).cast(pa.int64()))),
    (pa.types.is_boolean, lambda values: _plain(pc.cast(values, pa.int8()))),
)
