"""One rule for a table whose definition changes inside the range that is read.

Columns are united by name, and follow a RENAME COLUMN in the DDL of the log: older rows have the
column under its newest name. If two definitions give a column different types, the column gets a
type that holds every value of both, if there is one. Otherwise the newest definition determines
the type, and the older rows with a value that does not fit go, whole, to `<table>@<n>` (n: the
1-based number of their definition), and binlake reports that. A value fits if it converts to the
new type and back to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import array, scalar
from binlake.table.schema.newest_names import ColumnRenames, newest_names
from binlake.values.builds import PickledByName

_INTEGER_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19, pa.uint64(): 20}
_MAX_DIGITS = 38  # of decimal128
# integers that a float of so many mantissa bits holds exactly
_IN_FLOAT32 = (pa.int8(), pa.int16())
_IN_FLOAT64 = (pa.int8(), pa.int16(), pa.int32())


def distinct_versions(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """Return each schema once, in the order of its last appearance: the last is the newest."""
    kept: list[pa.Schema] = []
    for schema in reversed(schemas):
        if not any(schema.equals(known) for known in kept):
            kept.append(schema)
    return kept[::-1]


class Conformed(NamedTuple):
    """A batch in the united schema, and its rows that do not fit, in their old form (or None)."""

    fitting: pa.RecordBatch
    misfits: pa.RecordBatch | None


@dataclass(frozen=True, slots=True)
class Evolution(PickledByName):
    """The united schema of one table's definitions, oldest first in `versions`.

    `notes`: a sentence for each column that was renamed, or whose type could not be united.
    `renames`: the columns that each statement of the log renames. `newest_names`: by version, the
    newest names of its columns.
    """

    schema: pa.Schema
    versions: tuple[pa.Schema, ...]
    notes: tuple[str, ...]
    renames: tuple[ColumnRenames, ...] = ()
    newest_names: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        table: str,
        versions: Sequence[pa.Schema],
        renames: Sequence[ColumnRenames] = (),
    ) -> Evolution:
        """Unite the schemas of a table's definitions, given from the oldest to the newest.

        Columns stand as in the newest definition, those that it lost behind, before the metadata
        columns.
        """
        if len(versions) == 1 and not renames:
            return cls(versions[0], tuple(versions), (), (), ({},))
        fields: dict[str, pa.Field] = {}
        notes: list[str] = []
        named = newest_names([version.names for version in versions], renames)
        for version, new_names in zip(reversed(versions), reversed(named), strict=True):
            for name, field in _renamed(version, new_names).items():
                if name != field.name:
                    notes.append(
                        f"{table}.{name}: also contains rows from before it was renamed from"
                        f" {field.name}"
                    )
                field = _with_renamed_members(field.with_name(name), new_names)
                newer = fields.get(field.name)
                if newer is None:
                    fields[field.name] = field
                elif newer.type != field.type:
                    common = promoted(field.type, newer.type)
                    if common is None:
                        notes.append(
                            f"{table}.{field.name}: changed from {field.type} to {newer.type};"
                            " older"
                            f" rows that do not fit are in {table}@n"
                        )
                    else:
                        fields[field.name] = newer.with_type(common)
        newest = versions[-1]
        ordered = _metadata_last(list(fields.values()), len(newest))
        schema = pa.schema(ordered, metadata=newest.metadata)
        return cls(
            schema, tuple(versions), tuple(dict.fromkeys(notes)), tuple(renames), tuple(named)
        )

    def deciding(self) -> tuple[str, ...]:
        """Return the columns of the united schema that decide whether a row fits it."""
        names: dict[str, None] = {}
        for version, new_names in zip(self.versions, self.newest_names, strict=True):
            for name, field in _renamed(version, new_names).items():
                held = _with_renamed_members(field.with_name(name), new_names).type
                united = self.schema.field(name).type
                if promoted(held, united) != united:
                    names[name] = None
        return tuple(names)

    def number(self, schema: pa.Schema) -> int:
        """Return the n of `<table>@<n>` for rows of this definition."""
        for n, version in enumerate(self.versions, 1):
            if version.equals(schema):
                return n
        raise ValueError("not a definition of this table")

    def _newest_names(self, schema: pa.Schema) -> Mapping[str, str]:
        """Return the newest names of the columns of a definition, even of one that is not among
        `versions`.
        """
        for version, names in zip(self.versions, self.newest_names, strict=True):
            if version.equals(schema):
                return names
        return newest_names([schema.names, self.versions[-1].names], self.renames)[0]

    def conform(self, batch: pa.RecordBatch) -> Conformed:
        """Convert the rows of a batch of any of the definitions to the united schema, and separate
        misfits.

        A column that the batch lacks is null.
        """
        fits: pa.Array | None = None
        columns: list[pa.Array] = []
        new_names = self._newest_names(batch.schema)
        places = {name: n for n, name in enumerate(_renamed(batch.schema, new_names))}
        for field in self.schema:
            place = places.get(field.name)
            if place is None:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            values = batch.column(place)
            held = _with_renamed_members(pa.field(field.name, values.type), new_names)
            if held.type != values.type:
                members = [pc.struct_field(values, n) for n in range(values.type.num_fields)]
                values = pa.StructArray.from_arrays(
                    members, fields=list(held.type), mask=values.is_null()
                )
            column, ok = _converted(values, field.type)
            columns.append(column)
            if ok is not None:
                fits = ok if fits is None else pc.and_(fits, ok)
        whole = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if fits is None or pc.all(fits, min_count=0).as_py():
            return Conformed(whole, None)
        return Conformed(whole.filter(fits), batch.filter(pc.invert(fits)))


def _renamed(fields: Sequence[pa.Field], new_names: Mapping[str, str]) -> dict[str, pa.Field]:
    """Return the fields of one definition under their newest names."""
    return {new_names.get(field.name.lower(), field.name): field for field in fields}


def _with_renamed_members(field: pa.Field, new_names: Mapping[str, str]) -> pa.Field:
    """Return a struct of columns (the before-image) under their newest names."""
    if not new_names or not pa.types.is_struct(field.type) or not field.name.endswith("before"):
        return field
    members = _renamed(list(field.type), new_names)
    return field.with_type(pa.struct([one.with_name(name) for name, one in members.items()]))


def _metadata_last(fields: list[pa.Field], newest: int) -> list[pa.Field]:
    """Return the columns of the table before the metadata columns, which no server type describes."""
    described = [
        n + 1
        for n, field in enumerate(fields[:newest])
        if field.metadata and b"mysql.type" in field.metadata
    ]
    if not described:
        return fields
    at = described[-1]
    return [*fields[:at], *fields[newest:], *fields[at:newest]]


def promoted(older: pa.DataType, newer: pa.DataType) -> pa.DataType | None:
    """Return the type that holds every value of both without loss, or None."""
    if older == newer:
        return newer
    if pa.types.is_struct(older) and pa.types.is_struct(newer):
        return _promoted_struct(older, newer)
    if _is_exact(older) and _is_exact(newer):
        return _exact_number(older, newer)
    for narrow, wide in ((older, newer), (newer, older)):
        if (wide == pa.float64() and (narrow == pa.float32() or narrow in _IN_FLOAT64)) or (
            wide == pa.float32() and narrow in _IN_FLOAT32
        ):
            return wide
        if wide == pa.timestamp("us") and narrow == pa.date32():
            return wide
    both_floating = pa.types.is_floating(older) or pa.types.is_floating(newer)
    if both_floating and (older == pa.int32() or newer == pa.int32()):
        return pa.float64()
    if pa.types.is_string(newer) and _is_exact(older):
        return newer  # digits are their own text
    return None


def _promoted_struct(older: pa.DataType, newer: pa.DataType) -> pa.DataType | None:
    fields = {field.name: field for field in newer}
    for field in older:
        known = fields.get(field.name, field)
        common = promoted(field.type, known.type)
        if common is None:
            return None
        fields[field.name] = known.with_type(common)
    return pa.struct(list(fields.values()))


def _is_exact(kind: pa.DataType) -> bool:
    return kind in _INTEGER_DIGITS or pa.types.is_decimal(kind)


def _exact_number(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pa.types.is_signed_integer(a) and pa.types.is_signed_integer(b):
        return a if a.bit_width >= b.bit_width else b
    scale = max(_scale(a), _scale(b))
    whole_digits = max(_digits(a) - _scale(a), _digits(b) - _scale(b))
    if whole_digits + scale > _MAX_DIGITS:
        return None
    return pa.decimal128(whole_digits + scale, scale)


def _digits(kind: pa.DataType) -> int:
    return _INTEGER_DIGITS.get(kind) or int(kind.precision)


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def _converted(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    """Convert the values to another type; return them and which of them fit (None: all)."""
    if values.type == kind:
        return values, None
    if values.null_count == len(values):
        return pa.nulls(len(values), kind), None
    if pa.types.is_struct(values.type) and pa.types.is_struct(kind):
        return _converted_struct(values, kind)
    if promoted(values.type, kind) == kind:
        return _cast(values, kind), None
    try:
        made = _cast(values, kind)
        back = _cast(made, values.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _converted_each(values, kind)
    return made, pc.fill_null(pc.equal(values, back), scalar(True))


def _converted_struct(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    """Convert a struct member by member, by name; members that the values lack are null."""
    members: list[pa.Array] = []
    fits: pa.Array | None = None
    for field in kind:
        if values.type.get_field_index(field.name) < 0:
            members.append(pa.nulls(len(values), field.type))
            continue
        member, ok = _converted(pc.struct_field(values, field.name), field.type)
        members.append(member)
        if ok is not None:
            fits = ok if fits is None else pc.and_(fits, ok)
    made = pa.StructArray.from_arrays(members, fields=list(kind), mask=values.is_null())
    return made, fits


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(kind):
        # an instant and a wall-clock time differ in meaning, even with the same number
        raise pa.ArrowNotImplementedError(
            "a time without a zone cannot become a moment, or the reverse"
        )
    for instant, day in ((values.type, kind), (kind, values.type)):
        if instant == pa.timestamp("us", "UTC") and pa.types.is_date(day):
            raise pa.ArrowNotImplementedError("binlake cannot determine the time zone of the date")
    if pa.types.is_decimal(values.type) and pa.types.is_string(kind):
        texts = [None if value is None else format(value, "f") for value in values.to_pylist()]
        return array(texts, kind)
    return values.cast(kind)


def _converted_each(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Convert the values one by one, for columns in which some values do not convert at
    all.
    """
    made: list[pa.Array] = []
    fits: list[bool] = []
    for at in range(len(values)):
        one = values.slice(at, 1)
        converted, ok = pa.nulls(1, kind), one.null_count == 1
        if not ok:
            try:
                converted = _cast(one, kind)
                ok = _cast(converted, values.type).equals(one)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass
        made.append(converted)
        fits.append(ok)
    return pa.concat_arrays(made), array(fits, pa.bool_())
