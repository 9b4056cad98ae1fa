from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlake
from binlake.cli.main import main
from binlake.errors import BinlogError, OptionError, SourceError
from binlake.events.common.query import QueryEvent
from binlake.values.times import time_text
from support.logs.log_builder import ROWS, TABLE_MAP
from support.logs.stream_log import SID, StreamLog, rows_body
from support.logs.table_log import save_log_of_one_name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    StreamLog().plain(1).plain(2).rotate("binlog.000002").write(tmp_path)
    StreamLog().gtid(3).query(b"CREATE TABLE x (a INT)").plain(4).write(tmp_path, "binlog.000002")
    return tmp_path


def test_the_public_names() -> None:
    assert sorted(binlake.__all__) == dir(binlake)
    for name in binlake.__all__:
        assert getattr(binlake, name) is not None
    with pytest.raises(AttributeError):
        binlake.nothing  # type: ignore[attr-defined]  # noqa: B018 - an error to type checkers, too


def test_paths_may_be_one_or_many(folder: Path) -> None:
    one, two = folder / "binlog.000001", folder / "binlog.000002"
    given: list[Path | str | list[Path | str]] = [
        folder, str(folder), f"{folder}/binlog.*", [one, str(two)]
    ]  # fmt: skip
    for paths in given:
        assert [file.name for file in binlake.open(paths).files] == [one.name, two.name]
    with pytest.raises(SourceError):
        binlake.open(folder / "nothing")


def test_options_are_keywords(folder: Path) -> None:
    log = binlake.open(folder, gtid=f"{SID}:2", verify_checksum=False)
    assert [t.gtid for t in log.transactions()] == [f"{SID}:2"]
    with pytest.raises(OptionError, match="unknown option"):
        binlake.open(folder, colour="blue")
    with pytest.raises(OptionError, match="since"):
        binlake.open(folder, since="someday")


def test_events_are_typed(folder: Path) -> None:
    ddl = [e for e in binlake.open(folder).events() if isinstance(e.event, QueryEvent)][2]
    assert isinstance(ddl.event, QueryEvent)
    assert (ddl.file, ddl.type, ddl.event.sql) == (
        "binlog.000002",
        "QUERY_EVENT",
        "CREATE TABLE x (a INT)",
    )


def test_changes_and_tables(folder: Path) -> None:
    log = binlake.open(folder)
    assert log.tables() == {"shop.t": {"insert": 3}}
    batches = list(log.changes("shop.t"))
    assert sum(batch.num_rows for batch in batches) == 3
    assert batches[0].schema.names[:2] == ["col_0", "_op"]
    whole = log.to_arrow("shop.t")
    assert isinstance(whole, pa.Table)
    assert whole["_gtid"].to_pylist() == [f"{SID}:{n}" for n in (1, 2, 4)]
    assert log.to_pylist("shop.t")[2]["_log_file"] == "binlog.000002"
    assert log.to_arrow().column_names[:3] == ["op", "database", "table"]
    assert log.to_arrow()["after"].to_pylist() == ['{"col_0":0}'] * 3
    for read in (log.to_arrow, lambda table: list(log.changes(table))):
        with pytest.raises(SourceError, match=r"no change of table shop\.nothing"):
            read("shop.nothing")


