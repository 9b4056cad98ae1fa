"""A corpus of real logs: counts as its manifest says, values as the servers said, errors as due.

BINLAKE_CORPUS names its folder (its README says what is in it). The same checks run on any
corpus of that shape.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import (
    BinlogError,
    ChecksumError,
    KeyringError,
    MalformedError,
    TruncatedError,
    UnsupportedError,
)
from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.stream.verify.chains import verify
from support.logs.corpus_files import FILES, FOLDER, Listed, keys_beside
from support.oracles.definitions import definitions
from support.oracles.oracle import Snapshot, snapshots
from support.oracles.reading import events, lines_of, printed_rows, row_lines, task_lines
from support.oracles.replay import Replay

#: The log of an alpha, which no tool reads.
REFUSED = {r"public/.*/std_data/master-bin\.000001@4\.0\.0.*": "version 2"}

#: Damaged files (most on purpose; MyFlash writes wrong checksums): the error that says so.
DAMAGED: dict[str, tuple[type[BinlogError], str]] = {
    r"public/Meituan.*/(blob-.*|binlog_output_base\.flashback)": (ChecksumError, "bad checksum"),
    r"public/.*/mdev-39404-binlog\.000001": (ChecksumError, "bad checksum"),
    r"public/.*/malformed_xid_xa_(commit|rollback)\.000001": (ChecksumError, "bad checksum"),
    r"public/.*/invalid_row_v2_tag\.001": (TruncatedError, "ends too early"),
    r"public/.*/corrupt-relay-bin\.000624": (TruncatedError, "ends too early"),
    r"public/.*/binlog_no_fd_event\.000001": (MalformedError, "FORMAT_DESCRIPTION"),
    r"public/.*/binlog_truncated_event\.000001": (TruncatedError, "format description"),
}

#: Files that end inside an event, but are still in use by a server that writes to them.
IN_USE_AND_TORN = (
    r"public/.*/bug11747416_32228_binlog\.000001",
    r"public/.*/binlog_truncated_prev_gtid_event\.000001",
)


#: Who encrypts, in the manifest.
ENCRYPTED = ("mysql", "mariadb")

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
    """The walk over headers finds the manifest's events; what stops it says why.

    The walk itself, because no public way reports a torn tail and the events before it.
    """
    if file.row["encrypted"] in ENCRYPTED:
        return  # the author of the manifest had no key: see below
    found: Counter[int] = Counter()
    try:
        with LogFile.open(str(file.path)) as log:
            for window in log.windows():
                found.update(window.frame(i).type_code for i in range(len(window)))
            torn = log.tail is not None
    except UnsupportedError as error:
        assert _one(REFUSED, file), error
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


@pytest.mark.parametrize(
    "file", [f for f in FILES if f.row["encrypted"] in ENCRYPTED], ids=lambda file: file.name
)
def test_events_of_encrypted_logs(file: Listed) -> None:
    """Their server lists the same positions; every event has the right checksum."""
    report = verify([str(file.path)], keyring=Keyring(file.keys["keyring"])).files[0]
    assert report.ok, report.problems
    assert report.bad == 0
    text = file.path.parent / "reader" / f"{file.path.name}.txt.gz"
    if not text.exists():
        return
    lines = gzip.decompress(text.read_bytes())
    listed = {int(at) for at in re.findall(rb"^# at (\d+)", lines, re.MULTILINE)}
    found = {event.frame.offset: event.name for event in events(file.path, **file.keys)}
    assert listed <= set(found)
    # the list was made before the server ended the file
    after = {name for at, name in found.items() if at not in listed}
    assert after <= {"STOP_EVENT", "BINLOG_CHECKPOINT_EVENT"}
    with pytest.raises(KeyringError):
        list(row_lines(file.path))


@files
def test_rows_or_the_documented_error(file: Listed) -> None:
    """Every event and every row decodes, except in files that are listed above."""
    unread, damaged = _one(REFUSED, file), _one(DAMAGED, file)
    try:
        for event in events(file.path, **file.keys):
            json.dumps(event.to_fields())
        for _ in row_lines(file.path, assume_charset="utf8mb4", invalid="hex", **file.keys):
            pass
    except UnsupportedError as error:
        assert unread, error
        assert REFUSED[unread] in str(error)
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
        """The missing parts of the log: the CREATE TABLE statements that were run, as a file."""
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


def _is_history(snapshot: Snapshot) -> bool:
    """A system-versioned table: SELECT shows current rows, the log has history rows too."""
    return snapshot.table == "ver"


def _readable_logs(scenario: Scenario) -> dict[str, Path]:
    unreadable = DAMAGED
    return {
        name: path
        for name, path in scenario.logs.items()
        if not any(re.fullmatch(p, path.relative_to(FOLDER).as_posix()) for p in unreadable)
    }


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_names_and_values_come_from_the_logs_own_ddl(folder: Path) -> None:
    """The whole chain, without a schema and without an assumed character set."""
    scenario = Scenario(folder, json.loads((folder / "meta.json").read_text()))
    logs = _readable_logs(scenario)
    if len(logs) < len(scenario.logs):
        return
    keys = keys_beside(folder / "binlog.000001")
    defined = [found for name, path in logs.items() for found in definitions(path, name, **keys)]
    log = binlake.open(list(logs.values()), **keys)
    replay = Replay(logs, snapshots(folder), _is_history)
    outcome = replay.run(lines_of(log), defined)
    assert outcome.problems == []
    assert outcome.values > 0
    warnings = log.ledger.warnings
    assert [warning for warning in warnings if "the log does not contain" in warning] == []


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_values_are_the_servers(folder: Path, tmp_path: Path, figure: Callable[..., None]) -> None:
    scenario = Scenario(folder, json.loads((folder / "meta.json").read_text()))
    unreadable = {**REFUSED, **DAMAGED}
    logs = dict(scenario.logs)
    for name, path in scenario.logs.items():
        if any(re.fullmatch(p, path.relative_to(FOLDER).as_posix()) for p in unreadable):
            del logs[name]
    wanted = [s for s in snapshots(folder) if s.file in logs]
    if not logs:
        with pytest.raises(UnsupportedError):
            list(row_lines(*scenario.logs.values()))
        return
    keys = keys_beside(folder / "binlog.000001")
    defined = [found for name, path in logs.items() for found in definitions(path, name, **keys)]
    options: dict[str, Any] = {**scenario.schema(tmp_path), **keys}
    replay = Replay(logs, wanted, _says_nothing(scenario))
    outcome = replay.run(printed_rows(*logs.values(), **options), defined)
    figure("logs", logs="corpus", server=folder.parent.name, **outcome.figures())
    assert outcome.problems == []
    assert outcome.values > 0


@pytest.mark.parametrize(
    "folder", [path for path in SCENARIOS if path.name == "rows-old-temporal"], ids=str
)
def test_fractions_in_the_old_format_are_an_error_if_their_digits_are_unknown(
    folder: Path,
) -> None:
    with pytest.raises(MalformedError, match="give its CREATE TABLE with the option schema"):
        list(task_lines(folder / "binlog.000002", ddl_scan_bytes=0))
    log = binlake.open(folder / "binlog.000002")  # its DDL tells
    assert sum(t["inserts"] for batch in log.view("transactions") for t in batch.to_pylist()) > 0
    assert log.ledger.warnings == []
