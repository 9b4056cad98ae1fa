from __future__ import annotations

import time

import pytest

from binlake.core.events.control_text import text_step
from binlake.values.step import Step


@pytest.mark.parametrize(
    ("text", "step", "name"),
    [
        (b"BEGIN", Step.BEGIN, b""),
        (b"begin work ;", Step.BEGIN, b""),
        (b"START TRANSACTION", Step.BEGIN, b""),
        (b"START SLAVE", Step.STATEMENT, b""),
        (b"BEGINNING", Step.STATEMENT, b""),
        (b"COMMIT", Step.COMMIT, b""),
        (b"/* app */ commit work", Step.COMMIT, b""),
        (b"COMMIT AND NO CHAIN", Step.COMMIT, b""),
        (b"-- note\nROLLBACK", Step.ROLLBACK, b""),
        (b"# note\nROLLBACK -- end", Step.ROLLBACK, b""),
        (b"SAVEPOINT `s 2`", Step.SAVEPOINT, b"s 2"),
        (b"SavePoint mixed_Cases", Step.SAVEPOINT, b"mixed_cases"),
        (b"SAVEPOINT`a``b`", Step.SAVEPOINT, b"a`b"),
        (b'SAVEPOINT "q"', Step.SAVEPOINT, b"q"),
        (b"ROLLBACK TO `s1`", Step.ROLLBACK_TO, b"s1"),
        (b"rollback work to savepoint s1;", Step.ROLLBACK_TO, b"s1"),
        (b"RELEASE SAVEPOINT s1", Step.RELEASE, b"s1"),
        (b"XA START X'6f',X'',1", Step.XA_START, b""),
        (b"XA BEGIN 'o'", Step.XA_START, b""),
        (b"XA END X'6f',X'',1", Step.XA_END, b""),
        (b"XA PREPARE X'6f',X'',1", Step.XA_PREPARE, b""),
        (b"XA COMMIT X'6f',X'',1 ONE PHASE", Step.XA_COMMIT, b""),
        (b"xa  rollback 'o'", Step.XA_ROLLBACK, b""),
        (b"INSERT INTO `commit` VALUES (1)", Step.STATEMENT, b""),
        (b"/*!40000 ALTER TABLE t */", Step.STATEMENT, b""),
        (b"COMMITTED", Step.STATEMENT, b""),
        (b"", Step.STATEMENT, b""),
        (b"ROLLBACK TO", Step.STATEMENT, b""),
    ],
)
def test_control_texts(text: bytes, step: Step, name: bytes) -> None:
    assert text_step(text) == (step, name)


@pytest.mark.parametrize(
    "text",
    [
        b"/*" * 30_000,
        b"/* */" * 20_000,
        b"# \n" * 20_000,
        b"ROLLBACK TO a" + b" " * 60_000 + b"x",
        b"ROLLBACK" + b" /* a */" * 8_000 + b"x",
        b"SAVEPOINT " + b"`" * 60_001,
    ],
)
def test_hostile_texts_take_linear_time(text: bytes) -> None:
    started = time.process_time()
    assert text_step(text)[0] is Step.STATEMENT
    assert time.process_time() - started < 20
