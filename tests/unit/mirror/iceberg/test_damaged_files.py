"""A data file that is damaged: the error concerns its table, and is no failure of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from pyroaring import BitMap

from binlake.errors import SourceError, UnsupportedError
from binlake.mirror.iceberg.live_rows import rows_at
from binlake.mirror.tables.damage import DAMAGED, DamagedFileError, MissingFileError
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.live_batches import live_batches
from binlake.mirror.tables.schema import FIELD_ID, conformed, iceberg_schema, storage_schema

ROWS = pa.table({"id": range(2000), "s": [f"row {number * 7919 % 2003}" for number in range(2000)]})
SCHEMA = storage_schema(iceberg_schema(ROWS.schema))


def read(path: Path) -> None:
    for _ in live_batches(str(path), BitMap(), SCHEMA, SCHEMA.names):
        pass
    rows_at(str(path), [5], SCHEMA, SCHEMA.names)


def test_every_error_of_a_damaged_data_file_is_one_of_its_table(tmp_path: Path) -> None:
    """pyarrow raises OSError for many of them, as for a store that fails."""
    writer = DataFileWriter(SCHEMA, f"{tmp_path}/data-")
    [file] = writer.write([conformed(ROWS, SCHEMA)])
    path = Path(file["file-path"].removeprefix("file:"))
    sound = path.read_bytes()
    errors = []
    for at in range(4, len(sound) - 64, len(sound) // 40):
        path.write_bytes(sound[:at] + bytes(64) + sound[at + 64 :])
        try:
            read(path)
        except DamagedFileError as error:
            errors.append(str(error))
    assert len(errors) > 10
    assert all(f"{path} is damaged: " in error for error in errors)
    path.write_bytes(sound)
    read(path)


def test_a_failure_of_the_store_that_passes_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file can be read a moment later, and its table must not be quarantined."""
    writer = DataFileWriter(SCHEMA, f"{tmp_path}/data-")
    [file] = writer.write([conformed(ROWS, SCHEMA)])
    opened = pq.ParquetFile

    def failing(source: Any, **options: Any) -> Any:
        if not isinstance(source, pa.NativeFile):
            raise OSError("When reading: AWS Error SLOW_DOWN")
        return opened(source, **options)

    monkeypatch.setattr(pq, "ParquetFile", failing)
    with pytest.raises(SourceError, match="SLOW_DOWN") as raised:
        read(Path(file["file-path"].removeprefix("file:")))
    assert not isinstance(raised.value, DAMAGED)


def test_a_file_that_the_store_does_not_return(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read") as raised:
        read(tmp_path)  # a directory
    assert not isinstance(raised.value, DAMAGED)
    with pytest.raises(MissingFileError, match=r"missing\.parquet is missing"):
        read(tmp_path / "missing.parquet")


def test_a_file_without_field_ids_has_no_values_to_guess(tmp_path: Path) -> None:
    """Files of `add_files` have none. All of their values would be NULL, in compactions and rounds, too."""
    added = tmp_path / "added.parquet"
    pq.write_table(ROWS, added)
    with pytest.raises(UnsupportedError, match=r"added\.parquet: the data file has no field ids"):
        read(added)
    with pytest.raises(UnsupportedError, match="no field ids"):
        rows_at(str(added), [5], SCHEMA, SCHEMA.names)
    pq.write_table(ROWS.slice(0, 0), added)
    read(added)
    older = tmp_path / "older.parquet"  # than all columns that the table has now
    pq.write_table(pa.table({"gone": [1]}, schema=pa.schema([SCHEMA.field("id").with_name("gone").with_metadata({FIELD_ID: b"77"})])), older)  # fmt: skip
    [(rows, _)] = live_batches(str(older), BitMap(), SCHEMA, SCHEMA.names)
    assert rows.to_pylist() == [{"id": None, "s": None}]
