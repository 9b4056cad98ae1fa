"""Streams of files that grow, are cut back, compressed or damaged; what cannot be served."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
from pathlib import Path

import pymysql
import pytest

from binlake.errors import OptionError, SourceError
from binlake.serve.library import Library
from binlake.serve.metrics import Following
from support.logs.log_builder import IN_USE, LogBuilder, query_body
from support.logs.served import logs_of, sent
from support.servers.serving import (
    CHECKSUMS,
    by_file,
    client,
    dump,
    eventually,
    rows,
    serving,
)


def test_a_file_that_grows_and_a_file_that_comes(tmp_path: Path) -> None:
    log = LogBuilder(alg=1)
    file = tmp_path / "binlog.000001"
    file.write_bytes(log.bytes())
    with serving(tmp_path) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        rows(connection, "SET @master_heartbeat_period=50000000")
        stream = dump(connection, file.name, flags=0, server_id=9)
        assert [next(stream).type_code for _ in range(2)] == [4, 15]
        beat = next(stream).event
        assert (beat[4], beat[13:17]) == (27, struct.pack("<I", len(log.data)))
        for number in range(3):
            before = len(log.data)
            log.transaction(bytes(20))
            with file.open("ab") as out:  # half an event, then the rest
                out.write(log.data[before : before + 30])
                out.flush()
                out.write(log.data[before + 30 :])
            events = b""
            while len(events) < len(log.data) - before:
                event = next(stream).event
                events += event if event[4] != 27 else b""
            assert events == log.data[before:], number
        before = len(log.data)
        log.add(4, struct.pack("<Q", 4) + b"binlog.000002")
        with file.open("ab") as out:
            out.write(log.data[before:])
        following = LogBuilder(alg=1)
        (tmp_path / "binlog.000002").write_bytes(following.bytes())
        kinds: list[int] = []
        while kinds[-3:] != [4, 4, 15]:
            event = next(stream).event
            kinds += [event[4]] if event[4] != 27 else []
        (replica,) = server.replicas.listed()
        assert replica.progress.file == "binlog.000002"


def test_heartbeats_between_two_files(tmp_path: Path) -> None:
    """A ROTATE takes the replica to a file that is not there yet: no heartbeat names the old one."""
    log = LogBuilder(alg=1)
    log.transaction(bytes(20))
    log.add(4, struct.pack("<Q", 4) + b"binlog.000002")
    (tmp_path / "binlog.000001").write_bytes(log.bytes())
    with serving(tmp_path) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        rows(connection, "SET @master_heartbeat_period=20000000")
        stream = dump(connection, "binlog.000001", flags=0, server_id=9)
        while (event := next(stream).event)[4] != 4 or event[17] & 0x20:
            pass  # up to the ROTATE of the file
        for _ in range(3):
            beat = next(stream).event
            assert (beat[4], *struct.unpack_from("<I", beat, 13)) == (27, 4)
            assert beat[19:].startswith(b"binlog.000002")
        (replica,) = server.replicas.listed()
        assert (replica.progress.file, replica.progress.position) == ("binlog.000002", 4)
        here = Following(replica.progress, server.library.chain.names)
        assert here.files_behind == 0, "the file that comes next is not there yet"
        assert here.acknowledged_position is None, "a replica that is not semi-synchronous"


def test_a_file_that_is_cut_back_and_written_again(tmp_path: Path) -> None:
    log = LogBuilder()
    log.transaction(bytes(20))
    file = tmp_path / "binlog.000001"
    file.write_bytes(log.bytes())
    whole = len(log.data)
    with serving(tmp_path) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        stream = dump(connection, file.name, flags=0, server_id=9)
        assert len([next(stream) for _ in range(7)]) == 7
        version = server.library.version
        kept = log.offsets[-2]
        os.truncate(file, kept)
        eventually(lambda: server.library.version > version, "the library knew")
        log.transaction(bytes(30))
        with file.open("ab") as out:
            out.write(log.bytes()[kept:])
        got = b""
        while len(got) < len(log.data) - whole:
            got += next(stream).event
        assert got == log.data[whole:]


def test_a_file_that_is_compressed_meanwhile(tmp_path: Path) -> None:
    """A reader that knows the old path finds the log under the new one."""
    for name in ("binlog.000001", "binlog.000002"):
        (tmp_path / name).write_bytes(LogBuilder().bytes())
    library = Library(str(tmp_path))  # it does not watch
    first, _ = library.chain.files
    (tmp_path / "binlog.000001.gz").write_bytes(gzip.compress(LogBuilder().bytes()))
    (tmp_path / "binlog.000001").unlink()
    with library.open(first) as log:
        assert log.path == f"{first.path}.gz"
    (tmp_path / "binlog.000001.gz").unlink()
    with pytest.raises(SourceError):
        library.open(first)


def test_a_torn_tail_before_another_file_is_a_crash_that_is_passed(tmp_path: Path) -> None:
    log = LogBuilder()
    log.transaction(bytes(20))
    whole = log.bytes()
    log.transaction(bytes(20))
    (tmp_path / "binlog.000001").write_bytes(log.bytes()[: len(whole) + 25])
    after = LogBuilder(created=1_700_000_000).bytes()
    (tmp_path / "binlog.000002").write_bytes(after)
    with serving(tmp_path) as server:
        found = sent(server, "binlog.000001")
    assert found == {"binlog.000001": whole, "binlog.000002": after}


@pytest.mark.parametrize(("lost", "suffix"), [(0, ""), (20, ""), (0, ".gz")])
def test_an_incomplete_copy_ends_the_stream(tmp_path: Path, lost: int, suffix: str) -> None:
    """A replica does not get the next log: it would lack the transactions in between."""
    log = LogBuilder(flags=IN_USE)
    log.transaction(bytes(20))
    last = log.transaction(bytes(20)) if lost else len(log.data)
    whole = log.bytes()[:last]
    copied = log.bytes()[: last + lost]
    (tmp_path / f"binlog.000001{suffix}").write_bytes(gzip.compress(copied) if suffix else copied)
    (tmp_path / "binlog.000002").write_bytes(LogBuilder().bytes())
    with serving(tmp_path) as server:
        for position in (4,) if lost else (4, len(whole)):
            with client(server) as connection:
                rows(connection, CHECKSUMS)
                stream = dump(connection, "binlog.000001", position)
                with pytest.raises(
                    pymysql.MySQLError, match=r"binlog\.000001 is an incomplete"
                ) as told:
                    by_file(stream)
                assert told.value.args[0] == 1236


def test_a_missing_log_ends_the_stream(tmp_path: Path) -> None:
    log = LogBuilder()
    log.transaction(bytes(20))
    log.add(4, struct.pack("<Q", 4) + b"binlog.000002")
    (tmp_path / "binlog.000001").write_bytes(log.bytes())
    (tmp_path / "binlog.000003").write_bytes(LogBuilder().bytes())
    with serving(tmp_path) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        stream = dump(connection, "binlog.000001", 4)
        with pytest.raises(pymysql.MySQLError, match=r"binlog\.000002 is missing") as told:
            by_file(stream)
        assert told.value.args[0] == 1236


def test_damage_ends_the_stream_with_an_error(tmp_path: Path) -> None:
    log = LogBuilder()
    log.transaction(bytes(20))
    start = log.transaction(bytes(20))
    log.data[start + 25] ^= 1
    (tmp_path / "binlog.000001").write_bytes(log.bytes())
    with serving(tmp_path) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        got = b""
        stream = dump(connection, "binlog.000001")
        next(stream)
        while len(got) < start - 4:
            got += next(stream).event
        with pytest.raises(pymysql.MySQLError, match="checksum") as caught:
            next(stream)
        assert caught.value.args[0] == 1236
        assert got == log.data[4:start]


@pytest.mark.parametrize("size", [(1 << 24) - 60, (1 << 24) - 1, 1 << 24, 40 << 20])
def test_events_longer_than_a_packet(tmp_path: Path, size: int) -> None:
    log = LogBuilder()
    log.add(2, query_body(b"x" * size))
    log.transaction(bytes(20))
    (tmp_path / "binlog.000001").write_bytes(log.bytes())
    with serving(tmp_path) as server:
        assert sent(server, "binlog.000001") == {"binlog.000001": log.bytes()}


def test_semi_sync_marks_and_numbers(tmp_path: Path) -> None:
    log = LogBuilder()
    log.transaction(bytes(20))
    (tmp_path / "binlog.000001").write_bytes(log.bytes())
    with serving(tmp_path) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        rows(connection, "SET @rpl_semi_sync_slave=1")
        stream = dump(connection, "binlog.000001", flags=0, server_id=3)
        events = [next(stream) for _ in range(2 + 5)]
        assert [one.payload[:2] for one in events] == [b"\0\xef"] * 7
        assert [one.payload[2] for one in events] == [0] * 6 + [1]
        assert [one.sequence for one in events] == list(range(1, 8))
        ack = b"\xef" + struct.pack("<Q", len(log.data)) + b"binlog.000001"
        connection._sock.sendall(len(ack).to_bytes(3, "little") + b"\0" + ack)
        (replica,) = server.replicas.listed()
        eventually(lambda: replica.progress.acks == 1, "the acknowledgement")
        assert replica.progress.acknowledged == f"binlog.000001:{len(log.data)}"
        before = len(log.data)
        log.transaction(bytes(20))
        with (tmp_path / "binlog.000001").open("ab") as out:
            out.write(log.data[before:])
        assert next(stream).sequence == 1  # counted anew, as the servers do


@pytest.mark.parametrize("state", [True, False], ids=["archives", "directories"])
def test_an_archive_of_several_servers(golden: Path, tmp_path: Path, state: bool) -> None:
    for server in ("one", "two"):
        logs_of(golden, "mysql-9.7/gtid", tmp_path / server)
        if state:
            (tmp_path / server / "archive.json").touch()
    (tmp_path / "other").mkdir()
    with pytest.raises(OptionError, match="2 servers; set --source to one of one, two"):
        Library(str(tmp_path))
    with pytest.raises(OptionError, match="no server 'three'"):
        Library(str(tmp_path), "three")
    assert Library(str(tmp_path), "two").path == str(tmp_path / "two")
    with pytest.raises(OptionError, match="not an archive of several servers; omit the option"):
        Library(str(tmp_path / "two"), "two")
    shutil.rmtree(tmp_path / "one")
    assert Library(str(tmp_path)).path == str(tmp_path / "two")
    shutil.rmtree(tmp_path / "two")
    with pytest.raises(SourceError, match="no binary log"):
        Library(str(tmp_path))


def test_unservable_sources_are_rejected(golden: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="db1/ is a live server") as caught:
        Library("mysql://me:secret@db1/")
    assert "secret" not in str(caught.value)
    relay = LogBuilder(flags=0x40)
    (tmp_path / "relay-bin.000001").write_bytes(relay.bytes())
    with pytest.raises(OptionError, match="relay logs"):
        Library(str(tmp_path))
    shutil.copy(golden / "mysql-9.7/gtid/binlog.000001", tmp_path)
    assert Library(str(tmp_path)).chain.base == "binlog"
    shutil.copy(golden / "mysql-9.7/gtid/binlog.000001", tmp_path / "other.000001")
    with pytest.raises(OptionError, match="2 chains of logs: binlog, other"):
        Library(str(tmp_path))
    assert Library(str(tmp_path / "binlog.*")).flavour == "mysql"
