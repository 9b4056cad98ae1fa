"""A task without enough memory says so in one line, and how much it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from binlake.errors import SourceError
from binlake.spark.memory import memory_error
from support.logs.stream_log import StreamLog

DEMO = Path(__file__).resolve().parents[3] / "demo" / "mysql-9.7"

#: Reads a log as an executor does, in an address space that has room for nothing more.
READ = """
import resource, sys
from binlake.spark.source import BinlogDataSource
source = BinlogDataSource({"path": sys.argv[1]})
reader = source.reader(source.schema())
[partition] = reader.partitions()
resident = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (resident + (1 << 20),) * 2)
for batch in reader.read(partition):
    pass
"""


def test_a_read_in_too_little_memory(tmp_path: Path) -> None:
    log = StreamLog()
    for number in range(1, 12_000):
        log.plain(number)
    path = log.write(tmp_path)
    assert path.stat().st_size > 2 << 20
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("binlake.errors.SourceError: host ")
    assert "the task ran out of memory: its address space is limited to" in last
    assert "set spark.executor.pyspark.memory to 1g for each core" in last


def test_memory_that_is_not_limited() -> None:
    told = memory_error(MemoryError())
    assert isinstance(told, SourceError)
    assert "give the executor more memory" in str(told)
    assert memory_error(RuntimeError("can't start new thread")) is None
    assert memory_error(ImportError("no such module")) is None
    assert memory_error(OSError("no such file")) is None


#: Unpickles a task of an export as an executor does: the core cannot be loaded into the memory.
LOAD = """
import pickle, resource, sys
from binlake.lake.jobs import _Runner
class Task:
    def __reduce__(self):
        return exec, ("raise ImportError('walk.so: failed to map segment from shared object')",)
task = pickle.dumps(Task())
resource.setrlimit(resource.RLIMIT_AS, (8 << 30,) * 2)
_Runner()(task)
"""


def test_an_export_whose_core_does_not_fit_into_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("binlake.errors.SourceError: host ")
    assert "the task ran out of memory: its address space is limited to 8192 MB" in last


#: Opens a reader as an executor does, in an address space that the libraries do not fit into.
OPEN = """
import pickle, resource, sys
opened = sys.stdin.buffer.read()
import pyspark.cloudpickle
pages = int(open("/proc/self/statm").read().split()[0])
limit_mb = pages * resource.getpagesize() // (1 << 20) + 60
print(limit_mb, flush=True)
resource.setrlimit(resource.RLIMIT_AS, (limit_mb << 20,) * 2)
pickle.loads(opened)
"""


def test_libraries_that_do_not_fit_into_memory() -> None:
    from pyspark import cloudpickle

    from binlake.spark.source import BinlogDataSource

    source = BinlogDataSource({"path": str(DEMO)})
    reader = cloudpickle.dumps(source.reader(source.schema()))
    done = subprocess.run(
        [sys.executable, "-c", OPEN], input=reader, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 1
    last = done.stderr.decode().strip().splitlines()[-1]
    assert last.startswith("RuntimeError: host ")
    limit = f"its address space is limited to {int(done.stdout)} MB; set spark."
    assert f"the task ran out of memory: {limit}" in last
