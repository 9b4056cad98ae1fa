"""What tests need from outside: a corpus of logs, real servers, the kind of core.

Environment:
    BINLAKE_CORPUS    folder of a corpus of logs; tests of it are skipped without
    BINLAKE_REQUIRE   1: what is missing fails instead of being skipped (continuous integration), and
                      property tests take the same examples every time
    BINLAKE_CORE      compiled or pure: which core must be the one that runs
    BINLAKE_SERVERS_HOME   where real servers are kept (dev/servers)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from dev.servers import Server

ROOT = Path(__file__).resolve().parents[1]
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
REQUIRED = os.environ.get("BINLAKE_REQUIRE") == "1"

# How long an example takes says more of what else the machine does than of us.
settings.register_profile(
    "binlake",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=REQUIRED,
)
settings.load_profile("binlake")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the combinations of a test and a server that `not_on` names: there is nothing to test."""
    kept, left_out = [], []
    for item in items:
        mark = item.get_closest_marker("not_on")
        there = getattr(item, "callspec", None)
        applies = mark is None or there is None or there.params["server"] not in mark.args
        (kept if applies else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything must be, a test that skips has failed."""
    return _not_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """And so has a file that skips."""
    return _not_skipped((yield))


def _not_skipped(report: Report) -> Report:
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"BINLAKE_REQUIRE=1, but {report.nodeid} was skipped: {why}"
    return report


def missing(what: str) -> NoReturn:
    """Skip because something is not here, or fail where everything must be."""
    if REQUIRED:
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
            if not REQUIRED:
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
