"""`binlake mysqlbinlog` against the servers' own tools: line by line, on every golden log.

Where the text differs on purpose (docs/mysqlbinlog.md), one side is rewritten here, so that a
difference that is not meant shows.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binlake.cli.main import main
from dev.servers import installation
from dev.servers.packages import home

pytestmark = pytest.mark.server

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
#: The tool that each server's logs are compared with.
TOOLS = {
    "mysql-5.6.24": "mysql-9.7",
    "mysql-9.7": "mysql-9.7",
    "mariadb-10.11": "mariadb-11.8",
    "mariadb-11.8": "mariadb-11.8",
}
UUID = "78157433-e595-11f1-a5e0-02fc00000001"
#: Options that are tried on every log.
EVERYWHERE = (
    ("",),
    ("-v",),
    ("-vv", "--print-table-metadata"),
    ("-vv", "--base64-output=decode-rows"),
    ("-H",),
    ("-s",),
)
#: Options that choose, on the logs with GTIDs; ours may be spelled otherwise.
CHOOSING = {
    "mysql-9.7": (
        (f"--include-gtids={UUID}:3-4",),
        (f"--exclude-gtids={UUID}:1-3",),
        ("--server-id=99",),
        ("-j582",),
        ("--stop-position=1000",),
        ("-o4",),
        ("-dother",),
        ("-dgolden", "-v"),
        ("--skip-gtids", "-D", "-i", "--set-charset=latin1"),
        ("--start-datetime=2026-11-21 10:22:39",),
        ("--stop-datetime=2026-11-21 10:22:38",),
    ),
    "mariadb-11.8": (
        ("--start-position=0-1-4",),
        ("--stop-position=0-1-4",),
        ("--start-position=0-1-3,7-1-0", "--stop-position=0-1-4,7-1-1"),
        ("--do-domain-ids=7",),
        ("--ignore-domain-ids=7,0",),
        ("--server-id=99",),
        ("--ignore-server-ids=1",),
        ("-j889",),
        ("--stop-position=1500",),
        ("-o4",),
        ("-dother",),
        ("-dgolden", "-v"),
        ("-D", "--set-charset=latin1"),
        ("--start-datetime=2026-11-21 10:24:29",),
    ),
}

Rewrite = Callable[[bytes], bytes]


def _sub(pattern: bytes, by: bytes) -> Rewrite:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text: compiled.sub(by, text)


def _without_geometries(text: bytes) -> bytes:
    """Changes of the table with geometries: MySQL's tool ends them at the first."""
    kept = []
    skipping = False
    for line in text.splitlines(keepends=True):
        if not line.startswith(b"### "):
            skipping = False
        elif line.startswith((b"### INSERT", b"### UPDATE", b"### DELETE")):
            skipping = line.endswith(b"`geometries`\n")
        if not skipping:
            kept.append(line)
    return b"".join(kept)


def _compressed_columns(text: bytes) -> bytes:
    """Tables with COMPRESSED columns: MariaDB's tool does not know these types."""
    return re.sub(rb"(?m)^# Columns\(.*\n(#         .*\n)*", _known_columns, text)


def _known_columns(block: re.Match[bytes]) -> bytes:
    unknown = b"COMPRESSED" in block[0] or b"INVALID_TYPE" in block[0]
    return b"# Columns(COMPRESSED)\n" if unknown else block[0]


_AUTOMATIC = _sub(rb"^SET @@SESSION.GTID_NEXT= 'AUTOMATIC' /\* added by mysqlbinlog \*/ .*\n", b"")
_YEAR_0 = _sub(rb"^(###   @\d+=)(1900|0000)( /\* YEAR|$)", rb"\1YEAR 0\3")

#: What is rewritten on both sides, by flavour.
BOTH: dict[str, tuple[Rewrite, ...]] = {
    "mysql": (
        _AUTOMATIC,
        _YEAR_0,
        _without_geometries,
        # the dimensions of another column, where an image lacks one before it
        _sub(rb"VECTOR\(\d+\) meta", b"VECTOR meta"),
        # INSERT_ID of LOAD DATA: dropped, or said before the next statement
        _sub(rb"^(#.*\tIntvar|SET INSERT_ID=.*)\n", b""),
        _sub(rb"^ROLLBACK /\* added by mysqlbinlog \*/ .*\n", b""),
        # with a start position, the format description has another event's position
        _sub(rb"\A((?:.*\n)*?)# at \d+\n", rb"\1"),
        _sub(rb"^#.*\tXA PREPARE .*\n", b""),
    ),
    "mariadb": (
        _YEAR_0,
        _sub(rb"^# Number of rows: .*\n", b""),
        _compressed_columns,
        _sub(rb"(flags: STMT_END_F).*", rb"\1"),
    ),
}


