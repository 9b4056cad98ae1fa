"""Track which transactions have arrived completely: the GTIDs for continuing on another server.

MySQL's sets hold every GTID. For MariaDB the last GTID of each domain counts, as a replica there
reports to a source.
"""

from __future__ import annotations

from binlake.core.events.frames import FrameBlock
from binlake.core.events.gtid_runs import gtid_runs
from binlake.errors import MalformedError, OptionError
from binlake.events.common.query import QueryEvent
from binlake.events.mysql.gtid import GNO_AT, OPTIONAL_AT, SID_AT
from binlake.events.mysql.tagged_gtid import GtidTaggedEvent
from binlake.events.registry import decode_event
from binlake.format import event_types as types
from binlake.format.event_header import HEADER_BYTES
from binlake.format.flags import FL_STANDALONE
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import GNO_END, Gtid, GtidSet, MariaGtid, MariaGtidSet

_MARIADB_GTID_BYTES = HEADER_BYTES + 8 + 4 + 1
_GTID_BYTES = HEADER_BYTES + OPTIONAL_AT  # of GTID_LOG_EVENT, to the end of gno
# A server writes STOP_EVENT, when it shuts down, behind whole transactions only, and so does MariaDB
# its BINLOG_CHECKPOINT_EVENT, some time after a log has begun.
_ENDING_TYPES = (
    types.XID_EVENT, types.XA_PREPARE_LOG_EVENT, types.TRANSACTION_PAYLOAD_EVENT, types.STOP_EVENT, types.BINLOG_CHECKPOINT_EVENT,
)  # fmt: skip
_QUERY_TYPES = (types.QUERY_EVENT, types.QUERY_COMPRESSED_EVENT)


class Progress:
    """The GTIDs at the beginning (`start`, in the notation of the flavour) and those of the
    transactions since then. Raises OptionError.
    """

    def __init__(self, flavour: str, start: str) -> None:
        self.flavour = flavour
        self._mysql = GtidSet()
        self._maria = MariaGtidSet()
        try:
            if flavour == "mariadb":
                self._maria = MariaGtidSet.parse(start)
            else:
                self._mysql = GtidSet.parse(start)
        except ValueError as error:
            raise OptionError(
                f"{start[:200]!r} is not a GTID set of {flavour}: {error}", name="gtid_set"
            ) from None
        self._open: Gtid | MariaGtid | None = None
        self._standalone = False
        self._last: tuple[bytes, Frame, EventFormat | None] | None = None
        self._events = 0  # of the open transaction, its GTID not counted

    def feed(self, data: bytes, start: int, frames: FrameBlock, fmt: EventFormat | None) -> None:
        """Take received events: `frames` of `data`, which lies at offset `start`."""
        count, last = len(frames), -1
        for first, last in gtid_runs(data, start, frames):
            self.settle()
            if first < last:
                self._take(data, start, frames, first, last)
            self._begin(data, frames.offset[last] - start, frames, last, fmt)
        self._events = count - 1 - last if last >= 0 else self._events + count
        if count:
            frame = frames.frame(count - 1)
            self._last = data[frame.offset - start : frame.end - start], frame, fmt

    def _take(self, data: bytes, start: int, frames: FrameBlock, first: int, last: int) -> None:
        """The transactions of a run from frame `first` to frame `last`, without the transaction of `last`."""
        one, other = (
            data[at + HEADER_BYTES : at + _GTID_BYTES]
            for at in (frames.offset[first] - start, frames.offset[last] - start)
        )
        if frames.type_code[last] == types.GTID_EVENT:
            return  # only the last GTID of a domain counts, and its transaction is about to begin
        low, high = (int.from_bytes(body[GNO_AT:OPTIONAL_AT], "little") for body in (one, other))
        self._mysql.add_interval(one[SID_AT:GNO_AT], "", low, high)

    def settle(self) -> None:
        """Count the last transaction as complete: the next begins, or the source is at its end."""
        gtid, self._open = self._open, None
        if isinstance(gtid, Gtid):
            self._mysql.add(gtid.sid, gtid.gno, gtid.tag)
        elif gtid is not None:
            self._maria.add(gtid)

    def gtid_set(self) -> str:
        """Return the GTIDs of all complete transactions, in the notation of the flavour."""
        if self._open is not None and self._is_whole():
            self.settle()
        if self.flavour == "mariadb":
            return self._maria.position_text()
        return str(self._mysql)

    def _begin(
        self, data: bytes, at: int, frames: FrameBlock, index: int, fmt: EventFormat | None
    ) -> None:
        body = at + HEADER_BYTES
        kind = frames.type_code[index]
        least = _MARIADB_GTID_BYTES if kind == types.GTID_EVENT else _GTID_BYTES
        if kind != types.GTID_TAGGED_LOG_EVENT and frames.length[index] < least:
            raise MalformedError(
                f"a GTID event of {frames.length[index]} bytes", event_pos=frames.offset[index]
            )
        if kind == types.GTID_EVENT:
            seq_no = int.from_bytes(data[body : body + 8], "little")
            domain = int.from_bytes(data[body + 8 : body + 12], "little")
            self._standalone = bool(data[body + 12] & FL_STANDALONE)
            self._open = MariaGtid(domain, frames.server_id[index], seq_no)
        elif kind == types.GTID_TAGGED_LOG_EVENT:
            frame = frames.frame(index)
            checksum = fmt.checksum_bytes if fmt is not None else 0
            event = decode_event(frame, data[body : at + frame.length - checksum], fmt)
            assert isinstance(event, GtidTaggedEvent)
            self._open = Gtid(event.sid, event.gno, event.tag)
        else:
            gno = int.from_bytes(data[body + GNO_AT : body + OPTIONAL_AT], "little")
            if not 0 < gno < GNO_END:
                raise MalformedError(
                    f"impossible transaction number {gno}", event_pos=frames.offset[index]
                )
            self._open = Gtid(bytes(data[body + SID_AT : body + GNO_AT]), gno, "")

    def _is_whole(self) -> bool:
        """Whether the last event ends the open transaction."""
        if self._last is None or not self._events:
            return False
        raw, frame, fmt = self._last
        if frame.type_code in _ENDING_TYPES:
            return True
        if frame.type_code not in _QUERY_TYPES or fmt is None:
            return False
        event = decode_event(frame, raw[HEADER_BYTES : len(raw) - fmt.checksum_bytes], fmt)
        assert isinstance(event, QueryEvent)
        word = event.sql_raw[:9].upper()
        if word.startswith((b"COMMIT", b"ROLLBACK")) and b" TO" not in event.sql_raw[:14].upper():
            return True
        # a statement that commits itself stands alone after its GTID
        return self._standalone or (
            self._events == 1 and not word.startswith((b"BEGIN", b"XA START"))
        )
