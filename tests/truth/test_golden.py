"""Every value of every golden log is what the server's own SELECT returned."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import binlake
from support.logs.corpus_files import keys_beside
from support.oracles.definitions import definitions
from support.oracles.oracle import Snapshot, snapshots
from support.oracles.reading import events, lines_of, printed_rows
from support.oracles.replay import Replay

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@dataclass(frozen=True)
class Case:
    """A golden folder."""

    folder: Path
    about: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def files(self) -> list[Path]:
        return [self.folder / file["name"] for file in self.about["files"]]

    @property
    def has_snapshots(self) -> bool:
        return any(snapshots(self.folder))

    @property
    def options(self) -> dict[str, Any]:
        """A schema where the log tells no names or signs."""
        told = "--binlog-row-metadata=FULL" in self.about["options"]
        if (told and not self.name.startswith("mysql-5.6")) or not self.has_snapshots:
            return self.keys
        # definitions that change in the log cannot all be in the schema: assume for the others
        schema = str(self.folder / "schema.sql")
        return {"schema": schema, "assume_charset": "utf8mb4", **self.keys}

    @property
    def keys(self) -> dict[str, Any]:
        """The keyring, where the logs are encrypted."""
        return keys_beside(self.files[0])


CASES = [
    Case(path.parent, json.loads(path.read_text())) for path in sorted(GOLDEN.glob("*/*/case.json"))
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def test_every_server_has_its_cases() -> None:
    servers = {case.folder.parent.name for case in CASES}
    assert servers == {"mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"}
    assert len(CASES) >= 40


def _not_told(case: Case) -> Any:
    """Snapshots that a replay by column position cannot follow: 5.6 logs no names."""

    def skip(snapshot: Snapshot) -> bool:
        return case.name == "mysql-5.6.24/schema" and snapshot.table in ("moving", "moved")

    return skip


@cases
def test_rows_equal_the_select_of_the_server(case: Case, figure: Callable[..., None]) -> None:
    wanted = list(snapshots(case.folder))
    replay = Replay([path.name for path in case.files], wanted, _not_told(case))
    defined = [definition for path in case.files for definition in definitions(path, **case.keys)]
    outcome = replay.run(printed_rows(*case.files, **case.options), defined)
    figure("logs", logs="golden", server=case.folder.parent.name, **outcome.figures())
    assert outcome.problems == []
    assert bool(outcome.values) == bool(wanted)


@cases
def test_ddl_in_the_log_supplies_facts_missing_in_row_events(case: Case) -> None:
    """Without a schema: names, signs, members, character sets and keys of the log's own DDL."""
    wanted = list(snapshots(case.folder))
    if not wanted:
        return
    replay = Replay([path.name for path in case.files], wanted)
    defined = [definition for path in case.files for definition in definitions(path, **case.keys)]
    log = binlake.open(case.files, **case.keys)
    outcome = replay.run(lines_of(log), defined)
    assert outcome.problems == []
    assert outcome.values > 0
    warnings = log.ledger.warnings
    assert [warning for warning in warnings if "the log does not contain" in warning] == []


@cases
def test_events_are_those_that_the_server_lists(case: Case) -> None:
    with gzip.open(case.folder / "events.jsonl.gz", "rt", encoding="utf-8") as lines:
        listed = {found["file"]: found["events"] for found in map(json.loads, lines)}
    for path in case.files:
        # events inside a compressed transaction are listed at their payload's end
        wanted = [start for start, _, end in listed[path.name] if start != end]
        found = [event.frame.offset for event in events(path, **case.keys)]
        assert found[: len(wanted)] == wanted
        # the list was made before the server ended the file
        late = (e for e in events(path, **case.keys) if e.frame.offset not in wanted)
        after = {event.name for event in late}
        assert after <= {"STOP_EVENT", "BINLOG_CHECKPOINT_EVENT"}


@cases
def test_files_are_the_recorded_ones(case: Case) -> None:
    for file in case.about["files"]:
        assert (case.folder / file["name"]).stat().st_size == file["bytes"]


def _typed_updates(case: Case) -> Iterator[dict[str, Any]]:
    """The updates of a case, read as typed columns with their before-images."""
    log = binlake.open(case.files, **case.options, before=True, zero_date="text")
    for batch in log.changes("*.*"):
        yield from (row for row in batch.to_pylist() if row["_op"] == "update")


@cases
def test_a_typed_update_lacks_only_columns_missing_in_both_images(case: Case) -> None:
    """`rows` is proven above to give the two images that make up the row of the server."""
    lines = {
        (line["file"], line["pos"], line["row"]): line
        for line in printed_rows(*case.files, **case.options)
        if line["op"] == "update"
    }
    rows = list(_typed_updates(case))
    assert len(rows) == len(lines)
    carried = 0
    for row in rows:
        line = lines[row["_log_file"], row["_log_pos"], row["_row"]]
        names = [name for name in row if not name.startswith("_")]
        told = line["before"].keys() | line["after"].keys()
        assert set(row["_absent"] or ()) == set(names) - told
        for name in names:
            if name in line["after"]:
                assert (row[name] is None) == (line["after"][name] is None), name
            else:
                assert row[name] == row["_before"][name], name
                carried += name in line["before"]
    # NOBLOB leaves out only what is in neither image
    carrying = ("types-minimal", "types-nodup", "partial-json")
    assert bool(carried) == (case.folder.name in carrying)
