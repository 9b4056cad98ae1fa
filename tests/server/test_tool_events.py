"""Event by event, every golden and corpus log is what the servers' own tools list."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dev.servers import installation
from dev.servers.packages import home
from server.tool_events import listed_by_tool, listed_here
from support.logs.corpus_files import FILES

pytestmark = pytest.mark.server

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TOOLS = ("mysql-9.7", "mariadb-11.8")

#: Logs that a tool does not read as they are, and the first event that it has wrong.
MISREAD = {
    # the types of the 5.1 pre-releases have other numbers, which only their own format tells
    "ver_5_1-wl2325_r.001": 4,
    # broken on purpose; MariaDB's tool steps over what it cannot decode
    "invalid_row_v2_tag.001": 1,
}
#: What a tool says when it stops before the end of a log without an error.
GAVE_UP = b"# The rest of the binlog is encrypted!"

LOGS = [
    pytest.param(path, id=name)
    for name, path in [
        *((path.relative_to(GOLDEN).as_posix(), path) for path in sorted(GOLDEN.rglob("*binlog.0*"))),
        *((file.name, file.path) for file in FILES if file.path.suffix != ".gz"),
    ]
]  # fmt: skip


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest) -> str:
    """Each tool in turn."""
    name = str(request.param)
    if not (home() / "roots" / name).exists():
        if os.environ.get("BINLAKE_REQUIRE") != "1":
            pytest.skip(f"{name} is not provisioned: python -m dev.servers provision {name}")
        installation(name).provision()
    return name


@pytest.mark.parametrize("path", LOGS)
def test_events(path: Path, tool: str, tmp_path: Path, figure: Callable[..., None]) -> None:
    kind = installation(tool)
    run = subprocess.run(
        [*kind.reader_command(), "-vv", "--base64-output=decode-rows", f"--local-load={tmp_path}", str(path)],
        capture_output=True,
        check=False,
        env={**kind.environment(), "TZ": "UTC"},
    )  # fmt: skip
    theirs = listed_by_tool(run.stdout.decode("utf-8", "surrogateescape"))
    ours = listed_here(path, kind.flavour)
    whole = run.returncode == 0 and GAVE_UP not in run.stdout
    theirs.drops_variables = kind.flavour == "mysql" and b"Begin_load_query" in run.stdout
    if path.name in MISREAD:
        whole = False
        count = MISREAD[path.name]
        del theirs.events[count:], theirs.starts[count + 1 :]
    problems = list(ours.disagreements(theirs, whole=whole))
    figure(
        "events", tool=tool, compared=len(theirs.events) + len(theirs.variables),
        differing=len(problems), rows=sum(theirs.rows), whole=whole,
    )  # fmt: skip
    assert problems == []
