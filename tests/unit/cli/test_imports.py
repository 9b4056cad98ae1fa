"""Each command imports what it needs: libraries are imported late, or not at all.

These tests compare modules, not seconds, so they hold on any machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
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


def imported(*command: object) -> set[str]:
    """The modules in a process that has run a command."""
    words = [sys.executable, "-c", _RUN, *map(str, command)]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr.decode()
    return set(modules)


@pytest.mark.parametrize("log", [LOG, MARIADB], ids=["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("command", "libraries"),
    [
        (["inspect"], set()),
        (["inspect", "--json"], set()),
        (["inspect", "--full", "--since", "2020-01-01"], set()),
        (["verify"], set()),
        (["gtid", "gaps"], set()),
        (["rows"], ARROW),
        (["rows", "--op", "delete", "--query"], ARROW),
        (["rows", "--format", "csv"], ARROW),
        (["verify", "--reencode"], ARROW),
        (["sql"], ARROW),
        (["mysqlbinlog", "-vv"], ARROW),
        (["stats", "--statements"], ARROW),
        (["stats"], ARROW),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_only_the_libraries_that_it_needs(
    log: Path, command: list[str], libraries: set[str]
) -> None:
    assert imported(*command, log) & LIBRARIES == libraries


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


@pytest.mark.parametrize(
    ("code", "libraries"),
    [
        ("binlake.open(path)", set()),
        ("list(binlake.open(path).events())", set()),
        ("list(binlake.open(path).transactions())", set()),
        ("binlake.verify([path])", set()),
        ("log = binlake.open(path); [log.to_arrow(table) for table in log.tables()]", ARROW_API),
        ("binlake.open(path).to_arrow()", ARROW_API),
        ("[list(binlake.open(path).view(name)) for name in ('events', 'transactions')]", ARROW_API),
    ],
)
def test_the_api_imports_only_the_libraries_that_it_needs(code: str, libraries: set[str]) -> None:
    program = f"import sys, binlake; path = sys.argv[1]; {code}; print(*sys.modules)"
    words = [sys.executable, "-c", program, str(LOG)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & LIBRARIES == libraries
