"""The logs that a mirror reads: the directory of an archive, or those of a server."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from pathlib import Path

import pytest

from binlake.archive.layout import STATE, ArchiveState
from binlake.errors import ConnectionLostError, OptionError
from binlake.follow.logs import DirectoryLogs
from binlake.mirror.preflight import check_logs
from binlake.mirror.source.logs import logs_directory, logs_of
from binlake.values.options import ReadOptions
from dev.servers.ports import ReservedPort
from support.logs.stream_log import SID, StreamLog


def history(archive: Path, number: int) -> Path:
    """The directory of a history of the server, with a log."""
    state = ArchiveState(str(SID), "mysql", number)
    folder = archive / state.directory
    folder.mkdir(parents=True)
    (folder / STATE).write_bytes(state.to_bytes())
    StreamLog().plain(1).write(folder)
    return folder


def test_it_stays_when_the_archive_gets_another_one(tmp_path: Path) -> None:
    first = history(tmp_path, 1)
    chosen = logs_directory(str(tmp_path))
    assert [chosen, logs_directory(str(first))] == [str(first)] * 2
    history(tmp_path, 2)
    assert DirectoryLogs([chosen], ReadOptions()).look().numbers == (1,)
    assert logs_directory(chosen) == chosen
    with pytest.raises(
        OptionError, match=rf"has the logs of 2 servers or histories.*one: {SID}, {SID}\.2$"
    ):
        check_logs(str(tmp_path))
    shutil.rmtree(first)
    assert logs_directory(str(tmp_path)) == f"{first}.2"


def test_logs_that_are_no_archive_are_read_as_given(tmp_path: Path) -> None:
    StreamLog().plain(1).write(tmp_path)
    files = f"{tmp_path}/binlog.*"
    assert [logs_directory(given) for given in (str(tmp_path), f"{tmp_path}/", files)] == [
        *[str(tmp_path)] * 2,
        files,
    ]


@pytest.mark.parametrize(
    "form", ["archive", "./archive", "archive//", "file://{}/archive", "{}/archive"]
)
def test_forms_of_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    only = history(tmp_path / "archive", 1)
    monkeypatch.chdir(tmp_path)
    found = logs_directory(form.format(tmp_path))
    history(tmp_path / "archive", 2)
    [log] = DirectoryLogs([found], ReadOptions()).look().files.values()
    assert Path(log.path).absolute().parent == only


def test_a_server_that_goes_away_for_too_long() -> None:
    """The user has started a mirror, and no query."""
    port = ReservedPort()
    url = f"mysql://root@127.0.0.1:{port.number}/?option-file=none"
    with (
        closing(logs_of(url, None, ReadOptions(), threading.Event(), patience_s=0.01)) as logs,
        pytest.raises(ConnectionLostError) as raised,
    ):
        logs.look()
    port.release()
    assert (raised.value.hint or "").endswith("; start the mirror again to continue")
