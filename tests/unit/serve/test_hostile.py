"""Hostile or broken clients are refused and limited, and do not affect other clients."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlake.serve.server import BinlogServer
from dev.servers.ports import ReservedPort
from support.logs.log_builder import LogBuilder
from support.servers.serving import (
    CHECKSUMS,
    SECONDS,
    by_file,
    client,
    dump,
    eventually,
    rows,
    serving,
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = LogBuilder()
    for _ in range(3):
        log.transaction(bytes(20))
    (folder / "binlog.000001").write_bytes(log.bytes())
    (tmp_path / "secret.000001").write_bytes(log.bytes())
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    log = LogBuilder()
    log.transaction(bytes(20))
    (folder / "binlog.000001").write_bytes(log.bytes())
    return folder


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[BinlogServer]:
    with serving(folder) as server:
        yield server


@pytest.fixture(scope="module")
def hurried(folder: Path) -> Iterator[BinlogServer]:
    """It waits a second for a login; for that of an honest client, too."""
    with serving(folder, handshake_seconds=1) as server:
        yield server


def dial(server: BinlogServer) -> socket.socket:
    return socket.create_connection(server.address, timeout=SECONDS)


def said(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    data = b""
    try:
        while part := connection.recv(1 << 16):
            data += part
    except ConnectionError:
        pass
    return data


def packet(payload: bytes, sequence: int = 0) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([sequence]) + payload


def serves(server: BinlogServer) -> None:
    """Others are served as if nothing had been."""
    with client(server) as connection:
        assert rows(connection, "SELECT 1") == [("1",)] or rows(connection, "SELECT 1") == [(1,)]


# -- before the login ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x01",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff\xff\xff\x01",
        packet(b""),
        packet(b"\0" * 32),
        packet(struct.pack("<IIB23x", 0x200 | 0x8000 | 0x800, 1, 45), 1)
        + b"\x16\x03\x01"
        + b"\xff" * 40,
        packet(struct.pack("<IIB23x", 0x200 | 0x8000, 1, 45) + b"x" * 60_000, 1),
    ],
)
def test_an_invalid_login_times_out(
    shared: BinlogServer, hurried: BinlogServer, sent: bytes
) -> None:
    with dial(hurried) as connection:
        with suppress(ConnectionError):  # refused already
            connection.sendall(sent)
        said(connection)  # to its end, else it is a TimeoutError
    serves(shared)


def test_a_login_byte_by_byte_has_one_deadline(hurried: BinlogServer) -> None:
    with dial(hurried) as connection:
        started = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - started < SECONDS:
                connection.sendall(b"\x01")
                time.sleep(0.1)
    assert time.monotonic() - started < SECONDS / 2


@given(st.binary(max_size=120), st.booleans())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_instead_of_a_login(shared: BinlogServer, data: bytes, framed: bool) -> None:
    with dial(shared) as connection:
        connection.sendall(packet(data, 1) if framed else data)
        with suppress(OSError):  # refused already
            connection.shutdown(socket.SHUT_WR)
        answer = said(connection)
    assert answer[4] == 10  # the greeting, then an error or nothing
    assert b"\0\0\0\x02\0\0\0" not in answer[80:]


def test_wrong_passwords_wait_longer_each_time(logs: Path) -> None:
    with serving(logs) as server:
        times = []
        for user, password in (("replica", "x"), ("nobody", "s3cret"), ("replica", "")):
            started = time.monotonic()
            with (
                pytest.raises(pymysql.OperationalError, match="Access denied") as caught,
                client(server, user=user, password=password),
            ):
                pass
            assert caught.value.args[0] == 1045
            times.append(time.monotonic() - started)
        assert times[0] >= 0.2
        assert times[2] >= 0.8
        assert server.refused_logins == 3
        serves(server)
        assert not any("s3cret" in line for line in server.said)  # type: ignore[attr-defined]


def test_idle_connections_do_not_block_logins(logs: Path) -> None:
    """From eight addresses, as many as connections are allowed: replicas log in all the same."""
    with serving(logs, max_logins=4, max_connections=2) as server, ExitStack() as stack:
        for number in range(64):
            idle = socket.create_connection(
                server.address, SECONDS, source_address=(f"127.0.0.{2 + number % 8}", 0)
            )
            stack.enter_context(idle)
        with client(server) as first, client(server) as second:
            assert rows(first, "SELECT 1") == rows(second, "SELECT 1")
            with pytest.raises(pymysql.MySQLError, match="Too many connections"), client(server):
                pass
        eventually(lambda: len(server._open) <= 16, "those before have ended, threads and all")
        lines = server.said  # type: ignore[attr-defined]
        assert any(
            "did not log in and was dropped for a newer connection" in line for line in lines
        )
    assert not any("internal error" in line for line in lines)


@pytest.mark.parametrize("stage", ["before TLS", "inside of TLS", "after TLS", "wrong password"])
def test_a_replaced_client_returns_its_thread(logs: Path, stage: str) -> None:
    """Wherever its login has stopped; also while a wrong password waits for its answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = packet(struct.pack("<IIB23x", 0x200 | 0x8000 | 0x800, 1, 45), 1)
    wrong = struct.pack("<IIB23x", 0x80200 | 0x8000, 1, 45) + b"x\0\x14" + bytes(20)
    with serving(logs, max_logins=2) as server, ExitStack() as stack:
        before = threading.active_count()
        for _ in range(12):
            one = stack.enter_context(dial(server))
            with suppress(OSError):  # it may have given way already
                one.recv(1 << 10)
                if stage == "wrong password":
                    one.sendall(packet(wrong + b"mysql_native_password\0", 1))
                elif stage != "before TLS":
                    one.sendall(request)
                    if stage == "after TLS":
                        stack.enter_context(context.wrap_socket(one))
        eventually(lambda: threading.active_count() <= before + 2, "their threads have ended")
        assert not any("internal error" in line for line in server.said)  # type: ignore[attr-defined]


