"""Resources that tests need from outside: a corpus of logs, real servers.

Environment:
    BINLAKE_CORPUS    folder of a corpus of logs; tests of it are skipped without
    BINLAKE_REQUIRE   1: what is missing fails instead of being skipped (continuous integration), and
                      property tests take the same examples every time
    BINLAKE_SERVERS_HOME   where real servers are kept (dev/servers)
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from dev import spark_classes

if TYPE_CHECKING:
    from dev.servers import Server

ROOT = Path(__file__).resolve().parents[1]
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
REQUIRED = os.environ.get("BINLAKE_REQUIRE") == "1"

# How long an example takes says more of what else the machine does than of us. Where each run takes the same examples, half
# of the usual number is enough.
settings.register_profile(
    "binlake",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=REQUIRED,
    max_examples=50 if REQUIRED else 100,
)
settings.load_profile("binlake")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `not_on` and `spark_line` exclude: there is nothing to test."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if _is_impossible(item) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _is_impossible(item: pytest.Item) -> bool:
    line = item.get_closest_marker("spark_line")
    if line is not None and not _is_spark_of(line.args[0]):
        return True
    mark = item.get_closest_marker("not_on")
    there = getattr(item, "callspec", None)
    return mark is not None and there is not None and there.params["server"] in mark.args


def _is_spark_of(line: str) -> bool:
    """Whether the installed PySpark is of a line, `4.1`; without PySpark its tests say so themselves."""
    try:
        return version("pyspark").startswith(f"{line}.")
    except PackageNotFoundError:
        return True


# What `make test` runs. Its last line says what that leaves out.
_QUICK = "not server and not spark and not costs"
_LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    for name, value in spark_classes.variables().items():
        os.environ.setdefault(name, value)
    # A shell starts what runs in its background with SIGINT ignored: a test of Ctrl-C would never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_LEFT_OUT] = Counter()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        marks = [mark for mark in ("spark", "server", "costs") if item.get_closest_marker(mark)]
        if marks and not _is_impossible(item):
            item.config.stash[_LEFT_OUT][marks[0]] += 1


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say as the last line what `make test` has left out."""
    left_out = config.stash[_LEFT_OUT]
    if config.option.markexpr == _QUICK and left_out:
        print(
            f"left out: {left_out['spark']:,} tests with Spark, {left_out['server']:,} with real servers, "
            f"{left_out['costs']:,} of what hostile files cost; `make test-all` runs them"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a skipped test if everything is required, and say of a failed one how its servers are."""
    report = _not_skipped((yield))
    if report.failed and item.get_closest_marker("server"):
        from dev.servers import Server

        values = getattr(item, "funcargs", {}).values()
        servers = {id(value): value for value in values if isinstance(value, Server)}
        report.sections += [("server", one.condition()) for one in servers.values()]
    return report


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


@pytest.fixture(autouse=True)
def _handlers_of_signals() -> Iterator[None]:
    """A test leaves the handlers of signals as it found them: with another's, a test of Ctrl-C never ends."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


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
