"""One log file as windows of whole, verified events: the only place with framing state.

    log = LogFile.open(path)
    for window in log.windows():
        for i in range(len(window)):
            window.frame(i), window.body(i)

Opening reads the magic and the FORMAT_DESCRIPTION event (START_EVENT_V3 before MySQL 5.0).
`windows` then walks the file from event to event, verifies checksums, and follows changes of the
format (relay logs). It distinguishes three reasons why the walk cannot continue:

- the file ends inside an event, or in space that was reserved and never written: a *torn tail*
  (`LogFile.tail`). In a file that is still in use that is normal, else it is a TruncatedError;
- the bytes are not an event: a MalformedError;
- an event's checksum is wrong: a ChecksumError.

It delivers all whole events before that place first. With `Damage.SKIP` reading continues at the
next transaction that verifies, and the ledger records the lost bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Self

from binlake.core.events.checksum import event_crc32, stored_crc32
from binlake.core.events.frames import read_frame
from binlake.errors import (
    BinlogError,
    ChecksumError,
    FormatError,
    KeyringError,
    MalformedError,
    SourceError,
    UnsupportedError,
)
from binlake.events.body.reader import BodyReader
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.mariadb.start_encryption import StartEncryptionEvent
from binlake.events.old.start_v3 import FIRST_V3_BYTES, StartV3Event, format_before_v4
from binlake.events.registry import decode_event
from binlake.format import event_types as types
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES, HEADER_BYTES_V1
from binlake.format.flags import (
    LOG_EVENT_BINLOG_IN_USE_F,
    LOG_EVENT_IGNORABLE_F,
    LOG_EVENT_RELAY_LOG_F,
)
from binlake.format.magic import BINLOG_MAGIC, ENCRYPTED_MAGIC, FIRST_EVENT
from binlake.source.bytes import open_reader
from binlake.source.chain import LogPath
from binlake.source.encrypted_events import decrypted_events
from binlake.source.encrypted_file import decrypted_file
from binlake.source.ibb_log import IbbReader
from binlake.source.ibb_pages import IBB_MAGIC
from binlake.source.keyring import Keyring
from binlake.source.reader import ByteReader
from binlake.source.resolve import log_name
from binlake.source.resync import END, next_transaction
from binlake.source.scanner import Scanner, ScanResult, TailReport, steps, torn_tail_error
from binlake.source.stores.heads import KeptHead
from binlake.source.window import OpenLog, Window
from binlake.values.frame import DEFAULT_MAX_MEMORY, EventFormat, Frame
from binlake.values.ledger import Ledger, SkippedRange
from binlake.values.log_names import LogName

#: The `kind` of the error for a file that is not a log at all.
BAD_MAGIC = "bad magic"

# A FORMAT_DESCRIPTION event also has one byte for each of at most 255 types, and one for the algorithm.
_FORMAT_BYTES = types.EVENT_TYPES[types.FORMAT_DESCRIPTION_EVENT].post_header_length
_MAX_FORMAT_BYTES = HEADER_BYTES + _FORMAT_BYTES + 255 + 1 + CHECKSUM_BYTES


#: The hint for damage where reading stops.
SKIP_HINT = "on_error=skip continues at the next intact transaction and reports the loss"
_EMPTY_HINT = "the server has not written it yet, or the copy failed"


class Damage(StrEnum):
    """The reaction to bytes that violate the format (option `on_error`)."""

    STOP = "stop"
    SKIP = "skip"


class LogFile(OpenLog):
    """An open log file (see `OpenLog`), and the walk over its events.

    `tail` is the TailReport of the last complete walk, None if none was found; `last_event` is the
    last event of that walk, None if the walk did not get to the end of the file. `ibb` is the reader that makes a log of
    the pages of MariaDB's InnoDB binlog.
    """

    before: Callable[[], LogFile] | None

    def __init__(
        self,
        reader: ByteReader,
        name: str,
        ordinal: int = 0,
        keyring: Keyring | None = None,
        max_memory: int = DEFAULT_MAX_MEMORY,
        before: Callable[[], LogFile] | None = None,
        source: str = "",
    ) -> None:
        super().__init__(reader, name, ordinal, source)
        self.tail: TailReport | None = None
        self.last_event: Frame | None = None
        self.ibb: IbbReader | None = None
        self.max_memory = max_memory
        self.before = before
        self._keyring = keyring
        self._read_start()

    @classmethod
    def open(
        cls,
        path: str | LogPath,
        ordinal: int = 0,
        size: int | None = None,
        keyring: Keyring | None = None,
        start: int = 0,
        max_memory: int = DEFAULT_MAX_MEMORY,
        kept: KeptHead | None = None,
        before: Callable[[], LogFile] | None = None,
    ) -> Self:
        """Open a path or URI (see `bytes.open_reader`).

        `keyring` opens encrypted logs. `start` is the event at which reading will start, for
        sources that send the log from there. `max_memory` is the option of that name. `kept` holds
        the beginning of an object. `before` opens the file before it in its chain.

        Raises SourceError for a file that cannot be read or is not a binary log, UnsupportedError
        for alphas of MySQL 4.0, FormatError for a damaged beginning, KeyringError for an encrypted
        file without its key (encrypted events: when reading gets to them).
        """
        if isinstance(path, LogPath):
            name, source, size = path.path, path.source, path.size if size is None else size
        else:
            name, source = path, ""
        reader = open_reader(name, size, start, kept)
        try:
            return cls(reader, log_name(name), ordinal, keyring, max_memory, before, source)
        except BaseException:
            reader.close()
            raise

    def reopen(self, size: int | None = None) -> Self:
        """Open the same file again, as far as byte `size` of its log."""
        pinned = None if size is None else self.reader.pinned(size)
        path = LogPath(self.path, self.name, source=self.source)
        return self.open(
            path,
            self.ordinal,
            pinned,
            self._keyring,
            max_memory=self.max_memory,
            before=self.before,
        )

    def windows(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        verify: bool = True,
        ledger: Ledger | None = None,
        on_damage: Damage = Damage.STOP,
        format: EventFormat | None = None,
        window_bytes: int | None = None,
    ) -> Iterator[Window]:
        """The events that start in [start, stop), in windows of whole events of one format.

        `start` must be the offset of an event (default: the first), where `format` is in effect
        (default: the file's first; a relay log is walked from its beginning to find it). `ledger`
        counts the yielded bytes, events by type, and checksums. A second thread reads and verifies
        the next window while the caller works on this one; closing the iterator ends the thread. A
        window has at most `window_bytes` (default: the best size for the reader), or one longer
        event.

        Raises ChecksumError, MalformedError, TruncatedError (kind "torn tail"), UnsupportedError,
        SourceError, each after the windows before it.
        """
        first = FIRST_EVENT if start is None else max(start, FIRST_EVENT)
        if window_bytes is None:
            window_bytes = self.reader.window_bytes
        self.tail = self.last_event = None
        if self.format is None:
            self._no_format(on_damage, ledger)
            return
        if first >= END:  # where `first_sync` puts the rest of a log of unknown length
            return
        if format is None:
            format = self.format_at(first) if self.is_relay else self.format
        scanner = Scanner(self, first, stop, format, window_bytes, verify=verify)
        last = None
        for result in steps(scanner, ahead=self._reads_ahead(first, stop, window_bytes)):
            window = result.window
            if window is not None:
                if ledger is not None:
                    ledger.file(self.shown).__iadd__(result.counts)
                last = window.frame(len(window) - 1) if len(window) else last
                yield window
                self.reader.release(window.end)
            if result.error is not None:
                last = None
                self._settle(result, scanner, on_damage, ledger)
        self.last_event = last if stop is None else None

    def _reads_ahead(self, start: int, stop: int | None, window_bytes: int) -> bool:
        """Whether there are several windows, and the input is not interactive."""
        end = self.reader.size if stop is None else stop
        return not self.reader.interactive and (end is None or end - start > window_bytes)

    def format_at(self, offset: int) -> EventFormat:
        """Return the format of the event at `offset`: that of the last FORMAT_DESCRIPTION at or
        before it.
        """
        if self.format is None:
            raise MalformedError("the file has no format description", file=self.name)
        found = self.format
        if offset > FIRST_EVENT:
            for window in self.windows(FIRST_EVENT, offset + 1, verify=False, format=self.format):
                found = window.format
        return found

    def close(self) -> None:
        """Close the reader."""
        self.closed = True
        self.reader.close()

    def __repr__(self) -> str:
        return f"<LogFile {self.path}>"

    def read_format(self, frame: Frame, raw: bytes | memoryview) -> EventFormat:
        """Return the format that the FORMAT_DESCRIPTION event `raw` sets. Raises FormatError."""
        return self._read_description(frame, raw)[0]

    def _read_description(
        self, frame: Frame, raw: bytes | memoryview
    ) -> tuple[EventFormat, FormatDescriptionEvent]:
        try:
            event = FormatDescriptionEvent.decode(
                frame, BodyReader(memoryview(raw)[HEADER_BYTES:]), None
            )
            return replace(event.format(), max_memory=self.max_memory), event
        except (FormatError, UnsupportedError) as error:
            raise error.at(
                file=self.name, event_pos=frame.offset, event_type="FORMAT_DESCRIPTION_EVENT"
            ) from None

    def _read_start(self) -> None:
        """Read magic and format; leave `format` None if the file ends within them."""
        head = self.reader.read_at(0, FIRST_EVENT + HEADER_BYTES)
        is_encrypted = head.startswith(ENCRYPTED_MAGIC)
        if is_encrypted or self._is_ibb(head[:FIRST_EVENT]):
            try:
                if is_encrypted:
                    self.reader = decrypted_file(self.reader, self._keyring)
                else:
                    self.reader = self.ibb = IbbReader(self.reader, self.name)
            except BinlogError as error:
                raise error.at(file=self.name) from None
            head = self.reader.read_at(0, FIRST_EVENT + HEADER_BYTES)
        magic = head[:FIRST_EVENT]
        if not BINLOG_MAGIC.startswith(magic) and not IBB_MAGIC.startswith(magic):
            self._refuse(magic)
        if len(head) < FIRST_EVENT + HEADER_BYTES:
            lost = self.reader.damage
            # else a server that is silent looks like an empty log
            if lost is not None and lost.retryable:
                raise lost.at(file=self.name)
            return
        frame = read_frame(head, 0, FIRST_EVENT)
        if frame.type_code == types.START_EVENT_V3:
            self._read_old_start(frame)
            return
        if frame.type_code == types.ROTATE_EVENT and frame.log_pos == 0:
            # relay logs of MySQL 4 have no first event of their own, but the source's file name
            self.format = format_before_v4(3, "")
            self.is_relay = True
            return
        if frame.type_code != types.FORMAT_DESCRIPTION_EVENT or frame.length > _MAX_FORMAT_BYTES:
            raise MalformedError(
                "the log does not begin with a FORMAT_DESCRIPTION event",
                file=self.name,
                event_pos=FIRST_EVENT,
            )
        raw = self.reader.read_at(FIRST_EVENT, frame.length)
        if len(raw) < frame.length:
            return
        self.in_use = bool(frame.flags & LOG_EVENT_BINLOG_IN_USE_F)
        self.format, description = self._read_description(frame, raw)
        self.at_startup = description.created != 0
        self.created = frame.timestamp
        if self.reader.begins_at:  # a server's own log, which it sends decrypted
            return
        self._read_encryption(frame.end)
        self.is_relay = bool(frame.flags & LOG_EVENT_RELAY_LOG_F) or self._announces_source(frame)

    def _read_encryption(self, offset: int) -> None:
        """Decrypt the events after a START_ENCRYPTION event, if there is one at `offset`.

        It follows the format description. A flag marks it as ignorable if the server has decrypted
        the log for a replica. A damaged one is left to the walk, which gets to it later.
        """
        assert self.format is not None
        head = self.reader.read_at(offset, HEADER_BYTES)
        if len(head) < HEADER_BYTES or self.format.flavour != "mariadb":
            return
        frame = read_frame(head, offset, 0)
        if frame.type_code != types.START_ENCRYPTION_EVENT or frame.flags & LOG_EVENT_IGNORABLE_F:
            return
        checksum_bytes = self.format.checksum_bytes
        minimum = self.format.header_length + checksum_bytes
        if not minimum <= frame.length <= _MAX_FORMAT_BYTES:
            return
        raw = self.reader.read_at(offset, frame.length)
        if len(raw) < frame.length or (checksum_bytes and stored_crc32(raw) != event_crc32(raw)):
            return
        body = raw[self.format.header_length : len(raw) - checksum_bytes]
        try:
            how = decode_event(frame, body, self.format)
            assert isinstance(how, StartEncryptionEvent)
            self.reader = decrypted_events(
                self.reader, frame.end, how, self._keyring, checksums=checksum_bytes > 0
            )
        except (KeyringError, FormatError, UnsupportedError) as error:
            self.locked = error.at(
                file=self.name, event_pos=offset, event_type="START_ENCRYPTION_EVENT"
            )
        self.encrypted_from = frame.end

    def _read_old_start(self, frame: Frame) -> None:
        """Return the format of a log before MySQL 5.0, which begins with START_EVENT_V3."""
        if frame.length > _MAX_FORMAT_BYTES:
            raise MalformedError(
                f"a START_EVENT_V3 cannot have {frame.length} bytes",
                file=self.name,
                event_pos=FIRST_EVENT,
            )
        raw = self.reader.read_at(FIRST_EVENT, frame.length)
        if len(raw) < frame.length:
            return
        header_bytes = HEADER_BYTES_V1 if frame.length < FIRST_V3_BYTES else HEADER_BYTES
        try:
            event = decode_event(frame, raw[header_bytes:], None)
            assert isinstance(event, StartV3Event)
            self.format = event.format()
        except (FormatError, UnsupportedError) as error:
            raise error.at(file=self.name) from None

    def _announces_source(self, before: Frame) -> bool:
        """Whether a ROTATE without a position follows: servers before 5.6 set no relay flag.

        It names the source's log, of which the events after it are copies. In the server's own log
        a ROTATE marks its end.
        """
        for _ in range(2):  # PREVIOUS_GTIDS may come first
            head = self.reader.read_at(before.end, HEADER_BYTES)
            if len(head) < HEADER_BYTES:
                return False
            frame = read_frame(head, before.end, 0)
            if frame.type_code != types.PREVIOUS_GTIDS_LOG_EVENT:
                return frame.type_code == types.ROTATE_EVENT and frame.log_pos == 0
            before = frame
        return False

    def _is_ibb(self, magic: bytes) -> bool:
        """Whether the file is MariaDB's InnoDB binlog: by its magic, or allocated ahead."""
        if magic == bytes(len(IBB_MAGIC)):
            named = LogName.parse(self.name)
            return named is not None and named.is_ibb
        return magic == IBB_MAGIC

    def _refuse(self, magic: bytes) -> None:
        raise SourceError(
            f"{self.path} is not a binary log: it begins with 0x{magic.hex()}, not 0xfe62696e",
            file=self.name,
            kind=BAD_MAGIC,
        )

    def _no_format(self, on_damage: Damage, ledger: Ledger | None) -> None:
        """Return the torn tail of a file without a whole format description."""
        data = self.reader.read_at(0, FIRST_EVENT + _MAX_FORMAT_BYTES)
        if self.reader.damage is not None:
            raise self.reader.damage.at(file=self.name, event_pos=0)
        what = "the file ends before its format description is complete"
        self.tail = TailReport(0, len(data), False, what if data else "the file is empty")
        if on_damage is Damage.STOP:
            error = torn_tail_error(self, self.tail)
            raise error if data else error.hinted(_EMPTY_HINT)
        if ledger is not None:
            ledger.skipped.append(SkippedRange(self.shown, 0, len(data), self.tail.message))

    def _settle(
        self, result: ScanResult, scanner: Scanner, on_damage: Damage, ledger: Ledger | None
    ) -> None:
        """Raise the error that ended the walk, or note the loss and let the walk continue."""
        error, tail = result.error, result.tail
        assert error is not None
        if ledger is not None and isinstance(error, ChecksumError):
            ledger.file(self.shown).bad += 1
        if tail is not None:
            self.tail = tail
            if tail.in_use:
                return
        if on_damage is Damage.STOP or not isinstance(error, FormatError):
            raise error.hinted(SKIP_HINT) if isinstance(error, FormatError) else error
        if tail is not None:
            lost_to = tail.offset + tail.size
        else:
            joined = self.reader.rejoin(result.offset)
            lost_to = (
                next_transaction(self, result.offset, scanner.format) if joined is None else joined
            )
            failure = self.reader.damage
            if (
                failure is not None
                and not isinstance(failure, FormatError)
                and self.size == lost_to
            ):
                # the search ended with the connection, not with the log
                raise failure.at(file=self.name)
            end = END if self.size is None else self.size
            if joined is not None or result.offset < lost_to < end:
                scanner.resume(lost_to)  # else nothing follows: the rest stays damaged
        if ledger is not None:
            ledger.skipped.append(SkippedRange(self.shown, result.offset, lost_to, error.message))
