"""A corpus of real logs: counts as its manifest says, values as the servers said, errors as due.

BINLAKE_CORPUS names its folder (its README says what is in it). The same checks run on any
corpus of that shape.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import (
    BinlogError,
    ChecksumError,
    MalformedError,
    TruncatedError,
    UnsupportedError,
)
from binlake.source.log_file import LogFile
from corpus_files import FILES, FOLDER, Listed
from definitions import definitions
from oracle import Snapshot, snapshots
from reading import events, row_lines
from replay import Replay

#: What this version cannot read yet: where reading must stop, and what it must say.
#: The list can only shrink.
NOT_YET = {
    r"generated/.*/rows-encrypted/.*": "encrypted",
    r"public/.*/binlog_before_20574\.bin": "encrypted",
    r"public/mariadb.*/bug32407\.001": "pre-releases of MySQL 5.1",
    r"public/.*/ver_5_1_17\.001": "pre-releases of MySQL 5.1",
    r"public/.*/ver_5_1-wl2325_r\.001": "pre-releases of MySQL 5.1",
}

#: What nobody reads: the log of an alpha.
REFUSED = {r"public/.*/std_data/master-bin\.000001@4\.0\.0.*": "version 2"}
UNREAD = {**NOT_YET, **REFUSED}

#: Damaged files (most on purpose; MyFlash writes wrong checksums): the error that says so.
DAMAGED: dict[str, tuple[type[BinlogError], str]] = {
    r"public/Meituan.*/(blob-.*|binlog_output_base\.flashback)": (ChecksumError, "bad checksum"),
    r"public/.*/mdev-39404-binlog\.000001": (ChecksumError, "bad checksum"),
    r"public/.*/malformed_xid_xa_(commit|rollback)\.000001": (ChecksumError, "bad checksum"),
    r"public/.*/invalid_row_v2_tag\.001": (TruncatedError, "ends too early"),
    r"public/.*/corrupt-relay-bin\.000624": (TruncatedError, "ends too early"),
    r"public/.*/binlog_no_fd_event\.000001": (MalformedError, "FORMAT_DESCRIPTION"),
    r"public/.*/binlog_truncated_event\.000001": (TruncatedError, "format description"),
    # fractions in the old temporal format: nothing in the log tells their width
    r"generated/mariadb.*/rows-old-temporal/binlog\.000002": (MalformedError, "DATETIME"),
}

#: Files that end inside an event, but are still in use by a server that writes to them.
IN_USE_AND_TORN = (
    r"public/.*/bug11747416_32228_binlog\.000001",
    r"public/.*/binlog_truncated_prev_gtid_event\.000001",
)


files = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
SCENARIOS = sorted(path.parent for path in FOLDER.glob("generated/*/*/oracle.jsonl.gz"))


def test_the_corpus_is_there(corpus: Path) -> None:
    assert FILES
    assert SCENARIOS
    assert corpus == FOLDER


def _one(patterns: Any, file: Listed) -> Any:
    return next((pattern for pattern in patterns if file.matches(pattern)), None)


@files
def test_event_counts(file: Listed) -> None:
    """The walk over headers finds the manifest's events; what stops it says why."""
    found: Counter[int] = Counter()
    try:
        with LogFile.open(str(file.path)) as log:
            for window in log.windows():
                found.update(window.frame(i).type_code for i in range(len(window)))
            torn = log.tail is not None
    except UnsupportedError as error:
        assert _one(UNREAD, file), error
        return
    except BinlogError as error:
        pattern = _one(DAMAGED, file)
        assert pattern, error
        assert isinstance(error, DAMAGED[pattern][0])
        # the manifest counts past a bad checksum, and the torn last event
        assert found <= file.types
        return
    if torn:
        assert _one(IN_USE_AND_TORN, file)
        assert sum((file.types - found).values()) <= 1
    else:
        assert found == file.types


@files
def test_rows_or_the_documented_error(file: Listed) -> None:
    """Every event and every row decodes, except in files that are listed above."""
    unread, damaged = _one(UNREAD, file), _one(DAMAGED, file)
    try:
        for event in events(file.path):
            json.dumps(event.to_fields())
        for _ in row_lines(file.path, assume_charset="utf8mb4", invalid="hex"):
            pass
    except UnsupportedError as error:
        assert unread, error
        assert UNREAD[unread] in str(error)
    except BinlogError as error:
        assert damaged, error
        kind, message = DAMAGED[damaged]
        assert type(error) is kind
        assert message in str(error)
    else:
        assert not unread, "it reads now: take it off the list"
        assert not damaged, "no error was raised"


# --- values ---


@dataclass(frozen=True)
class Scenario:
    """A folder with what the server's SELECT returned at some positions."""

    folder: Path
    meta: dict[str, Any]

    @property
    def logs(self) -> dict[str, Path]:
        """Base name -> file, in order."""
        return {
            file["name"]: self.folder / (file["name"] + (".gz" if file["gzipped"] else ""))
            for file in self.meta["files"]
        }

    def schema(self, scratch: Path) -> dict[str, str]:
        """What the log does not tell: the CREATE TABLE statements that were run, as a file."""
        if self.meta["variables"].get("binlog_row_metadata") == "FULL":
            return {}
        with gzip.open(self.folder / "workload.sql.gz", "rt", encoding="utf-8") as lines:
            text = lines.read()
        creates = re.findall(
            r"CREATE TABLE (?:`[^`]+`|\w+) \(.*?;$", text, re.DOTALL | re.MULTILINE
        )
        path = scratch / "schema.sql"
        path.write_text("USE corpus;\n" + "\n".join(creates), encoding="utf-8")
        return {"schema": str(path), "assume_charset": "utf8mb4"}


def _says_nothing(scenario: Scenario) -> Any:
    """Snapshots from which the log rightly differs."""
    unnamed = scenario.folder.parts[-2:] == ("mysql-5.6.24", "schema")

    def skip(snapshot: Snapshot) -> bool:
        # a system-versioned table: SELECT shows current rows, the log has history rows too;
        # a table altered in a log without names: columns are known by their places only
        return snapshot.table == "ver" or (unnamed and snapshot.table == "al2")

    return skip


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_values_are_the_servers(folder: Path, tmp_path: Path) -> None:
    scenario = Scenario(folder, json.loads((folder / "meta.json").read_text()))
    unreadable = {**UNREAD, **DAMAGED}
    logs = dict(scenario.logs)
    for name, path in scenario.logs.items():
        if any(re.fullmatch(p, path.relative_to(FOLDER).as_posix()) for p in unreadable):
            del logs[name]
    wanted = [s for s in snapshots(folder) if s.file in logs]
    if not logs:
        with pytest.raises(UnsupportedError):
            list(row_lines(*scenario.logs.values()))
        return
    defined = [definition for name, path in logs.items() for definition in definitions(path, name)]
    options = scenario.schema(tmp_path)
    replay = Replay(logs, wanted, _says_nothing(scenario))
    outcome = replay.run(row_lines(*logs.values(), **options), defined)
    assert outcome.problems == []
    assert outcome.values > 0
