"""A definition that Iceberg refuses concerns one table: the mirror follows the others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from binlake.errors import BinlogError, SourceError, UnsupportedError
from binlake.mirror.iceberg.jvm import IcebergTable, Lake
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.damage import DAMAGED, DamagedFileError, MissingFileError

ICEBERG = "org.apache.iceberg.exceptions."


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """An exception of Java, without a JVM."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)
        self.java_exception: Any = text


class RefusingLake(Lake):
    """A catalog that refuses every definition."""

    def __init__(self, error: Exception, is_there: bool) -> None:
        def refuse(_catalog: Any, _request: str) -> None:
            raise error

        self._catalog = None
        self._helper = SimpleNamespace(exists=lambda *_: is_there, create=refuse, replace=refuse)


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize(
    ("error", "raised", "shown"),
    [
        (JavaError(f"{ICEBERG}ValidationException: Invalid schema: multiple fields for name v.element"),
         UnsupportedError, "its definition: Invalid schema"),
        (JavaError("java.lang.IllegalArgumentException: Cannot do it"), UnsupportedError, "Cannot do it"),
        (IllegalArgumentException("Cannot do it"), UnsupportedError, "Cannot do it"),
        (JavaError(f"{ICEBERG}CommitFailedException: stale"), CommitConflictError, "another writer"),
        (JavaError("java.io.IOException: no disk"), SourceError, "IOException: no disk"),
    ],
)  # fmt: skip
def test_a_refused_definition(
    error: Exception, raised: type[BinlogError], shown: str, is_there: bool
) -> None:
    with pytest.raises(raised, match=shown) as found:
        RefusingLake(error, is_there).create("shop", "t", {}, {})
    assert type(found.value) is raised
    assert "\n" not in str(found.value)


def test_a_heap_that_is_too_small_for_the_metadata() -> None:
    """With thousands of tables, each of which keeps many snapshots. The message names the setting."""
    lake = RefusingLake(JavaError("java.lang.OutOfMemoryError: Java heap space"), True)
    with pytest.raises(SourceError, match="OutOfMemoryError: Java heap space") as found:
        lake.create("shop", "t", {}, {})
    assert "--conf spark.driver.memory=" in str(found.value.hint)


STEPS = [[{"do": "drop", "name": "v"}]]


@pytest.mark.parametrize(
    ("schema", "said", "raised"),
    [
        (STEPS, f"{ICEBERG}ValidationException: Cannot find source column", UnsupportedError),
        (STEPS, "java.lang.IllegalArgumentException: Cannot delete missing column", UnsupportedError),
        (STEPS, f"{ICEBERG}ValidationException: binlake: head is 7", CommitConflictError),
        (STEPS, f"{ICEBERG}CommitFailedException: stale", CommitConflictError),
        ([], f"{ICEBERG}BadRequestException: Malformed request: Cannot add snapshot with sequence number 7",
         CommitConflictError),
        (STEPS, "org.apache.iceberg.exceptions.RuntimeIOException: no space left", SourceError),
        ([], f"{ICEBERG}ValidationException: Metadata file for version 2 is missing", SourceError),
        ([], "java.lang.IllegalArgumentException: not a data file", SourceError),
    ],
)  # fmt: skip
def test_a_refused_change_of_a_schema(
    schema: list[Any], said: str, raised: type[BinlogError]
) -> None:
    """Errors of the store, which pass, are not taken for refusals of the statement."""

    def refuse(_table: Any, _request: str) -> None:
        raise JavaError(said)

    helper = SimpleNamespace(commit=refuse, damaged=lambda _table: None)
    table = IcebergTable(helper, None, "shop", "t")
    with pytest.raises(raised) as found:
        table.commit({"schema": schema})
    assert type(found.value) is raised


def _failing(error: str) -> Callable[[Any], str]:
    def fail(_table: Any) -> str:
        raise JavaError(error)

    return fail


UNREADABLE = f"{ICEBERG}RuntimeIOException: Failed to open file: s3://b/shop/t/metadata/1-m0.avro"


@pytest.mark.parametrize(
    ("said", "damaged", "raised"),
    [
        (UNREADABLE, lambda _table: "s3://b/shop/t/metadata/1-m0.avro", DamagedFileError),
        (UNREADABLE, lambda _table: None, SourceError),
        (UNREADABLE, _failing(f"{ICEBERG}RuntimeIOException: 503 Slow Down"), SourceError),
        (f"{ICEBERG}NotFoundException: File does not exist", _failing("not asked"), MissingFileError),
        ("java.io.StreamCorruptedException: Failed to read file: v3.metadata.json", _failing("not asked"),
         DamagedFileError),
    ],
)  # fmt: skip
def test_a_damaged_file_is_no_failure_of_the_store(
    said: str, damaged: Callable[[Any], str | None], raised: type[BinlogError]
) -> None:
    """A store that cannot be read stops the mirror: it would quarantine all tables."""
    helper = SimpleNamespace(files=_failing(said), damaged=damaged)
    with pytest.raises(raised, match=r"metadata|exist") as found:
        IcebergTable(helper, None, "shop", "t").files()
    assert type(found.value) is raised
    assert isinstance(found.value, DAMAGED) == (raised is not SourceError)