def test_stats_are_those_of_the_command(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--json", "--top", "3", str(folder)]) == 0
    printed = json.loads(capfd.readouterr().out)
    log = binlake.open(folder)
    assert json.loads(json.dumps(log.stats(top=3))) == printed
    assert log.ledger.total.bytes > 0
    for wrong in ({"top": 0}, {"by": "week"}):
        with pytest.raises(OptionError):
            log.stats(**wrong)


@pytest.mark.parametrize("paths", [5, None, [5], ["binlog.000001", 7]])
def test_invalid_paths_are_rejected(paths: Any) -> None:
    with pytest.raises(OptionError, match="expected a path or several"):
        binlake.open(paths)


def test_a_column_that_is_not_there(folder: Path) -> None:
    log = binlake.open(folder, columns=["col_0", "note"])
    for read in (log.to_arrow, log.tables, lambda table: list(log.changes(table))):
        with pytest.raises(OptionError, match=r"no column 'note'.*shop\.t has col_0"):
            read(*(() if read == log.tables else ("shop.t",)))
    assert list(log.transactions())


def test_to_arrow_is_of_one_table(folder: Path) -> None:
    made = StreamLog().plain(1)
    one_row(made, 2, definition(3).replace(b"\x01t\0", b"\x01u\0"), bytes(4))
    log = binlake.open(made.write(folder, "two.000001"))
    with pytest.raises(OptionError, match=r"'shop\.\*' matches several tables: shop\.t, shop\.u"):
        log.to_arrow("shop.*")
    assert log.to_arrow("*.u").num_rows == 1
    for read in (log.to_arrow, lambda table: list(log.changes(table))):
        with pytest.raises(OptionError, match=r"'orders'.*DATABASE.TABLE.*\*\.orders"):
            read("orders")


def test_an_empty_result_lists_the_tables_of_the_log(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"did you mean shop\.t\?.*from 2023-11-14"):
        binlake.open(folder).to_arrow("shop.tt")
    log = binlake.open(folder, op="delete")
    assert log.to_arrow().num_rows == 0
    assert "the log has changes of shop.t;" in log.ledger.warnings[-1]


def test_a_table_whose_changes_are_all_excluded_is_empty_and_no_error(folder: Path) -> None:
    for chosen in ({"where": "col_0 = 77"}, {"op": "delete"}, {"until": "2001-01-01"}):
        log = binlake.open(folder, **chosen)
        [batch] = log.changes("shop.t")
        assert batch.num_rows == 0
        assert "the log has changes of shop.t;" in log.ledger.warnings[-1]
        table = log.to_arrow("shop.t")
        assert table.schema == batch.schema == binlake.open(folder).to_arrow("shop.t").schema
        assert table.num_rows == 0
        assert "the log has changes of shop.t;" in log.ledger.warnings[-1]
        with pytest.raises(SourceError, match=r"no change of table shop\.nothing"):
            log.to_arrow("shop.nothing")


def test_looking_for_the_columns_of_an_excluded_table_reports_no_damage(folder: Path) -> None:
    log = folder / "binlog.000001"
    data = log.read_bytes()
    log.write_bytes(data[:150] + bytes([data[150] ^ 1]) + data[151:])
    opened = binlake.open(folder, start="binlog.000002:4", where="col_0 = 77")
    assert opened.to_arrow("shop.t").column_names[0] == "col_0"
    assert [text for text in opened.ledger.warnings if "checksum" in text] == []
    assert opened.ledger.skipped == []


@pytest.mark.parametrize("chosen", [{"where": "id = -1"}, {"until": "2001-01-01"}])
def test_an_empty_result_has_the_columns_of_all_definitions(
    chosen: dict[str, str], golden: Path
) -> None:
    path = golden / "mysql-9.7" / "schema" / "binlog.000001"
    everything, nothing = binlake.open(path), binlake.open(path, **chosen)
    for name in ("golden.moving", "golden.moving@2", "*.moving", "golden.moved"):
        empty = nothing.to_arrow(name)
        assert empty.num_rows == 0
        assert empty.schema.equals(everything.to_arrow(name).schema, check_metadata=True)
    assert "from 20" in nothing.ledger.warnings[0]
    [batch] = nothing.changes("golden.moving")
    *_, newest = everything.changes("golden.moving")
    assert (batch.num_rows, batch.schema) == (0, newest.schema)
    with pytest.raises(OptionError, match="no @9"):
        nothing.to_arrow("golden.moving@9")


def test_an_empty_result_has_the_newest_names_of_columns(tmp_path: Path) -> None:
    log = StreamLog().gtid(1).query(b"CREATE TABLE t (a INT)").plain(2)
    log.gtid(3).query(b"ALTER TABLE t CHANGE a b INT").plain(4)
    path = log.write(tmp_path)
    for chosen in ({"gtid": f"{SID}:9"}, {"op": "delete"}):
        names = binlake.open(path, **chosen).to_arrow("*.t").column_names
        assert names == binlake.open(path).to_arrow("*.t").column_names
        assert [name for name in names if name[0] != "_"] == ["b"]


def test_a_pattern_whose_changes_are_all_excluded(golden: Path) -> None:
    path = golden / "mysql-9.7" / "schema" / "binlog.000001"
    everything, nothing = binlake.open(path), binlake.open(path, until="2001-01-01")
    with pytest.raises(
        OptionError, match=r"'golden\.mov\*' matches several tables: golden\.moving, g"
    ):
        nothing.to_arrow("golden.mov*")
    newest = {b.schema.metadata[b"binlake.table"]: b.schema for b in everything.changes("golden.*")}
    empty = list(nothing.changes("golden.*"))
    assert len(empty) == len(newest) > 1
    for batch in empty:
        assert batch.num_rows == 0
        assert batch.schema == newest[batch.schema.metadata[b"binlake.table"]]


def test_a_column_that_an_excluded_table_does_not_have(folder: Path) -> None:
    log = binlake.open(folder, columns=["col_0", "note"], until="2001-01-01")
    with pytest.raises(OptionError, match=r"no column 'note'.*shop\.t has col_0"):
        log.to_arrow("shop.t")


def test_a_pipe_without_matching_changes_cannot_be_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (folder / "binlog.000001").open("rb") as log:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(log))
        with pytest.raises(
            SourceError, match=r"standard input cannot be read again.*to a file first"
        ):
            binlake.open("-", where="col_0 = 77").to_arrow("shop.t")
    with (folder / "binlog.000001").open("rb") as log:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(log))
        assert binlake.open("-", where="col_0 = 0").to_arrow("shop.t").num_rows == 2


