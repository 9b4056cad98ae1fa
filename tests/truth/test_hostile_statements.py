"""Statements and schema files made of repeated fragments: every reader takes linear time, and answers or
raises the error that its callers expect.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from binlake.core.events.control_text import text_step
from binlake.errors import SchemaError
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import changed_tables
from binlake.stream.sql.statements import statement_kind, without_set_statement
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
LENGTH = 60_000
MOST_CPU_S = 10.0  # linear readers need 0.2 s on a slow machine; quadratic ones minutes


def ddl(sql: str) -> DdlStatement:
    return DdlStatement(ChainPosition(0, "binlog.000001", 4), "shop", sql, 1, None, 0)


def follow(sql: str) -> None:
    history = SchemaHistory(DeclaredSchema())
    history.note(ddl(sql))
    history.apply(ddl(sql))


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


@pytest.mark.parametrize("reader", READERS)
def test_repeated_fragments_cost_linear_time(reader: str) -> None:
    for beginning in BEGINNINGS:
        for fragment in FRAGMENTS:
            text = (beginning + fragment * (LENGTH // len(fragment)))[:LENGTH]
            begun = time.process_time()
            READERS[reader](text)
            assert time.process_time() - begun < MOST_CPU_S, (beginning, fragment)


@pytest.mark.parametrize("reader", READERS)
def test_any_mixture_is_read_or_refused(reader: str) -> None:
    chance = random.Random(reader)
    for _ in range(200):
        text = "".join(chance.choices(FRAGMENTS, k=chance.randrange(1, 60)))
        READERS[reader](chance.choice(BEGINNINGS) + text)
