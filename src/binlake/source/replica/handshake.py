"""The handshake of a replica before it asks for a log: session variables and registration.

Sources: MySQL sql/rpl_replica.cc and sql/rpl_binlog_sender.cc, MariaDB sql/slave.cc and
sql/sql_repl.cc.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
import uuid
from dataclasses import dataclass, field, replace

from binlake.errors import BinlogError, OptionError, ServerError
from binlake.format.magic import FIRST_EVENT
from binlake.source.replica.answers import whole_number
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
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.url import ServerUrl, choice_option, seconds_option
from binlake.values.gtid import GtidSet

#: The code of the error for a variable that the server does not have.
UNKNOWN_VARIABLE = 1193
_SERVER_ID_BITS = 32
# On 5.6.24, a replica that disconnects without having asked for a log stays in the server's list, and
# SHOW SLAVE HOSTS then returns rows without its UUID, which it takes from the session that has ended.
# From 8.0 on the entry goes with the connection (seen on 9.7); 5.7 was not tried.
_LISTS_SAFELY = (8, 0, 0)
_MOST_DIGITS = 20
_CAPABILITY_GTID = 4  # MARIA_SLAVE_CAPABILITY_GTID: events come as they are in the log
_MOST_HOST, _MOST_USER = 60, 80  # HOSTNAME_LENGTH of older servers, USERNAME_LENGTH
_ZOMBIE_S = 2.5
_SLOW_CONSUMER_S = 3600
_SKIPS = ("keep", "drop", "filter")
_SWITCH = ("on", "off", "1", "0", "true", "false", "yes", "no")


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The options for following a server.

    `replica_id` 0: binlake chooses one. `heartbeat_s`: the longest silence of an idle server,
    `dead_after_s`: the silence after which the connection counts as lost. `skip_replication`: the
    treatment of events with that flag: keep, drop (here), filter (by the server, MariaDB).
    `block_bytes`: about how large a block grows while more is coming. `max_event_bytes`: the
    longest event that is taken into memory. `attempts`: reconnections without one byte of
    progress before the follower gives up, None: never. `until_gtid`, `strict`,
    `ignore_duplicates`: MariaDB's. `created`: the timestamp of the format description of the
    file in which following begins, None if unknown: another time means another file.
    `most_offset`: the largest offset that COM_BINLOG_DUMP can name.
    `damaged` is the place (server's identity, file, offset) of an earlier wrong checksum.
    """

    replica_id: int = 0
    report_host: str = ""
    report_port: int = 0
    report_user: str = ""
    heartbeat_s: float = 1.0
    dead_after_s: float = 30.0
    semi_sync: bool = False
    until_current: bool = False
    verify_checksum: bool = True
    skip_replication: str = "keep"
    block_bytes: int = 4 << 20
    max_event_bytes: int = (1 << 30) + (1 << 20)
    attempts: int | None = None
    backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    until_gtid: str = ""
    strict: bool = True
    ignore_duplicates: bool = False
    created: int | None = None
    damaged: tuple[str, str, int] | None = None
    most_offset: int = (1 << 32) - 1
    replica_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def of(cls, url: ServerUrl, **given: object) -> FollowOptions:
        """Return the options in the URL's query; `given` overrides them. Raises OptionError."""
        options: dict[str, object] = {
            "replica_id": _number(url, "server-id", _SERVER_ID_BITS),
            "report_host": url.option("report-host"),
            "report_port": _number(url, "report-port", 16),
            "report_user": url.option("report-user"),
            "heartbeat_s": seconds_option(url, "heartbeat", 1.0),
            "semi_sync": _switch(url, "semi-sync", default="off"),
            "skip_replication": choice_option(url, "skip-replication", _SKIPS, "keep"),
            "strict": _switch(url, "gtid-strict", default="on"),
            "ignore_duplicates": _switch(url, "gtid-ignore-duplicates", default="off"),
            "until_gtid": url.option("until-gtid"),
        }
        heartbeat = options["heartbeat_s"]
        assert isinstance(heartbeat, float)
        options["dead_after_s"] = seconds_option(url, "read-timeout", max(30.0, 3 * heartbeat))
        return cls(**{**options, **given})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SessionReport:
    """The result of the handshake: binlake's server id, whether the source waits for
    acknowledgements, and the offset from which it sends the file, if a file was requested.
    """

    replica_id: int
    semi_sync: bool
    offset: int


