"""Encrypted logs as readers of their plain text: all that is behind knows nothing of encryption.

**MySQL** (sql/rpl_log_encryption.h) encrypts the whole file behind a header of 512 bytes, which
holds the file's password, itself encrypted with a key of the keyring:

    fd 62 69 6e, version 1
    fields, each after its type: 1 key name (length u8, text), 2 password 32, 3 IV 16; 0 ends them

Password = AES-256-CBC(keyring key, IV). Its SHA-512 gives the file key (32 bytes) and the nonce
(8); the log is AES-256-CTR with counter = nonce, number of the block u64 big-endian. A position
is one in the plain log, as the server counts it: byte 512 of the file is position 0.

**MariaDB** (sql/log_event_server.cc, START_ENCRYPTION) encrypts every event by itself, checksum
included; its length stays readable, at its place. IV = nonce, position of the event u32. The
event without its length, bytes 0 to 3 in the length's place, is one message from byte 4 on, in
CBC (the last r bytes of a message that is no multiple of 16 are XORed with the encrypted IV) or in
CTR. Which of them the log does not say: the first events do. Positions are those of the file.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from bisect import bisect_right, insort
from dataclasses import dataclass
from threading import Lock

from binlake.core.frames import HEADER_BYTES
from binlake.errors import KeyringError, MalformedError, TruncatedError, UnsupportedError
from binlake.format.event_types import EVENT_TYPES
from binlake.source.aes import BLOCK_BYTES, Aes
from binlake.source.keyring import Keyring
from binlake.source.reader import ByteReader

__all__ = ["ENCRYPTED_MAGIC", "StartEncryption", "decrypted_events", "decrypted_file"]

ENCRYPTED_MAGIC = b"\xfdbin"
_MAGIC = b"\xfebin"

_NO_KEYRING = "option keyring names the server's keyring file"


class _Wrapped(ByteReader):
    """A reader on another one's bytes; follows what that learns of its end."""

    def __init__(self, inner: ByteReader) -> None:
        self.name = inner.name
        self.seekable = inner.seekable
        self.interactive = inner.interactive
        self._inner = inner
        self._follow()

    def _follow(self) -> None:
        self.size = self._inner.size
        self.damage = self._inner.damage

    def close(self) -> None:
        self._inner.close()


# --- MySQL: whole files ---

_FILE_HEADER_BYTES = 512
_FILE_HEADER_VERSION = 1
_KEY_NAME, _PASSWORD, _IV = 1, 2, 3
_FIELD_BYTES = {_PASSWORD: 32, _IV: 16}
_FIELD_NAMES = {_KEY_NAME: "key name", _PASSWORD: "password", _IV: "IV"}


class FileDecryptor(_Wrapped):
    """The plain log in an encrypted file of MySQL; reads anywhere, as the file can."""

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

    def retain(self, offset: int | None) -> None:
        self._inner.retain(None if offset is None else _FILE_HEADER_BYTES + offset)

    def release(self, offset: int) -> None:
        self._inner.release(_FILE_HEADER_BYTES + offset)

    def _follow(self) -> None:
        super()._follow()
        if self.size is not None:
            self.size = max(0, self.size - _FILE_HEADER_BYTES)


