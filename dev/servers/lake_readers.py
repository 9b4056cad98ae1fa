"""DuckDB with its extensions for Iceberg and Delta, in an environment of its own.

The registry has the extensions for another version of DuckDB than the one that binlake is tested with.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dev.servers.packages import SetupError, made_environment

__all__ = ["LAKE_READERS", "duckdb_copies", "provision_lake_readers"]

#: Its name among what can be provisioned.
LAKE_READERS = "lake-readers"

_LOCK = Path(__file__).resolve().parents[1] / "locks" / "lake-readers.lock"

_COPY = """
import importlib, json, sys
from pathlib import Path
import duckdb
connection = duckdb.connect()
connection.execute("SET TimeZone = 'UTC'")
given = json.load(sys.stdin)
for name in ("parquet", "avro", "httpfs", "iceberg", "delta"):
    package = importlib.import_module(f"duckdb_extension_{name}")
    [file] = Path(package.__file__).parent.rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
for name, value in given["settings"].items():
    connection.execute(f"SET {name} = '{value}'")
for query, target in given["copies"].items():
    # a dictionary of DuckDB has one entry for 0.0 and -0.0
    connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, DICTIONARY_SIZE_LIMIT 1)")
"""


def provision_lake_readers() -> Path:
    """Its Python; installs the packages when they are not there. Raises SetupError."""
    return made_environment(LAKE_READERS, _LOCK)


def duckdb_copies(copies: Mapping[str, Path], settings: Mapping[str, str] | None = None) -> None:
    """Write the results of queries, which may use `iceberg_scan` and `delta_scan`, to Parquet files.

    `settings` are DuckDB's own, such as the endpoint of an object store. Raises SetupError with the message of DuckDB.
    """
    run = subprocess.run(
        [provision_lake_readers(), "-c", _COPY],
        input=json.dumps(
            {
                "settings": dict(settings or {}),
                "copies": {query: str(target) for query, target in copies.items()},
            }
        ),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if run.returncode:
        raise SetupError(f"DuckDB: {run.stderr.strip()[-2000:]}")
