"""A host that cannot work says so in one line, before anything of ours is unpickled there."""

from __future__ import annotations

import base64
import io
import pickle
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from pyspark import cloudpickle

from binlake.errors import BinlogError, SourceError
from binlake.spark.hosts import Shipped, host_check, without_traceback
from binlake.spark.options import VIEWS, SourceOptions
from binlake.spark.source import BinlogDataSource
from binlake.values.builds import PickledByName, installed_version
from support.logs.stream_log import StreamLog
from support.spark.stream_query import Checkpoint, Query42

SOURCE = str(Path(__file__).parents[3] / "src")
HOST_CHECK = "import base64, pickle; pickle.loads(base64.b64decode({!r}))()"
ARRIVE = "import base64, pickle; print(pickle.loads(base64.b64decode({!r})).value)"


class Parcel(Shipped):
    def __init__(self, value: Any) -> None:
        self.value = value


def elsewhere(code: str, thing: object, *path: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that finds packages only in `path` (and PySpark)."""
    pickled = base64.b64encode(cloudpickle.dumps(thing)).decode()
    spark = str(Path(cloudpickle.__file__).parents[2])
    prelude = (
        f"import sys; sys.path[:] = [p for p in sys.path if p != {SOURCE!r}] + {[spark, *path]!r};"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", prelude + code.format(pickled)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_package_missing() -> None:
    done = elsewhere(ARRIVE, Parcel(SourceOptions.parse({"path": "/x"})))
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: host ")
    assert "binlake is not installed" in last
    assert sys.executable in last


def test_a_reader_without_the_package_on_the_executor() -> None:
    """Spark pickles the data source beside its reader."""
    done = elsewhere(ARRIVE, BinlogDataSource({"path": "/x"}))
    assert "binlake is not installed" in done.stderr.strip().splitlines()[-1]


def test_another_version(tmp_path: Path) -> None:
    (tmp_path / "binlake" / "core" / "memory").mkdir(parents=True)
    for name in (
        "__init__.py",
        "core/__init__.py",
        "core/memory/__init__.py",
        "core/memory/cursor.py",
    ):
        (tmp_path / "binlake" / name).touch()
    done = elsewhere(HOST_CHECK, host_check(False, "99.1"), str(tmp_path))
    told = done.stderr.strip().splitlines()[-1]
    assert told.startswith("RuntimeError: host ")
    assert f"binlake {installed_version()} is installed, but the driver has 99.1" in told
    for version in (installed_version(), None):
        assert elsewhere(HOST_CHECK, host_check(False, version), str(tmp_path)).returncode == 0


def test_values_go_by_name() -> None:
    """Not by the order of their fields, which is another one in another build."""
    options = SourceOptions.parse({"path": "/x", "op": "insert", "start": "binlog.000001:4"})
    assert pickle.loads(pickle.dumps(options)) == options
    kind, (cls, values) = options.read.__reduce__()[:2]
    assert kind(cls, dict(reversed(values.items()))) == options.read
    with pytest.raises(SourceError, match=r"ReadOptions with the field colour.*same version"):
        kind(cls, {**values, "colour": "blue"})


class ByPosition(pickle.Pickler):
    """Notes the classes of the values that Python would restore by the order of their fields."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if (
            is_dataclass(kind)
            and "__slots__" in vars(kind)
            and not isinstance(value, PickledByName)
        ):
            self.found.add(kind.__name__)
        return NotImplemented


@pytest.mark.parametrize(
    "options",
    [
        {"table": "golden.r"},
        {"table": "golden.r", "start": "binlog.000002:4", "server_id": "1", "where": "id = 1"},
        *({"view": view} for view in VIEWS if view != "table"),
    ],
)
def test_all_that_a_task_gets_goes_by_name(golden: Path, options: dict[str, str]) -> None:
    logs = golden / "mysql-9.7" / "rotation" / "binlog.index"
    source = BinlogDataSource({"path": str(logs), **options})
    reader = source.reader(source.schema())
    pickler = ByPosition()
    for sent in (reader, *reader.partitions()):
        pickler.dump(sent.__getstate__())
    assert pickler.found == set()


def test_core_not_compiled(tmp_path: Path) -> None:
    memory = tmp_path / "binlake" / "core" / "memory"
    memory.mkdir(parents=True)
    for folder in (memory, *memory.parents[:2]):
        (folder / "__init__.py").touch()
    (memory / "cursor.py").touch()
    done = elsewhere(HOST_CHECK, host_check(compiled=True), str(tmp_path))
    assert "the core of binlake is not compiled" in done.stderr.strip().splitlines()[-1]
    assert elsewhere(HOST_CHECK, host_check(compiled=False), str(tmp_path)).returncode == 0


def test_arrives_whole() -> None:
    parcel = cloudpickle.loads(
        cloudpickle.dumps(Parcel(SourceOptions.parse({"path": "/x", "op": "insert"})))
    )
    assert type(parcel) is Parcel
    assert parcel.value == SourceOptions.parse({"path": "/x", "op": "insert"})


@pytest.mark.parametrize("gone", ["logs", "ledgers"])
@pytest.mark.parametrize("way", ["batch", "stream"])
def test_a_task_on_a_host_without_the_directories_of_the_driver(
    way: str, gone: str, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    StreamLog().plain(1).plain(2).write(tmp_path / "logs")
    options = {"path": str(tmp_path / "logs"), "ledger_path": str(tmp_path / "ledgers")}
    if way == "stream":
        run = Query42(Checkpoint(), **options)
        assert run.plan()
        reader: Any = run.reader
        [partition] = run._partitions(run.initial(), run.checkpoint.ends[0])
    else:
        source = BinlogDataSource(options)
        reader = source.reader(source.schema())
        [partition] = reader.partitions()
    (tmp_path / gone).rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match=rf"^host \S+ does not see {tmp_path}/{gone}"):
        list(reader.read(partition))


def test_an_error_of_the_system_in_a_task_is_one_sentence() -> None:
    @without_traceback
    def task() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(
        BinlogError, match=r"^the system refused a task: .*No space left on device$"
    ):
        task()