def replica_ids(server: ServerConnection) -> set[int]:
    """Return the server's id and, if the user may list them, the ids of its replicas.

    MySQL before 8.0 is not asked for its replicas, because the answer can be read from ended sessions.
    """
    listed: list[tuple[str | None, ...]] = []
    if server.flavour == "mariadb" or server.version >= _LISTS_SAFELY:
        newer = server.flavour == "mysql" and server.version >= (8, 0, 22)
        with contextlib.suppress(ServerError):
            listed = server.rows("SHOW REPLICAS" if newer else "SHOW SLAVE HOSTS")
    return {whole_number(row[0], "Server_Id") for row in listed} | {server.server_id}


def check_allowed(server: ServerConnection, options: FollowOptions) -> None:
    """Ask for the oldest log, as a replica does, and end the connection. Raises ServerError.

    Registration alone would check the same privilege, but see `_LISTS_SAFELY`.
    """
    try:
        start_dump(
            server, replace(options, replica_id=0, semi_sync=False, until_current=True),
            "", FIRST_EVENT, None,
        )  # fmt: skip
        server.answer()
    finally:
        server.abort()


def start_dump(
    server: ServerConnection,
    options: FollowOptions,
    file: str,
    offset: int,
    gtids: str | None,
    own_id: int = 0,
) -> SessionReport:
    """Become a replica and ask for the log: `file` from `offset` on, or the transactions that are not in `gtids`.

    Only MySQL 8 with GTIDs accepts an offset beyond 4 GB; others send such a file from its start.
    `own_id` is the server id of an earlier, lost connection. If the server still has that
    connection, it ends it now. Raises ServerError, OptionError.
    """
    replica_id = own_id or _chosen_id(server, options)
    _introduce(server, options)
    semi_sync = options.semi_sync and _enable_semi_sync(server)
    if gtids is not None and server.flavour == "mariadb":
        _maria_connect_state(server, options, gtids)
        command, payload = (
            COM_BINLOG_DUMP,
            BinlogDump(replica_id, "", FIRST_EVENT, _flags(server, options)).encode(),
        )
    elif gtids is not None:
        wanted = GtidSet.parse(gtids)
        command = COM_BINLOG_DUMP_GTID
        payload = BinlogDumpGtid(replica_id, wanted, flags=_flags(server, options)).encode()
    elif offset > options.most_offset and _names_far_positions(server):
        command = COM_BINLOG_DUMP_GTID
        payload = BinlogDumpGtid(
            replica_id, GtidSet(), file, offset, _flags(server, options)
        ).encode()
    else:
        offset = offset if offset <= options.most_offset else FIRST_EVENT
        command = COM_BINLOG_DUMP
        payload = BinlogDump(replica_id, file, offset, _flags(server, options)).encode()
    _register(server, options, replica_id)  # last: see `_LISTS_SAFELY`
    server.command(command, payload)
    return SessionReport(replica_id, semi_sync, offset)


def _register(server: ServerConnection, options: FollowOptions, replica_id: int) -> None:
    """Become one of the replicas that the server lists. Raises ServerError."""
    host = (options.report_host or socket.gethostname())[:_MOST_HOST]
    me = Registration(replica_id, host, options.report_user[:_MOST_USER], "", options.report_port)
    try:
        server.command(COM_REGISTER_SLAVE, me.encode())
        server.answer()
    except ServerError as error:
        raise _hinted(error) from None


