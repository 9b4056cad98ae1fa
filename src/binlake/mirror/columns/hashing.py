"""A keyed hash in the place of a value: HMAC-SHA256, as 64 lower-case hexadecimal digits.

Equal values have equal hashes in every column and table, whatever type they have, so hashed columns can be
joined. What is hashed is a text as the server prints it, in UTF-8, or the bytes of a binary value. NULL stays NULL.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from binlake.errors import OptionError
from binlake.mirror.equality.value_texts import is_digested, texts_of
from binlake.mirror.tables.schema import conformed, iceberg_schema, storage_schema
from binlake.source.arrays import array

KEY_VARIABLE = "BINLAKE_HASH_KEY"
_LEAST_BYTES, _MOST_BYTES = 16, 1 << 16
_HINT = "`openssl rand -hex 32` prints a key; give its file with --hash-key-file"


@dataclass(frozen=True)
class KeyedHash:
    """The hash with one key; no text of it shows the key."""

    key: _Key

    @property
    def id(self) -> str:
        """An id that is stored in place of the key: different keys have different ids."""
        return self.hex(b"binlake: the id of this key")[:16]

    def hex(self, data: bytes) -> str:
        """The hash of some bytes."""
        return hmac.digest(self.key.secret, data, "sha256").hex()

    def of(self, values: pa.Array) -> pa.Array:
        """The hashes of values, in the types of the server or of the lake."""
        schema = storage_schema(iceberg_schema(pa.schema([("value", values.type)])))
        stored = conformed(pa.table({"value": values}), schema).column(0).combine_chunks()
        if isinstance(stored, pa.ChunkedArray):
            stored = (
                pa.concat_arrays(stored.chunks) if stored.num_chunks else pa.nulls(0, stored.type)
            )
        texts = texts_of(stored, self.hex)
        if not is_digested(stored.type):
            texts = [None if text is None else self.hex(text.encode()) for text in texts]
        return array(texts, pa.string())


class _Key:
    """Bytes that no message and no traceback shows, and that stay in their process."""

    __slots__ = ("secret",)

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return "_Key(…)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret stays in its process")


def read_key(file: str) -> KeyedHash:
    """The hash with the key of a file, or without one of the environment. Raises OptionError."""
    if file:
        try:
            with Path(file).open("rb") as opened:
                secret = opened.read(_MOST_BYTES + 1)
        except OSError as error:
            raise OptionError(
                f"cannot read the hash key file {file}: {error.strerror}", name="hash_key_file"
            ) from None
        where = f"the hash key file {file}"
    else:
        where = f"the environment variable {KEY_VARIABLE}"
        if KEY_VARIABLE not in os.environ:
            raise OptionError("hashed columns need a key", name="hash_key_file", hint=_HINT)
        secret = os.environ[KEY_VARIABLE].encode()
    secret = secret.rstrip(b"\r\n")
    if not _LEAST_BYTES <= len(secret) <= _MOST_BYTES:
        expected = f"expected {_LEAST_BYTES} to {_MOST_BYTES} bytes"
        raise OptionError(
            f"{where} has {len(secret)} bytes: {expected}", name="hash_key_file", hint=_HINT
        )
    return KeyedHash(_Key(secret))
