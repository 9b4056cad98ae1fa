"""The packets that a replica receives, from real logs and from growing logs."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
import zstandard

from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.values.gtid import GtidSet
from support.logs.served import ALL, logs_of, sent
from support.servers.serving import (
    CHECKSUMS,
    Packet,
    client,
    dump,
    dump_gtid,
    eventually,
    rows,
    serving,
)

SERVERS = ["mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"]


def closed(data: bytes) -> bytes:
    """A log as a server that has closed it leaves it."""
    return data[:21] + bytes([data[21] & 0xFE]) + data[22:]


@pytest.mark.parametrize("pack", [None, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("case", ["rotation", "nochecksum"])
def test_the_stream_is_the_files(
    golden: Path, tmp_path: Path, name: str, case: str, pack: Any
) -> None:
    logs = logs_of(golden, f"{name}/{case}", tmp_path / "logs")
    want = {log.name: closed(log.read_bytes()) for log in logs}
    if pack is not None:
        for log in logs[:-1]:  # finished ones, as `archive --compress` leaves them
            log.with_name(log.name + ".x").write_bytes(pack(log.read_bytes()))
            suffix = ".gz" if pack is gzip.compress else ".zst"
            log.with_name(log.name + ".x").rename(log.with_name(log.name + suffix))
            log.unlink()
    with serving(tmp_path / "logs") as server:
        assert sent(server, logs[0].name) == want
        assert sent(server, "") == want
        assert sent(server, logs[-1].name) == {logs[-1].name: want[logs[-1].name]}


@pytest.mark.parametrize(
    ("name", "keys"), [("mysql-9.7", "keyring"), ("mariadb-11.8", "file-keys.txt")]
)
def test_encrypted_logs_are_sent_plain(golden: Path, tmp_path: Path, name: str, keys: str) -> None:
    pytest.importorskip("cryptography")
    logs = logs_of(golden, f"{name}/encrypted", tmp_path / "logs")
    keyring = Keyring(str(golden / name / "encrypted" / keys))
    found = {}
    with serving(tmp_path / "logs", keyring=keyring) as server:
        found = sent(server, logs[0].name)
    assert list(found) == [log.name for log in logs]
    for log in logs:
        with LogFile.open(str(log), keyring=keyring) as opened:
            plain = opened.reader.read_at(0, 1 << 20)
        got = found[log.name]
        assert len(got) == len(plain)
        # a START_ENCRYPTION is marked as one to ignore; nothing else differs
        differing = sum(a != b for a, b in zip(got, closed(plain), strict=True))
        assert differing <= (5 if name.startswith("mariadb") else 0)
        (tmp_path / "sent.000001").write_bytes(got)
        with LogFile.open(str(tmp_path / "sent.000001")) as opened:  # no keyring is needed
            assert sum(len(window) for window in opened.windows()) >= 3


@pytest.mark.parametrize("name", SERVERS)
def test_every_event_can_be_the_first(golden: Path, tmp_path: Path, name: str) -> None:
    log = logs_of(golden, f"{name}/gtid", tmp_path / "logs")[0]
    data = log.read_bytes()
    with LogFile.open(str(log)) as opened:
        (window,) = opened.windows()
        starts = [window.frame(index).offset for index in range(len(window))]
    with serving(tmp_path / "logs") as server:
        for start in starts[1:]:
            with client(server) as connection:
                rows(connection, CHECKSUMS)
                stream = dump(connection, log.name, start, flags=ALL)
                rotate, head, first = next(stream), next(stream), next(stream)
            assert (rotate.type_code, head.type_code) == (4, 15)
            assert rotate.event[19:27] == struct.pack("<Q", start)
            assert head.event[13:17] == bytes(4)
            assert zlib.crc32(head.event[:-4]) == int.from_bytes(head.event[-4:], "little")
            assert first.event == data[start : start + len(first.event)]
        for between in {start + 5 for start in starts}:
            with client(server) as connection:
                rows(connection, CHECKSUMS)
                with pytest.raises(pymysql.MySQLError, match="no event begins at") as caught:
                    next(dump(connection, log.name, between))
            assert caught.value.args[0] == 1236


# -- by GTID ---------------------------------------------------------------------------------------


def gtids_of(golden: Path, case: str) -> list[tuple[str, bytes]]:
    """(GTID, its bytes in the log) of every transaction of a golden case."""
    from binlake.source.resolve import resolve
    from binlake.stream.log_reader import LogReader
    from binlake.values.ledger import Ledger
    from binlake.values.options import ReadOptions

    found = []
    chains = resolve([str(golden / case / "binlog.index")])
    data = {file.name: Path(file.path).read_bytes() for file in chains[0].files}
    for reader in LogReader.of_chains(chains, ReadOptions(), Ledger()):
        for group, _ in reader.groups():
            if group.gtid is not None:
                raw = data[group.start.file][group.start.offset : group.end.offset]
                found.append((str(group.gtid), raw))
    return found


def transactions(stream: Iterator[Packet]) -> bytes:
    """The events of transactions of a stream, one after the other."""
    control = (4, 15, 35, 3, 27, 41, 163, 161)
    return b"".join(packet.event for packet in stream if packet.type_code not in control)


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-9.7"])
def test_mysql_receives_missing_gtids(golden: Path, tmp_path: Path, name: str) -> None:
    logs_of(golden, f"{name}/gtid", tmp_path / "logs")
    known = gtids_of(golden, f"{name}/gtid")
    assert len(known) > 4
    with serving(tmp_path / "logs") as server:
        purged = server.library.purged()
        choices = [
            known[:0],
            known[:1],
            known[: len(known) // 2],
            known[1::2],
            known[::3],
            known[-1:],
            known,
        ]
        for had in choices:
            have = GtidSet.parse(",".join(gtid for gtid, _ in had)) | purged
            with client(server) as connection:
                rows(connection, CHECKSUMS)
                got = transactions(dump_gtid(connection, have.encode()))
            held = {gtid for gtid, _ in had}
            assert got == b"".join(raw for gtid, raw in known if gtid not in held)


def test_mysql_gets_a_position_after_its_own_gtids(golden: Path, tmp_path: Path) -> None:
    """A heartbeat after left out events: a replica counts its position event by event."""
    logs_of(golden, "mysql-9.7/gtid", tmp_path / "logs")
    known = gtids_of(golden, "mysql-9.7/gtid")
    have = GtidSet.parse(",".join(gtid for gtid, _ in known[1::2]))
    with serving(tmp_path / "logs") as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        position = 4
        for packet in dump_gtid(connection, have.encode()):
            event = packet.event
            (log_pos,) = struct.unpack_from("<I", event, 13)
            if event[4] == 4 and event[17] & 0x20:
                (position,) = struct.unpack_from("<Q", event, 19)
            elif event[4] == 27:
                position = log_pos
            else:
                position += len(event)
                assert log_pos == position


def test_mysql_receives_an_error_for_purged_gtids(golden: Path, tmp_path: Path) -> None:
    logs = logs_of(golden, "mysql-9.7/gtid", tmp_path / "logs")
    logs[0].unlink()
    with serving(tmp_path / "logs") as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        with pytest.raises(pymysql.MySQLError, match="purged required binary logs") as caught:
            next(dump_gtid(connection, GtidSet().encode()))
        assert caught.value.args[0] == 1236
        assert logs[1].name in caught.value.args[1]


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_mariadb_receives_events_after_its_gtid_state(
    golden: Path, tmp_path: Path, name: str
) -> None:
    logs = logs_of(golden, f"{name}/gtid", tmp_path / "logs")
    known = gtids_of(golden, f"{name}/gtid")

    def after(state: dict[str, int]) -> bytes:
        wanted = b""
        for gtid, raw in known:
            domain, _, number = gtid.split("-")
            if int(number) > state.get(domain, 0):
                wanted += raw
        return wanted

    states: list[dict[str, int]] = [{}]
    for gtid, _ in known:
        domain, _, number = gtid.split("-")
        states.append({**states[-1], domain: int(number)})
    servers = {gtid.split("-")[0]: gtid.split("-")[1] for gtid, _ in known}
    with serving(tmp_path / "logs") as server:
        for state in states:
            text = ",".join(f"{d}-{servers[d]}-{n}" for d, n in state.items())
            with client(server) as connection:
                rows(connection, CHECKSUMS)
                rows(connection, f"SET @slave_connect_state='{text}'")
                stream = list(dump(connection, flags=3))
            assert transactions(iter(stream)) == after(state), text
            lists = [p.event for p in stream if p.type_code == 163 and p.event[17] & 0x20]
            assert all(event[:4] == bytes(4) for event in lists)
        for text, error in (
            ("0-1-99999", "not in the master's binlog"),
            ("0-77-1", "not in the master's binlog"),
            ("0-1-1,0-2-1", "duplicate domain"),
            ("x", "not a MariaDB GTID"),
        ):
            with client(server) as connection:
                rows(connection, CHECKSUMS)
                rows(connection, f"SET @slave_connect_state='{text}'")
                with pytest.raises(pymysql.MySQLError, match=error) as caught:
                    next(dump(connection))
                assert caught.value.args[0] == 1236
        logs[0].unlink()
        eventually(lambda: len(server.library.chain.files) == 2, "the library knew")
        with client(server) as connection:
            rows(connection, CHECKSUMS)
            rows(connection, "SET @slave_connect_state='0-1-1'")
            with pytest.raises(pymysql.MySQLError, match=r"purged.*has binlog.000002"):
                next(dump(connection))


def test_old_mariadb_replicas_receive_events_they_support(golden: Path, tmp_path: Path) -> None:
    """Without a capability GTID events are BEGINs and others dummies, each as long as before."""
    log = logs_of(golden, "mariadb-11.8/gtid", tmp_path / "logs")[0]
    with serving(tmp_path / "logs") as server, client(server) as connection:
        rows(connection, "SET @master_binlog_checksum='NONE'")
        stream = [packet for packet in dump(connection, log.name) if not packet.event[17] & 0x20]
    assert {packet.type_code for packet in stream} < set(range(36))
    first = stream[: sum(1 for _ in stream)]
    data, position = log.read_bytes(), 4
    for packet in first:
        if position >= len(data):
            break
        assert packet.event[9:17] == data[position + 9 : position + 17]  # length and position
        assert zlib.crc32(packet.event[:-4]) == int.from_bytes(packet.event[-4:], "little")
        position += len(packet.event)
    assert position == len(data)


def test_a_replica_without_checksums_gets_an_error(golden: Path, tmp_path: Path) -> None:
    logs_of(golden, "mysql-9.7/gtid", tmp_path / "logs")
    with (
        serving(tmp_path / "logs") as server,
        client(server) as connection,
        pytest.raises(
            pymysql.MySQLError, match="can not handle replication events with the checksum"
        ),
    ):
        list(dump(connection))


def test_the_other_flavours_gtids(golden: Path, tmp_path: Path) -> None:
    for name in ("mysql-9.7", "mariadb-11.8"):
        logs_of(golden, f"{name}/gtid", tmp_path / name)
    with serving(tmp_path / "mysql-9.7") as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        rows(connection, "SET @slave_connect_state='0-1-1'")
        with pytest.raises(pymysql.MySQLError, match="archive is from MySQL") as caught:
            next(dump(connection))
        assert caught.value.args[0] == 1236
    with serving(tmp_path / "mariadb-11.8") as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        with pytest.raises(pymysql.MySQLError, match="archive is from MariaDB") as caught:
            next(dump_gtid(connection, GtidSet().encode()))
        assert caught.value.args[0] == 1236


# -- growth ----------------------------------------------------------------------------------------


# -- what is served --------------------------------------------------------------------------------