def _introduce(server: ServerConnection, options: FollowOptions) -> None:
    """Set the session variables of both flavours; servers accept those that they do not know."""
    period = round(options.heartbeat_s * 1_000_000_000)
    server.execute(f"SET @master_heartbeat_period={period}, @source_heartbeat_period={period}")
    try:
        # announces support for checksums, which a source that writes them requires
        server.execute(
            "SET @master_binlog_checksum=@@GLOBAL.binlog_checksum, "
            "@source_binlog_checksum=@@GLOBAL.binlog_checksum"
        )
    except ServerError as error:
        if error.code != UNKNOWN_VARIABLE:
            raise
    own = options.replica_uuid
    server.execute(f"SET @slave_uuid='{own}', @replica_uuid='{own}'")
    server.execute(f"SET SESSION net_write_timeout={_SLOW_CONSUMER_S}")
    if server.flavour == "mariadb":
        server.execute(f"SET @mariadb_slave_capability={_CAPABILITY_GTID}")
        if options.skip_replication == "filter":
            server.execute("SET SESSION skip_replication=1")


def _maria_connect_state(server: ServerConnection, options: FollowOptions, gtids: str) -> None:
    for name, text in (("slave_connect_state", gtids), ("slave_until_gtid", options.until_gtid)):
        if any(c not in "0123456789-," for c in text):
            raise OptionError(f"{text[:200]!r} is not a GTID position of MariaDB", name="gtid")
        if text or name == "slave_connect_state":
            server.execute(f"SET @{name}='{text}'")
    server.execute(
        f"SET @slave_gtid_strict_mode={int(options.strict)}, "
        f"@slave_gtid_ignore_duplicates={int(options.ignore_duplicates)}"
    )


def _enable_semi_sync(server: ServerConnection) -> bool:
    """Announce a semi-synchronous replica by both names; return whether the source is semi-synchronous."""
    enabled = any(
        (server.variable(name) or "").upper() == "ON"
        for name in ("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")
    )
    if enabled:
        server.execute("SET @rpl_semi_sync_slave=1, @rpl_semi_sync_replica=1")
    return enabled


def _names_far_positions(server: ServerConnection) -> bool:
    """Whether COM_BINLOG_DUMP_GTID takes a file and an offset of 8 bytes, beside an empty set.

    5.6.24 begins there, too, but leaves out what follows the first GTID.
    """
    gtid_mode = server.variable("gtid_mode") if server.version >= (8, 0) else None
    return server.flavour == "mysql" and (gtid_mode or "").upper() == "ON"


def _flags(server: ServerConnection, options: FollowOptions) -> int:
    flags = NON_BLOCK if options.until_current else 0
    if server.flavour == "mariadb":
        return flags | BINLOG_SEND_ANNOTATE_ROWS
    return flags | (BINLOG_SEND_HEARTBEAT_V2 if server.version >= (8, 0, 26) else 0)


def _chosen_id(server: ServerConnection, options: FollowOptions) -> int:
    """Return a server id that no other replica has. Raises OptionError for a wanted one that is
    taken.
    """
    wanted = options.replica_id
    if wanted:
        # after a kill, the server lists the old connection until its next heartbeat to it
        deadline = time.monotonic() + _ZOMBIE_S
        while wanted in replica_ids(server):
            if wanted == server.server_id or time.monotonic() > deadline:
                raise OptionError(
                    f"{server.where} has a replica (or is itself) number {wanted}",
                    name="replica_id",
                    value=wanted,
                    hint="replicas with the same server id disconnect each other; remove the option to let binlake choose one",
                )
            time.sleep(0.2)
        return wanted
    taken = replica_ids(server)
    while True:
        # the upper half, since administrators number servers from 1 upwards
        chosen = random.SystemRandom().randrange(1 << 31, 1 << 32)
        if chosen not in taken:
            return chosen


def _hinted(error: BinlogError) -> BinlogError:
    if error.code in (1045, 1227):
        return error.hinted("GRANT REPLICATION SLAVE ON *.* TO the user of this URL")
    return error


def _number(url: ServerUrl, name: str, bits: int) -> int:
    text = url.option(name, "0")
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) >> bits:
        raise OptionError(f"{name}={text}: not a number below 2**{bits}", name=name, value=text)
    return int(text)


def _switch(url: ServerUrl, name: str, *, default: str) -> bool:
    return choice_option(url, name, _SWITCH, default) in ("on", "1", "true", "yes")
