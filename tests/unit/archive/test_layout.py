"""Names that come from servers, and what an archive says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binlake.archive.folders import open_folder
from binlake.archive.layout import (
    ArchiveState,
    checked_identity,
    checked_name,
    directory_name,
    logs_among,
)
from binlake.archive.start import known_histories
from binlake.errors import ServerError, SourceError

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../binlog.000001", "a/b.000001", "a\\b.000001", ".hidden.000001", "binlog",
     "archive.json", "binlog.index", "binlog.00001", "b\n.000001", "b\0.000001", "binlog.000001.zst",
     "x" * 300 + ".000001", "binlog.000001/"],
)  # fmt: skip
def test_invalid_log_names_are_refused(name: str) -> None:
    with pytest.raises(ServerError, match="refuses"):
        checked_name(name)


@pytest.mark.parametrize(
    "name", ["binlog.000001", "mysql-bin.999999", "a.b.1000000", "Äpfel.000001"]
)
def test_names_of_logs(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("identity", ["", "..", "a/b", "server-", "server-1/..", UUID + "0", "CON"])
def test_invalid_server_identities_are_refused(identity: str) -> None:
    with pytest.raises(ServerError, match="refuses"):
        checked_identity(identity)


def test_histories_of_a_server() -> None:
    assert checked_identity(UUID.upper()) == UUID
    assert directory_name(UUID, 1) == UUID
    assert [directory_name(UUID, n) for n in (1, 2, 10)] == [UUID, f"{UUID}.2", f"{UUID}.10"]


def test_logs_in_the_order_of_the_chain() -> None:
    names = ["binlog.1000000", "binlog.000002.zst", "binlog.999999", "binlog.000002", "binlog.index",
             "binlog.000002.index.parquet", "archive.json", "binlog.000003.12.partial"]  # fmt: skip
    assert logs_among(names) == ["binlog.000002", "binlog.999999", "binlog.1000000"]


def test_the_state_comes_back() -> None:
    state = ArchiveState(UUID, "mysql", 2, "binlog.000007", 1 << 33, f"{UUID}:1-5", 12.5)
    assert ArchiveState.from_bytes(state.to_bytes(), "here") == state
    assert state.directory == f"{UUID}.2"


def state_with(field: str, value: object) -> bytes:
    """The file of a state in which one field has this value."""
    values = json.loads(ArchiveState(UUID, "mysql").to_bytes())
    return json.dumps({**values, field: value}).encode()


def test_half_a_state_does_not_keep_an_archive_from_going_on(tmp_path: Path) -> None:
    for name in (UUID, f"{UUID}.2", "server-7"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "archive.json").write_bytes(b'{"version": 1, "ident')
    found = {known.directory: known.state for known in known_histories(open_folder(str(tmp_path)))}
    assert {name: state.directory for name, state in found.items()} == {n: n for n in found}
    assert found["server-7"].flavour == "mariadb"
    assert found[f"{UUID}.2"].generation == 2


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{}", b"[]", b'{"version": 2}', b'{"version": 1, "x": 1}'),
        b"[" * 100_000,
        state_with("offset", "4"),
        state_with("offset", -1),
        state_with("generation", True),
        state_with("written", None),
        state_with("file", "../binlog.000001"),
        state_with("identity", "../elsewhere"),
    ],
)
def test_a_damaged_state_is_reported(data: bytes) -> None:
    with pytest.raises(SourceError, match=r"here is not the state of an archive"):
        ArchiveState.from_bytes(data, "here")
