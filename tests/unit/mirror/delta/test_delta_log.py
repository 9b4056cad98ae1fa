"""The log of a Delta table is read as its protocol describes it; ALTER becomes clauses for one commit each."""

from __future__ import annotations

import errno
import itertools
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.errors import SourceError, UnsupportedError
from binlake.mirror.delta import log as logs
from binlake.mirror.delta.alter import alter_sql
from binlake.mirror.delta.log import DeltaLog, table_file, user_metadata
from binlake.mirror.delta.schema import arrow_schema, column_sql
from binlake.mirror.tables.damage import DAMAGED, DamagedFileError, MissingFileError
from binlake.mirror.tables.deletion_vectors import decode_vector, encode_vector
from binlake.mirror.tables.schema import FIELD_ID, iceberg_schema

pyroaring = pytest.importorskip("pyroaring")

_VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}


def commit(table: Path, version: int, *actions: dict[str, Any]) -> None:
    log = table / "_delta_log"
    log.mkdir(exist_ok=True)
    lines = (json.dumps(action) + "\n" for action in actions)
    (log / f"{version:020}.json").write_text("".join(lines))


def info(state: dict[str, Any] | None, version: int) -> dict[str, Any]:
    said = {} if state is None else {"userMetadata": user_metadata(state)}
    return {"commitInfo": {"timestamp": 1000 + version, **said}}


def add(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 10, **more}}


def test_spark_finds_no_variable_in_the_state(tmp_path: Path) -> None:
    """It would put an environment variable in the place of `${env:NAME}` in a name or a default value."""
    state = {"kept": {"${env:HOME}": r"DEFAULT '\${spark.secret}$'"}}
    assert "$" not in user_metadata(state)
    commit(tmp_path, 0, info(state, 0), {"metaData": {"id": "x"}})
    log = DeltaLog(tmp_path)
    log.update()
    assert log.state == state


def test_commits_are_read_as_they_come(tmp_path: Path) -> None:
    commit(tmp_path, 0, info({"kept": {"a": "b"}}, 0), {"metaData": {"id": "x"}}, add("one"))
    log = DeltaLog(tmp_path)
    log.update()
    assert (log.version, list(log.files), log.state) == (0, ["one"], {"kept": {"a": "b"}})
    # one file is removed and added again with a vector, in any order
    commit(
        tmp_path, 1, info(None, 1), add("one", deletionVector=_VECTOR), {"remove": {"path": "one"}}
    )
    commit(tmp_path, 2, info({"kept": {}}, 2), {"remove": {"path": "one"}}, add("two"))
    log.update()
    assert (log.version, list(log.files)) == (2, ["two"])
    assert [(c.version, c.committed_ms, c.state is None) for c in log.commits] == [
        (0, 1000, False),
        (1, 1001, True),
        (2, 1002, False),
    ]


def test_a_checkpoint_replaces_commits_that_are_gone(tmp_path: Path) -> None:
    commit(tmp_path, 10, info({"summary": {"s": "10"}}, 10))
    commit(tmp_path, 11, info(None, 11), {"remove": {"path": "a"}}, add("c"))
    actions = [
        {"metaData": {"id": "x", "configuration": [("k", "v")]}, "add": None},
        *({"metaData": None, "add": {"path": path, "size": 1}} for path in "ab"),
    ]
    schema = pa.schema(
        [
            (
                "metaData",
                pa.struct(
                    [("id", pa.string()), ("configuration", pa.map_(pa.string(), pa.string()))]
                ),
            ),
            ("add", pa.struct([("path", pa.string()), ("size", pa.int64())])),
        ]
    )
    place = tmp_path / "_delta_log" / f"{10:020}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist(actions, schema), place)
    log = DeltaLog(tmp_path)
    log.update()
    assert (log.version, sorted(log.files)) == (11, ["b", "c"])
    assert log.metadata["configuration"] == {"k": "v"}
    assert log.state == {"summary": {"s": "10"}}
    head = log.head
    assert head is not None
    assert head.state is None, "the newest commit is another program's"


