"""One connection, from login to its end: commands one after the other, then perhaps a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from binlake.errors import BinlogError, FormatError, PeerGoneError, ServerError
from binlake.serve.answers import (
    MALFORMED_PACKET,
    NOT_SUPPORTED,
    SERVER_SHUTDOWN,
    UNKNOWN_COM,
    Value,
    eof,
    error,
    lost,
    ok,
    refused,
)
from binlake.serve.channel import Channel
from binlake.serve.dump import DumpRequest, EventStream
from binlake.serve.library import Library
from binlake.serve.login import Identity
from binlake.serve.mariadb_selection import Wishes
from binlake.serve.queries import Queries
from binlake.serve.replicas import Replica, Replicas
from binlake.serve.settings import Settings
from binlake.serve.start import (
    Start,
    by_connect_state,
    by_gtid_set,
    by_position,
    of_mariadb_position,
)
from binlake.source.log_file import SKIP_HINT
from binlake.source.replica.commands import (
    BINLOG_SEND_ANNOTATE_ROWS,
    BINLOG_SEND_HEARTBEAT_V2,
    COM_BINLOG_DUMP,
    COM_BINLOG_DUMP_GTID,
    COM_REGISTER_SLAVE,
    NON_BLOCK,
    BinlogDump,
    BinlogDumpGtid,
    Registration,
)
from binlake.values.gtid import MariaGtid

Command = TypeVar("Command")

COM_QUIT = 0x01
COM_INIT_DB = 0x02
COM_QUERY = 0x03
COM_STATISTICS = 0x09
COM_PING = 0x0E
COM_SET_OPTION = 0x1B
COM_RESET_CONNECTION = 0x1F

#: A set of GTIDs may be long; nothing else that clients send is.
MAX_COMMAND_BYTES = 4 << 20
_MAX_QUERY_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Served:
    """The common state of all sessions."""

    settings: Settings
    library: Library
    who: Identity
    replicas: Replicas
    started: float
    stop: threading.Event
    note: Callable[[str], None]


class ReplicaSession:
    """The commands of one client that has logged in.

    `run` returns when it has left. Raises PeerGoneError when the connection ended otherwise.
    """

    def __init__(self, channel: Channel, served: Served, replica: Replica, account: str) -> None:
        self._channel = channel
        self._served = served
        self._replica = replica
        self._stop = threading.Event()
        self._queries = Queries(
            served.who, served.library, served.replicas, account, replica.connection_id
        )

    def run(self) -> None:
        """Answer until the client leaves."""
        while True:
            deadline = time.monotonic() + self._served.settings.idle_seconds
            try:
                command = self._channel.read(MAX_COMMAND_BYTES, deadline)
            except ServerError as problem:  # too long: the next command cannot be found
                self._channel.write(error(problem))
                return
            if command[:1] == bytes((COM_QUIT,)):
                return
            try:
                if self._do(command[0] if command else -1, command[1:]):
                    return
            except PeerGoneError:
                raise
            except ServerError as problem:
                self._channel.write(error(problem))
                if command[:1] != bytes((COM_QUERY,)):  # clients try optional commands
                    self._served.note(f"{self._replica.name} was refused: {problem.message}")
                if problem.code == SERVER_SHUTDOWN:
                    return
            except BinlogError as problem:
                if problem.hint == SKIP_HINT:
                    problem.hint = None  # a source leaves nothing out
                self._channel.write(error(lost(str(problem))))
                self._served.note(f"{self._replica.name}: {problem}")

    def _do(self, code: int, body: bytes) -> bool:
        """Execute one command; return whether the connection ends with it."""
        write = self._channel.write
        if code == COM_QUERY:
            write(*self._queries.answer(_text(body)))
        elif code in (COM_PING, COM_INIT_DB, COM_RESET_CONNECTION):
            write(ok())
        elif code == COM_SET_OPTION:
            write(eof())
        elif code == COM_STATISTICS:
            uptime = int(time.monotonic() - self._served.started)
            threads = len(self._served.replicas.listed())
            write(f"Uptime: {uptime}  Threads: {threads}  Questions: 0".encode())
        elif code == COM_REGISTER_SLAVE:
            self._register(_decoded(Registration.decode, body))
            write(ok())
        elif code == COM_BINLOG_DUMP:
            self._dump(_decoded(BinlogDump.decode, body))
            return True
        elif code == COM_BINLOG_DUMP_GTID:
            self._dump_gtid(_decoded(BinlogDumpGtid.decode, body))
            return True
        else:
            raise refused(UNKNOWN_COM, "08S01", "Unknown command")
        return False

    def _register(self, said: Registration) -> None:
        replica = self._replica
        replica.server_id, replica.host, replica.port = said.server_id, said.host, said.port
        replica.uuid = self._uuid()

    # -- streams -----------------------------------------------------------------------------------

    def _dump(self, asked: BinlogDump) -> None:
        library, user = self._served.library, self._queries.user
        if "slave_connect_state" in user and library.flavour != "mariadb":
            raise lost(
                "the archive is from MySQL, whose GTIDs differ from MariaDB's: follow by position"
                " (MASTER_USE_GTID=no)"
            )
        if library.flavour == "mariadb":
            wishes = self._wishes(asked.flags)
            if wishes.connect is not None:
                ignore = user.get("slave_gtid_ignore_duplicates") == 1
                start = by_connect_state(library, wishes, ignore_duplicates=ignore)
            else:
                start = of_mariadb_position(library, asked.file, asked.offset, wishes)
        else:
            start = by_position(library, asked.file, asked.offset)
        self._stream(start, asked.server_id, asked.flags)

    def _dump_gtid(self, asked: BinlogDumpGtid) -> None:
        library = self._served.library
        if library.flavour != "mysql":
            raise lost(
                "the archive is from MariaDB, whose GTIDs differ from MySQL's: follow by position"
                " (SOURCE_AUTO_POSITION=0)"
            )
        start = by_gtid_set(library, asked.gtids, self._served.who.server_uuid)
        self._stream(start, asked.server_id, asked.flags)

    def _stream(self, start: Start, server_id: int, flags: int) -> None:
        served, replica = self._served, self._replica
        if server_id and server_id == served.who.server_id:
            raise lost(f"the replica has the same server_id as this source: {server_id}")
        replica.server_id = server_id or replica.server_id
        replica.uuid = self._uuid()
        replica.end = self._end
        served.replicas.follow(replica)
        wanted = self._wanted(start, flags)
        how = "by GTID" if start.by_gtid else "by position"
        served.note(f"{replica.name} follows {how} from {start.name}:{start.position}")
        # a stream's packets are numbered on from the command's
        EventStream(
            self._channel,
            served.library,
            wanted,
            served.who.server_id,
            replica.progress,
            self._stop,
        ).run()

    def _wanted(self, start: Start, flags: int) -> DumpRequest:
        user = self._queries.user
        checksum = user.get("source_binlog_checksum", user.get("master_binlog_checksum"))
        period_ns = user.get("source_heartbeat_period", user.get("master_heartbeat_period"))
        semi_sync = user.get("rpl_semi_sync_replica", user.get("rpl_semi_sync_slave"))
        mysql = self._served.library.flavour == "mysql"
        return DumpRequest(
            start=start,
            non_blocking=bool(flags & NON_BLOCK),
            heartbeat_seconds=_number(period_ns) / 1e9,
            heartbeat_v2=mysql and bool(flags & BINLOG_SEND_HEARTBEAT_V2),
            checksums=checksum is not None,
            first_checksum=str(checksum).upper() == "CRC32",
            semi_sync=str(semi_sync) in ("1", "ON"),
        )

    def _wishes(self, flags: int) -> Wishes:
        user = self._queries.user
        connect, until = user.get("slave_connect_state"), user.get("slave_until_gtid")
        return Wishes(
            server_id=self._served.who.server_id,
            connect=None if connect is None else _by_domain(str(connect)),
            until=None if until is None else _by_domain(str(until)),
            strict=user.get("slave_gtid_strict_mode") == 1,
            capability=_number(user.get("mariadb_slave_capability")),
            annotated=bool(flags & BINLOG_SEND_ANNOTATE_ROWS),
            unmarked=_number(self._queries.session.get("skip_replication")) == 1,
        )

    def _uuid(self) -> str:
        user = self._queries.user
        return str(user.get("replica_uuid") or user.get("slave_uuid") or "")

    def _end(self) -> None:
        """Stop the stream, from another thread."""
        self._stop.set()
        self._channel.abort()


def _decoded(decode: Callable[[bytes], Command], body: bytes) -> Command:
    """Decode a command. Raises ServerError (1835)."""
    try:
        return decode(body)
    except FormatError:
        raise refused(MALFORMED_PACKET, "HY000", "Malformed communication packet") from None


def _text(body: bytes) -> str:
    if len(body) > _MAX_QUERY_BYTES:
        raise refused(NOT_SUPPORTED, "42000", f"a statement of {len(body)} bytes is too long")
    return body.decode("utf-8", "surrogateescape")


def _number(value: Value) -> int:
    try:
        return max(int(value or 0), 0)
    except ValueError:
        return 0


def _by_domain(text: str) -> dict[int, MariaGtid]:
    """Parse GTIDs in the form of a MariaDB replica, one per domain. Raises ServerError."""
    found: dict[int, MariaGtid] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            gtid = MariaGtid.parse(part)
        except ValueError:
            raise lost(f"{part[:64]!r} is not a MariaDB GTID") from None
        if gtid.domain_id in found:
            raise lost(
                f"GTID {gtid} and GTID {found[gtid.domain_id]} conflict (duplicate domain id)"
            )
        found[gtid.domain_id] = gtid
    return found