def test_tls_is_not_given_up(logs: Path) -> None:
    pytest.importorskip("cryptography")
    with serving(logs, require_tls=True) as server:
        with pytest.raises(pymysql.MySQLError, match="insecure transport"), client(server):
            pass
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with client(server, ssl_disabled=False, ssl=context) as connection:
            rows(connection, CHECKSUMS)
            assert list(by_file(dump(connection, "binlog.000001"))) == ["binlog.000001"]


# -- after it --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../secret.000001", "/etc/passwd", "./binlog.000001", "binlog.000001/../../secret.000001",
     "binlog.000001\0.png", "..\\secret.000001", "binlog.index", "x" * 60_000, "\xff\xfe", "%2e%2e/secret.000001"],
)  # fmt: skip
def test_no_file_but_the_logs_is_read(logs: Path, name: str) -> None:
    with serving(logs) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        with pytest.raises(pymysql.MySQLError, match="not in the archive") as caught:
            list(dump(connection, name))
        assert caught.value.args[0] == 1236
        assert "which has binlog.000001" in caught.value.args[1]


@pytest.mark.parametrize("position", [0, 3, 5, 1 << 20, (1 << 32) - 1])
def test_no_position_but_an_event_is_read(logs: Path, position: int) -> None:
    with serving(logs) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        with pytest.raises(pymysql.MySQLError) as caught:
            list(dump(connection, "binlog.000001", position))
        assert caught.value.args[0] == 1236


@given(st.integers(0, 255), st.binary(max_size=80))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_command_is_answered_or_refused(shared: BinlogServer, code: int, body: bytes) -> None:
    if code == 1:
        return
    with client(shared) as connection:
        connection._sock.sendall(packet(bytes([code]) + body))
        head = connection._rfile.read(4)
        assert len(head) == 4
        assert head[3] == 1
    serves_still = dial(shared)
    assert serves_still.recv(5)[4] == 10
    serves_still.close()


def test_a_command_of_no_bytes(shared: BinlogServer) -> None:
    with client(shared) as connection:
        for _ in range(3):
            connection._sock.sendall(packet(b""))
            connection._next_seq_id = 1
            with pytest.raises(pymysql.MySQLError, match="Unknown command"):
                connection._read_packet()
    serves(shared)


