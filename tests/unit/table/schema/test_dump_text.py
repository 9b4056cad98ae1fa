"""The text of a dump, read in parts: the same tokens as of the whole, whatever the parts are."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from binlake.errors import SchemaError, SourceError
from binlake.state.dump import Dump
from binlake.table.schema.dump_text import SKIPPED, DumpText
from binlake.table.schema.schema_file import _TOKEN, read_schema_file
from binlake.values.options import ReadOptions

PIECES = (
    b"CREATE TABLE `t` (`id` int, b enum('x)','y''z'));\n", b"CREATE OR REPLACE /*M!100 TABLE*/ x", b"USE `db;`;\n",
    b"INSERT INTO `t` VALUES (1,'a;b'),(2,\"c\\\"d\");\n", b"-- note 'x\n", b"# other `\n", b"/* c ; */", b"/*!50000 x */",
    b"REPLACE INTO t VALUES ('\\\\', `x`);\n", b"CREATE DATABASE `d` CHARSET=utf8;\n", b"'", b'"', b"`", b";", b"\n", b" ", b"--",
    b"(", b")", b"CREATE", b" TABLE", b"INSERT ", b"USE d\n", b"\\", b"*/", b"/*",
    b"USE `a``b``c`;\n", b"DELIMITER ;;\n", b"-- binlake: from b:4\n", b"/", b"-", b"  USE\te;", b"/*!40101 SET NAMES utf8 */",
)  # fmt: skip


def whole(text: bytes) -> list[tuple[str, int, int]]:
    found = [(m.lastgroup or "", m.start(), m.end()) for m in _TOKEN.finditer(text)]
    return [token for token in found if token[0] != SKIPPED]


def in_parts(text: bytes, window_bytes: int) -> list[tuple[str, int, int]]:
    parts = DumpText(text, "x", window_bytes=window_bytes, longest_token_bytes=1 << 12)
    return list(parts.tokens(_TOKEN))


def up_to_unclosed(tokens: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The first one ends the file."""
    kinds = [kind for kind, *_ in tokens]
    return tokens[: kinds.index("unclosed") + 1] if "unclosed" in kinds else tokens


def test_parts_have_the_tokens_of_the_whole() -> None:
    chance = random.Random(11)
    for _ in range(3000):
        text = b"".join(chance.choices(PIECES, k=chance.randint(1, 12)))
        parts = in_parts(text, chance.randint(2, 60))
        assert up_to_unclosed(parts) == up_to_unclosed(whole(text)), text


def test_a_statement_without_end_is_refused() -> None:
    with pytest.raises(
        SourceError, match="x, line 1: a statement, text or comment of more than 4,096 bytes"
    ):
        in_parts(b"INSERT INTO t VALUES ('" + b"x" * (1 << 14), 16)


def test_a_schema_file_that_is_truncated_meanwhile_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory mapping would end the process with SIGBUS."""
    path = tmp_path / "schema.sql"
    path.write_bytes(b"CREATE TABLE t (a INT);\n" * 240_000)  # more than a window
    read = DumpText.__getitem__

    def truncating(self: DumpText, part: slice) -> bytes:
        found = read(self, part)
        os.truncate(path, 100)
        return found

    monkeypatch.setattr(DumpText, "__getitem__", truncating)
    with pytest.raises(SchemaError, match="became shorter while it was read"):
        read_schema_file(str(path))


def test_a_dump_that_is_truncated_meanwhile_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    insert = b"INSERT INTO `t` VALUES (" + b"),(".join(b"%d" % n for n in range(50_000)) + b");\n"
    path.write_bytes(b"CREATE TABLE `t` (`id` int, PRIMARY KEY (`id`));\n" + insert * 20)
    with Dump(str(path), "db", "t", "mysql", ReadOptions()) as dump:
        batches = dump.batches()
        next(batches)
        os.truncate(path, 1000)
        with pytest.raises(SourceError, match="became shorter while it was read"):
            list(batches)
