"""What tests need from outside: a corpus of logs, real servers, the kind of core.

Environment:
    BINLAKE_CORPUS    folder of a corpus of logs; tests of it are skipped without
    BINLAKE_REQUIRE   1: what is missing fails instead of being skipped (continuous integration)
    BINLAKE_CORE      compiled or pure: which core must be the one that runs
    BINLAKE_SERVERS_HOME   where real servers are kept (dev/servers)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from dev.servers import Server

ROOT = Path(__file__).resolve().parents[1]


def missing(what: str) -> NoReturn:
    """Skip because something is not here, or fail where everything must be."""
    if os.environ.get("BINLAKE_REQUIRE") == "1":
        pytest.fail(f"BINLAKE_REQUIRE=1, but {what}")
    pytest.skip(what)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of the corpus, with `generated/` and `public/`."""
    named = os.environ.get("BINLAKE_CORPUS")
    if not named:
        missing("BINLAKE_CORPUS is not set: it names the folder of a corpus of logs")
    folder = Path(named)
    if not (folder / "generated" / "MANIFEST.csv").exists():
        missing(f"BINLAKE_CORPUS={named} holds no generated/MANIFEST.csv")
    return folder


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of the golden logs."""
    return ROOT / "tests" / "golden"


@pytest.fixture(scope="session")
def provisioned() -> Callable[[str], str]:
    """Returns the name of a real server whose programs are here; skips, or fails where everything must be."""
    from dev.servers import installation
    from dev.servers.packages import SetupError, home

    def look(name: str) -> str:
        if not (home() / "roots" / name).exists():
            if os.environ.get("BINLAKE_REQUIRE") != "1":
                pytest.skip(f"{name} is not provisioned: python -m dev.servers provision {name}")
            try:
                installation(name).provision()
            except SetupError as error:
                missing(f"{name} cannot be had: {error}")
        return name

    return look


@pytest.fixture(
    scope="module", params=["mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"]
)
def server(request: pytest.FixtureRequest, provisioned: Callable[[str], str]) -> Iterator[Server]:
    """Each real server in turn, running."""
    from dev.servers import running

    with running(provisioned(request.param)) as started:
        yield started


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Tell what was counted: `figure("values", server=…, compared=…)`; dev/fidelity.py adds it up."""

    def tell(kind: str, **counted: object) -> None:
        record_property("figure", {"kind": kind, **counted})

    return tell
