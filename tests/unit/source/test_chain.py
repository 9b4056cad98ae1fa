"""Paths become chains: every form of naming, in the order of their numbers or of an index file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binlake.errors import SourceError
from binlake.replay.logs import chains_to_print
from binlake.source.resolve import beside_logs, log_name, resolve, survey
from binlake.stream.positions.splits import plan_files
from binlake.table.log_input import LogInput
from binlake.values.options import ReadOptions
from support.logs.log_builder import RELAY, LogBuilder


def touch(directory: Path, *names: str) -> list[str]:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"x" * len(name))
    return [str(directory / name) for name in names]


def names(paths: list[str] | str, chain: int = 0) -> list[str]:
    found = resolve([paths] if isinstance(paths, str) else paths)
    return [file.name for file in found[chain].files]


def test_single_files_may_have_any_name(tmp_path: Path) -> None:
    for path in touch(tmp_path, "x", "copy-live.binlog.000003", "log", "a.b.c"):
        (chain,) = resolve([path])
        (file,) = chain.files
        assert (file.path, file.name, file.size) == (path, Path(path).name, len(Path(path).name))


def test_numbers_order_not_text(tmp_path: Path) -> None:
    paths = touch(tmp_path, "binlog.1000000", "binlog.999999", "binlog.000002", "binlog.1000001")
    expected = ["binlog.000002", "binlog.999999", "binlog.1000000", "binlog.1000001"]
    assert names(paths) == expected
    assert names(str(tmp_path)) == expected
    assert names(str(tmp_path / "binlog.*")) == expected


def test_old_logs_of_a_directory(tmp_path: Path) -> None:
    """Three digits, as until MySQL 4.0, are a log's if an index or the file's beginning says so."""
    touch(tmp_path, "error.log.1", "error.log.001", "mysql-bin.01", "mysql-bin.003")
    for name in ("mysql-bin.001", "mysql-bin.002", "x.01"):
        (tmp_path / name).write_bytes(b"\xfebin and more")
    (chain,) = resolve([str(tmp_path)])
    assert chain.names == ("mysql-bin.001", "mysql-bin.002")
    assert len(chain.ignored) == 5
    touch(tmp_path, "mysql-bin.index")
    assert names(str(tmp_path)) == ["mysql-bin.001", "mysql-bin.002", "mysql-bin.003"]


def test_innodb_binlog_files(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "binlog-000010.ibb",
        "binlog-000009.ibb",
        "binlog-1000000.ibb",
        "ibdata1",
        "a-1.ibb",
    )
    assert names(str(tmp_path)) == ["binlog-000009.ibb", "binlog-000010.ibb", "binlog-1000000.ibb"]
    (chain,) = resolve([str(tmp_path)])
    assert chain.gap_before(2).startswith("binlog-000011.ibb to binlog-999999.ibb are missing")
    touch(tmp_path, "binlog.000001")
    assert len(resolve([str(tmp_path)])) == 2, "the same base, another kind of log"


def test_another_base_name_is_another_chain(tmp_path: Path) -> None:
    touch(tmp_path, "mysql-bin.000002", "relay-bin.000001", "mysql-bin.000001")
    chains = resolve([str(tmp_path)])
    assert [(chain.base, [file.number for file in chain.files]) for chain in chains] == [
        ("mysql-bin", [1, 2]),
        ("relay-bin", [1]),
    ]


def begun(log: Path, flags: int = 0) -> None:
    log.write_bytes(LogBuilder(flags=flags).bytes())


def test_relay_logs_beside_binary_logs_are_read_by_name_only(tmp_path: Path) -> None:
    """The data directory of a replica."""
    begun(tmp_path / "binlog.000001")
    begun(tmp_path / "relay-bin.000002", RELAY)
    (tmp_path / "relay-bin.000003").write_bytes(b"")  # not begun yet
    folder = str(tmp_path)
    logs = LogInput([folder], ReadOptions())
    (chain,) = logs.chains
    assert (chain.base, chain.source) == ("binlog", "")
    (remark,) = logs.remarks
    assert f"the relay logs relay-bin in {folder} are left out" in remark
    assert "set the option source to relay-bin" in remark
    by_source = LogInput([folder], ReadOptions(source="relay-bin"))
    assert [chain.base for chain in by_source.chains] == ["relay-bin"]
    assert by_source.remarks == ()
    by_position = LogInput([folder], ReadOptions.parse({"start": "relay-bin.000002:4"}))
    assert [chain.base for chain in by_position.chains] == ["relay-bin"]
    assert by_position.remarks == (
        "reading the logs of relay-bin only: no other source has this position or GTID",
    )
    for paths in ([f"{folder}/relay-bin.*"], [folder, f"{folder}/relay-bin.000002"]):
        named = LogInput(paths, ReadOptions())
        assert named.chains[-1].base == "relay-bin"
        assert named.remarks == ()
    assert [split.log.base for split in plan_files([folder], ReadOptions())] == ["binlog"]
    said: list[str] = []
    assert [chain.base for chain in chains_to_print([folder], say=said.append)] == ["binlog"]
    assert said == [f"{remark.partition('; ')[0]}; to read them, name their files"]
    (tmp_path / "binlog.000001").unlink()
    begun(tmp_path / "relay-bin-other.000001", RELAY)
    only_relay = LogInput([folder], ReadOptions())
    assert [chain.base for chain in only_relay.chains] == ["relay-bin", "relay-bin-other"]
    assert only_relay.remarks == ()


def test_numbered_logs_of_aria_are_ignored(tmp_path: Path) -> None:
    """MariaDB's data directory always has one of Aria."""
    touch(tmp_path, "aria_log.00000001", "aria_log_control", "binlog.000001", "maria_log.00000001")
    (chain,) = resolve([str(tmp_path)])
    assert chain.names == ("binlog.000001",)
    touch(tmp_path / "none", "aria_log.00000001")
    with pytest.raises(SourceError, match="no binary log"):
        resolve([str(tmp_path / "none")])


def test_another_directory_is_another_server(tmp_path: Path) -> None:
    paths = touch(tmp_path, "a/binlog.000001", "b/binlog.000002")
    assert len(resolve(paths)) == 2


def test_a_directory_ignores_and_counts_other_files(tmp_path: Path) -> None:
    touch(tmp_path, "binlog.000001", "binlog.000002.gz", "binlog.000003.zst")
    others = touch(
        tmp_path, "binlog.index", "ibdata1", "error.log.1", "error.log.1.gz", "core.12345",
        "binlog.000004.bak", "binlog.~rec~",
    )  # fmt: skip
    (tmp_path / "binlog.000009").mkdir()
    (chain,) = resolve([str(tmp_path)])
    assert [file.name for file in chain.files] == [
        "binlog.000001",
        "binlog.000002",
        "binlog.000003",
    ]
    assert [Path(file.path).suffix for file in chain.files] == [".000001", ".gz", ".zst"]
    assert sorted(chain.ignored) == sorted(others)


def test_a_second_copy_of_a_log_is_ignored(tmp_path: Path) -> None:
    touch(tmp_path, "binlog.000001.gz", "binlog.000001", "binlog.000001.zst", "binlog.000002.gz")
    (chain,) = resolve([str(tmp_path)])
    assert [Path(path).name for path in chain.paths] == ["binlog.000001", "binlog.000002.gz"]
    assert {Path(path).name for path in chain.ignored} == {"binlog.000001.gz", "binlog.000001.zst"}


def test_the_same_file_twice_is_read_once(tmp_path: Path) -> None:
    (path,) = touch(tmp_path, "binlog.000001")
    assert names([path, path, str(tmp_path / "binlog.*")]) == ["binlog.000001"]


def test_an_index_file_gives_order_and_place(tmp_path: Path) -> None:
    touch(tmp_path, "logs/binlog.000001", "logs/binlog.000002", "elsewhere/binlog.000003",
          "logs/binlog.000004.gz", "logs/binlog.000005", "logs/unlisted.000001")  # fmt: skip
    index = tmp_path / "logs" / "binlog.index"
    index.write_text(
        "./binlog.000002\n"
        "binlog.000001\n"
        "\n"
        "/var/lib/mysql/binlog.000004\n"  # a copied data directory, compressed since
        "/var/lib/mysql/binlog.000005"  # no newline at the end
    )
    assert names(str(index)) == ["binlog.000002", "binlog.000001", "binlog.000004", "binlog.000005"]
    index.write_text(f"{tmp_path}/elsewhere/binlog.000003\n../elsewhere/binlog.000003\n")
    (chain,) = resolve([str(index)], [str(tmp_path / "elsewhere")])
    assert chain.paths == (str(tmp_path / "elsewhere/binlog.000003"),)


