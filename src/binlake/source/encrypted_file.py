"""MySQL's encrypted logs: the whole file is encrypted, after a header of 512 bytes.

The header (sql/rpl_log_encryption.h) holds the file's password, itself encrypted with a key of the
keyring:

    fd 62 69 6e, version 1
    fields, each after its type: 1 key name (length u8, text), 2 password 32, 3 IV 16; 0 ends them

Password = AES-256-CBC(keyring key, IV). Its SHA-512 gives the file key (32 bytes) and the nonce
(8); the log is AES-256-CTR with counter = nonce, number of the block u64 big-endian. As on the
server, positions count in the plain log: byte 512 of the file is position 0.
"""

from __future__ import annotations

import hashlib

from binlake.errors import KeyringError, MalformedError, TruncatedError, UnsupportedError
from binlake.format.magic import BINLOG_MAGIC, ENCRYPTED_MAGIC
from binlake.source.aes import BLOCK_BYTES, Aes
from binlake.source.keyring import NO_KEYRING, Keyring
from binlake.source.reader import ByteReader, WrappedReader

_FILE_HEADER_BYTES = 512
_FILE_HEADER_VERSION = 1
_KEY_NAME, _PASSWORD, _IV = 1, 2, 3
_FIELD_BYTES = {_PASSWORD: 32, _IV: 16}
_FIELD_NAMES = {_KEY_NAME: "key name", _PASSWORD: "password", _IV: "IV"}


class FileDecryptor(WrappedReader):
    """The plain log in an encrypted file of MySQL, with random access."""

    lead_bytes = _FILE_HEADER_BYTES

    def __init__(self, inner: ByteReader, password: bytes) -> None:
        super().__init__(inner)
        digest = hashlib.sha512(password).digest()
        self._aes = Aes(digest[:32])
        self._nonce = digest[32:40]

    def read_at(self, offset: int, size: int) -> bytes:
        data = self._inner.read_at(_FILE_HEADER_BYTES + offset, size)
        self._follow()
        if not data:
            return data
        block, skip = divmod(offset, BLOCK_BYTES)
        return self._aes.decrypt_ctr(self._nonce + block.to_bytes(8, "big"), skip, data)

    def _follow(self) -> None:
        super()._follow()
        if self.size is not None:
            self.size = max(0, self.size - _FILE_HEADER_BYTES)


def decrypted_file(inner: ByteReader, keyring: Keyring | None) -> FileDecryptor:
    """Return a reader of the plain log in a file that begins with ENCRYPTED_MAGIC.

    Raises KeyringError if the key is missing or wrong; TruncatedError, MalformedError or
    UnsupportedError for a header that is cut off, damaged or of another version; SourceError.
    """
    header = inner.read_at(0, _FILE_HEADER_BYTES)
    if len(header) < _FILE_HEADER_BYTES:
        if inner.damage is not None:
            raise inner.damage
        raise TruncatedError(
            "the file ends inside its encryption header", event_pos=0, have=len(header)
        )
    fields = _header_fields(header)
    name = fields[_KEY_NAME].decode("utf-8", "backslashreplace")
    if keyring is None:
        raise KeyringError(f"the log is encrypted with the key {name}", hint=NO_KEYRING)
    password = Aes(keyring.mysql_key(name)).decrypt_cbc(fields[_IV], fields[_PASSWORD])
    reader = FileDecryptor(inner, password)
    if not BINLOG_MAGIC.startswith(reader.read_at(0, len(BINLOG_MAGIC))):
        raise KeyringError(
            f"the key {name} of the keyring {keyring} does not open the log",
            hint="either the keyring is that of another server or from another time, or the header of the log is damaged",
        )
    return reader


def _header_fields(header: bytes) -> dict[int, bytes]:
    """Return the fields of the header by type, all three of them."""
    version = header[len(ENCRYPTED_MAGIC)]
    if version != _FILE_HEADER_VERSION:
        raise UnsupportedError(
            f"the encryption of the log has version {version}; binlake knows version 1"
        )
    fields: dict[int, bytes] = {}
    at = len(ENCRYPTED_MAGIC) + 1
    while at < len(header) and (kind := header[at]):
        at += 1
        if kind == _KEY_NAME and at < len(header):
            size = header[at]
            at += 1
        elif kind in _FIELD_BYTES:
            size = _FIELD_BYTES[kind]
        else:
            raise MalformedError(
                f"the encryption header has a field of type {kind}", event_pos=0, field="type"
            )
        if at + size > len(header):
            break
        fields[kind] = header[at : at + size]
        at += size
    for kind, name in _FIELD_NAMES.items():
        if kind not in fields:
            raise MalformedError("the encryption header is incomplete", event_pos=0, field=name)
    return fields
