"""GTIDs and sets of them, of both flavours, as values.

MySQL: `source_uuid:gno` or `source_uuid:tag:gno`; a set is `uuid:1-5:7:tag:1-3,uuid:…`.
MariaDB: `domain-server-sequence`; a list of them contains the last number of each (domain, server).

Numbers are kept as full interval sets: `values/intervals.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from binlake.errors import MalformedError, TruncatedError
from binlake.values.intervals import (
    IntervalSets,
    common,
    inside,
    intervals,
    intervals_text,
    parse_interval,
    unite,
)

GNO_END = (1 << 63) - 1  # every gno is below it (MySQL sql/rpl_gtid.h, GNO_END)
_U32_END = 1 << 32
_U64_END = 1 << 64

#: A UUID, with or without hyphens.
UUID = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.I)
#: A UUID as servers write their own.
SERVER_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
#: The form of a tag: Tag::is_valid of libs/mysql/gtid/tag.cpp, after its lower case.
TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_MARIA = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})")
#: MariaDB's `domain-server`.
MARIA_STREAM = re.compile(r"(\d{1,10})-(\d{1,10})")


def uuid_text(sid: bytes) -> str:
    """The 16 bytes of a source UUID as text, lower case."""
    digits = sid.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID. Raises ValueError."""
    if not UUID.fullmatch(text):
        raise ValueError(f"{text!r} is not a UUID")
    return bytes.fromhex(text.replace("-", ""))


