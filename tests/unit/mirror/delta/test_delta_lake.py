"""The directories and the session of a Delta lake."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.mirror.delta import lake as delta_lake
from binlake.mirror.delta.lake import DeltaLake


class FakeSession:
    """A Spark session with the settings of Delta. Those of a new session are its own."""

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self.settings = {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            **settings,
        }
        self.made: list[FakeSession] = []

    def newSession(self) -> FakeSession:  # noqa: N802
        self.made.append(FakeSession())
        return self.made[-1]

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


@pytest.fixture
def spark() -> Any:
    return FakeSession()


def test_names_in_statements_are_not_replaced_by_variables(spark: Any, tmp_path: Path) -> None:
    """Spark would put an environment variable in the place of a column's name `${env:NAME}`."""
    DeltaLake(spark, str(tmp_path))
    [own] = spark.made
    assert own.get("spark.sql.variable.substitute") == "false"
    assert spark.get("spark.sql.variable.substitute") is None


def test_files_of_copies_are_removed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored(_spark: Any, _path: Path, full_name: str) -> Any:
        log = SimpleNamespace(state={})
        return SimpleNamespace(full_name=full_name, schema=pa.schema([]), log=log)

    monkeypatch.setattr(delta_lake, "DeltaStored", stored)
    copies = tmp_path / "_binlake" / "copies"
    names = ("shop/t", "shop/t2", "other/t")
    for name in names:
        (copies / name).mkdir(parents=True)
        (copies / name / "binlake-1.parquet").touch()
    table = DeltaLake(spark, str(tmp_path)).open_table("shop", "t", None, tmp_path)
    assert Path(table.data_prefix()).parent == copies / "shop" / "t"
    table.remove_copies()
    assert [name for name in names if (copies / name).exists()] == ["shop/t2", "other/t"]


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("can_rename", [True, False])
def test_a_kill_while_a_table_is_removed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_rename: bool
) -> None:
    """It is there with its whole log, or not at all. The next search for old files removes what is left."""
    table = tmp_path / "shop" / "t"
    (table / "_delta_log").mkdir(parents=True)
    for version in range(3):
        (table / "_delta_log" / f"{version:020}.json").touch()
    (table / "part-0.parquet").touch()
    lake = DeltaLake(spark, str(tmp_path))

    def killed(path: Path) -> None:
        raise Killed

    def refused(path: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            lake.drop("shop", "t")
    assert not lake.exists("shop", "t")
    assert lake.tables() == []
    assert [*tmp_path.rglob("*.parquet")] != []
    lake.remove_dropped()
    assert [*tmp_path.rglob("*.parquet")] == []
    lake.remove_dropped()

    (table / "_delta_log").mkdir(parents=True)
    if not can_rename:
        monkeypatch.setattr(Path, "rename", refused)
    lake.drop("shop", "t")
    assert not table.exists()
