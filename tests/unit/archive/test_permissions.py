"""Who may read what is archived, and links that would have it written elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlake.archive.folders import open_folder
from binlake.archive.layout import LOCK, STATE
from binlake.archive.raw import RawOptions, write_raw
from binlake.errors import BinlogError, SourceError
from binlake.source.bytes import remove_partials, write_whole, writing_whole
from binlake.source.replica.url import ServerUrl
from support.logs.log_builder import LogBuilder
from support.servers.fake_server import fake_server
from support.servers.fake_source import NAME, UUID, archive, source, whole


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """The usual one."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def log() -> LogBuilder:
    made = LogBuilder()
    made.transaction(bytes(50_000), gtid=None)
    made.transaction(bytes(50_000), gtid=None)
    return made


def modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.lstat().st_mode) for path in root.rglob("*")
    }


def test_an_archive_is_as_private_as_the_servers_logs(tmp_path: Path, log: LogBuilder) -> None:
    """Neither files nor directories are for everybody, those above the archive included."""
    error, _ = archive(tmp_path / "new" / "archive", log, [whole, whole])
    assert error is None
    found = modes(tmp_path)
    assert f"new/archive/{UUID}/{NAME}" in found
    directories = {name for name in found if (tmp_path / name).is_dir()}
    assert {found[name] for name in directories} == {0o750}
    assert {mode for name, mode in found.items() if name not in directories} == {0o640}


def test_a_stricter_umask_is_kept(tmp_path: Path, log: LogBuilder) -> None:
    os.umask(0o077)
    archive(tmp_path / "archive", log, [whole, whole])
    assert set(modes(tmp_path).values()) == {0o700, 0o600}


@pytest.mark.parametrize("name", [NAME, LOCK])
def test_a_link_in_place_of_a_file_is_not_followed(
    tmp_path: Path, log: LogBuilder, name: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "archive" / UUID
    folder.mkdir(parents=True)
    (folder / name).symlink_to(victim)
    error, _ = archive(tmp_path / "archive", log, [whole, whole])
    assert isinstance(error, BinlogError)
    assert victim.read_bytes() == b"precious"


def test_a_link_in_place_of_a_state_file_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / STATE).symlink_to(victim)
    write_whole(str(tmp_path / STATE), b"{}")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / STATE).is_symlink()


def test_raw_logs_follow_no_link(tmp_path: Path, log: LogBuilder) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / NAME).symlink_to(victim)
    with fake_server(source(log, [whole, whole], [])) as (port, _):
        url = ServerUrl.parse(
            f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        )
        with pytest.raises(SourceError):
            write_raw(url, [NAME], RawOptions(prefix=f"{tmp_path}/"), lambda _: None)
        assert victim.read_bytes() == b"precious"
        (tmp_path / NAME).unlink()
        write_raw(url, [NAME], RawOptions(prefix=f"{tmp_path}/"), lambda _: None)
    assert modes(tmp_path)[NAME] == 0o640


def test_names_of_temporary_files_cannot_be_guessed(tmp_path: Path) -> None:
    names = set()
    for _ in range(5):
        with writing_whole(tmp_path / "state") as file:
            file.write(b"x")
            (partial,) = tmp_path.glob("*.partial")
            assert stat.S_IMODE(partial.stat().st_mode) == 0o640
            names.add(partial.name)
    assert len(names) == 5
    assert list(tmp_path.iterdir()) == [tmp_path / "state"]


def test_a_guessed_name_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with luck: a file that is there already, a link or not, is not written to."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    guesses = iter(["aaaaaaaa", "bbbbbbbb", "cccccccc"])
    monkeypatch.setattr("binlake.source.bytes.secrets.token_hex", lambda _: next(guesses))
    (tmp_path / "state.aaaaaaaa.partial").symlink_to(victim)
    (tmp_path / "state.bbbbbbbb.partial").write_bytes(b"mine")
    write_whole(str(tmp_path / "state"), b"x")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "state.bbbbbbbb.partial").read_bytes() == b"mine"
    assert (tmp_path / "state").read_bytes() == b"x"


def test_leftovers_of_other_programs_stay(tmp_path: Path) -> None:
    """A dangling link became a file; a pipe blocked the archiver."""
    (tmp_path / "a.1.partial").symlink_to(tmp_path / "made")
    os.mkfifo(tmp_path / "b.2.partial")
    (tmp_path / "c.3.partial").touch()
    names = [path.name for path in tmp_path.iterdir()]
    assert remove_partials(tmp_path, names) == ["c.3.partial"]
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "a.1.partial").is_symlink()
    assert open_folder(str(tmp_path)).remove_partials(names) == []
