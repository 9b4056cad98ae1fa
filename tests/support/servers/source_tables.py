"""The tables of a server, as a mirror reads them."""

from __future__ import annotations

from collections.abc import Sequence

from binlake.snapshot.read_session import open_session
from binlake.snapshot.tables import SourceTable, read_tables
from binlake.values.options import ReadOptions


def source_tables(
    url: str, patterns: Sequence[str] = (), options: ReadOptions | None = None
) -> list[SourceTable]:
    """The tables that match the patterns, as `read_tables` reads them in a session of their own."""
    with open_session(url) as server:
        return read_tables(server, patterns, options)