def test_an_index_file_that_names_a_missing_log(tmp_path: Path) -> None:
    touch(tmp_path, "binlog.000002")
    index = tmp_path / "binlog.index"
    index.write_text("./binlog.000001\n./binlog.000002\n")
    with pytest.raises(SourceError, match=r"binlog\.000001.*does not exist"):
        resolve([str(index)])
    [chain] = survey([str(index)])
    assert (names(list(chain.paths)), chain.missing) == (["binlog.000002"], ("./binlog.000001",))
    index.write_text("/gone/binlog.000001\n")
    [chain] = survey([str(index)])
    assert (chain.files, chain.missing) == ((), ("/gone/binlog.000001",))
    with pytest.raises(SourceError, match="does not exist"):
        resolve([str(index)])
    index.write_text("\n")
    with pytest.raises(SourceError, match="lists no log"):
        resolve([str(index)])


def test_a_pattern_without_matches_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        resolve([str(tmp_path / "absent")])
    with pytest.raises(SourceError, match="nothing matches"):
        resolve([str(tmp_path / "absent.*")])
    touch(tmp_path, "ibdata1")
    with pytest.raises(SourceError, match=r"no binary log in .*: its only file is not a log"):
        resolve([str(tmp_path)])
    with pytest.raises(SourceError, match="no log file"):
        resolve([])


def test_an_existing_file_with_wildcards_in_its_name_is_opened(tmp_path: Path) -> None:
    (path,) = touch(tmp_path, "odd[1].000001")
    assert names(path) == ["odd[1].000001"]


def test_standard_input_and_names() -> None:
    (chain,) = resolve(["-"])
    assert chain.paths == ("-",)
    assert log_name("s3://bucket/dir/binlog.000001.zst") == "binlog.000001"
    assert log_name("/var/lib/mysql/binlog.000001") == "binlog.000001"
    assert log_name("C:\\logs\\binlog.000001") == "binlog.000001"


def test_stores_are_resolved_like_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through pyarrow's local file system, which URIs of stores take the same way."""
    from binlake.source import locations as places
    from binlake.source import resolve as chain_resolve

    touch(tmp_path, "binlog.000002", "binlog.000001.gz", "other.txt")
    (tmp_path / "binlog.index").write_text("./binlog.000002\n./binlog.000001\n")
    monkeypatch.setattr(places, "is_uri", lambda path: "://" in path)
    monkeypatch.setattr(chain_resolve, "local_path", lambda path: path)
    uri = tmp_path.as_uri()
    (found,) = resolve([uri])
    assert found.paths == (f"{uri}/binlog.000001.gz", f"{uri}/binlog.000002")
    assert [file.size for file in found.files] == [16, 13]
    assert found.ignored == (f"{uri}/binlog.index", f"{uri}/other.txt")
    assert names(f"{uri}/binlog.0*") == ["binlog.000001", "binlog.000002"]
    assert names(f"{uri}/binlog.index") == ["binlog.000002", "binlog.000001"]
    assert names(f"{uri}/binlog.000002") == ["binlog.000002"]
    with pytest.raises(SourceError, match="does not exist"):
        resolve([f"{uri}/absent"])
    with pytest.raises(SourceError, match="nothing matches"):
        resolve([f"{uri}/absent*"])


def test_other_server_files_beside_logs_are_ignored(tmp_path: Path) -> None:
    logs = touch(tmp_path, "binlog.000001", "binlog.000002")
    beside = touch(tmp_path, "binlog.000001.idx", "binlog.state")
    (chain,) = resolve([f"{tmp_path}/binlog.*"])
    assert [file.path for file in chain.files] == logs
    assert sorted(chain.ignored) == sorted(beside)
    (chain,) = resolve(sorted(logs + beside))  # as a shell makes it of binlog.*
    assert [file.path for file in chain.files] == logs
    with pytest.raises(SourceError, match="not a binary log"):
        resolve(beside)


