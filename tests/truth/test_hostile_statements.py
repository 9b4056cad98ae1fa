"""Statements and schema files made of repeated fragments: every reader takes linear time, and answers or
raises the error that its callers expect.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable

import pytest

from binlake.core.events.control_text import text_step
from binlake.errors import SchemaError, UnsupportedError
from binlake.replay.database_names import with_databases
from binlake.replay.mentioned_tables import mentioned_tables
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import changed_tables, named_tables
from binlake.stream.sql.digest import digest_text
from binlake.stream.sql.statements import ACCOUNT, DDL, statement_kind, without_set_statement
from binlake.table.schema.ddl_effects import (
    brings_rows,
    changes_no_column,
    moves_partitions,
    new_name,
    why_not_followed,
)
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.renames import renames_of
from binlake.table.schema.schema_file import parse_schema
from binlake.values.position import ChainPosition

BEGINNINGS = ("", "ALTER TABLE t ", "CREATE TABLE t (a INT ", "/*", "'", "SET STATEMENT ")
FRAGMENTS = (
    "'", "\\'", "''", '"', "`", "/*", "*/", "/*!", "/*!50000 ", "*", "-- ", "#", "(", ")", ",", ";",
    "ALTER ", "CREATE ", "CREATE TABLE ", "CREATE DATABASE ", "INSERT ", "USE ", "RENAME ", "AS ", "AS/*",
    "AS/*!", "FOR ", "a.", "a ", "\n", "\0", "BEGIN ", "XA ", "SAVEPOINT ", "DELIMITER ", "0x", "@", "$$ ",
    "CHANGE a b INT,", "ADD a INT,", "PRIMARY KEY (a),", "-- binlake: from binlog.000001:5\n", "\u202e", "é",
)  # fmt: skip
# A valid beginning and end, with a fragment between them that a reader skips in more than one way.
ENDED = (
    ("ALTER TABLE a RENAME b, ADD c INT", " ", "COMMENT 'x'"),
    ("ALTER TABLE a RENAME b", " ", ", ADD c INT COMMENT 'x'"),
    ("ALTER TABLE a RENAME", " ", "b, COMMENT 'x'"),
    ("ALTER TABLE a ", "RENAME b, ", "COMMENT 'x'"),
    ("ALTER TABLE a ", "RENAME COLUMN b TO c, ", "RENAME TO `d` e"),
    ("ALTER TABLE a DISABLE KEYS", " ", ", ENGINE=InnoDB"),
    ("RENAME TABLE a TO b", " ", ', "c" TO d'),
    ("RENAME TABLE a TO b", ", c TO d", ', "e" TO f'),
    ("DROP TABLE a", " ", "WAIT 1"),
    ("DROP TABLE a", ", b", ', "c"'),
    ("DROP TABLE IF", " ", 'EXISTS "a"'),
    ("TRUNCATE TABLE a", "\n", "WAIT"),
    ("DROP DATABASE a", "\t", "/*"),
    ("DROP SEQUENCE a", ";", " "),
    ("CREATE INDEX a ON", " ", '"b" (c)'),
)
# By the length of a text. On a slow machine, linear readers take 0.2 s for the long one, and quadratic ones minutes. Cubic
# ones would take days for it, so they fail with the short one.
MOST_CPU_S = {1_000: 1.0, 60_000: 10.0}


def ddl(sql: str) -> DdlStatement:
    return DdlStatement(ChainPosition(0, "binlog.000001", 4), "shop", sql, 1, None, 0)


def follow(sql: str) -> None:
    history = SchemaHistory(DeclaredSchema())
    history.note(ddl(sql))
    history.apply(ddl(sql))


def effects(sql: str) -> None:
    why_not_followed(sql)
    moves_partitions(sql)
    brings_rows(sql)
    with contextlib.suppress(UnsupportedError):
        new_name(ddl(sql), "shop", "a")
    changes_no_column(ddl(sql))


def rename_database(sql: str) -> None:
    with contextlib.suppress(UnsupportedError):
        with_databases(sql.encode(), {"shop": "new"})


def read_schema(sql: str) -> None:
    try:
        parse_schema(sql.encode())
    except SchemaError as error:
        assert len(str(error)) < 1000


READERS: dict[str, Callable[[str], object]] = {
    "history": follow,
    "renames": lambda sql: renames_of(ddl(sql)),
    "targets": lambda sql: changed_tables(ddl(sql)),
    "kind": lambda sql: statement_kind(sql.encode()),
    "set statement": lambda sql: without_set_statement(sql.encode()),
    "step": lambda sql: text_step(sql.encode()),
    "schema file": read_schema,
}
# These read fewer combinations, to save time.
TEXT_READERS: dict[str, Callable[[str], object]] = {
    "effects": effects,
    "digest": digest_text,
    "database names": rename_database,
    "named tables": lambda sql: named_tables(ddl(sql)),
    "mentioned tables": lambda sql: mentioned_tables(ddl(sql), DDL),
    "granted tables": lambda sql: mentioned_tables(ddl(sql), ACCOUNT),
}
ALL_READERS = READERS | TEXT_READERS


@pytest.mark.parametrize("reader", READERS)
def test_repeated_fragments_cost_linear_time(reader: str) -> None:
    for beginning in BEGINNINGS:
        for fragment in FRAGMENTS:
            check_time(reader, beginning, fragment)


@pytest.mark.parametrize("reader", TEXT_READERS)
def test_repeated_fragments_of_texts_cost_linear_time(reader: str) -> None:
    for fragment in (*FRAGMENTS, "``a", "'a''b", '"a""b', "'a\\'", "a@'", "ALTER TABLE a '"):
        check_time(reader, "ALTER TABLE t ", fragment)
    for quote in ("'", '"', "`", "/*"):
        check_time(reader, "", f"\\{quote}")
        check_time(reader, quote, "x" + quote * 2)


@pytest.mark.parametrize("reader", ALL_READERS)
def test_fragments_before_a_valid_end_cost_linear_time(reader: str) -> None:
    for beginning, fragment, end in ENDED:
        check_time(reader, beginning, fragment, end)


def check_time(reader: str, beginning: str, fragment: str, end: str = "") -> None:
    for length, most_cpu_s in MOST_CPU_S.items():
        text = (beginning + fragment * (length // len(fragment)))[: length - len(end)] + end
        begun = time.process_time()
        ALL_READERS[reader](text)
        assert time.process_time() - begun < most_cpu_s, (beginning, fragment, end)


@pytest.mark.parametrize("reader", ALL_READERS)
def test_any_mixture_is_read_or_refused(reader: str) -> None:
    chance = random.Random(reader)
    for _ in range(200):
        text = "".join(chance.choices(FRAGMENTS, k=chance.randrange(1, 60)))
        ALL_READERS[reader](chance.choice(BEGINNINGS) + text)
