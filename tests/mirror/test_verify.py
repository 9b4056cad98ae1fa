"""Equality of a table and its copy, on real servers: no false alarm, and every injected fault is found.

`make mirror-verify` runs these tests with a table of a million rows.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from binlake.errors import ConnectionLostError, ServerError, UnsupportedError
from binlake.mirror.columns.lake_columns import AS_DECODED, LakeColumns
from binlake.mirror.equality.compare import (
    LakeRows,
    TableComparison,
    VerifyOptions,
    compare,
    exact_session,
)
from binlake.mirror.stopped import StoppedError
from binlake.snapshot.chunks import chunks_of
from binlake.snapshot.tables import SourceTable
from binlake.values.options import ReadOptions
from dev.golden.types import families
from dev.servers import Server
from support.servers.archiving import until
from support.servers.live import url_of
from support.servers.source_tables import source_tables
from support.values.random_values import with_random_values

pytestmark = pytest.mark.server

ROWS = int(os.environ.get("BINLAKE_VERIFY_ROWS") or 20_000)
#: Aliases of `digits`, and the number that their digits make.
_DIGITS = [f"d{place}" for place in range(len(str(ROWS - 1)))]
_NUMBER = " + ".join(f"{10**place} * {alias}.d" for place, alias in enumerate(_DIGITS))
_SHOP = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    (
        "CREATE TABLE shop.orders (id BIGINT NOT NULL PRIMARY KEY, state VARCHAR(20) NULL, price DECIMAL(10,2),"
        " weight DOUBLE, paid DATETIME(3) NULL, note TEXT) ENGINE=InnoDB"
    ),
    "CREATE TABLE shop.digits (d INT PRIMARY KEY)",
    "INSERT INTO shop.digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
    (
        "INSERT INTO shop.orders SELECT n, IF(n % 7, CONCAT('state', n % 13), NULL), n / 8, n / 3,"
        " '2026-01-01 12:00:00.125' + INTERVAL n SECOND, REPEAT(CHAR(97 + n % 26), n % 50)"
        f" FROM (SELECT {_NUMBER} AS n FROM {', '.join(f'shop.digits {alias}' for alias in _DIGITS)}) AS t"
        f" WHERE n < {ROWS}"
    ),
    "CREATE TABLE shop.bag (a INT, b VARCHAR(10)) ENGINE=InnoDB",
    "INSERT INTO shop.bag VALUES (1, 'x'), (1, 'x'), (2, NULL), (NULL, NULL), (NULL, NULL), (3, 'y')",
    "CREATE TABLE shop.old (a INT PRIMARY KEY) ENGINE=MyISAM",
)  # fmt: skip


@pytest.fixture(scope="module")
def shop(server: Server) -> Server:
    server.execute(*_SHOP)
    return server


@pytest.fixture(scope="module")
def orders(shop: Server) -> pa.Table:
    """The rows of shop.orders, in the order of the key: row n has the key n."""
    return copy_of(shop, table_of(shop, "shop.orders")).sort_by("id")


def table_of(server: Server, name: str, **given: str) -> SourceTable:
    return source_tables(url_of(server), [name], ReadOptions.parse(given))[0]


def copy_of(server: Server, table: SourceTable) -> pa.Table:
    batches = []
    for chunk in chunks_of(url_of(server), table):
        with chunk.read(url_of(server)) as reading:
            batches += list(reading)
    return pa.Table.from_batches(batches, table.arrow_schema)


def compared(
    server: Server,
    table: SourceTable,
    lake: pa.Table,
    options: VerifyOptions | None = None,
    columns: LakeColumns = AS_DECODED,
) -> TableComparison:
    def scan() -> Iterable[pa.Table]:
        yield from (lake.slice(at, 7000) for at in range(0, lake.num_rows, 7000))

    with exact_session(url_of(server)) as source:
        return compare(
            source.server,
            table,
            LakeRows(lake.schema, scan),
            expected=lake.schema if columns.texts else None,
            options=options,
            columns=columns,
        )


def replaced(table: pa.Table, row: int, column: str, value: pa.Scalar) -> pa.Table:
    at = table.schema.get_field_index(column)
    here = pc.equal(pa.array(range(table.num_rows)), row)
    return table.set_column(at, table.schema.field(at), pc.if_else(here, value, table.column(at)))


def test_no_false_alarm(shop: Server, orders: pa.Table) -> None:
    table = table_of(shop, "shop.orders")
    found = compared(shop, table, orders, VerifyOptions(parts=1000))
    assert found.is_equal
    assert (found.source_rows, found.lake_rows, found.parts) == (ROWS, ROWS, 1000)
    assert found.differing_parts == 0


_FAULTS: dict[str, tuple[Callable[[pa.Table], pa.Table], list[tuple[str, str, tuple[str, ...]]]]] = {
    "one value": (
        lambda rows: replaced(rows, 4711, "price", pa.scalar("0.01").cast(pa.decimal128(10, 2))),
        [("changed", "4711", ("price",))],
    ),
    "one bit of a double": (
        lambda rows: replaced(rows, 1, "weight", pa.scalar(1 / 3 + 2**-54)),
        [("changed", "1", ("weight",))],
    ),
    "a null": (
        lambda rows: replaced(rows, 8, "state", pa.scalar(None, pa.string())),
        [("changed", "8", ("state",))],
    ),
    "an empty string for a null": (
        lambda rows: replaced(rows, 7, "state", pa.scalar("")),
        [("changed", "7", ("state",))],
    ),
    "a blank": (
        lambda rows: replaced(rows, 14, "note", pa.scalar("oooooooooooooo ")),
        [("changed", "14", ("note",))],
    ),
    "a millisecond": (
        lambda rows: replaced(rows, 0, "paid", pc.add(rows["paid"][0], pa.scalar(1, pa.duration("us")))),
        [("changed", "0", ("paid",))],
    ),
    "missing": (
        lambda rows: pa.concat_tables([rows.slice(0, 5), rows.slice(6)]),
        [("missing", "5", ())],
    ),
    "doubled": (
        lambda rows: pa.concat_tables([rows, rows.slice(ROWS - 1, 1)]),
        [("doubled", str(ROWS - 1), ())],
    ),
    "extra": (
        lambda rows: pa.concat_tables([rows, replaced(rows.slice(3, 1), 0, "id", pa.scalar(-3, pa.int64()))]),
        [("extra", "-3", ())],
    ),
    "another key": (
        lambda rows: replaced(rows, 9, "id", pa.scalar(ROWS + 9, pa.int64())),
        [("extra", str(ROWS + 9), ()), ("missing", "9", ())],
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", _FAULTS)
def test_faults_are_found(shop: Server, orders: pa.Table, fault: str) -> None:
    table = table_of(shop, "shop.orders")
    change, wanted = _FAULTS[fault]
    found = compared(shop, table, change(orders))
    assert sorted((d.kind, d.key[0][1], d.columns) for d in found.differences) == wanted
    assert found.differing_parts <= 2
    assert not found.is_cut


#: The least change of a value of each column.
_LEAST: dict[str, Callable[[pa.ChunkedArray], pa.ChunkedArray]] = {
    "state": lambda values: pc.fill_null(values, ""),
    "price": lambda values: pc.add(values, pa.scalar("0.01").cast(pa.decimal128(10, 2))).cast(pa.decimal128(10, 2)),
    "weight": lambda values: pa.chunked_array([np.nextafter(values.to_numpy(), np.inf)]),
    "paid": lambda values: pc.add(values, pa.scalar(1, pa.duration("us"))),
    "note": lambda values: pc.binary_join_element_wise(values, " ", ""),
}  # fmt: skip


def test_faults_at_random_places(shop: Server, orders: pa.Table) -> None:
    """Each is found, and nothing else."""
    table, rng, lake = table_of(shop, "shop.orders"), random.Random(42), orders
    # of the column `state`, the rows that are NULL change
    states = rng.sample(range(0, ROWS, 7), 30)
    others = rng.sample([row for row in range(ROWS) if row % 7], 150)
    rows = {
        name: others[at * 30 :][:30] for at, name in enumerate(("price", "weight", "paid", "note"))
    }
    wanted: list[tuple[str, str, tuple[str, ...]]] = []
    for name, of in {**rows, "state": states}.items():
        at = lake.schema.get_field_index(name)
        here = np.zeros(ROWS, bool)
        here[of] = True
        changed = pc.if_else(pa.array(here), _LEAST[name](lake.column(at)), lake.column(at))
        lake = lake.set_column(at, lake.schema.field(at), changed)
        wanted += [("changed", str(row), (name,)) for row in of]
    missing, doubled = others[120:135], others[135:]
    wanted += [("missing", str(row), ()) for row in missing]
    wanted += [("doubled", str(row), ()) for row in doubled]
    kept = np.ones(ROWS, bool)
    kept[missing] = False
    lake = pa.concat_tables([lake.filter(pa.array(kept)), lake.take(doubled)])
    found = compared(shop, table, lake)
    assert sorted((d.kind, d.key[0][1], d.columns) for d in found.differences) == sorted(wanted)
    assert not found.is_cut


def test_a_type_and_a_column(shop: Server, orders: pa.Table) -> None:
    table = table_of(shop, "shop.orders")
    lake = orders.set_column(3, "weight", orders["weight"].cast(pa.float32()))
    lake = lake.append_column("more", lake["id"]).drop_columns(["note"])
    found = compared(shop, table, lake)
    assert [(d.kind, d.columns) for d in found.differences] == [
        ("type", ("weight",)),
        ("column", ("note",)),
        ("column", ("more",)),
    ]
    assert found.lake_rows == ROWS


def test_rows_without_a_key(shop: Server) -> None:
    table = table_of(shop, "shop.bag")
    assert table.key == ()
    lake = copy_of(shop, table)
    assert compared(shop, table, lake).is_equal
    less = lake.filter(pc.not_equal(lake["a"], 3).fill_null(True))
    assert [d.kind for d in compared(shop, table, less).differences] == ["missing"]
    more = pa.concat_tables([lake, lake.slice(0, 1)])
    (doubled,) = compared(shop, table, more).differences
    assert (doubled.kind, doubled.key) == ("doubled", (("a", "1"), ("b", "x")))


def test_the_list_of_differences_is_bounded(shop: Server, orders: pa.Table) -> None:
    table = table_of(shop, "shop.orders")
    lake = orders
    found = compared(shop, table, lake.slice(0, 0), VerifyOptions(most_differences=10))
    assert (len(found.differences), found.is_cut) == (10, True)
    assert {d.kind for d in found.differences} == {"missing"}


def test_a_table_that_has_grown_is_compared_in_more_parts(server: Server) -> None:
    """MySQL 8 and later report the size of a table as it was up to a day ago."""
    server.execute("CREATE DATABASE grown", "CREATE TABLE grown.t (id INT PRIMARY KEY)")
    assert table_of(server, "grown.t").rows == 0
    server.execute(
        "INSERT INTO grown.t VALUES (0)",
        *(f"INSERT INTO grown.t SELECT id + {1 << bit} FROM grown.t" for bit in range(15)),
    )
    until(lambda: table_of(server, "grown.t").rows > 20_000, 60)
    table = table_of(server, "grown.t")
    assert compared(server, table, copy_of(server, table)).parts > 40
    server.execute("DROP DATABASE grown")


def test_a_sample(shop: Server, orders: pa.Table) -> None:
    table = table_of(shop, "shop.orders")
    lake = orders
    found = compared(shop, table, lake, VerifyOptions(sample=0.1, parts=200))
    assert found.is_equal
    assert found.parts == 20
    assert 0 < found.source_rows == found.lake_rows < ROWS / 5


def test_consecutive_samples_compare_all_rows(shop: Server, orders: pa.Table) -> None:
    """Seven samples of 15 parts go around 100 parts, and over the end."""
    table = table_of(shop, "shop.orders")
    lake = replaced(orders, 500, "weight", pa.scalar(0.125))
    options = [VerifyOptions(sample=0.15, parts=100, sample_number=n) for n in range(40, 47)]
    found = [compared(shop, table, lake, one) for one in options]
    assert all(0 < one.source_rows == one.lake_rows < ROWS / 4 for one in found)
    assert ROWS < sum(one.source_rows for one in found) < ROWS * 1.25
    different = [n for n, one in enumerate(found) if not one.is_equal]
    assert len(different) in (1, 2)
    again = compared(shop, table, lake, options[different[0]])
    assert again.differences == found[different[0]].differences


def test_changes_after_the_position_do_not_count(shop: Server, orders: pa.Table) -> None:
    table = table_of(shop, "shop.orders")
    lake = orders
    with exact_session(url_of(shop)) as source:
        assert source.position == _position(shop)
        shop.execute("UPDATE shop.orders SET note = 'later' WHERE id = 17")
        assert compare(source.server, table, LakeRows(lake.schema, lambda: [lake])).is_equal
    (changed,) = compared(shop, table, lake).differences
    assert (changed.kind, changed.key, changed.columns) == ("changed", (("id", "17"),), ("note",))
    shop.execute("UPDATE shop.orders SET note = REPEAT('r', 17) WHERE id = 17")


def test_an_error_for_one_table_leaves_the_session_to_others(
    shop: Server, orders: pa.Table
) -> None:
    table = table_of(shop, "shop.orders")
    lake = orders
    shop.execute("CREATE TABLE shop.altered (id INT PRIMARY KEY, v INT)")
    altered = table_of(shop, "shop.altered")
    with exact_session(url_of(shop)) as source:
        shop.execute("ALTER TABLE shop.altered MODIFY v BIGINT")
        with pytest.raises(ServerError, match="definition has changed"):
            compare(source.server, altered, LakeRows(altered.arrow_schema, list))
        shop.execute("UPDATE shop.orders SET note = 'later' WHERE id = 17")
        # the snapshot is the same, too
        assert compare(source.server, table, LakeRows(lake.schema, lambda: [lake])).is_equal
    shop.execute("UPDATE shop.orders SET note = REPEAT('r', 17) WHERE id = 17")
    shop.execute("DROP TABLE shop.altered")


@pytest.mark.not_on("mysql-5.6.24")  # which has no generated columns
def test_the_server_ends_the_query_of_a_comparison_that_ends(server: Server) -> None:
    """It would not notice for hours that the connection is closed, and keep the snapshot and the lock on the table."""
    server.execute("CREATE DATABASE ended")
    with server.session("ended") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO t VALUES (0)",
            *(f"INSERT INTO t SELECT id + {1 << bit} FROM t" for bit in range(17)),
            # some milliseconds for each row
            "ALTER TABLE t ADD COLUMN v CHAR(64) AS (SHA2(REPEAT(id + 100000, 500000), 256)) VIRTUAL",
        )
    table = table_of(server, "ended.t")
    nothing = LakeRows(table.arrow_schema, list)

    def runs() -> bool:
        sessions = server.rows("SHOW FULL PROCESSLIST")
        return any("CRC32" in (row[7] or "") for row in sessions)

    def stop() -> None:
        if runs():
            raise StoppedError("the mirror was stopped")

    with exact_session(url_of(server)) as source, pytest.raises(StoppedError):
        compare(source.server, table, nothing, pause=stop)
    until(lambda: not runs(), 60)
    url = url_of(server, read_timeout="1")
    with (
        exact_session(url) as source,
        pytest.raises(ConnectionLostError, match="took too long"),
    ):
        compare(source.server, table, nothing)
    until(lambda: not runs(), 60)
    server.execute("DROP DATABASE ended")


def _position(server: Server) -> object:
    from binlake.snapshot.read_session import open_session

    with open_session(url_of(server)) as session:
        return session.position()


def test_a_table_without_consistent_reads_is_refused(shop: Server) -> None:
    table = table_of(shop, "shop.old")
    with pytest.raises(
        UnsupportedError,
        match="binlake cannot read a table of engine myisam at one position of the log",
    ):
        compared(shop, table, copy_of(shop, table))


@pytest.mark.parametrize(
    "given", [{"time": "text"}, {"time": "micros", "zero_date": "text"}], ids=str
)
def test_every_type(server: Server, given: dict[str, str]) -> None:
    rng = random.Random(815)
    server.execute("DROP DATABASE IF EXISTS kinds", "CREATE DATABASE kinds CHARACTER SET utf8mb4")
    tables = [with_random_values(table, rng, 4) for table in families(server)]
    with server.session("kinds") as session:
        session.execute("SET SESSION sql_mode = ''", "SET SESSION time_zone = '+00:00'")
        for made in tables:
            session.execute(
                made.create(), f"INSERT INTO `{made.name}` VALUES {', '.join(made.rows(12))}"
            )
    for table in source_tables(url_of(server), ["kinds.*"], ReadOptions.parse(given)):
        lake = copy_of(server, table)
        found = compared(server, table, lake)
        assert found.is_equal, f"{table.full_name}: {found.differences[:3]}"
        if table.name != "floats":  # a server has no digest of a row whose doubles it would shorten
            assert found.differing_parts == 0, table.full_name
        # a fault in each column: a value of its own row becomes null
        wanted, faulty = {}, lake
        for field in lake.schema:
            column = lake[field.name]
            rows = [row for row in range(len(lake)) if column[row].is_valid and row not in wanted]
            if field.name != "id" and rows:
                wanted[rows[0]] = field.name
                faulty = replaced(faulty, rows[0], field.name, pa.scalar(None, field.type))
        told = {(d.key[0][1], d.columns) for d in compared(server, table, faulty).differences}
        assert told == {(str(lake["id"][row]), (name,)) for row, name in wanted.items()}


def test_numbers_that_the_server_shortens(server: Server) -> None:
    """The lake has exactly the text that the server shows, but it stands for another number."""
    server.execute(
        "DROP DATABASE IF EXISTS shortened",
        "CREATE DATABASE shortened",
        "CREATE TABLE shortened.t (id INT PRIMARY KEY, d DOUBLE, f FLOAT) ENGINE=InnoDB",
        "INSERT INTO shortened.t VALUES (0, -1.2345678901234567e-100, 1), (1, 0.1, 123456.789), (2, NULL, NULL),"
        " (3, -0.5e-300, 0.1), (4, 1.7976931348623157e308, 1e-45), (5, -0e0, -0e0), (6, 1e22, 16777216)",
        "CREATE TABLE shortened.keyed (d DOUBLE PRIMARY KEY) ENGINE=InnoDB SELECT d FROM shortened.t WHERE id = 0",
    )
    double = server.rows("SELECT CONCAT(d + 0e0) FROM shortened.t WHERE id = 0")[0][0]
    single = server.rows("SELECT CONCAT(f) FROM shortened.t WHERE id = 1")[0][0]
    shortens = float(double or "") != -1.2345678901234567e-100
    assert shortens == server.name.startswith("mysql-9")
    assert single == "123457"
    table = table_of(server, "shortened.t")
    columns = LakeColumns(
        texts={column.name: column for column in table.definition.columns if column.name == "f"}
    )
    lake = pa.concat_tables(
        columns.rows(batch) for batch in copy_of(server, table).sort_by("id").to_batches()
    )
    clean = compared(server, table, lake, columns=columns)
    assert (clean.is_equal, clean.lake_rows) == (True, 7)
    faulty = replaced(lake, 0, "d", pa.scalar(float(double or "")))
    faulty = replaced(faulty, 1, "f", pa.scalar(single))
    keeps_sign = str(lake["d"][5]) == "-0.0"
    assert keeps_sign == server.name.startswith("mysql")
    faulty = replaced(faulty, 5, "d", pa.scalar(0.0))
    found = compared(server, table, faulty, columns=columns)
    assert [(one.key, one.columns) for one in found.differences] == [
        *[((("id", "0"),), ("d",))] * shortens,
        ((("id", "1"),), ("f",)),
        *[((("id", "5"),), ("d",))] * keeps_sign,
    ]
    keyed = table_of(server, "shortened.keyed")
    assert compared(server, keyed, copy_of(server, keyed)).is_equal
    for options in (VerifyOptions(), VerifyOptions(parts=1), VerifyOptions(sample=0.999)):
        found = compared(server, keyed, pa.table({"d": [float(double or "")]}), options)
        assert sorted(one.kind for one in found.differences) == ["extra", "missing"] * shortens


@pytest.mark.parametrize("key", ["PRIMARY KEY (k)", "INDEX (v)"], ids=["key", "no-key"])
def test_text_that_the_character_set_does_not_map(server: Server, key: str) -> None:
    """With `--invalid hex`, the lake has the bytes. The server shows another text, which decides the part of a row."""
    server.execute(
        "DROP DATABASE IF EXISTS unmapped",
        "CREATE DATABASE unmapped",
        f"CREATE TABLE unmapped.t (k VARCHAR(9) CHARACTER SET ucs2 NOT NULL, v INT, {key}) ENGINE=InnoDB",
        *(
            f"INSERT INTO unmapped.t VALUES (_ucs2 0x{65 + n:04x}D8{n:02x}0041, {n})"
            for n in range(16)
        ),
    )
    table = table_of(server, "unmapped.t", invalid="hex")
    lake = copy_of(server, table).sort_by("v")
    assert all("0x" in one for one in lake["k"].to_pylist())
    for options in (VerifyOptions(), VerifyOptions(most_values=20), VerifyOptions(sample=0.999)):
        assert compared(server, table, lake, options).differences == ()
    faulty = replaced(lake, 3, "v", pa.scalar(99, pa.int32()))
    kinds = sorted(one.kind for one in compared(server, table, faulty).differences)
    assert kinds == (["changed"] if table.key else ["extra", "missing"])


def test_days_that_the_month_lacks(server: Server) -> None:
    """They are NULL in the lake, as zero dates are."""
    server.execute("DROP DATABASE IF EXISTS days", "CREATE DATABASE days")
    dates = ("2023-02-31", "2023-02-28", "2024-02-29", "2023-04-31", "0096-02-29", "0000-02-30", "9999-12-31", "2023-00-31")  # fmt: skip
    with server.session("days") as session:
        session.execute(
            "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
            "CREATE TABLE t (id INT PRIMARY KEY, d DATE, m DATETIME(3)) ENGINE=InnoDB",
            *(f"INSERT INTO t VALUES ({n}, '{d}', '{d} 01:02:03.5')" for n, d in enumerate(dates)),
        )
    table = table_of(server, "days.t")
    lake = copy_of(server, table).sort_by("id")
    assert [row is None for row in lake["d"].to_pylist()] == [True, False, False, True, False, True, False, True]  # fmt: skip
    found = compared(server, table, lake, VerifyOptions(parts=1000))
    assert (found.is_equal, found.lake_rows, found.differing_parts) == (True, 8, 0)


def test_leading_zeros_of_decimals(server: Server) -> None:
    """A server shows them for ZEROFILL. In a key, they would decide the part of a row."""
    columns = (
        "a DECIMAL(10,2) ZEROFILL, b DECIMAL(65,30) ZEROFILL, c DECIMAL(65,0) ZEROFILL, d DECIMAL(38,0) UNSIGNED,"
        " e DECIMAL(9,4) ZEROFILL, f DECIMAL(65,30), g DECIMAL(65,0)"
    )
    rows = [
        f"(12.50, {'9' * 35}.{'9' * 30}, {'9' * 65}, {'9' * 38}, 0.5, -{'9' * 35}.{'9' * 30}, -{'9' * 65})",
        "(0, 0, 0, 0, 0, -0.0, -0)",
        "(99999999.99, 1.5, 7, 7, 99999.9999, 0.00001, 1), (7, 0.00001, 10, 10, 1, -0.00001, 5)",
        "(8, NULL, NULL, NULL, 1, NULL, NULL)",
    ]
    server.execute(
        "DROP DATABASE IF EXISTS zeros",
        "CREATE DATABASE zeros",
        f"CREATE TABLE zeros.t ({columns}, PRIMARY KEY (a, e)) ENGINE=InnoDB",
        f"INSERT INTO zeros.t VALUES {', '.join(rows)}",
    )
    table = table_of(server, "zeros.t")
    lake = copy_of(server, table)
    found = compared(server, table, lake, VerifyOptions(parts=1000))
    assert (found.is_equal, found.lake_rows, found.differing_parts) == (True, 5, 0)
