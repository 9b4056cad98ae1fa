"""Arrow arrays as columns of JSON values, which `core.text_rows` writes into rows of text.

Every function takes an array and returns `ValueColumn`: the text around each value, its escapes, and
`null` for a null. It writes nothing yet, so a value is copied only once, into its line.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from binlake.core.text.text_rows import RowTemplate, ValueColumn, ValueForm, write_values
from binlake.table.text.json_text import base64_text, real

_TEXT = pa.large_string()
_WITH_OFFSETS = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_large_string,
    pa.types.is_large_binary,
)


def strings(values: pa.Array) -> ValueColumn:
    """Any text as JSON strings: quotes, backslashes and control characters are escaped."""
    return _texts(values, ValueForm.JSON_TEXT, b'"', b'"')


def plain_strings(values: pa.Array) -> ValueColumn:
    """Text that needs no escapes (digits, dates) as JSON strings."""
    return _texts(values, ValueForm.RAW, b'"', b'"')


def raw_values(values: pa.Array) -> ValueColumn:
    """Text that is JSON already."""
    return _texts(values, ValueForm.RAW, b"", b"")


def hex_values(values: pa.Array) -> ValueColumn:
    """Binary values as JSON strings: `0x` and lower-case hex digits."""
    return _texts(values, ValueForm.HEX, b'"0x', b'"')


def base64_values(values: pa.Array) -> ValueColumn:
    """Binary values as JSON strings of padded base64."""
    return plain_strings(base64_text(values))


def reals(values: pa.Array) -> ValueColumn:
    """Floats as JSON numbers, as `json_text.real` writes them."""
    return raw_values(real(values))


def integers(values: pa.Array) -> ValueColumn:
    """Integers of any width and sign as JSON numbers."""
    return number_values(values, ValueForm.INTEGER)


def number_values(values: pa.Array, form: ValueForm, **written: Any) -> ValueColumn:
    """Fixed-width numbers in a form; `written` are further arguments of `ValueColumn`."""
    validity, data = values.buffers()
    kind = values.type
    return ValueColumn(
        form,
        len(values),
        validity if values.null_count else None,
        None,
        data,
        first=values.offset,
        width=kind.bit_width // 8,
        is_signed=pa.types.is_signed_integer(kind),
        **written,
    )


def text_values(values: pa.Array, form: ValueForm, **written: Any) -> ValueColumn:
    """Text or bytes in a form; `written` are further arguments of `ValueColumn`."""
    if not any(is_kind(values.type) for is_kind in _WITH_OFFSETS):
        values = values.cast(_TEXT)
    validity, offsets, data = values.buffers()
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    return ValueColumn(
        form,
        len(values),
        validity if values.null_count else None,
        offsets,
        data,
        first=values.offset,
        offset_bytes=8 if wide else 4,
        **written,
    )


def _texts(values: pa.Array, form: ValueForm, before: bytes, after: bytes) -> ValueColumn:
    return text_values(values, form, before=before, after=after)


def row_index(values: pa.Array) -> Any:
    """An integer array without nulls as the int32 entries that a `RowTemplate` takes."""
    values = values.cast(pa.int32())
    return memoryview(values.buffers()[1])[values.offset * 4 :]


def as_array(template: RowTemplate, validity: pa.Array | None = None) -> pa.Array:
    """The rows of a template as a large_string array, null where `validity` (bool) is false."""
    text, offsets = write_values([template])
    array = pa.Array.from_buffers(
        _TEXT, template.count, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    if validity is None:
        return array
    bits = validity if validity.offset == 0 else pa.concat_arrays([validity])
    return pa.Array.from_buffers(_TEXT, template.count, [bits.buffers()[1], *array.buffers()[1:]])