def ours(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> bytes:
    code = main(["mysqlbinlog", *arguments])
    out, err = capfdbinary.readouterr()
    assert code == 0, err
    return out


def theirs(tool: str, *arguments: str) -> bytes:
    kind = installation(tool)
    command = [*kind.reader_command(), *arguments]
    return subprocess.run(
        command, capture_output=True, check=False, env={**kind.environment(), "TZ": "UTC"}
    ).stdout


def assert_same(text: bytes, expected: bytes, flavour: str) -> None:
    for rewrite in BOTH[flavour]:
        text, expected = rewrite(text), rewrite(expected)
    if text != expected:
        wanted, found = (side.decode("latin-1").splitlines() for side in (expected, text))
        shown = "\n".join(list(difflib.unified_diff(wanted, found, n=1, lineterm=""))[:40])
        pytest.fail(shown[:4000])


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _tool(server: str) -> str:
    tool = TOOLS[server]
    if not (home() / "roots" / tool).exists():
        if os.environ.get("BINLAKE_REQUIRE") == "1":
            installation(tool).provision()
        else:
            pytest.skip(f"{tool} is not provisioned: python -m dev.servers provision {tool}")
    return tool


def _logs(case: Path) -> list[str]:
    return sorted(str(path) for path in case.glob("binlog.0*") if path.suffix[1:].isdigit())


CASES = [
    pytest.param(path, id=f"{server}-{path.name}")
    for server in TOOLS
    for path in sorted((GOLDEN / server).iterdir())
    # MySQL's tool reads no v1 rows, and MariaDB's stops at old temporals
    if path.name not in ("types-v1", "types-old-temporals") and "encrypted" not in path.name
]


@pytest.mark.parametrize("case", CASES)
def test_golden_logs(case: Path, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    tool = _tool(case.parent.name)
    flavour = tool.partition("-")[0]
    for options in EVERYWHERE:
        arguments = [f"--local-load={tmp_path}", *filter(None, options), *_logs(case)]
        if flavour == "mysql" and "-H" in options and case.name == "statements":
            continue  # INSERT_ID of LOAD DATA, as above
        if flavour == "mariadb" and "-H" in options:
            # its annotations are dumped with the position of the event behind
            arguments.append("--skip-annotate-row-events")
        expected = theirs(tool, *arguments)
        _remove_files(tmp_path)
        text = ours(capfdbinary, *arguments)
        _remove_files(tmp_path)
        if flavour == "mariadb":
            text = re.sub(rb"(?m)^###   @.*$", _as_mariadb_escapes, text)
        elif "-s" in options:
            continue_at = b"DELIMITER /*!*/;"
            expected = expected[expected.index(continue_at) :]
            text = text[text.index(continue_at) :]
        assert_same(text, expected, flavour)


def _as_mariadb_escapes(line: re.Match[bytes]) -> bytes:
    """MariaDB's tool escapes neither quotes nor backslashes."""
    return line[0].replace(b"\\'", b"'").replace(b"\\\\", b"\\")


def _remove_files(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("server", "options"),
    [
        pytest.param(server, options, id=" ".join((server, *options)))
        for server, every in CHOOSING.items()
        for options in every
    ],
)
def test_options_that_choose(
    server: str, options: tuple[str, ...], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    tool = _tool(server)
    arguments = [*options, *_logs(GOLDEN / server / "gtid")]
    expected = theirs(tool, *arguments)
    assert expected
    assert_same(ours(capfdbinary, *arguments), expected, tool.partition("-")[0])


def test_values_that_the_servers_tools_print_wrongly(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """GEOMETRY ends MySQL's rows, YEAR 0 is 1900 in both; here they are what was stored."""
    for server, tool in (("mysql-9.7", "mysql-9.7"), ("mariadb-11.8", "mariadb-11.8")):
        arguments = ["-vv", "--base64-output=decode-rows", *_logs(GOLDEN / server / "types-full")]
        expected = theirs(_tool(tool), *arguments)
        text = ours(capfdbinary, *arguments)
        assert b"=1900 /* YEAR" in expected
        assert b"=1900 /* YEAR" not in text
        assert b"=0000 /* YEAR" in text
        assert b"/* GEOMETRY meta=4 nullable=1 is_null=0 */" in text
        if server == "mysql-9.7":
            assert b"Don't know how to handle column type=255" in expected
            assert b"Don't know how" not in text