@pytest.mark.parametrize("length", [5 << 20, (1 << 24) - 1])
def test_a_command_that_is_too_long(logs: Path, length: int) -> None:
    with serving(logs) as server:
        with client(server) as connection:
            connection._sock.sendall(length.to_bytes(3, "little") + b"\0")
            connection._next_seq_id = 1
            with pytest.raises(pymysql.MySQLError, match="exceeds the limit") as caught:
                connection._read_packet()
            assert caught.value.args[0] == 1153
        serves(server)


def test_a_session_keeps_little(logs: Path) -> None:
    with serving(logs) as server, client(server) as connection:
        for number in range(64):
            rows(connection, f"SET @v{number} = 1")
        with pytest.raises(pymysql.MySQLError, match="at most 64 variables"):
            rows(connection, "SET @another = 1")
        with pytest.raises(pymysql.MySQLError, match="statement of 65547 bytes"):
            rows(connection, f"SET @v0 = '{'x' * 65_535}'")
        for sql in ("KILL " + "9" * 5000, "SELECT " + "9" * 5000, "SELECT " + "/*a" * 20_000):
            with pytest.raises(pymysql.MySQLError, match="does not answer"):
                rows(connection, sql)
        with pytest.raises(pymysql.MySQLError, match="Access denied"):
            rows(connection, "SET GLOBAL read_only = 0")
        with pytest.raises(pymysql.MySQLError, match="Unknown system variable"):
            rows(connection, "SELECT @@global.nothing")


def test_rubbish_in_the_middle_of_a_stream(logs: Path) -> None:
    with serving(logs) as server:
        with client(server) as connection:
            rows(connection, CHECKSUMS)
            stream = dump(connection, "binlog.000001", flags=0, server_id=3)
            next(stream)
            connection._sock.sendall(packet(b"\x03SELECT 1"))
            with pytest.raises(pymysql.MySQLError, match="Malformed"):
                list(stream)
        eventually(lambda: not server.replicas.listed(), "it was gone")


# -- slow and gone ---------------------------------------------------------------------------------


def _peak_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


def test_a_slow_reader_delays_no_other_and_keeps_little(tmp_path: Path) -> None:
    log = LogBuilder()
    for _ in range(24):
        log.transaction(bytes(1 << 20))
    data = log.bytes()
    (tmp_path / "binlog.000001").write_bytes(data)
    del log
    with serving(tmp_path, write_seconds=SECONDS) as server, ExitStack() as stack:
        before = _peak_mb()
        for number in range(8):
            stalled = stack.enter_context(client(server))
            rows(stalled, CHECKSUMS)
            dump(stalled, "binlog.000001", flags=0, server_id=100 + number)
        with client(server) as connection:
            rows(connection, CHECKSUMS)
            assert by_file(dump(connection, "binlog.000001")) == {"binlog.000001": data}
        eventually(lambda: len(server.replicas.listed()) == 8, "the end of the ninth")
        assert _peak_mb() - before < 8 * 12 + 3 * len(data) / (1 << 20)


def test_a_client_that_does_not_read_is_disconnected(tmp_path: Path) -> None:
    log = LogBuilder()
    for _ in range(24):
        log.transaction(bytes(1 << 20))
    (tmp_path / "binlog.000001").write_bytes(log.bytes())
    with serving(tmp_path, write_seconds=1) as server, ExitStack() as stack:
        for number in range(8):
            stalled = stack.enter_context(client(server))
            rows(stalled, CHECKSUMS)
            dump(stalled, "binlog.000001", flags=0, server_id=100 + number)
        lines = server.said  # type: ignore[attr-defined]
        eventually(
            lambda: sum("has not read for 1 s" in line for line in lines) == 8, "they were given up"
        )
        eventually(lambda: not server.replicas.listed(), "they were gone")


def test_a_replica_that_comes_back_ends_its_old_stream(logs: Path) -> None:
    with (
        serving(logs) as server,
        client(server) as old,
        client(server) as new,
        client(server) as other,
    ):
        for connection in (old, new, other):
            rows(connection, CHECKSUMS)
        rows(old, "SET @slave_uuid='a'")
        rows(new, "SET @slave_uuid='a'")
        rows(other, "SET @slave_uuid='b'")
        streams = [
            dump(c, "binlog.000001", flags=0, server_id=n) for c, n in ((old, 5), (other, 6))
        ]
        for stream in streams:
            next(stream)
        next(dump(new, "binlog.000001", flags=0, server_id=5))
        with pytest.raises((EOFError, pymysql.MySQLError)):
            list(streams[0])
        eventually(
            lambda: sorted(one.uuid for one in server.replicas.listed()) == ["a", "b"],
            "it was gone",
        )