class Gtid(NamedTuple):
    """One MySQL GTID: `sid` the 16 bytes of the source's UUID, `gno` from 1, `tag` "" for none."""

    sid: bytes
    gno: int
    tag: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{uuid_text(self.sid)}{tag}:{self.gno}"

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Parse `uuid:gno` or `uuid:tag:gno`. Raises ValueError."""
        parts = [part.strip().lower() for part in text.split(":")]
        if len(parts) not in (2, 3) or not parts[-1].isdecimal():
            raise ValueError(f"{text!r} is not a GTID")
        gno = int(parts[-1])
        tag = parts[1] if len(parts) == 3 else ""
        if not 0 < gno < GNO_END or (len(parts) == 3 and not TAG.fullmatch(tag)):
            raise ValueError(f"{text!r} is not a GTID")
        return cls(parse_uuid(parts[0]), gno, tag)


class MariaGtid(NamedTuple):
    """One MariaDB GTID: replication domain, server, sequence number."""

    domain_id: int
    server_id: int
    seq_no: int

    def __str__(self) -> str:
        return f"{self.domain_id}-{self.server_id}-{self.seq_no}"

    @classmethod
    def parse(cls, text: str) -> MariaGtid:
        """Parse `domain-server-sequence`. Raises ValueError."""
        match = _MARIA.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a MariaDB GTID (domain-server-sequence)")
        domain, server, seq = map(int, match.groups())
        if domain >= _U32_END or server >= _U32_END or seq >= _U64_END:
            raise ValueError(f"{text!r} is not a MariaDB GTID: a number is too large")
        return cls(domain, server, seq)


_Key = tuple[bytes, str]
_Stream = tuple[int, int]


class GtidSet(IntervalSets[_Key]):
    """A set of MySQL GTIDs: an interval set per (source UUID, tag).

    `|`, `-` and `&` make new sets; `add` and `add_interval` change this one, for code that
    accumulates. `str()` is the server's text (sorted by UUID, then tag, no line breaks).
    """

    __slots__ = ()

    def __init__(self, gtids: Iterable[Gtid] = ()) -> None:
        super().__init__()
        for gtid in gtids:
            self.add(gtid.sid, gtid.gno, gtid.tag)

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Parse the server's text; white space is free, "" is the empty set.

        Raises ValueError.
        """
        result = cls()
        for entry in "".join(text.split()).lower().split(","):
            if not entry:
                continue
            uuid, *parts = entry.split(":")
            sid, tag = parse_uuid(uuid), ""
            if not parts:
                raise ValueError(
                    f"{entry!r} has no numbers; a whole source is uuid:1-{GNO_END - 1}"
                )
            for part, following in zip(parts, [*parts[1:], ""], strict=True):
                if not TAG.fullmatch(part):
                    result.add_interval(sid, tag, *parse_interval(part, GNO_END))
                elif not following or TAG.fullmatch(following):
                    raise ValueError(f"{entry!r} has no numbers after the tag {part!r}")
                else:
                    tag = part
        return result

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> GtidSet:
        """Decode the binary form of PREVIOUS_GTIDS and COM_BINLOG_DUMP_GTID.

        Bytes after the set are ignored, as the server does. Raises TruncatedError and
        MalformedError.
        """
        reader = _Reader(data)
        header = reader.u64("count")
        tagged = header >> 56 == 1
        if not tagged and header >> 56:
            raise MalformedError(f"unknown format {header >> 56} of a GTID set", field="count")
        if tagged and header & 0xFF != 1:
            raise MalformedError("the format of a GTID set is not the same twice", field="count")
        result = cls()
        for _ in range(header >> 8 & (1 << 48) - 1 if tagged else header):
            sid = reader.take(16, "sid")
            tag = reader.tag() if tagged else ""
            reached = 0
            for _ in range(reader.u64("interval count")):
                start, end = reader.u64("start"), reader.u64("end")
                if not reached < start < end <= GNO_END:
                    raise MalformedError(
                        f"interval {start} to {end} of a GTID set is not in order", field="start"
                    )
                reached = end
                result.add_interval(sid, tag, start, end)
        return result

    @property
    def has_tags(self) -> bool:
        """Whether a GTID of the set has a tag."""
        return any(tag for _, tag in self._bounds)

    def encode(self, *, tagged: bool | None = None) -> bytes:
        """The binary form: with tags, or without, or (None) with them only if there are some.

        MySQL 8.3 and newer write the form with tags once the server knows one, also for a set
        that has none. Raises ValueError for a set with tags in the form without.
        """
        if tagged is None:
            tagged = self.has_tags
        elif not tagged and self.has_tags:
            raise ValueError("the format without tags cannot represent a set with tags")
        entries = sorted(self._bounds.items())
        header = 1 << 56 | len(entries) << 8 | 1 if tagged else len(entries)
        out = bytearray(header.to_bytes(8, "little"))
        for (sid, tag), bounds in entries:
            out += sid
            if tagged:
                out.append(2 * len(tag))  # one byte of mysql::serialization's varlen
                out += tag.encode("ascii")
            out += (len(bounds) // 2).to_bytes(8, "little")
            for bound in bounds:
                out += bound.to_bytes(8, "little")
        return bytes(out)

    def add(self, sid: bytes, gno: int, tag: str = "") -> None:
        """Put one GTID into this set."""
        self.add_interval(sid, tag, gno, gno + 1)

    def add_interval(self, sid: bytes, tag: str, start: int, end: int) -> None:
        """Put gno `start` to `end` - 1 of one source and tag into this set."""
        unite(self._bounds.setdefault((sid, tag), []), start, end)

    def in_interval(self, sid: bytes, tag: str, start: int, end: int) -> GtidSet:
        """The GTIDs of this set with gno `start` to `end` - 1 of one source and tag."""
        result = GtidSet()
        if bounds := common(self._bounds.get((sid, tag), []), start, end):
            result._bounds[sid, tag] = bounds
        return result

    def contains(self, sid: bytes, gno: int, tag: str = "") -> bool:
        """Whether one GTID is in the set."""
        bounds = self._bounds.get((sid, tag))
        return bounds is not None and inside(bounds, gno)

    def __contains__(self, gtid: Gtid) -> bool:
        return self.contains(gtid.sid, gtid.gno, gtid.tag)

    def gaps(self) -> GtidSet:
        """The GTIDs between the first and the last of each source and tag that are missing."""
        result = GtidSet()
        for key, bounds in self._bounds.items():
            if len(bounds) > 2:
                result._bounds[key] = bounds[1:-1]
        return result

    def __str__(self) -> str:
        texts: dict[bytes, str] = {}
        for (sid, tag), bounds in sorted(self._bounds.items()):
            start = texts.get(sid) or uuid_text(sid)
            texts[sid] = f"{start}{':' + tag if tag else ''}:{intervals_text(bounds)}"
        return ",".join(texts.values())

    def __repr__(self) -> str:
        return f"GtidSet.parse({str(self)!r})"


class _Reader:
    """Little-endian reads of a GTID set; `values` lies below `core`, so it has its own."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = memoryview(data).cast("B")
        self.pos = 0

    def take(self, size: int, field: str) -> bytes:
        have = len(self.data) - self.pos
        if size > have:
            raise TruncatedError(
                "a GTID set ends too early", need=size, have=have, offset=self.pos, field=field
            )
        self.pos += size
        return bytes(self.data[self.pos - size : self.pos])

    def u64(self, field: str) -> int:
        return int.from_bytes(self.take(8, field), "little")

    def tag(self) -> str:
        size = self.take(1, "tag length")[0]
        text = self.take(size >> 1, "tag").decode("latin-1")
        if size & 1 or (text and not TAG.fullmatch(text)):
            raise MalformedError(f"{text!r} is not a tag of a GTID set", field="tag")
        return text


class MariaGtidSet:
    """The state of MariaDB's replication: the last sequence number per (domain, server).

    A GTID_LIST event and `@@gtid_binlog_state` contain this. Order matters: the last
    entry of a domain is its current one (`position`). `add` changes this set.
    """

    __hash__ = None  # type: ignore[assignment]  # it can change
    __slots__ = ("_last",)

    def __init__(self, gtids: Iterable[MariaGtid] = ()) -> None:
        self._last: dict[tuple[int, int], int] = {}
        for gtid in gtids:
            self.add(gtid)

    @classmethod
    def parse(cls, text: str) -> MariaGtidSet:
        """Parse `0-1-5,1-1-7`; "" is the empty set. Raises ValueError."""
        return cls(MariaGtid.parse(part) for part in text.split(",") if part.strip())

    def add(self, gtid: MariaGtid) -> None:
        """Make `gtid` the last of its domain and server, and the current one of its domain."""
        key = (gtid.domain_id, gtid.server_id)
        self._last.pop(key, None)  # so that it is the domain's last entry
        self._last[key] = gtid.seq_no

    def last(self, domain_id: int, server_id: int) -> int | None:
        """The last sequence number of one server in one domain."""
        return self._last.get((domain_id, server_id))

    def position(self) -> dict[int, MariaGtid]:
        """The current GTID of each domain (`@@gtid_binlog_pos`)."""
        return {gtid.domain_id: gtid for gtid in self}

    def position_text(self) -> str:
        """The current GTID of each domain as text, with which replication continues."""
        return ",".join(map(str, self.position().values()))

    def copy(self) -> MariaGtidSet:
        """A copy of the set."""
        return MariaGtidSet(self)

    def __iter__(self) -> Iterator[MariaGtid]:
        for (domain, server), seq in self._last.items():
            yield MariaGtid(domain, server, seq)

    def __len__(self) -> int:
        return len(self._last)

    def __eq__(self, other: object) -> bool:
        """Compare the last number of every server; the order of entries does not matter."""
        return isinstance(other, MariaGtidSet) and self._last == other._last

    def __str__(self) -> str:
        return ",".join(map(str, self))

    def __repr__(self) -> str:
        return f"MariaGtidSet.parse({str(self)!r})"


class MariaGtidIntervals(IntervalSets[_Stream]):
    """A set of MariaDB GTIDs: an interval set per (domain, server).

    `str()` is `0-1:1-5:7,0-2:6`, which `parse_gtid_filter` understands too. MariaDB itself only
    writes the last number of each server: `parse` and `up_to` read it as all numbers up to this
    one, as replication does. (The servers of a domain share its numbers, so the set can contain
    numbers of another server; no operation is affected.)
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> MariaGtidIntervals:
        """Parse `0-1:1-5:7`, and `0-1-5` for 1 to 5; white space is free. Raises ValueError."""
        result = cls()
        for entry in "".join(text.split()).split(","):
            if entry and not result.add_stream(entry):
                gtid = MariaGtid.parse(entry)
                result.add_interval(gtid.domain_id, gtid.server_id, 1, gtid.seq_no + 1)
        return result

    @classmethod
    def up_to(cls, reached: MariaGtidSet) -> MariaGtidIntervals:
        """All numbers up to the last one of each server."""
        result = cls()
        for gtid in reached:
            result.add_interval(gtid.domain_id, gtid.server_id, 1, gtid.seq_no + 1)
        return result

    def add_interval(self, domain_id: int, server_id: int, start: int, end: int) -> None:
        """Put sequence numbers `start` to `end` - 1 of one server in one domain into this set."""
        if start < end:
            unite(self._bounds.setdefault((domain_id, server_id), []), start, end)

    def last_numbers(self) -> Iterator[tuple[tuple[int, int], int]]:
        """((domain, server), last sequence number) of every server."""
        for stream, bounds in sorted(self._bounds.items()):
            yield stream, bounds[-1] - 1

    def add_stream(self, entry: str) -> bool:
        """Add `0-1:1-5:7`; False if the entry is something else. Raises ValueError."""
        head, *parts = entry.split(":")
        stream = MARIA_STREAM.fullmatch(head)
        if stream is None or not parts:
            return False
        for part in parts:
            self.add_interval(int(stream[1]), int(stream[2]), *parse_interval(part, _U64_END))
        return True

    def __contains__(self, gtid: MariaGtid) -> bool:
        bounds = self._bounds.get((gtid.domain_id, gtid.server_id))
        return bounds is not None and inside(bounds, gtid.seq_no)

    def gaps(self) -> MariaGtidGaps:
        """The numbers between the first and the last of each domain that no server has."""
        domains: dict[int, list[int]] = {}
        for (domain, _), bounds in self._bounds.items():
            for start, end in intervals(bounds):
                unite(domains.setdefault(domain, []), start, end)
        return MariaGtidGaps(
            {domain: bounds[1:-1] for domain, bounds in domains.items() if len(bounds) > 2}
        )

    def __str__(self) -> str:
        return ",".join(
            f"{domain}-{server}:{intervals_text(bounds)}"
            for (domain, server), bounds in sorted(self._bounds.items())
        )

    def __repr__(self) -> str:
        return f"MariaGtidIntervals.parse({str(self)!r})"


class MariaGtidGaps(IntervalSets[int]):
    """Missing sequence numbers of domains, as `0-?:5-7`: their server ids are unknown."""

    __slots__ = ()

    def __init__(self, bounds: dict[int, list[int]]) -> None:
        super().__init__()
        self._bounds = bounds

    def __str__(self) -> str:
        return ",".join(
            f"{domain}-?:{intervals_text(bounds)}"
            for domain, bounds in sorted(self._bounds.items())
        )


def parse_gtid_set(text: str) -> GtidSet | MariaGtidIntervals:
    """Parse a set of either flavour: a MySQL set, or MariaDB GTIDs and ranges.

    "" is the empty set (of MySQL). Raises ValueError, also where the flavours are mixed.
    """
    entries = "".join(text.split()).split(",")
    of_mariadb = {is_mariadb(entry) for entry in entries if entry}
    if len(of_mariadb) > 1:
        raise ValueError("one set cannot contain GTIDs of both MySQL and MariaDB")
    return MariaGtidIntervals.parse(text) if True in of_mariadb else GtidSet.parse(text)


def is_mariadb(entry: str) -> bool:
    """Whether an entry of a set is one of MariaDB: a GTID, or a range of one server."""
    head, colon, _ = entry.partition(":")
    return bool((MARIA_STREAM if colon else _MARIA).fullmatch(head))
