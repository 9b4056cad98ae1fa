"""Each command imports what it needs: libraries are imported late, or not at all.

These tests compare modules, not seconds, so they hold on any machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
LOG = GOLDEN / "mysql-9.7" / "types-full" / "binlog.000001"
MARIADB = GOLDEN / "mariadb-11.8" / "types-full" / "binlog.000001"

#: Whatever is slow to import.
LIBRARIES = {
    "cryptography", "http", "multiprocessing", "numpy", "pandas", "prometheus_client", "pyarrow",
    "pymysql", "pyspark", "rich", "sqlglot", "ssl",
}  # fmt: skip
ARROW = {"pyarrow"}
ARROW_API = {"numpy", "pyarrow"}  # its caller may want NumPy arrays

_RUN = """
import json, sys
from binlake.cli.main import main
code = main()
print(json.dumps([code, sorted(name for name in sys.modules if sys.modules[name])]), file=sys.stderr)
"""

_COMMANDS = """
import io, sys
from contextlib import redirect_stdout
from binlake.cli.main import main

def run(words):
    sys.argv[1:] = words
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
        assert main() == 0, words
"""
_CODE = """
import binlake

def run(code):
    exec(code, {"binlake": binlake, "path": path})
"""
_ONE_BY_ONE = """
import json, sys
path, given = sys.argv[1], json.loads(sys.argv[2])
{run}
for one in given:
    run(one)
    print(json.dumps(sorted(name for name in sys.modules if sys.modules[name])), file=sys.stdout)
"""


def imported_one_by_one(run: str, given: Sequence[object]) -> list[set[str]]:
    """The libraries in a process after each of the things that it has run."""
    program = _ONE_BY_ONE.format(run=run)
    words = [sys.executable, "-c", program, str(LOG), json.dumps(given)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [{*json.loads(line)} & LIBRARIES for line in done.stdout.splitlines()]


def imported(*command: object) -> set[str]:
    """The modules in a process that has run a command."""
    words = [sys.executable, "-c", _RUN, *map(str, command)]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr.decode()
    return set(modules)


WITHOUT_LIBRARIES = (
    ["inspect"],
    ["inspect", "--json"],
    ["inspect", "--full", "--since", "2020-01-01"],
    ["verify"],
    ["gtid", "gaps"],
)
WITH_ARROW = (
    ["rows"],
    ["rows", "--op", "delete", "--query"],
    ["rows", "--format", "csv"],
    ["verify", "--reencode"],
    ["sql"],
    ["mysqlbinlog", "-vv"],
    ["stats", "--statements"],
    ["stats"],
)


@pytest.mark.parametrize("log", [LOG, MARIADB], ids=["mysql", "mariadb"])
def test_a_command_imports_only_the_libraries_that_it_needs(log: Path) -> None:
    """The commands run in one process, those without libraries first; a library is of the command that imported it."""
    commands = [[*command, str(log)] for command in (*WITHOUT_LIBRARIES, *WITH_ARROW)]
    found = imported_one_by_one(_COMMANDS, commands)
    for command, libraries in zip(commands, found, strict=True):
        assert libraries == (ARROW if command[:-1] in WITH_ARROW else set()), command


def test_an_index_needs_no_pandas(tmp_path: Path) -> None:
    log = tmp_path / LOG.name
    log.write_bytes(LOG.read_bytes())
    assert "pandas" not in imported("index", log)


@pytest.mark.parametrize(
    "engine",
    [["--engine", "local"], ["--engine=local"], ["--engine", "spark", "--engine", "local"]],
)
def test_an_export_without_spark_needs_no_numpy(engine: list[str], tmp_path: Path) -> None:
    libraries = imported("export", LOG, tmp_path / "lake", *engine) & LIBRARIES
    assert libraries - {"ssl"} == ARROW  # pyarrow.fs imports ssl


def test_reading_ddl_needs_no_sqlglot() -> None:
    assert "sqlglot" not in imported("rows", MARIADB)


def test_the_help_imports_no_command() -> None:
    modules = imported("--help")
    assert modules & LIBRARIES == set()
    assert {name for name in modules if name.startswith("binlake.")} == {
        "binlake.cli", "binlake.cli.common", "binlake.cli.common.command_help",
        "binlake.cli.common.lines", "binlake.cli.main", "binlake.errors", "binlake.lazy",
        "binlake.printable",
    }  # fmt: skip


def test_a_command_imports_no_other_command() -> None:
    modules = imported("inspect", "--help")
    assert "binlake.cli.inspect.command" in modules
    assert not {"binlake.cli.rows", "binlake.cli.stats.command", "binlake.cli.archive"} & modules


def test_network_code_is_for_urls() -> None:
    modules = imported("rows", LOG)
    assert "binlake.source.replica.connection" not in modules
    assert "binlake.source.replica.follower" not in modules


CODE: tuple[tuple[str, set[str]], ...] = (
    ("binlake.open(path)", set()),
    ("list(binlake.open(path).events())", set()),
    ("list(binlake.open(path).transactions())", set()),
    ("binlake.verify([path])", set()),
    ("log = binlake.open(path); [log.to_arrow(table) for table in log.tables()]", ARROW_API),
    ("binlake.open(path).to_arrow()", ARROW_API),
    ("[list(binlake.open(path).view(name)) for name in ('events', 'transactions')]", ARROW_API),
)


def test_the_api_imports_only_the_libraries_that_it_needs() -> None:
    found = imported_one_by_one(_CODE, [code for code, _ in CODE])
    for (code, expected), libraries in zip(CODE, found, strict=True):
        assert libraries == expected, code
