"""The figures of fidelity: `python -m dev.fidelity`, or `make fidelity`.

Runs the tests that compare binlake with real servers, and adds up what they counted (the fixture
`figure`); there is no second implementation of anything. Writes docs/fidelity.md if every test
ran and passed: four servers and a corpus ($BINLAKE_CORPUS) are needed for that.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from binlake.format.event_types import event_name

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "fidelity.md"
TESTS = (
    "tests/server/test_matrix.py",
    "tests/server/test_tool_events.py",
    "tests/server/charsets/test_charsets.py",
    "tests/truth/test_golden.py",
    "tests/truth/test_corpus.py",
    "tests/truth/test_reencode.py",
)
SERVERS = ("mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8")

Figure = dict[str, Any]


class Collector:
    """A plugin of pytest that keeps the figures and the outcomes of tests."""

    def __init__(self) -> None:
        self.figures: dict[str, list[Figure]] = defaultdict(list)
        self.outcomes: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each phase of a test."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1
        if report.when == "call":
            for name, figure in report.user_properties:
                if name == "figure" and isinstance(figure, dict):
                    self.figures[str(figure["kind"])].append(figure)


def _count(number: int) -> str:
    return f"{number:,}"


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' ---: |' * (len(head) - 1)}"
    for row in rows:
        cells = [_count(cell) if isinstance(cell, int) else str(cell) for cell in row]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _sums(figures: list[Figure], by: str, *counted: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for figure in figures:
        for name in counted:
            found[str(figure[by])][name] += int(figure[name])
    return found


def _values(figures: dict[str, list[Figure]]) -> Iterator[str]:
    """By family of types and server."""
    compared: dict[str, Counter[str]] = defaultdict(Counter)
    differing: Counter[str] = Counter()
    for figure in figures["values"]:
        compared[figure["family"]][figure["server"]] += figure["compared"]
        differing[figure["family"]] += figure["differing"]
    rows: list[tuple[object, ...]] = [
        (f"`{family}`", *(count[server] for server in SERVERS), differing[family])
        for family, count in compared.items()
    ]
    totals = [sum(count[server] for count in compared.values()) for server in SERVERS]
    rows.append(("together", *totals, differing.total()))
    yield from _table(("tables", *SERVERS, "differing"), rows)


def _matrix(figures: dict[str, list[Figure]]) -> Iterator[str]:
    rows: list[tuple[object, ...]] = [
        (f["server"], f["version"], f["combinations"], f["collations"]) for f in figures["matrix"]
    ]
    yield from _table(("server", "version", "combinations of settings", "collations"), rows)


def _logs(figures: dict[str, list[Figure]]) -> Iterator[str]:
    rows: list[tuple[object, ...]] = []
    for logs in ("golden", "corpus"):
        chosen = [figure for figure in figures["logs"] if figure["logs"] == logs]
        for server, sums in sorted(_sums(chosen, "server", "compared", "differing").items()):
            rows.append((logs, server, sums["compared"], sums["differing"]))
    yield from _table(("logs", "server", "values", "differing"), rows)


def _tools(figures: dict[str, list[Figure]]) -> Iterator[str]:
    rows: list[tuple[object, ...]] = []
    for tool in sorted({figure["tool"] for figure in figures["events"]}):
        chosen = [figure for figure in figures["events"] if figure["tool"] == tool]
        read = sum(1 for figure in chosen if figure["whole"])
        sums = _sums(chosen, "tool", "compared", "rows", "differing")[tool]
        rows.append((tool, len(chosen), read, sums["compared"], sums["rows"], sums["differing"]))
    head = ("tool of", "files", "read whole", "events", "row changes", "differing")
    yield from _table(head, rows)


def _reencoded(figures: dict[str, list[Figure]]) -> Iterator[str]:
    types: dict[int, Counter[str]] = defaultdict(Counter)
    rows: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    for figure in figures["reencoded"]:
        for code, count in figure["types"].items():
            types[code][figure["logs"]] += count
        rows[figure["logs"]] += figure["rows"]
        differing[figure["logs"]] += figure["differing"]
    listed: list[tuple[object, ...]] = [
        (f"`{event_name(code)}`", types[code]["golden"], types[code]["corpus"])
        for code in sorted(types)
    ]
    totals = [sum(count[logs] for count in types.values()) for logs in ("golden", "corpus")]
    listed.append(("events together", *totals))
    listed.append(("row changes, all images", rows["golden"], rows["corpus"]))
    listed.append(("differing", differing["golden"], differing["corpus"]))
    yield from _table(("", "golden", "corpus"), listed)


def _charsets(figures: dict[str, list[Figure]]) -> Iterator[str]:
    codes = _sums(figures["charsets"], "server", "charsets", "compared", "differing")
    collations = _sums(figures["collations"], "server", "compared", "differing")
    rows: list[tuple[object, ...]] = [
        (
            server,
            codes[server]["charsets"],
            codes[server]["compared"],
            collations[server]["compared"],
            codes[server]["differing"] + collations[server]["differing"],
        )
        for server in SERVERS
    ]
    yield from _table(("server", "character sets", "codes", "collations", "differing"), rows)


def page(figures: dict[str, list[Figure]], tests: int) -> str:
    """docs/fidelity.md."""
    lines = [
        "# Fidelity",
        "",
        "On this page you can see how many values and events the tests compare with real servers and their tools. A test fails if there is a",
        "difference. To make a similar check of your own logs, decode every event and encode it again:",
        "",
        "```console",
        "$ binlake verify --reencode demo/mysql-9.7",
        "…",
        "2 files, 3,921 events: all is well",
        "```",
        "",
        (
            f"`make fidelity` wrote this page on {time.strftime('%Y-%m-%d')}, with binlake {version('binlake')}, Python"
            f" {platform.python_version()} and {_count(tests)} tests."
        ),
        "",
        "## Values, against SELECT",
        "",
        "`tests/server/test_matrix.py` fills and changes tables of every column type, with edge values and random values. It does so under",
        "combinations of the settings that change a log: row image, metadata, compression, encryption, checksums, partial JSON, the old",
        "temporal format, the version of row events. Each pair of values of two settings occurs in a combination; the tests do not run all",
        "combinations. They compare every value twice: as `binlake rows` prints it, and as the typed Arrow column contains it.",
        "[values.md](values.md) lists the differences in form.",
        "",
        *_values(figures),
        *_matrix(figures),
        "The repository also contains logs with the answers of the servers that wrote them (`tests/truth/`):",
        "",
        *_logs(figures),
        "## Events, against the servers' tools",
        "",
        "`tests/server/test_tool_events.py` compares the events of each golden log and of each corpus log with the output of the tools:",
        "",
        "- the begin, end, time, server id, checksum and type of each event",
        "- table ids, GTIDs, GTID sets and lists, transaction ids, positions, sizes and error codes",
        "- the number of rows that each statement changes",
        "",
        "The test lists the fields that the tools do not print. If a tool stops in the middle of a file, the test compares the events before",
        "that point.",
        "",
        *_tools(figures),
        "## Events and row images, encoded again",
        "",
        "binlake encodes decoded events again, and `tests/truth/test_reencode.py` compares the result byte for byte with the log.",
        "`binlake verify --reencode` does the same for your logs. The numbers are those of events:",
        "",
        *_reencoded(figures),
        "## Character sets",
        "",
        "`tests/server/charsets/test_charsets.py` compares these with the servers:",
        "",
        "- all codes of one and two bytes, the codes of three bytes in ujis and eucjpms, and the basic plane of gb18030",
        "- edge cases and 6,000 random characters of the Unicode character sets",
        "- the number, character set and name of every collation",
        "",
        *_charsets(figures),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Run the tests, print the figures, write the page."""
    parser = argparse.ArgumentParser(prog="python -m dev.fidelity", description=__doc__)
    parser.add_argument("tests", nargs="*", default=TESTS, help="only these, and no page")
    given = parser.parse_args()
    os.chdir(ROOT)
    collector = Collector()
    code = pytest.main(["-q", "-p", "no:cacheprovider", *given.tests], plugins=[collector])
    text = page(collector.figures, collector.outcomes["passed"])
    print(text)
    whole = not code and not collector.outcomes["skipped"] and tuple(given.tests) == TESTS
    if whole:
        PAGE.write_text(text, encoding="utf-8")
    else:
        outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(collector.outcomes.items()))
        print(f"{PAGE.relative_to(ROOT)} is left as it is: {outcomes}", file=sys.stderr)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
