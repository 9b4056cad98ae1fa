"""A start with other options than those that have decided how a table is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import OptionError
from binlake.mirror.control import Control
from binlake.mirror.followed.table_record import definition_properties
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.schema import iceberg_schema, storage_schema
from binlake.snapshot.definition import definition_of
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.schema_file import parse_schema
from binlake.table.types.base import Target
from unit.mirror.followed.fake_lake import FakeLake, started

MADE = (
    "CREATE TABLE shop.t (id INT PRIMARY KEY, d DATE, at DATETIME(6), ts TIMESTAMP, length TIME,"
    " note VARCHAR(9)) CHARSET=utf8mb4"
)


def lake_of(options: MirrorOptions, made: str = MADE, **properties: str) -> FakeLake:
    """A lake with the table, as a copy with these options has made it."""
    lake = FakeLake()
    lake.copy_of("shop.t", "shop", "t")
    rules = options.column_rules
    stored: Any = lake.stored["shop", "t"]
    stored.properties |= {
        "binlake.flavour": "mysql",
        "binlake.deletes": options.deletes,
        **definition_properties(("shop", "t"), made, rules),
        **properties,
    }
    [declared] = parse_schema(made.encode()).tables
    types = TableTypes.of(definition_of(declared, "mysql"), options.read_options(), Target.TYPED, silent)  # fmt: skip
    stored.schema = storage_schema(iceberg_schema(rules.lake_schema("shop", "t", types.schema)))
    of: Any = lake
    Control(of, "mysql://db1/", options)
    return lake


def start(
    lake: FakeLake,
    folder: Path,
    options: MirrorOptions,
    note: Callable[[str], None] = lambda _sentence: None,
) -> Control:
    """Start a mirror with these options; return the control table."""
    of: Any = lake
    control = Control(of, "mysql://db1/", options)
    given: Any = _With(control, options)
    tables, _ = started(lake, folder, given, note)
    assert tables.followed.keys() == {"shop.t"}
    return control


class _With:
    """A control table whose mirror was started with other options."""

    def __init__(self, control: Control, options: MirrorOptions) -> None:
        self._control = control
        self.options = options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)


@pytest.mark.parametrize(
    ("copied", "given", "name", "what"),
    [
        ({"zero_date": "text"}, {}, "zero_date", "column d is string in the lake, as with option zero_date 'text', but would be date32[day] with option zero_date 'null'"),
        ({}, {"zero_date": "text"}, "zero_date", "column d is date32[day] in the lake, as with option zero_date 'null', but would be string with option zero_date 'text'"),
        ({"time": "micros"}, {}, "time", "column length is int64 in the lake, as with option time 'micros', but would be string with option time 'text'"),
        ({"time": "micros", "zero_date": "text"}, {}, "zero_date", "as with option zero_date 'text' and option time 'micros', but"),
    ],
)  # fmt: skip
def test_an_option_that_was_forgotten_or_has_changed(
    tmp_path: Path, copied: dict[str, Any], given: dict[str, Any], name: str, what: str
) -> None:
    """It is refused before anything is stored: a quarantined table would have to be copied again."""
    before = MirrorOptions.of(copied)
    lake = lake_of(before)
    with pytest.raises(OptionError) as refused:
        start(lake, tmp_path, MirrorOptions.of(given))
    assert refused.value.name == name
    assert what in refused.value.message
    assert refused.value.message.startswith("shop.t: ")
    assert "start with the same options, or run `binlake mirror resync`" in str(refused.value)
    control = Control(lake)  # type: ignore[arg-type]
    assert not control.quarantined
    assert control.options == before
    control.request_resync({"shop.t"})
    start(lake, tmp_path, MirrorOptions.of(given))


@pytest.mark.parametrize(("copied", "given"), [("vectors", "position"), ("position", "vectors")])
def test_a_table_keeps_its_deletes(tmp_path: Path, copied: str, given: str) -> None:
    """Both kinds are right in one lake, so this is no error."""
    notes: list[str] = []
    lake = lake_of(MirrorOptions(deletes=copied))
    start(lake, tmp_path, MirrorOptions(deletes=given), notes.append)
    [note] = notes
    assert note.startswith(
        f"these tables keep the deletes of their first copy, and not '{given}': shop.t. "
    )


@pytest.mark.parametrize(
    "options",
    [
        {"zero_date": "text", "time": "micros"},
        {"zero_date": "error"},
        {"invalid": "hex"},
        {"exclude_columns": ("shop.t.d",), "hash_columns": ("shop.t.at", "shop.t.length")},
    ],
)
def test_the_same_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setenv("BINLAKE_HASH_KEY", "0123456789abcdef")
    given = MirrorOptions.of(options)
    start(lake_of(given), tmp_path, given)


def test_options_that_change_no_type(tmp_path: Path) -> None:
    start(lake_of(MirrorOptions()), tmp_path, MirrorOptions(zero_date="error", invalid="hex"))
    no_dates = lake_of(MirrorOptions(zero_date="text"), "CREATE TABLE shop.t (id INT PRIMARY KEY)")
    start(no_dates, tmp_path, MirrorOptions(time="micros"))


def test_columns_that_the_lake_keeps_as_text(tmp_path: Path) -> None:
    """Also if the types of other columns do not fit: their next change reports that."""
    lake = lake_of(MirrorOptions(), **{"binlake.text-columns": '["d"]'})
    stored: Any = lake.stored["shop", "t"]
    for name in ("d", "id"):
        at = stored.schema.get_field_index(name)
        stored.schema = stored.schema.set(at, pa.field(name, pa.string()))
    start(lake, tmp_path, MirrorOptions())
    with pytest.raises(OptionError, match="column at is timestamp"):
        start(lake, tmp_path, MirrorOptions(zero_date="text"))


def test_a_date_whose_type_no_option_explains(tmp_path: Path) -> None:
    lake = lake_of(MirrorOptions())
    stored: Any = lake.stored["shop", "t"]
    at = stored.schema.get_field_index("d")
    stored.schema = stored.schema.set(at, pa.field("d", pa.int64()))
    start(lake, tmp_path, MirrorOptions())