def test_it_stops_at_once_with_streams_open(logs: Path) -> None:
    """It waits for none of them: neither for a login nor as long as it waits for its threads."""
    before = set(threading.enumerate())
    with (
        serving(logs, stop_seconds=2 * SECONDS) as server,
        client(server) as connection,
        client(server),
    ):
        rows(connection, CHECKSUMS)
        stream = dump(connection, "binlog.000001", flags=0, server_id=3)
        next(stream)
        idle = dial(server)
        started = time.monotonic()
        server.close()
        assert time.monotonic() - started < SECONDS / 2
        with pytest.raises((EOFError, pymysql.MySQLError, ConnectionError)):
            list(stream)
        idle.close()
    assert set(threading.enumerate()) <= before


def refused(probe: str) -> str:
    """Why it answers 503; empty if it does not."""
    try:
        urllib.request.urlopen(probe, timeout=SECONDS).close()
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return error.read().decode()
    return ""


def test_metrics(logs: Path) -> None:
    pytest.importorskip("prometheus_client")
    from binlake.serve.metrics import REPLICA_METRICS, SERVER_METRICS, serve_metrics

    reserved = ReservedPort()
    address = f"http://127.0.0.1:{reserved.number}/metrics"
    with serving(logs) as server, client(server) as connection:
        rows(connection, CHECKSUMS)
        next(dump(connection, "binlog.000001", flags=0, server_id=77))
        end = serve_metrics(server, reserved.number)
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                text = answer.read().decode()
            probe = address.replace("/metrics", "/readyz")
            urllib.request.urlopen(probe, timeout=SECONDS).close()
            logs.rename(logs.with_name("away"))
            eventually(lambda: "cannot read the archive" in refused(probe), "a reason")
            logs.with_name("away").rename(logs)
            eventually(lambda: refused(probe) == "", "its end")
        finally:
            end()
            reserved.release()
    for name, *_ in (*SERVER_METRICS, *REPLICA_METRICS):
        assert f"# HELP binlake_serve_{name}" in text
    assert "binlake_serve_acknowledged_position{" not in text, (
        "the replica has acknowledged nothing"
    )
    assert "binlake_serve_replicas 1.0" in text
    assert 'binlake_serve_files_behind{address="127.0.0.1:' in text


def test_idle_connections_do_not_keep_metrics_from_anybody(
    logs: Path,
) -> None:
    """Each kept a thread; now there are few threads, and new clients replace old ones."""
    pytest.importorskip("prometheus_client")
    from binlake.serve.metrics import serve_metrics

    reserved = ReservedPort()
    before = threading.active_count()
    with serving(logs) as server, ExitStack() as stack:
        end = serve_metrics(server, reserved.number)
        stack.callback(reserved.release)
        stack.callback(end)
        for _ in range(60):
            idle = socket.create_connection(("127.0.0.1", reserved.number), timeout=SECONDS)
            stack.enter_context(idle)

        def answers() -> bool:
            with (
                suppress(OSError),
                urllib.request.urlopen(
                    f"http://127.0.0.1:{reserved.number}/metrics", timeout=SECONDS
                ) as answer,
            ):
                return b"binlake_serve_replicas" in answer.read()
            return False

        eventually(answers, "an answer")
        eventually(lambda: threading.active_count() <= before + 16 + 8, "the end of most threads")


def test_a_name_cannot_add_lines_to_the_output(shared: BinlogServer) -> None:
    """Before the login, a message about a client is one line without commands for a terminal."""
    with (
        pytest.raises(pymysql.MySQLError, match="Access denied"),
        client(shared, user="x\nserver_id 2 left\x1b[2J\u202e"),
    ):
        pass
    wanted = r"was refused: Access denied for user 'x\nserver_id 2 left\x1b[2J\u202e'"
    lines = shared.said  # type: ignore[attr-defined]
    eventually(lambda: any(wanted in line for line in lines), "the line")
