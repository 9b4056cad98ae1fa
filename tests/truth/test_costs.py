"""Logs and schema files of at most 1 MB that ask for much: each read is bounded, or refused by name.

The commands run as users run them. What is measured is the memory that the process took; the limit of
processor time only ends a read that would go on for minutes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from support.logs import costly_logs
from support.logs.cost import COMMANDS, MOST_MEMORY_KB, cost, saved
from support.logs.table_log import Log

pytestmark = pytest.mark.costs  # minutes, in all


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("costly")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["one_large_event", "large_statement", "large_rows"])
def test_memory_for_decompression_is_limited(
    folder: Path, name: str, command: tuple[str, ...]
) -> None:
    code, memory_kb, err = cost(folder, *command, saved(folder, name))
    assert code in (0, 1), err  # 0: the command does not look into it
    assert memory_kb < MOST_MEMORY_KB, memory_kb
    if command[0] == "rows":
        assert (code, "--max-memory" in err) == (1, True)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_compressed_log_does_not_inflate_to_one_large_event(
    folder: Path, suffix: str, command: tuple[str, ...]
) -> None:
    path = folder / f"inflates.000001.{suffix}"
    if not path.exists():
        pack: dict[str, Callable[[], Any]] = {
            "gz": lambda: zlib.compressobj(9, wbits=31),
            "zst": zstandard.ZstdCompressor().compressobj,
        }
        path.write_bytes(costly_logs.one_event_that_inflates(pack[suffix](), 1000 << 20))
        assert path.stat().st_size <= 1 << 20
    code, memory_kb, err = cost(folder, *command, str(path))
    assert memory_kb < MOST_MEMORY_KB, memory_kb
    assert code == 1, err
    if command[0] == "rows":
        assert "--max-memory" in err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_tables_have_no_more_columns_than_servers_allow(
    folder: Path, command: tuple[str, ...]
) -> None:
    code, memory_kb, err = cost(folder, *command, saved(folder, "too_many_columns"))
    assert memory_kb < MOST_MEMORY_KB, memory_kb
    if command[0] in ("rows", "stats"):
        assert (code, "servers allow 4,096" in err) == (1, True)


@pytest.mark.parametrize("command", [*COMMANDS, ("index", "--again")], ids=" ".join)
@pytest.mark.parametrize(
    "name",
    [
        *("wide_tables", "many_tables", "tables_of_one_statement", "nearly_empty_images"),
        *("many_additions", "many_renames", "long_expression"),
    ],
)
def test_tables_and_their_definitions_take_bounded_memory(
    folder: Path, name: str, command: tuple[str, ...]
) -> None:
    code, memory_kb, err = cost(folder, *command, saved(folder, name))
    assert memory_kb < MOST_MEMORY_KB, memory_kb
    if name == "tables_of_one_statement" and command[0] == "rows":
        assert (code, "--max-memory" in err) == (1, True)
    elif name == "tables_of_one_statement" and command[0] == "stats":
        # such rows are missing in its counts, which it says; everything else of the log is counted
        assert (code, "the counts lack rows of some transactions" in err) == (0, True)
    else:
        assert code == 0, err


@pytest.mark.parametrize(
    "name",
    ["wide_tables", "nearly_empty_images", "many_layouts", "alternating_tables", "long_names"],
)
def test_exports_take_bounded_memory(folder: Path, name: str) -> None:
    target = folder / f"export of {name}"
    code, memory_kb, err = cost(
        folder, "export", "--engine", "local", saved(folder, name), str(target)
    )
    assert code == 0, err
    assert memory_kb < MOST_MEMORY_KB, memory_kb


def test_a_payload_may_not_inflate_out_of_all_proportion(folder: Path) -> None:
    path = folder / "ratio.000001"
    path.write_bytes(costly_logs.many_small_events(64 << 20))
    code, _, err = cost(folder, "rows", "--max-memory", "8MB", str(path))
    assert (code, "--max-memory" in err) == (1, True)
    assert "compressed bytes inflate to more than" in err
    code, _, err = cost(folder, "rows", "--max-memory", "64MB", str(path))
    assert code == 0, err


def test_the_option_allows_more(folder: Path) -> None:
    path = folder / "allowed.000001"
    path.write_bytes(costly_logs.large_statement(100 << 20))
    code, _, err = cost(folder, "rows", str(path))
    assert (code, "--max-memory" in err) == (1, True)
    code, _, err = cost(folder, "rows", "--max-memory", "512MB", str(path))
    assert code == 0, err


@pytest.mark.parametrize("name", sorted(costly_logs.SCHEMAS))
def test_schema_files_are_read_in_linear_time(folder: Path, name: str) -> None:
    log, schema = folder / "binlog.000001", folder / "schema.sql"
    made = Log()
    made.insert((1, "one", None))
    log.write_bytes(made.bytes())
    schema.write_bytes(costly_logs.SCHEMAS[name][: 1 << 20])
    code, memory_kb, err = cost(folder, "rows", "--schema", str(schema), str(log))
    assert code in (0, 2), err  # a signal: it took too long
    assert "Traceback" not in err
    assert memory_kb < MOST_MEMORY_KB, memory_kb