def decrypted_file(inner: ByteReader, keyring: Keyring | None) -> FileDecryptor:
    """A reader of the plain log in a file that begins with ENCRYPTED_MAGIC.

    Raises KeyringError if the key is missing or wrong, TruncatedError, MalformedError or
    UnsupportedError for a header that is cut off, damaged or of another version, SourceError.
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
        raise KeyringError(f"the log is encrypted with the key {name}", hint=_NO_KEYRING)
    password = Aes(keyring.mysql_key(name)).decrypt_cbc(fields[_IV], fields[_PASSWORD])
    reader = FileDecryptor(inner, password)
    if not _MAGIC.startswith(reader.read_at(0, len(_MAGIC))):
        raise KeyringError(
            f"the key {name} of the keyring {keyring} does not open the log",
            hint="a keyring of another time or server, or the header of the log is damaged",
        )
    return reader


def _header_fields(header: bytes) -> dict[int, bytes]:
    """The fields of the header by type, all three of them."""
    version = header[len(ENCRYPTED_MAGIC)]
    if version != _FILE_HEADER_VERSION:
        raise UnsupportedError(f"the log is encrypted in a way of version {version}, not 1")
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
            raise MalformedError("the encryption header is not complete", event_pos=0, field=name)
    return fields


# --- MariaDB: events ---

_LENGTH_AT = 9
_LENGTH = struct.Struct("<I")
_POSITION = struct.Struct("<I")
_LOG_POS_AT = 13
_TYPE_AT = 4
# The first block of a message ends here in the event: its header is inside.
_FIRST_BLOCK_END = 20
_BODY = struct.Struct("<BI12s")
_SCHEME = 1
# MariaDB encrypts its logs with the key of this id (ENCRYPTION_KEY_SYSTEM_DATA).
_KEY_ID = 1

_WALK_BYTES = 256 << 10
_MARK_BYTES = 1 << 20
# Events that are looked at before the key is called wrong: some may be damaged.
_PROBED_EVENTS = 8
_PROBED_CRC_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StartEncryption:
    """The body of a START_ENCRYPTION event: how all events behind it are encrypted."""

    scheme: int
    key_version: int
    nonce: bytes

    @classmethod
    def decode(cls, body: bytes | memoryview) -> StartEncryption:
        """Raises MalformedError for a body of another length."""
        if len(body) != _BODY.size:
            raise MalformedError(f"a body of {len(body)} bytes, not {_BODY.size}")
        return cls(*_BODY.unpack(body))


class _Mode:
    """CBC as MariaDB uses it: messages of any length, without padding."""

    def __init__(self, key: bytes) -> None:
        self._aes = Aes(key)

    def decrypt(self, iv: bytes, first: int, before: bytes, data: bytes, whole: int) -> bytes:
        """The plain text of `data`, which begins at block `first` of a message of `whole` bytes.

        `before` is the encrypted block before it, empty for the first. Bytes of a block that is
        not there to its end are left out.
        """
        blocks = len(data) // BLOCK_BYTES * BLOCK_BYTES
        plain = self._aes.decrypt_cbc(before or iv, data[:blocks]) if blocks else b""
        tail = data[blocks:]
        if tail and first * BLOCK_BYTES + len(data) == whole:
            mask = self._aes.encrypt_blocks(iv)
            plain += bytes(a ^ b for a, b in zip(tail, mask, strict=False))
        return plain


class _CounterMode(_Mode):
    """CTR: the IV is the counter of the first block."""

    def decrypt(self, iv: bytes, first: int, before: bytes, data: bytes, whole: int) -> bytes:
        counter = (int.from_bytes(iv, "big") + first) % (1 << 128)
        return self._aes.decrypt_ctr(counter.to_bytes(BLOCK_BYTES, "big"), 0, data)


class EventDecryptor(_Wrapped):
    """A log of MariaDB with the events from `start` on decrypted.

    Where an event begins is known only by walking there from an event before: `marks` are
    places that are known. Where the lengths do not lead on, the rest stays as it is, which is
    then not a log; nobody can tell where events begin there.
    """

    sequential = True

    def __init__(self, inner: ByteReader, mode: _Mode, nonce: bytes, start: int) -> None:
        super().__init__(inner)
        self._mode = mode
        self._nonce = nonce
        self._start = start
        self._lock = Lock()
        self._marks = [start]
        self._last = start  # the newest mark, not in the list while it is near its last

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            clear = b""
            if offset < self._start:
                clear = self._inner.read_at(offset, min(size, self._start - offset))
                offset += len(clear)
            plain = b""
            if len(clear) < size and offset >= self._start:
                plain = self._plain(offset, offset + size - len(clear))
            self._follow()
        return clear + plain if clear else plain

    def retain(self, offset: int | None) -> None:
        with self._lock:
            self._inner.retain(None if offset is None else self._kept_from(offset))

    def release(self, offset: int) -> None:
        with self._lock:
            self._inner.release(self._kept_from(offset))

    def header_fits(self, at: int, *, checksums: bool) -> tuple[bool, int] | None:
        """Whether the event at `at` is one, and where it ends; None if its header is not there."""
        length = self._length(at)
        if length is None or length < HEADER_BYTES:
            return None
        head = self._event(at, length, 0, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return None
        if head[_TYPE_AT] not in EVENT_TYPES:
            return False, at + length
        end = (at + length) & 0xFFFFFFFF
        fits = _POSITION.unpack_from(head, _LOG_POS_AT)[0] in (0, end)
        if not fits and checksums and length <= _PROBED_CRC_BYTES:  # a relay log: others' positions
            event = self._event(at, length, 0, length)
            fits = zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
        return fits, at + length

    def _kept_from(self, offset: int) -> int:
        """A place from which on all bytes are needed to read at `offset`; it becomes a mark."""
        if offset <= self._start:
            return offset
        mark = self._mark(offset)
        if mark not in self._marks:
            insort(self._marks, mark)
        return mark

    def _mark(self, offset: int) -> int:
        """The last known beginning of an event at or before `offset`."""
        mark = self._marks[bisect_right(self._marks, offset) - 1]
        return max(mark, self._last) if self._last <= offset else mark

    def _passed(self, event: int) -> None:
        """An event begins here."""
        if event > self._last:
            self._last = event
            if event >= self._marks[-1] + _MARK_BYTES:
                self._marks.append(event)

    def _plain(self, offset: int, end: int) -> bytes:
        """The plain bytes [offset, end), of events only."""
        at = self._event_at(offset)
        pieces: list[bytes] = []
        if at < offset:
            length = self._length(at)
            if length is None or length < HEADER_BYTES:
                return self._inner.read_at(offset, end - offset)
            pieces.append(self._event(at, length, offset - at, end - at))
            at += length
        # so much more that what is wanted of the last event ends with a block
        raw = self._inner.read_at(at, end - at + 2 * BLOCK_BYTES) if at < end else b""
        base = at
        while at < end and at - base < len(raw):
            event = raw[at - base : at - base + HEADER_BYTES]
            length = _LENGTH.unpack_from(event, _LENGTH_AT)[0] if len(event) > 12 else 0
            if length < HEADER_BYTES:  # the end of the file, or no event
                pieces.append(raw[at - base : end - base])
                break
            self._passed(at)
            pieces.append(
                self._decrypt(at, length, raw[at - base : at - base + length])[: end - at]
            )
            at += length
        else:
            if at - base <= len(raw):
                self._passed(at)
        return b"".join(pieces)

    def _decrypt(self, at: int, length: int, raw: bytes) -> bytes:
        """The event at `at`, of which `raw` is the beginning or all.

        Of one that is cut short, the whole blocks; of one whose header is cut, so few bytes
        that nobody can take them for a header.
        """
        if len(raw) < min(length, _FIRST_BLOCK_END):
            return raw[: HEADER_BYTES - 1]
        message = raw[4:9] + raw[:4] + raw[13:]
        plain = self._mode.decrypt(self._iv(at), 0, b"", message, length - 4)
        return plain[5:9] + plain[:5] + raw[9:13] + plain[9:]

    def _event(self, at: int, length: int, first: int, last: int) -> bytes:
        """The plain bytes [first, last) of the event at `at`, less at the end of the file."""
        last = min(last, length)
        if first < _FIRST_BLOCK_END + BLOCK_BYTES:
            raw = self._inner.read_at(at, min(length, last + 2 * BLOCK_BYTES))
            return self._decrypt(at, length, raw)[first:last]
        block, skip = divmod(first - 4, BLOCK_BYTES)
        start = 4 + (block - 1) * BLOCK_BYTES  # of the block before
        raw = self._inner.read_at(at + start, min(length, last + BLOCK_BYTES) - start)
        before, data = raw[:BLOCK_BYTES], raw[BLOCK_BYTES:]
        plain = self._mode.decrypt(self._iv(at), block, before, data, length - 4)
        return plain[skip : skip + last - first]

    def _iv(self, at: int) -> bytes:
        return self._nonce + _POSITION.pack(at & 0xFFFFFFFF)

    def _length(self, at: int) -> int | None:
        """What the event at `at` says of its length; None at the end of the file."""
        raw = self._inner.read_at(at + _LENGTH_AT, _LENGTH.size)
        return int(_LENGTH.unpack(raw)[0]) if len(raw) == _LENGTH.size else None

    def _event_at(self, offset: int) -> int:
        """Where the event begins that holds byte `offset`; where the walk there ends, if it does."""
        at = base = self._mark(offset)
        data = b""
        while at < offset:
            field = at - base + _LENGTH_AT
            if field + _LENGTH.size > len(data):
                data, base, field = self._inner.read_at(at, _WALK_BYTES), at, _LENGTH_AT
                if len(data) < field + _LENGTH.size:
                    break
            length = _LENGTH.unpack_from(data, field)[0]
            if length < HEADER_BYTES or at + length > offset:
                break
            at += length
            self._passed(at)
        return at


def decrypted_events(
    inner: ByteReader, start: int, how: StartEncryption, keyring: Keyring | None, *, checksums: bool
) -> EventDecryptor:
    """A reader that decrypts the events from `start` on, the place behind START_ENCRYPTION.

    `checksums`: events end in a CRC32. Raises KeyringError if the key is missing or wrong,
    UnsupportedError for another scheme, SourceError.
    """
    if how.scheme != _SCHEME:
        raise UnsupportedError(f"the log is encrypted by scheme {how.scheme}, which is not known")
    shown = f"the key id {_KEY_ID} in version {how.key_version}"
    if keyring is None:
        raise KeyringError(f"the log is encrypted with {shown}", hint=_NO_KEYRING)
    key = keyring.mariadb_key(_KEY_ID, how.key_version)
    for mode in (_Mode(key), _CounterMode(key)):
        reader = EventDecryptor(inner, mode, how.nonce, start)
        if _opens(reader, start, checksums=checksums):
            return reader
    raise KeyringError(
        f"{shown} of the keyring {keyring} does not open the log",
        hint="a key file of another time or server?",
    )


def _opens(reader: EventDecryptor, start: int, *, checksums: bool) -> bool:
    """Whether an event among the first is one; so if there is none to tell by.

    Messages shorter than a block are the same in both modes, so they tell nothing.
    """
    at = start
    told = False
    for _ in range(_PROBED_EVENTS):
        found = reader.header_fits(at, checksums=checksums)
        if found is None:
            break
        fits, end = found
        if end - at >= _FIRST_BLOCK_END:
            if fits:
                return True
            told = True
        at = end
    return not told
