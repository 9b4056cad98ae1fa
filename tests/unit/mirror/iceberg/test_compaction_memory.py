"""The memory that a compaction needs does not grow with the data that it reads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

MB = 1 << 20
FILE_ROWS = 160_000
TEXT_BYTES = 400  # of a row; a file has 64 MB, which do not compress

# It prints how much the task adds to the most memory that the process has had.
PROGRAM = """
import random, re, sys
from pathlib import Path
import pyarrow as pa
from pyroaring import BitMap
from binlake.mirror.iceberg.compaction import RewriteTask
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.schema import iceberg_schema, storage_schema

folder, files, rows, size = sys.argv[1], *map(int, sys.argv[2:])
plain = pa.schema([("id", pa.int64()), ("body", pa.binary())])
schema = storage_schema(iceberg_schema(plain))

def batches():
    for first in range(0, rows, 10_000):
        ids = range(first, first + 10_000)
        bodies = [random.randbytes(size) for _ in ids]
        yield pa.table([pa.array(ids, pa.int64()), pa.array(bodies, pa.binary())], schema=schema)

def most_bytes():
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s+(\\d+)", text)[1]) << 10

old = []
for _ in range(files):
    [file] = DataFileWriter(schema, f"{folder}/old-", 1 << 40).write(batches())
    old.append((file["file-path"], BitMap(range(0, rows, 3)).serialize()))
before = most_bytes()
RewriteTask(old, schema.serialize().to_pybytes(), f"{folder}/new-").run()
print(most_bytes() - before)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs the memory as Linux shows it"
)
def test_a_rewrite_of_many_files(tmp_path: Path) -> None:
    """768 MB of rows. From 384 MB on, twice as many need no more memory, which is 300 MB (with malloc 400 MB)."""
    words = [str(tmp_path), "12", str(FILE_ROWS), str(TEXT_BYTES)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False
    )
    assert re.fullmatch(r"\d+\n", done.stdout), done.stderr
    assert int(done.stdout) < 512 * MB