def test_a_search_for_columns_skips_only_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = binlake.open(folder, start="binlog.000002:4", op="delete")
    assert log.to_arrow("shop.t").num_rows == 0
    (folder / "binlog.000001").unlink()
    with pytest.raises(SourceError, match=r"binlog\.000001"):
        log.to_arrow("shop.t")


def test_to_pandas(folder: Path) -> None:
    pytest.importorskip("pandas")
    frame = binlake.open(folder).to_pandas("shop.t")
    assert list(frame["_log_pos"]) == [
        row["_log_pos"] for row in binlake.open(folder).to_pylist("shop.t")
    ]


def test_every_read_has_its_own_ledger(folder: Path) -> None:
    log = binlake.open(folder)
    for _ in range(2):
        list(log.transactions())
        assert log.ledger.transactions == {"committed": 4}
        assert log.ledger.unshown == {"DDL": 1}
        assert log.ledger.total.events == sum(1 for _ in log.events())


def test_transactions_can_be_kept_and_read_later(folder: Path) -> None:
    kept = list(binlake.open(folder).transactions())
    assert [sum(1 for _ in t.pieces()) for t in kept] == [1, 1, 1, 1]


def test_errors_are_ours(tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes(b"no log at all")
    log = binlake.open(tmp_path)
    for read in (log.events, log.transactions, log.changes, log.to_arrow, log.tables):
        with pytest.raises(BinlogError):
            list(read())


@pytest.mark.parametrize(
    "chosen",
    [{"gtid": f"{SID}:2"}, {"start": "binlog.000002:4"}, {"at": f"{SID}:4"}, {"thread": "1"}],
)
def test_filters_skip_bytes_of_excluded_transactions(chosen: dict[str, str], folder: Path) -> None:
    everything = binlake.open(folder)
    rows = everything.to_arrow().num_rows
    each = everything.ledger.decoded_bytes // rows
    some = binlake.open(folder, **chosen)
    assert some.ledger.decoded_bytes == 0
    found = some.to_arrow().num_rows
    assert found < rows
    assert some.ledger.decoded_bytes == each * found


def definition(type_code: int, metadata: bytes = b"", table_id: int = 7) -> bytes:
    """TABLE_MAP of shop.t with one column of a type."""
    return (
        table_id.to_bytes(6, "little") + b"\x01\0" + b"\x04shop\0\x01t\0"
        + bytes([1, type_code, len(metadata)]) + metadata + b"\x01"
    )  # fmt: skip


def one_row(log: StreamLog, gno: int, table_map: bytes, value: bytes) -> StreamLog:
    log.gtid(gno).query(b"BEGIN")
    log.add(TABLE_MAP, table_map)
    log.add(ROWS, rows_body(0, table_id=table_map[0]) + b"\0" + value)
    return log.xid()


def test_columns_of_several_definitions_are_united(tmp_path: Path) -> None:
    made = one_row(StreamLog(), 1, definition(3), (7).to_bytes(4, "little"))
    one_row(made, 2, definition(8, table_id=8), (1 << 40).to_bytes(8, "little"))
    found = binlake.open(made.write(tmp_path)).to_arrow("shop.t")
    assert found["col_0"].to_pylist() == [7, 1 << 40]
    assert found.schema.field("col_0").type == pa.int64()


def test_rows_that_do_not_fit_are_set_aside_with_a_warning(tmp_path: Path) -> None:
    made = StreamLog()
    for gno, text in ((1, b"12"), (2, b"twelve")):
        one_row(made, gno, definition(15, b"\x14\0"), bytes([len(text)]) + text)
    one_row(made, 3, definition(3, table_id=8), (13).to_bytes(4, "little"))
    log = binlake.open(made.write(tmp_path), assume_charset="utf8mb4")
    assert log.to_arrow("shop.t")["col_0"].to_pylist() == [12, 13]
    assert any("shop.t@n" in sentence for sentence in log.ledger.warnings)
    assert log.to_arrow("shop.t@1")["col_0"].to_pylist() == ["twelve"]
    with pytest.raises(OptionError, match="no @9"):
        log.to_arrow("shop.t@9")


def test_ddl_of_the_log_names_columns(golden: Path) -> None:
    log = binlake.open(golden / "mysql-5.6.24" / "schema" / "binlog.000001", columns="id,b")
    batches = list(log.changes("golden.mov*"))
    assert [batch.schema.names[0] for batch in batches] == ["id"] * len(batches)
    origins = {
        (m[b"binlake.table"], m[b"binlake.name_source"], m[b"binlake.name_origin"])
        for m in (batch.schema.metadata for batch in batches)
    }
    assert origins == {
        (b"golden.moving", b"ddl", b"binlog.000001:2274"),
        (b"golden.moving", b"ddl", b"binlog.000001:2603"),
        (b"golden.moving", b"ddl", b"binlog.000001:2945"),
        (b"golden.moving", b"ddl", b"binlog.000001:3295"),
        (b"golden.moved", b"ddl", b"binlog.000001:3654"),
    }
    assert log.ledger.names["golden", "moved"] == {"ddl"}


def test_a_column_that_changes_its_name_does_so_at_its_place(tmp_path: Path) -> None:
    """The bytes of the TABLE_MAP stay the same."""
    log = StreamLog()
    log.gtid(1).query(b"CREATE TABLE t (a INT UNSIGNED)").plain(2)
    log.gtid(3).query(b"CREATE TABLE other (a INT)").plain(4)
    log.gtid(5).query(b"ALTER TABLE t CHANGE a b INT").plain(6).plain(7)
    opened = binlake.open(log.write(tmp_path))
    names = [json.loads(r["after"]) for batch in opened.changes() for r in batch.to_pylist()]
    assert names == [{"a": 0}, {"a": 0}, {"b": 0}, {"b": 0}]
    assert [batch.schema.names[0] for batch in opened.changes("shop.t")] == ["a", "b"]
    later = binlake.open(tmp_path / "binlog.000001", gtid=f"{SID}:6-7")
    assert later.to_arrow("shop.t").column_names[0] == "b"


@pytest.mark.parametrize("flavour", ["mysql-9.7", "mariadb-11.8"])
def test_times_in_every_form(golden: Path, flavour: str) -> None:
    path = golden / flavour / "types-full" / "binlog.000001"
    forms = {
        form: binlake.open(path, time=form).to_arrow("golden.temporals")
        for form in ("interval", "text", "micros")
    }
    names = [f.name for f in forms["interval"].schema if f.type == pa.duration("us")]
    assert names
    rows = binlake.open(path, table="golden.temporals").to_arrow().to_pylist()
    shown = [json.loads(row["after"] or row["before"]) for row in rows]
    for name in names:
        micros = forms["micros"][name]
        assert micros.to_pylist() == forms["interval"][name].cast(pa.int64()).to_pylist()
        assert forms["text"][name].to_pylist() == [row[name] for row in shown]
        for form in ("interval", "micros"):
            about = forms[form].schema.field(name).metadata
            assert about[b"binlake.unit"] == b"microseconds"
        digits = int(about.get(b"mysql.fractional_digits", 0))
        texts = [None if us is None else time_text(us, digits) for us in micros.to_pylist()]
        assert texts == forms["text"][name].to_pylist()


def test_the_duration_of_transactions_in_every_form(folder: Path) -> None:
    found = {}
    for form in ("interval", "text", "micros"):
        [batch] = binlake.open(folder / "binlog.000001", time=form).view(
            "transactions", ["duration"]
        )
        found[form] = batch["duration"]
    assert found["micros"].to_pylist() == found["interval"].cast(pa.int64()).to_pylist()
    assert found["text"].to_pylist() == [time_text(us) for us in found["micros"].to_pylist()]


def test_rows_without_metadata_columns(golden: Path) -> None:
    path = golden / "mysql-9.7" / "transactions" / "binlog.index"
    plain = binlake.open(path, metadata=False).to_arrow("golden.a")
    assert plain.column_names == ["id", "v", "s"]
    assert plain.equals(binlake.open(path).to_arrow("golden.a").select(["id", "v", "s"]))
    asked = binlake.open(path, metadata=False, before=True, thread_id=True).to_arrow("golden.a")
    assert asked.column_names == ["id", "v", "s", "_before", "_thread_id"]


def test_repr_of_a_log(tmp_path: Path) -> None:
    for number in (1, 2):
        StreamLog().plain(number).write(tmp_path, f"binlog.{number:06d}")
    assert repr(binlake.open(tmp_path)) == (
        f"<Log {tmp_path}: binlog.000001 to binlog.000002, 2 files>"
    )
    one = binlake.open(tmp_path / "binlog.000001", table="shop.t", since="2026-11-21")
    assert repr(one).endswith("binlog.000001: binlog.000001, 1 file; filters: table, since>")


def test_columns_that_are_excluded() -> None:
    demo = Path(__file__).resolve().parents[2] / "demo" / "mysql-9.7"
    log = binlake.open(demo / "binlog.000001", exclude_column=["*.CUSTOMERS.c*", "shop.x.name"])
    names = [name for name in log.to_arrow("shop.customers").column_names if name[0] != "_"]
    assert names == ["id", "name", "born", "since", "flags"]
    log = binlake.open(
        demo / "binlog.000001", columns=["id", "city"], exclude_column="*.*.city", metadata=False
    )
    assert log.to_arrow("shop.customers").column_names == ["id"]


def test_a_name_that_two_tables_share_is_an_error(tmp_path: Path) -> None:
    """`shop`.`b.c` and `shop.b`.`c`: their rows would be in one table."""
    with pytest.raises(OptionError, match=r"ambiguous: .* `shop`\.`b\.c` and `shop\.b`\.`c`"):
        binlake.open(save_log_of_one_name(tmp_path)).to_arrow("shop.b.c")


@pytest.mark.parametrize("form", [str, Path, lambda path: [Path(path)], lambda path: (str(path),)])
def test_paths_have_the_same_forms_everywhere(
    golden: Path, tmp_path: Path, form: Callable[[Path], Any]
) -> None:
    log = next(golden.glob("mysql-9.7/*/binlog.000001"))
    given = form(log)
    assert binlake.verify(given).files == binlake.verify([str(log)]).files
    rows = sum(sum(counts.values()) for counts in binlake.open(given).tables().values())
    assert binlake.export(given, tmp_path / "lake", engine="local").rows == rows


def test_every_function_rejects_invalid_paths(tmp_path: Path) -> None:
    paths: Any = 5
    for read in (binlake.open, binlake.verify, lambda p: binlake.export(p, tmp_path / "lake")):
        with pytest.raises(OptionError, match="expected a path or several, not 5"):
            read(paths)


def test_an_option_with_a_similar_name_is_named() -> None:
    with pytest.raises(OptionError, match="unknown option 'tabel'; did you mean table\\?"):
        binlake.open("x", tabel="shop.orders")