def test_logs_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a Delta table"):
        DeltaLog(tmp_path).update()
    commit(tmp_path, 0, info(None, 0))
    commit(tmp_path, 1, info({"summary": {"a": "b"}}, 1))
    of_new_format = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"
    incomplete = f"{1:020}.checkpoint.{1:010}.{2:010}.parquet"
    for name in (of_new_format, incomplete):
        (tmp_path / "_delta_log" / name).write_bytes(b"")
        log = DeltaLog(tmp_path)
        log.update()  # from the commits, which are all there
        assert (log.version, log.state) == (1, {"summary": {"a": "b"}})
        (tmp_path / "_delta_log" / f"{0:020}.json").rename(tmp_path / "0")
        with pytest.raises(
            UnsupportedError, match=r"checkpoint 1 .*incomplete, or has a newer format"
        ):
            DeltaLog(tmp_path).update()
        (tmp_path / "0").rename(tmp_path / "_delta_log" / f"{0:020}.json")
        (tmp_path / "_delta_log" / name).unlink()


def damaged(table: Path, kind: str, version: int = 3) -> Path:
    """Remove or damage a file of the log, by default a commit; return it."""
    log = table / "_delta_log"
    checkpoint = log / f"{2:020}.checkpoint.parquet"
    file = checkpoint if "checkpoint" in kind else log / f"{version:020}.json"
    if kind == "first":
        file = log / f"{0:020}.json"
        checkpoint.unlink()
    content = {"cut": file.read_bytes()[:-9], "zeros": bytes(40), "empty": b"", "no text": b"\xff{}\n",
               "cut checkpoint": file.read_bytes()[:-9], "page of the checkpoint": file.read_bytes()}  # fmt: skip
    if kind == "page of the checkpoint":
        content[kind] = content[kind][:4] + bytes(60) + content[kind][64:]
    if kind in content:
        file.write_bytes(content[kind])
    else:
        file.unlink()
    return file


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("missing", MissingFileError),
        ("first", MissingFileError),
        ("cut", DamagedFileError),
        ("zeros", DamagedFileError),
        ("empty", DamagedFileError),
        ("no text", DamagedFileError),
        ("cut checkpoint", DamagedFileError),
        ("page of the checkpoint", DamagedFileError),
    ],
)
def test_a_missing_or_damaged_file_of_the_log_concerns_its_table(
    tmp_path: Path, kind: str, raised: type[SourceError]
) -> None:
    """The older versions before a missing one are not taken for the newest."""
    for version in range(5):
        commit(tmp_path, version, info({"kept": {}}, version), {"metaData": {"id": "x"}}, add("a"))
    actions = [
        {"metaData": {"id": "x"}, "add": {"path": "a", "size": number}} for number in range(99)
    ]
    pq.write_table(pa.Table.from_pylist(actions), tmp_path / "_delta_log" / f"{2:020}.checkpoint.parquet")  # fmt: skip
    DeltaLog(tmp_path).update()
    file = damaged(tmp_path, kind)
    with pytest.raises(raised, match=file.name) as caught:
        DeltaLog(tmp_path).update()
    assert type(caught.value) is raised
    assert str(caught.value).endswith(f"; restore the file, or delete the directory {tmp_path}")


def checkpoint(table: Path, version: int) -> None:
    """A checkpoint with one file."""
    actions = [
        {"metaData": {"id": "x"}, "add": None},
        {"metaData": None, "add": {"path": "a", "size": 1}},
    ]
    place = table / "_delta_log" / f"{version:020}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist(actions), place)


def test_a_file_of_the_control_table_can_only_be_restored(tmp_path: Path) -> None:
    """Without it, the lake has no quarantines, no requests and no names of rounds."""
    table = tmp_path / "_binlake" / "rounds"
    table.mkdir(parents=True)
    commit(table, 0, info({"kept": {}}, 0), {"metaData": {"id": "x"}})
    damaged(table, "empty", version=0)
    with pytest.raises(DamagedFileError) as caught:
        DeltaLog(table).update()
    assert str(caught.value).endswith("is empty; restore the file")


def test_a_commit_before_the_checkpoint_that_is_removed_meanwhile(tmp_path: Path) -> None:
    for version in range(3):
        commit(tmp_path, version, info({"kept": {"v": version}}, version))
    checkpoint(tmp_path, 2)
    last = tmp_path / "_delta_log" / f"{2:020}.json"
    last.unlink()
    last.symlink_to("gone")  # listed, but not there when it is opened
    log = DeltaLog(tmp_path)
    log.update()
    assert (log.version, list(log.files)) == (2, ["a"])
    assert log.state == {"kept": {"v": 1}}
    assert [c.version for c in log.history()] == [0, 1]


