"""The failure of a command of Delta is that of a file only if the command needed the file, or Delta names it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import SourceError
from binlake.mirror.delta import stored
from binlake.mirror.delta.damaged_files import damage_of
from binlake.mirror.delta.stored import DeltaStored
from binlake.mirror.tables.damage import DamagedFileError, MissingFileError

FULL_DISK = "shop.t: Delta refuses: java.io.IOException: No space left on device"


def table_with(folder: Path, *names: str) -> Path:
    """A table whose log has these data files, which are missing."""
    log = folder / "t" / "_delta_log"
    log.mkdir(parents=True)
    actions: list[dict[str, Any]] = [{"metaData": {"id": "x"}}]
    actions += ({"add": {"path": name, "size": 1}} for name in names)
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return log.parent


def reads(_file: Path) -> None:
    """Spark can read the file."""


def refuses(_file: Path) -> None:
    raise SourceError("shop.t: Delta refuses: it is no Parquet file")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaStored:
    """A table whose data file is missing."""
    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    no_session: Any = None
    return DeltaStored(no_session, table_with(tmp_path, "part-1.parquet"), "shop.t")


def test_a_command_that_reads_no_rows_fails_for_its_own_reason(table: DeltaStored) -> None:
    """For example the overwrite that copies the table again."""
    with pytest.raises(SourceError) as caught, table.in_session():
        raise SourceError(FULL_DISK)
    assert type(caught.value) is SourceError
    assert str(caught.value) == FULL_DISK


def test_a_command_that_reads_rows_needs_their_files(table: DeltaStored) -> None:
    with pytest.raises(MissingFileError) as caught, table.in_session(table.log.files):
        raise SourceError(FULL_DISK)
    assert str(caught.value).endswith(f"/t/part-1.parquet is missing; {FULL_DISK}")
    assert str(caught.value.__cause__) == FULL_DISK


def test_a_file_that_delta_names(table: DeltaStored) -> None:
    said = "Delta refuses: FILE_NOT_EXIST file:/lake/t/part-1.parquet"
    with pytest.raises(MissingFileError) as caught, table.in_session():
        raise SourceError(said)
    assert str(caught.value).endswith(f"/t/part-1.parquet is missing; {said}")


@pytest.mark.parametrize("form", ["file:{}", "file://{}"])
def test_a_file_with_an_absolute_path(tmp_path: Path, form: str) -> None:
    elsewhere = tmp_path / "other lake" / "part-1.parquet"
    name = form.format(str(elsewhere).replace(" ", "%20"))
    path = table_with(tmp_path, name)
    found = damage_of(path, FULL_DISK, reads, (name,))
    assert str(found) == f"{elsewhere} is missing; {FULL_DISK}"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(bytes(3 << 20))
    assert damage_of(path, FULL_DISK, reads, (name,)) is None
    named = f"Delta refuses: {elsewhere.name}"
    assert damage_of(path, named, reads, (name,)) is None
    assert isinstance(damage_of(path, named, refuses, (name,)), DamagedFileError)


def test_a_file_in_another_file_system_is_left_out(tmp_path: Path) -> None:
    name = "s3://bucket/t/part-1.parquet"
    path = table_with(tmp_path, name)
    assert damage_of(path, f"Delta refuses: {name}", refuses, (name,)) is None
