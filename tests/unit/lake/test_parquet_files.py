"""Parquet files of many wide tables: what is held and open is limited by columns, too."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from binlake.lake import parquet
from binlake.lake.data_file import (
    DataFile,
    PackedSchema,
    TableKey,
    files_from_json,
    files_to_json,
)
from binlake.lake.parquet import ParquetFiles, ParquetLimits
from binlake.lake.unite import unite
from binlake.table.metadata import PLACES_OF_NAMES

WIDE = pa.schema([pa.field(f"c{n}", pa.int8()) for n in range(500)])
BATCH = pa.RecordBatch.from_arrays([pa.array([1], pa.int8())] * 500, schema=WIDE)


def test_buffered_bytes_and_open_columns_are_limited(tmp_path: Path) -> None:
    limits = ParquetLimits(held_bytes=8 << 20, open_columns=2000)  # of about 4 such tables
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20, limits)
    finished = []
    for number in range(40):
        files.write(TableKey("shop", f"t{number}"), BATCH)
        finished.append(len(files._files))
    assert finished[-1] > 20  # tables are written long before the end
    written = files.close()
    assert sorted(file.key.table for file in written) == sorted(f"t{n}" for n in range(40))
    assert all(pq.read_table(tmp_path / file.name).equals(pa.table(BATCH)) for file in written)


def test_a_table_wider_than_the_limit_is_written(tmp_path: Path) -> None:
    limits = ParquetLimits(open_columns=100)
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20, limits)
    for number in range(3):
        files.write(TableKey("shop", f"t{number}"), BATCH)
    assert [file.rows for file in files.close()] == [1, 1, 1]


def test_a_file_ends_with_many_row_groups_of_many_columns(tmp_path: Path) -> None:
    # every write is a row group, and a file has two
    limits = ParquetLimits(held_bytes=1, chunks=1000)
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20, limits)
    for _ in range(5):
        files.write(TableKey("shop", "t"), BATCH)
    written = files.close()
    assert [(file.rows, file.is_full) for file in written] == [(2, True), (2, True), (1, False)]
    (table,) = unite(written, 1 << 30)
    assert table.kept == tuple(written)  # a full file is not joined with others


def test_a_file_travels_with_its_schema() -> None:
    schema = WIDE.with_metadata({"binlake.table": "shop.t"})
    file = DataFile(TableKey("shop", "t"), "0.parquet", 1, 2, PackedSchema.of(schema))
    other = DataFile(TableKey("shop", "u"), "1.parquet", 1, 2, file.packed.of_table({}))
    assert other.packed.columns is file.packed.columns
    (told,) = files_to_json([file])["columns"]
    assert len(told) < len(WIDE.serialize()) // 4
    found = files_from_json(json.loads(json.dumps(files_to_json([file, other, file]))))
    assert found == [file, other, file]
    assert [one.schema.metadata or None for one in found] == [
        schema.metadata,
        None,
        schema.metadata,
    ]


def test_tables_with_the_same_columns_share_their_description() -> None:
    shared = PackedSchema.of(WIDE)
    files: list[DataFile] = []
    for n in range(20):
        packed = shared.of_table({b"table": b"%d" % n})
        files.append(DataFile(TableKey("shop", f"t{n}"), f"{n}.parquet", 1, 2, packed))
    told = files_to_json(files)
    assert len(told["columns"]) == 1
    assert files_from_json(told) == files


def test_a_file_of_few_rows_ends_before_many(tmp_path: Path) -> None:
    limits = ParquetLimits(held_bytes=1)  # every write is a row group
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20, limits)
    for rows in (1, 1, 100, 1):
        files.write(TableKey("shop", "t"), pa.RecordBatch.from_pydict({"a": ["x" * 50] * rows}))
    written = files.close()
    assert [file.rows for file in written] == [2, 101]
    codecs = [
        pq.ParquetFile(tmp_path / file.name).metadata.row_group(0).column(0).compression
        for file in written
    ]
    assert codecs == ["SNAPPY", "ZSTD"]


def test_short_batches_of_many_columns_are_one_row_group(tmp_path: Path) -> None:
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 30)
    values = [*range(100)]
    for value in values:
        row = [pa.array([value], pa.int8()), *(pa.nulls(1, pa.int8()) for _ in range(499))]
        files.write(TableKey("shop", "t"), pa.RecordBatch.from_arrays(row, schema=WIDE))
        assert files._held_bytes < 20 << 20  # 100 batches of 500 columns would be 200 MB
    (written,) = files.close()
    metadata = pq.ParquetFile(tmp_path / written.name).metadata
    assert (metadata.num_row_groups, metadata.num_rows) == (1, 100)
    assert pq.read_table(tmp_path / written.name)["c0"].to_pylist() == values


def test_columns_without_values_do_not_set_up_a_compressor(tmp_path: Path) -> None:
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 30)
    kinds = {
        "list": pa.list_(pa.field("element", pa.string())),
        "struct": pa.struct([pa.field("x", pa.int8()), pa.field("y", pa.int8())]),
        "map": pa.map_(pa.string(), pa.int8()),
    }
    columns = {"full": pa.array(["x"] * 100), "empty": pa.nulls(100, pa.string())}
    columns |= {name: pa.nulls(100, kind) for name, kind in kinds.items()}
    columns["texts"] = pa.array([["x"]] * 100, kinds["list"])
    batch = pa.RecordBatch.from_pydict(columns)
    files.write(TableKey("shop", "t"), batch)
    (written,) = files.close()
    group = pq.ParquetFile(tmp_path / written.name).metadata.row_group(0)
    codecs = {
        group.column(n).path_in_schema: group.column(n).compression
        for n in range(group.num_columns)
    }
    compressed = {path for path, codec in codecs.items() if codec == "ZSTD"}
    assert compressed == {"full", "texts.list.element"}
    assert set(codecs.values()) == {"ZSTD", "SNAPPY"}
    assert pa.table(batch).equals(pq.read_table(tmp_path / written.name))


def test_rows_are_read_back_in_parts_of_limited_memory(tmp_path: Path) -> None:
    """A row that takes few bytes in the file may be thousands of names in memory."""
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 30)
    names = pa.array(
        [[f"c{n}" for n in range(5000)]] * 2000, pa.list_(pa.field("element", pa.string()))
    )
    batch = pa.RecordBatch.from_pydict({"absent": names})
    files.write(TableKey("shop", "t"), batch)
    (written,) = files.close()
    read = list(parquet.read_batches(pafs.LocalFileSystem(), str(tmp_path / written.name)))
    assert len(read) > 4
    assert pa.Table.from_batches(read).equals(pa.table(batch))


def test_names_of_absent_columns_are_written_once_and_read_as_text(tmp_path: Path) -> None:
    names = pa.array([f"{n:0240}" for n in range(4000)])
    kind = pa.list_(pa.field("element", pa.dictionary(pa.int16(), pa.string())))
    schema = pa.schema([pa.field("a", pa.int8()), pa.field("_absent", kind)], metadata={"k": "v"})
    places = pa.array([*range(4000), *range(1000)] * 50, pa.int16())
    offsets = pa.array([0, *(at for n in range(50) for at in (n * 5000 + 4000, n * 5000 + 5000))])
    lists = pa.ListArray.from_arrays(
        offsets.cast(pa.int32()), pa.DictionaryArray.from_arrays(places, names), type=kind
    )
    listed = pa.RecordBatch.from_arrays([pa.nulls(100, pa.int8()), lists], schema=schema)
    without = pa.RecordBatch.from_arrays([pa.nulls(9, pa.int8()), pa.nulls(9, kind)], schema=schema)
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 30)
    for batch in (without, listed, without, listed):  # nothing is absent: an empty dictionary
        files.write(TableKey("shop", "t"), batch)
    (file,) = files.close()
    found = pq.ParquetFile(tmp_path / file.name)
    assert file.schema.field("_absent").type == pa.list_(pa.field("element", pa.string()))
    assert found.schema_arrow.equals(file.schema)
    assert found.schema_arrow.metadata[b"k"] == found.metadata.metadata[b"k"] == b"v"
    chunk = found.metadata.row_group(0).column(1)
    assert chunk.total_uncompressed_size < 3 << 20  # 120 MB of names
    rows = found.read()["_absent"]
    assert [rows[n].as_py() for n in (0, 8, 109)] == [None] * 3
    for row, count in ((9, 4000), (10, 1000), (118, 4000), (217, 1000)):
        assert rows[row].as_py() == names[:count].to_pylist()


def test_columns_of_few_values_have_a_dictionary(tmp_path: Path) -> None:
    rows = range(8192)
    columns = {
        "few": [f"state {row % 7}" for row in rows],
        "bulk": [f"gtid:{row // 512}" for row in rows],  # in transactions of many rows
        "stores": [row * 7919 % 906 for row in rows],
        "times": [row // 8 for row in rows],  # of transactions: more rows have more of them
        "keys": list(rows),
        "nothing": pa.nulls(len(rows), pa.int32()),
    }
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20)
    files.write(TableKey("shop", "t"), pa.record_batch(columns))
    (file,) = files.close()
    group = pq.read_metadata(tmp_path / file.name).row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    assert {c.path_in_schema for c in chunks if c.has_dictionary_page} == {"few", "bulk", "stores"}
    assert pq.read_table(tmp_path / file.name).to_pydict() == pa.table(columns).to_pydict()


def test_lists_of_names_have_no_statistics(tmp_path: Path) -> None:
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 30)
    names = pa.array(["a", "b"]).dictionary_encode().cast(PLACES_OF_NAMES.value_type)
    absent = pa.ListArray.from_arrays(pa.array([0, 2]), names, type=PLACES_OF_NAMES)
    one = {"id": pa.array([1]), "x": pa.array([{"y": 5}]), "_absent": absent}
    batch = pa.concat_batches([pa.RecordBatch.from_pydict(one)] * 100)
    files.write(TableKey("shop", "t"), batch)
    (written,) = files.close()
    group = pq.ParquetFile(tmp_path / written.name).metadata.row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    assert {chunk.path_in_schema: chunk.is_stats_set for chunk in chunks} == {
        "id": True,
        "x.y": True,
        "_absent.list.element": False,
    }
