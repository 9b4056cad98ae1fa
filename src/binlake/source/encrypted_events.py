"""MariaDB's encrypted logs: each event is encrypted separately, from START_ENCRYPTION on.

An event (sql/log_event_server.cc) is encrypted whole, checksum included; only its length stays
readable, at its place. IV = nonce, position of the event u32. The event without its length, with
bytes 0 to 3 in the length's place, is one message from byte 4 on (`message_modes`). The log does
not record the mode; the first events show it. Positions are those of the file.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right, insort
from collections.abc import Iterator
from threading import Lock

from binlake.errors import KeyringError, MalformedError, UnsupportedError
from binlake.events.mariadb.start_encryption import StartEncryptionEvent
from binlake.format.event_header import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_POS_AT,
    TYPE_AT,
    U32,
)
from binlake.format.event_types import EVENT_TYPES
from binlake.source.aes import BLOCK_BYTES
from binlake.source.keyring import NO_KEYRING, Keyring
from binlake.source.message_modes import CbcMode, CounterMode
from binlake.source.reader import ByteReader, WrappedReader

# A message is an event without its length, and with the timestamp after the server id.
_TIMESTAMP_IN_MESSAGE = LENGTH_AT - TYPE_AT
_LENGTH_BYTES = U32.size
# The first block of a message ends here in the event: it contains the header.
_FIRST_BLOCK_END = BLOCK_BYTES + _LENGTH_BYTES
_SCHEME = 1
# MariaDB encrypts its logs with the key of this id (ENCRYPTION_KEY_SYSTEM_DATA).
_KEY_ID = 1

_WALK_BYTES = 256 << 10
_SEARCH_BYTES = 1 << 20
_MARK_BYTES = 1 << 20
# Decrypted in one call: enough to make up for the cost of a cipher, few enough for the caches.
_BATCH_EVENTS = 1024
# How many events are tried before the key counts as wrong: some may be damaged.
_PROBED_EVENTS = 8
_PROBED_CRC_BYTES = 1 << 20


class EventDecryptor(WrappedReader):
    """A log of MariaDB with the events from `start` on decrypted.

    Only a walk from an earlier event shows where an event begins: `marks` are known places. Where
    the lengths lead nowhere, the bytes stay as they are, up to the place where `rejoin` finds an
    event by trying the key at every place.
    """

    sequential = True

    def __init__(self, inner: ByteReader, mode: CbcMode, nonce: bytes, start: int) -> None:
        super().__init__(inner)
        self._mode = mode
        self._nonce = nonce
        self._start = start
        self._lock = Lock()
        self._marks = [start]
        self._last = start  # the newest mark, not in the list while it is near its last
        self._joins: list[int] = []  # where events begin again behind damage

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            clear = b""
            if offset < self._start:
                clear = self._inner.read_at(offset, min(size, self._start - offset))
                offset += len(clear)
            plain = b""
            if len(clear) < size and offset >= self._start:
                plain = self._joined(offset, offset + size - len(clear))
            self._follow()
        return clear + plain if clear else plain

    def rejoin(self, offset: int) -> int | None:
        with self._lock:
            if offset < self._start or self._leads_on(offset):
                return None
            place = self._search(offset + 1)
            # the events found after the damage were not events
            self._marks = [mark for mark in self._marks if mark <= offset]
            self._last = self._marks[-1]
            if place is not None:
                self._joins = [join for join in self._joins if join <= offset]
                self._joins.append(place)
                self._passed(place)
                self._kept_from(place)
        return None

    def retain(self, offset: int | None) -> None:
        with self._lock:
            self._inner.retain(None if offset is None else self._kept_from(offset))

    def release(self, offset: int) -> None:
        with self._lock:
            self._inner.release(self._kept_from(offset))

    def header_fits(self, at: int, *, checksums: bool) -> tuple[bool, int] | None:
        """Whether the event at `at` is valid, and where it ends; None if its header is not there."""
        length = self._length(at)
        if length is None or length < HEADER_BYTES:
            return None
        head = self._event(at, length, 0, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return None
        if head[TYPE_AT] not in EVENT_TYPES:
            return False, at + length
        end = (at + length) & 0xFFFFFFFF
        fits = U32.unpack_from(head, LOG_POS_AT)[0] in (0, end)
        if (
            not fits and checksums and length <= _PROBED_CRC_BYTES
        ):  # a relay log: positions of another log
            event = self._event(at, length, 0, length)
            stored = int.from_bytes(event[-CHECKSUM_BYTES:], "little")
            fits = zlib.crc32(event[:-CHECKSUM_BYTES]) == stored
        return fits, at + length

    def _kept_from(self, offset: int) -> int:
        """Return a place from which all bytes are needed to read at `offset`; it becomes a mark."""
        if offset <= self._start:
            return offset
        mark = self._mark(offset)
        if mark not in self._marks:
            insort(self._marks, mark)
        return mark

    def _mark(self, offset: int) -> int:
        """Return the last known beginning of an event at or before `offset`."""
        mark = self._marks[bisect_right(self._marks, offset) - 1]
        return max(mark, self._last) if self._last <= offset else mark

    def _passed(self, event: int) -> None:
        """Note that an event begins here."""
        if event > self._last:
            self._last = event
            if event >= self._marks[-1] + _MARK_BYTES:
                self._marks.append(event)

    def _joined(self, offset: int, end: int) -> bytes:
        """Return the plain bytes [offset, end): bytes that lead to damage end where events begin
        again.
        """
        plain = b""
        while offset < end:
            at = bisect_right(self._joins, offset)
            stop = min(self._joins[at], end) if at < len(self._joins) else end
            piece = self._plain(offset, stop)
            if stop < end:
                missing = stop - offset - len(piece)
                piece += self._inner.read_at(offset + len(piece), missing) if missing else b""
            plain = plain + piece if plain else piece
            offset = stop
        return plain

    def _leads_on(self, at: int) -> bool:
        """Whether the length of the event at `at` leads to another, or to the end of the file."""
        length = self._length(at)
        if length is None or length < HEADER_BYTES:
            return False
        found = self.header_fits(at + length, checksums=False)
        return found[0] if found is not None else at + length == self._inner.size

    def _search(self, at: int) -> int | None:
        """Return the first place at or after `at` where the bytes decrypt to the header of an
        event.

        This finds events below 16 MB, whose length has a zero as its last byte; there are enough
        of them.
        """
        while len(data := self._inner.read_at(at, _SEARCH_BYTES + _FIRST_BLOCK_END)) > HEADER_BYTES:
            zero = data.find(0, LOG_POS_AT - 1)
            while 0 <= (place := zero - LOG_POS_AT + 1) < _SEARCH_BYTES:
                (length,) = U32.unpack_from(data, place + LENGTH_AT)
                if length >= HEADER_BYTES:
                    head = self._decrypt(at + place, length, data[place : place + _FIRST_BLOCK_END])
                    if _is_header(head, at + place + length):
                        return at + place
                zero = data.find(0, zero + 1)
            at += _SEARCH_BYTES
        return None

    def _plain(self, offset: int, end: int) -> bytes:
        """Return the plain bytes [offset, end), of events only."""
        at = self._event_at(offset)
        pieces: list[bytes] = []
        if at < offset:
            length = self._length(at)
            if length is None or length < HEADER_BYTES:
                return self._inner.read_at(offset, end - offset)
            pieces.append(self._event(at, length, offset - at, end - at))
            at += length
        # extended so that the wanted part of the last event ends with a block
        raw = self._inner.read_at(at, end - at + 2 * BLOCK_BYTES) if at < end else b""
        whole = self._whole_events(raw, at, end)
        for first in range(0, len(whole), _BATCH_EVENTS):
            pieces += self._decrypt_all(raw, at, whole[first : first + _BATCH_EVENTS])
        if whole:
            last, length = whole[-1]
            self._passed(last)
            if last + length <= end:
                self._passed(last + length)
            raw = raw[last + length - at :]
            at = last + length
        if at < end and raw:
            length = U32.unpack_from(raw, LENGTH_AT)[0] if len(raw) > LOG_POS_AT else 0
            # less than a header: the end of the file, or not an event
            pieces.append(self._decrypt(at, length, raw) if length >= HEADER_BYTES else raw)
        return b"".join(pieces)[: end - offset]

    def _whole_events(self, raw: bytes, base: int, end: int) -> list[tuple[int, int]]:
        """Places and lengths of the events that begin before `end`, as far as `raw` has them."""
        found: list[tuple[int, int]] = []
        at, size = 0, len(raw)
        while at < end - base and at + HEADER_BYTES <= size:
            (length,) = U32.unpack_from(raw, at + LENGTH_AT)
            if length < HEADER_BYTES or at + length > size:
                break
            found.append((base + at, length))
            at += length
        return found

    def _decrypt_all(self, raw: bytes, base: int, events: list[tuple[int, int]]) -> Iterator[bytes]:
        """Return the plain events that lie whole in `raw`, whose first byte is at `base`."""
        nonce, pack = self._nonce, U32.pack
        ivs = [nonce + pack(at & 0xFFFFFFFF) for at, _ in events]
        messages = []
        for at, length in events:
            start = at - base
            messages.append(
                raw[start + TYPE_AT : start + LENGTH_AT]
                + raw[start : start + TYPE_AT]
                + raw[start + LOG_POS_AT : start + length]
            )
        for plain, (at, _) in zip(self._mode.decrypt_all(ivs, messages), events, strict=True):
            start = at - base
            yield _in_order(plain, raw[start + LENGTH_AT : start + LOG_POS_AT])

    def _decrypt(self, at: int, length: int, raw: bytes) -> bytes:
        """Return the event at `at`, of which `raw` is the beginning or all.

        For an event that is cut short, return the whole blocks; for one whose header is cut, so
        few bytes that they cannot be taken for a header.
        """
        if len(raw) < min(length, _FIRST_BLOCK_END):
            return raw[: HEADER_BYTES - 1]
        message = raw[TYPE_AT:LENGTH_AT] + raw[:TYPE_AT] + raw[LOG_POS_AT:length]
        plain = self._mode.decrypt_part(self._iv(at), 0, b"", message, length - _LENGTH_BYTES)
        return _in_order(plain, raw[LENGTH_AT:LOG_POS_AT])

    def _event(self, at: int, length: int, first: int, last: int) -> bytes:
        """Return the plain bytes [first, last) of the event at `at`, fewer at the end of the file."""
        last = min(last, length)
        if first < _FIRST_BLOCK_END + BLOCK_BYTES:
            raw = self._inner.read_at(at, min(length, last + 2 * BLOCK_BYTES))
            return self._decrypt(at, length, raw)[first:last]
        block, skip = divmod(first - _LENGTH_BYTES, BLOCK_BYTES)
        start = _LENGTH_BYTES + (block - 1) * BLOCK_BYTES  # of the block before
        raw = self._inner.read_at(at + start, min(length, last + BLOCK_BYTES) - start)
        before, data = raw[:BLOCK_BYTES], raw[BLOCK_BYTES:]
        plain = self._mode.decrypt_part(self._iv(at), block, before, data, length - _LENGTH_BYTES)
        return plain[skip : skip + last - first]

    def _iv(self, at: int) -> bytes:
        return self._nonce + U32.pack(at & 0xFFFFFFFF)

    def _length(self, at: int) -> int | None:
        """Return the length that the event at `at` declares; None at the end of the file."""
        raw = self._inner.read_at(at + LENGTH_AT, U32.size)
        return int(U32.unpack(raw)[0]) if len(raw) == U32.size else None

    def _event_at(self, offset: int) -> int:
        """Return where the event begins that holds byte `offset`; else where the walk to it ends."""
        at = base = self._mark(offset)
        data = b""
        while at < offset:
            field = at - base + LENGTH_AT
            if field + U32.size > len(data):
                data, base, field = self._inner.read_at(at, _WALK_BYTES), at, LENGTH_AT
                if len(data) < field + U32.size:
                    break
            length = U32.unpack_from(data, field)[0]
            if length < HEADER_BYTES or at + length > offset:
                break
            at += length
            self._passed(at)
        return at


def _in_order(message: bytes, length: bytes) -> bytes:
    """Return the event of a plain message and the four bytes of its length."""
    at = _TIMESTAMP_IN_MESSAGE
    return message[at:LENGTH_AT] + message[:at] + length + message[LENGTH_AT:]


def _is_header(head: bytes, end: int) -> bool:
    """Whether a decrypted header belongs to an event that ends at `end`."""
    return (
        len(head) >= HEADER_BYTES
        and head[TYPE_AT] in EVENT_TYPES
        and U32.unpack_from(head, LOG_POS_AT)[0] == end & 0xFFFFFFFF
    )


def decrypted_events(
    inner: ByteReader,
    start: int,
    how: StartEncryptionEvent,
    keyring: Keyring | None,
    *,
    checksums: bool,
) -> EventDecryptor:
    """Return a reader that decrypts the events from `start` on, the place after START_ENCRYPTION.

    `checksums`: events end in a CRC32. Raises KeyringError if the key is missing or wrong,
    UnsupportedError for another scheme, MalformedError for a longer body, SourceError.
    """
    if how.trailing:
        raise MalformedError(f"the body has {len(how.trailing)} more bytes than it can have")
    if how.scheme != _SCHEME:
        raise UnsupportedError(f"the log is encrypted with the unknown scheme {how.scheme}")
    shown = f"the key id {_KEY_ID} in version {how.key_version}"
    if keyring is None:
        raise KeyringError(f"the log is encrypted with {shown}", hint=NO_KEYRING)
    key = keyring.mariadb_key(_KEY_ID, how.key_version)
    for mode in (CbcMode(key), CounterMode(key)):
        reader = EventDecryptor(inner, mode, bytes(how.nonce), start)
        if _opens(reader, start, checksums=checksums):
            return reader
    raise KeyringError(
        f"{shown} of the keyring {keyring} does not open the log",
        hint="is it the key file of another server, or from another time?",
    )


def _opens(reader: EventDecryptor, start: int, *, checksums: bool) -> bool:
    """Whether one of the first events is valid; true if there is none to test.

    Messages shorter than a block are the same in both modes, so they cannot decide.
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
