"""A DuckDB connection that reads nothing but the tables it is given."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from binlake.errors import BinlogError, needing
from binlake.stream.lanes import usable_cores

if TYPE_CHECKING:
    import duckdb


class Workspace:
    """A directory for the temporary files of DuckDB; it is deleted with this object."""

    def __init__(self, parent: Path | None = None) -> None:
        try:
            self.path = tempfile.mkdtemp(prefix="binlake-query-", dir=parent)
        except OSError as error:
            raise BinlogError(
                f"cannot make a directory for temporary files: {error.strerror}",
                errno=error.errno,
                hint="set the environment variable TMPDIR",
            ) from None
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def duckdb_library() -> None:
    """Raise BinlogError if DuckDB is not installed."""
    with needing("SQL over logs needs the library duckdb", "query"):
        import duckdb  # noqa: F401


def connect(
    workspace: Workspace, max_memory: int, threads: int | None, *, external_access: bool
) -> duckdb.DuckDBPyConnection:
    """Return a connection to an empty database in memory, at time zone UTC.

    Without `external_access`, SQL can read and write no file and reach no network, load no extension,
    and see no variable of Python. Raises BinlogError.
    """
    duckdb_library()
    import duckdb

    allowed = "true" if external_access else "false"
    connection = duckdb.connect(
        config={
            "allow_community_extensions": "false",
            "autoinstall_known_extensions": allowed,
            "autoload_known_extensions": allowed,
            "enable_external_access": allowed,
            "memory_limit": f"{max_memory}B",
            "python_enable_replacements": "false",
            "temp_directory": workspace.path,
            "threads": str(threads or usable_cores()),
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection
