"""The data source on encrypted logs: options as everywhere, splits where the log allows them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

import binlake
from binlake.errors import KeyringError, SourceError
from binlake.spark.batch import BinlogReader
from binlake.spark.partitions import LogPartition
from binlake.spark.source import BinlogDataSource
from binlake.values.ledger import Ledger
from support.logs.corpus_files import keys_beside

GOLDEN = Path(__file__).parents[2] / "golden"
FOLDERS = sorted(GOLDEN.glob("*/encrypted*"))


def reader(folder: Path, **options: str) -> BinlogReader:
    source = BinlogDataSource({"path": str(folder / "binlog.index"), **options})
    made = source.reader(source.schema())
    assert isinstance(made, BinlogReader)
    return made


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_rows_of_tasks_are_those_of_the_api(folder: Path) -> None:
    given = keys_beside(folder / "binlog.000001")
    made = reader(folder, table="golden.e", max_partition_bytes="2000", **given)
    ledger = Ledger()
    rows = []
    partitions = made.partitions()
    assert len(partitions) > 2
    for partition in partitions:
        assert isinstance(partition, LogPartition)
        for batch in made.batches(partition, ledger):
            rows += batch.to_pylist()
    assert ledger.join_problems() == []
    assert rows == binlake.open(str(folder / "binlog.index"), **given).to_pylist("golden.e")
    assert len(rows) > 30


def test_a_host_that_does_not_see_the_keyring(tmp_path: Path) -> None:
    keyring = tmp_path / "keyring"
    keyring.write_bytes((FOLDERS[-1] / "keyring").read_bytes())
    made = reader(FOLDERS[-1], table="golden.e", keyring=str(keyring))
    keyring.unlink()
    (partition, *_) = made.partitions()
    assert isinstance(partition, LogPartition)
    with pytest.raises(SourceError, match=r"host .* does not see .*keyring"):
        list(made.batches(partition, Ledger()))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_without_the_keyring(folder: Path) -> None:
    with pytest.raises(KeyringError, match="the log is encrypted with the key"):
        reader(folder, table="golden.e")
