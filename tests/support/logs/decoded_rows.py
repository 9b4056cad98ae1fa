"""The rows of a log, as JSON and as typed tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from binlake.table.row_json import json_lines
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.table_log import (
    Row,
    day,
    decode,
)

ADA: Row = (1, "Ada", day(2026, 11, 21))


BOB: Row = (2, None, bytes(3))


def json_rows(path: Path, ledger: Ledger | None = None, **given: Any) -> list[dict[str, Any]]:
    options = ReadOptions.parse(given)
    text = b"".join(
        bytes(json_lines(changes, options)) for changes in decode(path, ledger=ledger, **given)
    )
    assert not text or text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


def typed_rows(path: Path, ledger: Ledger | None = None, **given: Any) -> list[dict[str, Any]]:
    options = ReadOptions.parse(given)
    rows: list[dict[str, Any]] = []
    for changes in decode(path, Target.TYPED, ledger, **given):
        for found in changes.table_batches(options):
            found.batch.validate(full=True)
            rows += found.batch.to_pylist()
    return rows
