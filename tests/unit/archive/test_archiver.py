"""An archiver whose source damages, cuts off and refuses: it ends where no other try would mend it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from binlake.archive.folders import open_folder
from binlake.archive.layout import ArchiveState
from binlake.archive.writer import HistoryWriter
from binlake.errors import ChecksumError, ConnectionLostError, ServerError
from binlake.source.replica.packets import event_packet
from support.logs.log_builder import ARTIFICIAL, ROTATE, LogBuilder, event
from support.servers.fake_server import Conversation
from support.servers.fake_source import NAME, UUID, archive, damaged, whole

# Before each dump that is archived another one looks at the beginning of the log.
LOOK = whole
STATE_0 = ArchiveState(UUID, "mysql")


@pytest.fixture
def log() -> LogBuilder:
    """Longer than the beginning that the archiver reads."""
    made = LogBuilder()
    for number in range(6):
        made.transaction(bytes([number]) * 50_000, gtid=None)
    return made


def cut(conversation: Conversation, packets: bytes) -> None:
    """Always in the same event, the last one."""
    conversation.sock.sendall(packets[:-9])


def refuse(conversation: Conversation, packets: bytes) -> None:
    conversation.send(b"\xff" + struct.pack("<H", 1236) + b"#HY000bogus data in log event", 1)


def test_a_checksum_that_was_wrong_once_was_the_networks(tmp_path: Path, log: LogBuilder) -> None:
    error, asked = archive(tmp_path, log, [LOOK, damaged, LOOK, whole])
    assert error is None
    assert len(asked) == 4
    assert (tmp_path / UUID / NAME).read_bytes() == log.bytes()


def test_a_checksum_that_is_wrong_twice_is_an_error(tmp_path: Path, log: LogBuilder) -> None:
    error, asked = archive(tmp_path, log, [LOOK, damaged] * 9)
    assert isinstance(error, ChecksumError)
    assert len(asked) == 4
    last = log.offsets[-1]
    assert (tmp_path / UUID / NAME).read_bytes() == log.bytes()[:last], "what is before is kept"


def test_a_damaged_beginning_is_an_error(tmp_path: Path) -> None:
    made = LogBuilder()
    made.transaction(b"row", gtid=None)
    error, asked = archive(tmp_path, made, [damaged] * 9)
    assert isinstance(error, ChecksumError)
    assert len(asked) == 2


def test_known_bytes_do_not_reset_the_attempts(tmp_path: Path, log: LogBuilder) -> None:
    error, asked = archive(tmp_path, log, [LOOK, cut] * 30, attempts=3)
    assert isinstance(error, ConnectionLostError)
    # the first one brings something, and three more may fail
    assert len(asked) <= 2 * 5
    assert (tmp_path / UUID / NAME).read_bytes() == log.bytes()[: log.offsets[-1]]


def test_a_failed_start_releases_the_lock(tmp_path: Path, log: LogBuilder) -> None:
    """Where a history of the server is here without a log."""
    folder = open_folder(str(tmp_path)).sub(UUID)
    before = HistoryWriter(folder, STATE_0)
    before.resume()
    before.close()
    error, _ = archive(tmp_path, log, [refuse])
    assert "bogus data" in str(error)
    other = HistoryWriter(open_folder(folder.path), STATE_0)
    other.resume()
    other.close()


def test_a_writer_that_cannot_restart_lets_others_write(tmp_path: Path, log: LogBuilder) -> None:
    def say(line: str) -> None:
        if UUID in line:  # the server's name and version, once its directory is open
            assert (tmp_path / UUID / "archive.json").exists()
            raise ServerError("it has gone")

    error, _ = archive(tmp_path, log, [LOOK], say)
    assert "it has gone" in str(error)
    other = HistoryWriter(open_folder(str(tmp_path / UUID)), STATE_0)
    other.resume()
    other.close()


def test_a_server_that_restarts_without_end(tmp_path: Path, log: LogBuilder) -> None:
    """Each connection made another directory with a copy of the log, two in a second."""
    body = struct.pack("<Q", 4) + b"other.000001"
    away = event_packet(event(ROTATE, body, 0, flags=ARTIFICIAL, log_pos=0, timestamp=0), 1)

    def elsewhere(conversation: Conversation, packets: bytes) -> None:
        first = event_packet(log.bytes()[4 : log.offsets[1]], 1)
        conversation.sock.sendall(packets + away + first)

    error, _ = archive(tmp_path, log, [elsewhere] * 99, most_beginnings=3)
    assert isinstance(error, ServerError)
    assert "has begun 3 directories for this server within an hour" in str(error)
    assert len(list(tmp_path.iterdir())) == 3
