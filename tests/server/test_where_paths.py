"""`--where` with paths of JSON documents, against a server's own WHERE over the same rows."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import binlake
from binlake.errors import OptionError, SourceError, UnsupportedError
from dev.servers import Server, Session

pytestmark = pytest.mark.server

CONDITIONS = 120
SCALARS = (
    *("5", "-1", "0", "1.5", "1e3", "100.0", "0.1", "18446744073709551615", "-9223372036854775808"),
    *('"x"', '"X"', '"x "', '""', '"5"', '"ü"', '"a\\"b"', '"a\\nb"', '"true"', '"2024-01-01"'),
    *("true", "false", "null", "[]", "{}", '[5, "x"]', '{"b": 5}'),
)
#: Values that a document of MySQL has as types of SQL; their text is that of a string or a number.
TYPED = (
    *("CAST('2024-01-01' AS DATE)", "CAST('2024-01-01 10:00:00' AS DATETIME)"),
    *("CAST('10:00:00' AS TIME)", "CAST(1.5 AS DECIMAL(5,2))", "CAST('ab' AS BINARY)"),
)
PATHS = ("$.a", "$.a.b", "$[0]", "$.a[0]", "$.a[1]", "$", "$.zz", '$."a"')
NUMBERS = ("5", "-1", "0", "1.5", "1000", "0.1", "18446744073709551615", "5.0", "1e3")
TEXTS = ("'x'", "'X'", "'5'", "''", "'ü'", "'true'", "'null'", "'2024-01-01'", "'[]'", "'1000.0'")


def documents() -> Iterator[str]:
    """Each value alone, in objects and in arrays."""
    for value in SCALARS:
        yield from (
            value,
            f'{{"a": {value}}}',
            f'{{"a": {{"b": {value}}}}}',
            f"[{value}]",
            f'{{"a": [{value}, 7]}}',
        )


def conditions(rng: random.Random, *, with_numbers: bool) -> Iterator[str]:
    for _ in range(CONDITIONS):
        path = rng.choice(PATHS)
        number, text = f"doc->'{path}'", f"doc->>'{path}'"
        choices = [
            f"{text} {rng.choice(('=', '<>', '<=>'))} {rng.choice(TEXTS)}",
            f"{text} IN ({', '.join(rng.sample(TEXTS, 3))})",
            f"{text} LIKE '{rng.choice(('%', 'x%', '5', '_', '%5%'))}'",
            f"{text} IS NULL",
        ]
        if with_numbers:
            choices += [
                f"{number} {rng.choice(('=', '<>', '<=>', '<', '>='))} {rng.choice(NUMBERS)}",
                f"JSON_EXTRACT(doc, '{path}') = {rng.choice(NUMBERS)}",
                f"{number} IN ({', '.join(rng.sample(NUMBERS, 3))})",
                f"{number} IS NULL",
            ]
        condition = rng.choice(choices)
        yield f"NOT ({condition})" if rng.random() < 0.2 else condition


def fill(session: Session, *, typed: bool) -> None:
    session.execute("SET NAMES utf8mb4", "CREATE TABLE t (id INT PRIMARY KEY, doc JSON)")
    values = ["'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" for text in documents()]
    values += [f"JSON_OBJECT('a', {value})" for value in TYPED if typed] + ["NULL"]
    session.execute(*(f"INSERT INTO t VALUES ({key}, {value})" for key, value in enumerate(values)))


def chosen(files: list[Path], condition: str) -> set[int]:
    """The keys of the inserts that binlake chooses."""
    log = binlake.open(
        [str(file) for file in files], where=condition, columns="id", threads=1, table="paths.t"
    )
    return {row["id"] for batch in log.changes("paths.t") for row in batch.to_pylist()}


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"], indirect=True)
def test_json_paths_select_the_same_rows_as_the_server(
    server: Server, figure: Callable[..., None]
) -> None:
    is_mysql = server.flavour == "mysql"
    server.execute("SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE paths")
    compared, differing = 0, []
    with server.session("paths") as session:
        fill(session, typed=is_mysql)
        for condition in conditions(random.Random(11), with_numbers=is_mysql):
            try:
                ours = chosen(server.log_files(), condition)
            except (OptionError, UnsupportedError):
                continue  # an array or an object is compared
            except SourceError:
                ours = set()  # none matches
            # MariaDB has no operator ->>
            asked = condition if is_mysql else re.sub(
                r"doc->>('[^']*')", r"JSON_UNQUOTE(JSON_EXTRACT(doc, \1))", condition
            )  # fmt: skip
            rows = session.rows(f"SELECT id FROM t WHERE {asked}")
            compared += 1
            if ours != {int(key or 0) for (key,) in rows}:
                differing.append(condition)
    figure("where", server=server.name, compared=compared, differing=len(differing))
    assert differing == []
    assert compared > 40