def test_a_directory_without_logs_means_the_archives_in_it(tmp_path: Path) -> None:
    touch(tmp_path, "b-uuid/binlog.000002", "b-uuid/binlog.000001.zst", "b-uuid/archive.json")
    touch(
        tmp_path, "b-uuid/binlog.000001.index.parquet", "b-uuid/archive.lock", "b-uuid/binlog.index"
    )
    touch(
        tmp_path, "a-uuid/binlog.000007", "a-uuid/archive.json", "other/binlog.000001", "note.txt"
    )
    first, second = resolve([str(tmp_path)])
    assert first.names == ("binlog.000007",)
    assert second.names == ("binlog.000001", "binlog.000002")
    assert [Path(path).name for path in first.ignored if not beside_logs(path)] == ["note.txt"]
    assert not [path for path in second.ignored if not beside_logs(path)]


def test_an_index_file_names_logs_of_its_directory_only(tmp_path: Path) -> None:
    """The author of an index file cannot choose which files are opened."""
    touch(tmp_path, "logs/binlog.000001", "elsewhere/binlog.000002", "logs/below/binlog.000003")
    os.mkfifo(tmp_path / "logs" / "binlog.000004")
    (tmp_path / "logs" / "binlog.000005").symlink_to(tmp_path / "elsewhere" / "binlog.000002")
    index = tmp_path / "logs" / "binlog.index"
    elsewhere = (
        f"{tmp_path}/elsewhere/binlog.000002", "../elsewhere/binlog.000002", "/etc/passwd",
        "./binlog.000005", "/dev/zero", "/proc/self/mem",
    )  # fmt: skip
    for entry in elsewhere:
        index.write_text(f"./binlog.000001\n{entry}\n")
        with pytest.raises(SourceError, match=r"not in the directory of the index") as raised:
            resolve([str(index)])
        assert "option index_directory" in str(raised.value)
    for entry in ("./binlog.000004", "\0", "file:///etc/passwd", "mysql://u@h/binlog.000009"):
        index.write_text(f"{entry}\n")
        with pytest.raises(SourceError, match=r"does not exist|not in the directory"):
            resolve([str(index)])
    index.write_text(f"below/binlog.000003\n{elsewhere[0]}\n")
    found = resolve([str(index)], [str(tmp_path / "elsewhere")])
    assert sorted(path for chain in found for path in chain.paths) == [
        elsewhere[0], str(tmp_path / "logs/below/binlog.000003"),
    ]  # fmt: skip
    with pytest.raises(SourceError, match="not in the directory"):
        resolve([str(index)], [str(tmp_path / "others")])


@pytest.mark.parametrize("space", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_a_newline_ends_an_entry_of_an_index_file(tmp_path: Path, space: str) -> None:
    """A name with another end of a line was two entries, and other files were read."""
    odd = f"odd{space}binlog.000001"
    touch(tmp_path, odd, "binlog.000001")
    index = tmp_path / "odd.index"
    index.write_bytes(f"./{odd}\r\n".encode())
    assert names(str(index)) == [odd]


def test_an_index_that_is_no_file_of_its_size(tmp_path: Path) -> None:
    """A pipe kept every command waiting, and the end of a long file was left out."""
    pipe = tmp_path / "pipe.index"
    os.mkfifo(pipe)
    (tmp_path / "link.index").symlink_to(pipe)
    for name in ("pipe.index", "link.index"):
        with pytest.raises(SourceError, match=f"{name} is not a regular file"):
            resolve([str(tmp_path / name)])
    long = tmp_path / "long.index"
    with long.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(SourceError, match="larger than the 67,108,864 bytes of an index file"):
        resolve([str(long)])


def test_globs_mean_regular_files(tmp_path: Path) -> None:
    touch(tmp_path, "binlog.000001")
    os.mkfifo(tmp_path / "binlog.000002")
    assert names(str(tmp_path / "binlog.*")) == ["binlog.000001"]


def test_a_long_index_file_is_read_in_linear_time(tmp_path: Path) -> None:
    """Each entry costs no search among the others: a file of 1 MB has half a million of them."""
    touch(tmp_path, "binlog.000001")
    index = tmp_path / "binlog.index"
    index.write_text("./binlog.000001\n" * 60_000)
    assert names(str(index)) == ["binlog.000001"]
    index.write_text("x\n" * 500_000)
    (chain,) = survey([str(index)])
    assert chain.missing == ("x",)
