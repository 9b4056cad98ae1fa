"""Reading a table of the lake with Spark, PyIceberg and DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Rows = list[tuple[Any, ...]]


def by_spark(spark: Any, name: str, columns: str, catalog: str = "lake") -> Rows:
    """The rows of a table, sorted by their text."""
    return _sorted(
        tuple(row) for row in spark.sql(f"SELECT {columns} FROM {catalog}.{name}").collect()
    )


def by_pyiceberg(lake: str, name: str, columns: str) -> Rows:
    from pyiceberg.table import StaticTable

    found = StaticTable.from_metadata(metadata(lake, name)).scan().to_arrow()
    names = [column.strip() for column in columns.split(",")]
    return _sorted(tuple(row[n] for n in names) for row in found.to_pylist())


def by_duckdb(lake: str, name: str, columns: str) -> Rows:
    """The rows that DuckDB reads from the data files of a table without deleted rows."""
    import duckdb
    from pyiceberg.table import StaticTable

    scan = StaticTable.from_metadata(metadata(lake, name)).scan()
    paths = [task.file.file_path for task in scan.plan_files()]
    files = [path.removeprefix("file:").replace("///", "/") for path in paths]
    found = duckdb.sql(f"SELECT {columns} FROM read_parquet({files!r})")
    assert found is not None
    return _sorted(found.fetchall())


def by_duckdb_iceberg(lake: str, name: str, columns: str, folder: Path) -> Rows:
    """The rows that DuckDB's extension for Iceberg reads, written to a file in `folder` on the way."""
    import pyarrow.parquet as pq

    from dev.servers.lake_readers import duckdb_copies

    target = folder / f"{name}.parquet"
    duckdb_copies({f"SELECT {columns} FROM iceberg_scan('{metadata(lake, name)}')": target})
    found = pq.read_table(target).to_pylist()
    return _sorted(tuple(row.values()) for row in found)


def metadata(lake: str, name: str) -> str:
    """The newest metadata file of a table of a Hadoop catalog."""
    folder = Path(lake, *name.split("."), "metadata")
    return str(folder / f"v{(folder / 'version-hint.text').read_text().strip()}.metadata.json")


def _sorted(rows: Any) -> Rows:
    return sorted(rows, key=repr)