def test_only_the_newest_state_is_read_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror makes a commit every few seconds, and the log has those of a month."""
    for version in range(1, 41):
        state = None if version in (39, 40) else {"kept": {"v": version}}
        commit(tmp_path, version, info(state, version))
    checkpoint(tmp_path, 40)
    opened: list[str] = []
    read = logs.table_file

    def recorded(path: Path) -> Any:
        opened.append(path.name)
        return read(path)

    monkeypatch.setattr(logs, "table_file", recorded)
    log = DeltaLog(tmp_path)
    log.update()
    assert log.state == {"kept": {"v": 38}}
    assert opened == [f"{40:020}.checkpoint.parquet", *(f"{v:020}.json" for v in (40, 39, 38))]
    head = log.head
    assert head is not None
    assert (head.version, head.state) == (40, None)
    assert [c.version for c in log.history()] == list(range(1, 41))
    for version in (41, 42, 43):
        commit(tmp_path, version, info(None, version))
    log.update()
    log.forget(log.version)
    opened.clear()
    found = [*itertools.takewhile(lambda c: c.state is None, log.lineage())]
    assert [c.version for c in found] == [43, 42, 41, 40, 39]
    assert len(opened) == 4, "those before the newest state are not read"
    for version in range(44, 61):
        commit(tmp_path, version, info({"kept": {"v": version}}, version))
        log.update()
        log.forget(log.version - 2)
        assert len(log.commits) <= 4
    assert [c.version for c in log.commits] == [59, 60]
    log.forget(log.version)
    assert (log.state, [c.version for c in log.commits]) == ({"kept": {"v": 60}}, [60])
    commit(tmp_path, 61, info(None, 61))
    log.update()
    log.forget(61)
    assert [c.version for c in log.commits] == [60, 61]
    assert log.has(1, 1001 * 1000)
    assert not log.has(1, 1001 * 1000 - 1), "of another table, which was removed since"
    assert not log.has(62, 1 << 60)
    log._commit_path(1).unlink()
    assert not log.has(1, 1 << 60), "Delta has removed the commit"


def test_the_lineage_ends_at_a_commit_that_cannot_be_read(tmp_path: Path) -> None:
    """The damaged commit may have the mirror's newest state."""
    for version in range(6):
        commit(tmp_path, version, info({"kept": {"v": version}}, version))
    log = DeltaLog(tmp_path)
    checkpoint(tmp_path, 5)
    log.update()
    log.forget(5)
    (tmp_path / "_delta_log" / f"{2:020}.json").write_text("{")
    assert [c.version for c in log.lineage()] == [5, 4, 3]


@pytest.mark.parametrize(
    ("operation", "action", "is_change"),
    [
        ("SET TBLPROPERTIES", {"metaData": {"id": "x"}}, False),
        ("VACUUM END", {}, False),
        ("SET TBLPROPERTIES", {"add": {"path": "a", "size": 1}}, True),
        ("ADD COLUMNS", {"metaData": {"id": "x"}}, True),
        ("WRITE", {}, True),
    ],
)
def test_commits_that_change_rows_or_columns(
    tmp_path: Path, operation: str, action: dict[str, Any], is_change: bool
) -> None:
    commit(tmp_path, 0, info({"kept": {}}, 0), {"metaData": {"id": "x"}})
    commit(tmp_path, 1, {"commitInfo": {"timestamp": 1, "operation": operation}}, action)
    log = DeltaLog(tmp_path)
    log.update()
    assert [c.is_change for c in log.commits] == [True, is_change]


@pytest.mark.parametrize(
    ("last", "newest", "is_read"),
    [
        (2, {"v": 2}, True),
        (3, {"v": 3}, True),  # after the checkpoint
        (3, None, False),  # of another program, so the newest state may be in the damaged commit
        (1, None, False),
    ],
)
def test_a_damaged_commit_before_the_checkpoint(
    tmp_path: Path, last: int, newest: dict[str, Any] | None, is_read: bool
) -> None:
    """It is only history if a newer commit has the mirror's state."""
    commit(tmp_path, 0, info({"v": 0}, 0))
    for version in range(1, last + 1):
        commit(tmp_path, version, info(newest if version == last else None, version))
    checkpoint(tmp_path, min(last, 2))
    file = damaged(tmp_path, "zeros", version=1)
    log = DeltaLog(tmp_path)
    if is_read:
        log.update()
        assert (log.version, log.state) == (last, newest)
        return
    for _ in range(2):
        with pytest.raises(DamagedFileError, match=file.name):
            log.update()


