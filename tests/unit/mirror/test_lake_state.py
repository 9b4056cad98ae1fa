"""The state of a mirror on its machine, and the lakes that it refuses before Spark starts."""

from __future__ import annotations

import errno
import fcntl
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from binlake.errors import BinlogError, OptionError, SourceError
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.lake_state import index_directory, is_same_lake, lock
from binlake.mirror.sessions import mirror_session
from binlake.mirror.tables.keys import Keys, sorted_keys


@pytest.mark.parametrize(
    "lake",
    [
        "mysql://root:S3CRET@db1/",
        "s3://AKIA:S3CRET@bucket/lake",
        "s3://bucket/lake?secret_key=S3CRET",
    ],
)
def test_a_lake_that_would_show_a_password_is_refused_before_spark_starts(lake: str) -> None:
    with pytest.raises(BinlogError) as raised:
        mirror_session(lake, config={"spark.jars": "none"})
    assert "S3CRET" not in f"{raised.value}{raised.value.hint}"


def test_other_users_cannot_read_the_keys_of_a_mirror(tmp_path: Path) -> None:
    indexes = tmp_path / "cache" / "mirror" / "lake"
    with lock(indexes, "s3://bucket/lake"):
        assert stat.S_IMODE(indexes.stat().st_mode) & 0o007 == 0
    index = RowIndex(tmp_path / "state" / "shop.t")
    assert stat.S_IMODE((tmp_path / "state" / "shop.t").stat().st_mode) & 0o007 == 0
    index.clear()
    assert stat.S_IMODE((tmp_path / "state" / "shop.t").stat().st_mode) & 0o007 == 0


def test_a_state_directory_that_other_users_could_read_is_closed(tmp_path: Path) -> None:
    """Those that earlier versions made have the permissions of the umask."""
    indexes = tmp_path / "state"
    indexes.mkdir()
    indexes.chmod(0o2775)
    (indexes / "shop.t").mkdir(0o777)
    with lock(indexes, "s3://bucket/lake"):
        assert stat.S_IMODE(indexes.stat().st_mode) == 0o2750
    RowIndex(indexes / "shop.t")
    assert stat.S_IMODE((indexes / "shop.t").stat().st_mode) & 0o027 == 0


def test_files_of_keys_are_not_for_other_users(tmp_path: Path) -> None:
    index = RowIndex(tmp_path)
    keys = Keys(np.array([1, 2], np.int64), None)
    index.add("file", sorted_keys(keys))
    files = list(tmp_path.glob("*.npy"))
    assert len(files) == 2
    assert not [file for file in files if stat.S_IMODE(file.stat().st_mode) & 0o037]


def test_a_state_directory_that_another_process_uses(tmp_path: Path) -> None:
    """It may be the mirror of another lake, if the directory is not that of the lake."""
    lake, state = str(tmp_path / "lake"), tmp_path / "state"
    with lock(state, str(tmp_path / "other")), pytest.raises(SourceError) as raised:
        lock(state, lake)
    assert raised.value.message == f"another process uses {state}, the state directory for {lake}"
    assert str(raised.value.hint).endswith("; each lake needs a --state of its own")
    own = index_directory(lake, None)
    with lock(own, lake), pytest.raises(SourceError, match="another process mirrors into"):
        lock(own, lake)


def test_a_slash_at_the_end_of_a_lake_does_not_change_its_state_directory() -> None:
    assert index_directory("s3://bucket/lake/", None) == index_directory("s3://bucket/lake", None)
    assert index_directory("s3://bucket/lake", None) != index_directory("s3://bucket/lak", None)


def test_a_file_system_without_locks_is_not_taken_for_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_of: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(SourceError, match=r"cannot lock .*index: No locks available.*--state"):
        lock(tmp_path / "index", "/lake")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("/lake", "/lake/", True),
        ("/lake", "file:///lake", True),
        ("/lake", "file:/lake", True),
        ("/lake", "/lake/../lake2", False),
        ("s3://bucket/lake", "s3a://bucket/lake/", True),
        ("s3://bucket/lake", "s3://bucket/lake2", False),
        ("hdfs://a/lake", "s3://a/lake", False),
    ],
)
def test_places_of_lakes(one: str, other: str, is_same: bool) -> None:
    assert is_same_lake(one, other) is is_same


def test_a_warehouse_that_is_not_the_lake(tmp_path: Path) -> None:
    config = {"spark.sql.catalog.lake.warehouse": "s3a://bucket/other"}
    with pytest.raises(OptionError, match="warehouse is s3a://bucket/other, and the lake is"):
        mirror_session(str(tmp_path), config=config)


def test_a_catalog_without_settings(tmp_path: Path) -> None:
    """Its tables would be in the directory of the lake, for example if its name is misspelled in the settings."""
    with pytest.raises(OptionError, match="no setting describes the catalog prod"):
        mirror_session(str(tmp_path), catalog="prod", config={"spark.sql.catalog.prd.type": "rest"})
