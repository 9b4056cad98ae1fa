"""Every value of every golden log is what the server's own SELECT returned."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import UnsupportedError
from corpus_files import keys_beside
from definitions import definitions
from oracle import Snapshot, snapshots
from reading import events, row_lines
from replay import Replay

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

# What this version cannot decode yet, by the type of the event. The list can only shrink.
NOT_YET = {"mysql-9.7/partial-json": "PARTIAL_UPDATE_ROWS_EVENT"}


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
    def options(self) -> dict[str, str]:
        """A schema where the log tells no names or signs."""
        told = "--binlog-row-metadata=FULL" in self.about["options"]
        if (told and not self.name.startswith("mysql-5.6")) or not self.has_snapshots:
            return self.keys
        # definitions that change in the log cannot all be in the schema: assume for the others
        schema = str(self.folder / "schema.sql")
        return {"schema": schema, "assume_charset": "utf8mb4", **self.keys}

    @property
    def keys(self) -> dict[str, str]:
        """The keyring, where the logs are encrypted."""
        return keys_beside(self.files[0])


CASES = [
    Case(path.parent, json.loads(path.read_text())) for path in sorted(GOLDEN.glob("*/*/case.json"))
]
READABLE = [case for case in CASES if case.name not in NOT_YET]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
readable = pytest.mark.parametrize("case", READABLE, ids=lambda case: case.name)


def test_every_server_has_its_cases() -> None:
    servers = {case.folder.parent.name for case in CASES}
    assert servers == {"mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"}
    assert len(CASES) >= 40


def _not_told(case: Case) -> Any:
    """Snapshots that a replay by column position cannot follow: 5.6 logs no names."""

    def skip(snapshot: Snapshot) -> bool:
        return case.name == "mysql-5.6.24/schema" and snapshot.table in ("moving", "moved")

    return skip


@readable
def test_rows_are_what_the_server_selects(case: Case) -> None:
    wanted = list(snapshots(case.folder))
    replay = Replay([path.name for path in case.files], wanted, _not_told(case))
    defined = [definition for path in case.files for definition in definitions(path, **case.keys)]
    outcome = replay.run(row_lines(*case.files, **case.options), defined)
    assert outcome.problems == []
    assert bool(outcome.values) == bool(wanted)


@pytest.mark.parametrize("name", NOT_YET)
def test_what_cannot_be_decoded_yet_says_so(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    with pytest.raises(UnsupportedError) as caught:
        list(row_lines(*case.files))
    assert caught.value.event_type == NOT_YET[name]


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