def test_the_newest_version_that_was_read_does_not_become_an_older_one(tmp_path: Path) -> None:
    for version in range(3):
        commit(tmp_path, version, info(None, version), {"metaData": {"id": "x"}})
    log = DeltaLog(tmp_path)
    log.update()
    (tmp_path / "_delta_log" / f"{2:020}.json").unlink()
    with pytest.raises(MissingFileError, match=f"{2:020}.json is missing"):
        log.update()


def test_a_disk_that_fails_is_no_damage(tmp_path: Path) -> None:
    """A file is damaged only if all of its bytes can be read."""
    with (
        pytest.raises(SourceError, match=r"cannot read .*Input/output error") as caught,
        table_file(tmp_path),
    ):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert not isinstance(caught.value, DAMAGED)


def test_deletion_vectors(tmp_path: Path) -> None:
    """The example of a path in the protocol's own text."""
    commit(tmp_path, 0, info(None, 0))
    blob = encode_vector(pyroaring.BitMap([3, 4, 7]))
    body = blob[4:-4]
    folder = tmp_path / "ab"
    folder.mkdir()
    file = folder / "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    file.write_bytes(b"\1\0\0\0" + blob)
    assert zlib.crc32(body) == int.from_bytes(blob[-4:], "big")
    log = DeltaLog(tmp_path)
    log.update()
    found = log.vector({"deletionVector": {**_VECTOR, "sizeInBytes": len(body)}})
    assert found is not None
    assert list(decode_vector(found, "x")) == [3, 4, 7]
    assert log.vector({"path": "x"}) is None
    file.unlink()
    with pytest.raises(MissingFileError, match=f"{file.name} is missing"):
        log.vector({"deletionVector": {**_VECTOR, "sizeInBytes": len(body)}})


def test_schemas() -> None:
    of_delta = {
        "type": "struct",
        "fields": [
            {"name": "a`b", "type": "decimal(20,0)", "metadata": {"delta.columnMapping.id": 7}},
            {"name": "t", "type": "timestamp_ntz", "metadata": {}},
            {"name": "l", "type": {"type": "array", "elementType": "string"}, "metadata": {}},
        ],
    }
    schema = arrow_schema(json.dumps(of_delta))
    assert schema.field(0).metadata == {FIELD_ID: b"7"}
    assert [column_sql(field) for field in schema] == [
        "`a``b` DECIMAL(20, 0)",
        "`t` TIMESTAMP_NTZ",
        "`l` ARRAY<STRING>",
    ]


def test_steps_of_an_alter() -> None:
    one = iceberg_schema(pa.schema([("n", pa.int64())]))
    groups: list[list[dict[str, Any]]] = [
        [{"do": "drop", "name": "x"}],
        [{"do": "rename", "name": "a", "to": "b"}, {"do": "rename", "name": "b", "to": "a"}],
        [{"do": "add", "name": "n", "schema": one}, {"do": "widen", "name": "a", "schema": one}],
        [
            {"do": "first", "name": "n"},
            {"do": "after", "name": "id", "other": "n"},
            {"do": "after", "name": "b", "other": "id"},
            {"do": "after", "name": "a", "other": "b"},
        ],
    ]
    assert alter_sql(groups, ["id", "x", "a", "b"]) == [
        "DROP COLUMN `x`",
        "RENAME COLUMN `a` TO `__binlake_0`",
        "RENAME COLUMN `b` TO `__binlake_1`",
        "RENAME COLUMN `__binlake_0` TO `b`",
        "RENAME COLUMN `__binlake_1` TO `a`",
        "ADD COLUMNS (`n` BIGINT)",
        "ALTER COLUMN `a` TYPE BIGINT",
        "ALTER COLUMN `n` FIRST",
    ]


def test_temporary_names_that_a_table_has() -> None:
    swap = [{"do": "rename", "name": "a", "to": "A"}]
    assert alter_sql([swap], ["a", "__binlake_0", "__BINLAKE_1"]) == [
        "RENAME COLUMN `a` TO `__binlake_2`",
        "RENAME COLUMN `__binlake_2` TO `A`",
    ]


def test_temporary_names_that_a_table_gets() -> None:
    group = [
        {"do": "rename", "name": "a", "to": "__BINLAKE_1"},
        {"do": "rename", "name": "b", "to": "a"},
    ]
    assert alter_sql([group], ["a", "b"]) == [
        "RENAME COLUMN `a` TO `__binlake_0`",
        "RENAME COLUMN `b` TO `__binlake_2`",
        "RENAME COLUMN `__binlake_0` TO `__BINLAKE_1`",
        "RENAME COLUMN `__binlake_2` TO `a`",
    ]
