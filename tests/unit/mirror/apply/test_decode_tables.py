"""A range of the log for several tables: one with changes that cannot be decoded does not stop the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import UnsupportedError
from binlake.follow.offsets import StreamOffset
from binlake.mirror.apply.decode import Decoded
from binlake.mirror.apply.decode_tables import TablesDecoder
from binlake.mirror.apply.definitions import Definition
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.options import MirrorOptions
from binlake.stream.positions.splits import Split, plan_splits
from binlake.values.position import Position
from support.logs.decoded_rows import ADA
from support.logs.log_builder import QUERY, TABLE_MAP, XID, query_body
from support.logs.table_log import INSERT, Log, image, rows_body, table_map
from support.spark.engines import HereEngine

START = StreamOffset(Position("uuid", "binlog.000001", 4))
TABLES = 64
# of a table whose rows cannot be decoded
DAMAGED = Definition("CREATE TABLE t (x wibble)")


def log_of(folder: Path, *, is_unknown: bool) -> str:
    """A log with a row of each table, and a statement."""
    log = Log()
    if is_unknown:
        log.add(99, b"")
    for number in range(TABLES):
        log.add(QUERY, query_body(b"BEGIN"))
        log.add(TABLE_MAP, table_map(f"t{number}", 10 + number))
        log.add(INSERT, rows_body(image(ADA), table_id=10 + number))
        log.add(XID, bytes(8))
    log.add(QUERY, query_body(b"CREATE TABLE shop.new (id INT)"))
    return str(log.save(folder))


@dataclass
class Group:
    """Tables of one log, of which some cannot be decoded, or which has an event of an unknown type."""

    folder: Path
    damaged: Collection[int]
    is_unknown: bool = False
    reads: int = 0
    quarantined: dict[str, str] = field(default_factory=dict)

    def decoded(self) -> Decoded:
        options = MirrorOptions()
        log = log_of(self.folder, is_unknown=self.is_unknown)

        def splits(_start: StreamOffset, _end: StreamOffset) -> list[Split]:
            self.reads += 1
            return plan_splits([log], options.read_options(), 1 << 20)

        decoder = TablesDecoder(
            SimpleNamespace(splits=splits),  # type: ignore[arg-type]
            HereEngine(),
            TaskFiles(self.folder / "state"),
            options,
            ColumnRules(),
            1 << 20,
            self.quarantined.__setitem__,
            lambda *_: None,
        )
        return decoder.decode([self.table(number) for number in range(TABLES)], START, START)

    def table(self, number: int) -> Any:
        sound = Definition(f"CREATE TABLE shop.t{number} (id INT UNSIGNED, name TEXT, day DATE)")
        return SimpleNamespace(
            id=("shop", f"t{number}"),
            full_name=f"shop.t{number}",
            rules=lambda rules: rules,
            decoded_key=(),
            definition=DAMAGED if number in self.damaged else sound,
            mode=SimpleNamespace(facts=(), holds_rows=True),
        )


@pytest.mark.parametrize("damaged", [{0}, {37}, {TABLES - 1}, {3, 4, 40}])
def test_few_reads_find_the_tables_that_cannot_be_decoded(
    tmp_path: Path, damaged: set[int]
) -> None:
    group = Group(tmp_path, damaged)
    found = group.decoded()
    assert group.quarantined.keys() == {f"shop.t{number}" for number in damaged}
    assert all("wibble" in why for why in group.quarantined.values())
    sound = {("shop", f"t{number}") for number in range(TABLES) if number not in damaged}
    assert found.changes.keys() == sound
    assert [ddl.sql for ddl in found.ddl] == ["CREATE TABLE shop.new (id INT)"]
    assert group.reads <= 3 + 12 * len(damaged), "each half of six halves, and the looks before"


def test_an_error_of_all_tables_is_raised_after_few_reads(tmp_path: Path) -> None:
    group = Group(tmp_path, (), is_unknown=True)
    with pytest.raises(UnsupportedError, match="event type 99 is unknown"):
        group.decoded()
    assert not group.quarantined
    assert group.reads == 4
