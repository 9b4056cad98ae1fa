"""Every event of every file of the corpus: decoded, counted, compared with the servers' readers."""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from binlake.errors import BinlogError
from binlake.events.base import Event
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.events.registry import decode_event
from binlake.format.collations import COLLATIONS
from binlake.format.column_types import MYSQL_TYPE_YEAR
from binlake.format.event_types import GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT, event_name
from binlake.values.frame import EventFormat, Frame
from binlake.values.plan import ColumnDefinition
from support.logs.event_bytes import bodies, frames

MAGIC = b"\xfebin"
PLAIN = re.compile(r"\w*", re.A)  # members that readers print as they are

#: Events that the makers of these files broke on purpose, by path and position.
BROKEN = {
    ("mariadb-test-10.11/mysql-test/suite/binlog/std_data/invalid_row_v2_tag.001", 256),
    ("mariadb-test-10.11/mysql-test/suite/binlog/std_data/invalid_row_v2_tag.001", 287),
    ("mariadb-test-10.11/mysql-test/suite/binlog/std_data/invalid_row_v2_tag.001", 320),
    ("mysql-testsuite-9.7/mysql-test/std_data/corrupt-relay-bin.000624", 91204),
}
#: Files whose manifest counts a torn last event.
TORN = {"mariadb-test-10.5/mysql-test/std_data/bug11747416_32228_binlog.000001": {23: 1}}

#: Logs without a whole text: encrypted ones, and one where MariaDB's reader stops half-way.
UNREADABLE = ("rows-encrypted", "rows-old-temporal/binlog.000002")

CUTS_PER_TYPE = 4
CUT_BODY_BYTES = 2000
SEED = 3


@cache
def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def logs(corpus: Path) -> Iterator[tuple[str, bytes, dict[str, str]]]:
    """(path, bytes, manifest row) of all plain logs that are not huge."""
    for folder in ("generated", "public"):
        root = corpus / folder
        with (root / "MANIFEST.csv").open() as manifest:
            for row in csv.DictReader(manifest):
                if row["encrypted"] != "no" or "bigrow/" in row["path"]:
                    continue
                data = content(root / row["path"])
                if data[:4] == MAGIC:
                    yield row["path"], data, row


def use(event: Event, fmt: EventFormat | None) -> list[Event]:
    """Read all of an event; the events inside a payload."""
    json.dumps(event.to_fields())
    if isinstance(event, RowsEvent):
        event.inflate()
    if not isinstance(event, TransactionPayloadEvent):
        return []
    plain = b"".join(event.inflate())
    inside = []
    for frame in frames(plain, 0):
        inside.append(decode_event(frame, plain[frame.offset + 19 : frame.end], fmt))
        use(inside[-1], fmt)
    return inside


def test_every_event_decodes_and_the_counts_are_the_manifests(corpus: Path) -> None:
    seen = 0
    for path, data, row in logs(corpus):
        counts: Counter[int] = Counter(TORN.get(path, {}))
        for frame, body, fmt in bodies(data):
            counts[frame.type_code] += 1
            try:
                event = decode_event(frame, body, fmt)
                inside = use(event, fmt)
            except BinlogError:
                assert (path, frame.offset) in BROKEN
                continue
            assert (path, frame.offset) not in BROKEN
            if isinstance(event, TransactionPayloadEvent):
                assert sum(each.frame.length for each in inside) == event.uncompressed_size
        listed = (entry.split(":") for entry in row["types"].split())
        assert counts == {int(code): int(count) for code, count in listed}, path
        seen += 1
    assert seen > 100


# --- against the servers' own readers -------------------------------------------------------


def scenarios(corpus: Path, server: str) -> Iterator[tuple[str, list[Event], str]]:
    """(name, events with those of payloads in their place, reader's text) of a server's files."""
    for text_path in sorted((corpus / "generated" / server).glob("*/reader/*.txt.gz")):
        log_path = text_path.parent.parent / text_path.name.removesuffix(".txt.gz")
        if not log_path.exists() or any(name in str(log_path) for name in UNREADABLE):
            continue
        events: list[Event] = []
        for frame, body, fmt in bodies(content(log_path)):
            event = decode_event(frame, body, fmt)
            events.append(event)
            events += use(event, fmt)
        text = gzip.decompress(text_path.read_bytes()).decode("utf-8", "replace")
        yield str(log_path), events, text


def test_gtids_are_those_of_mysqlbinlog(corpus: Path) -> None:
    compared = 0
    for name, events, text in scenarios(corpus, "mysql-9.7"):
        expected = re.findall(r"^SET @@SESSION\.GTID_NEXT= '([^']+:\d+)'", text, re.M)
        found = [
            event.gtid
            for event in events
            if isinstance(event, GtidEvent)
            and event.frame.type_code in (GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT)
        ]
        assert found == expected, name
        compared += len(found)
    assert compared > 20


def test_clocks_are_those_of_mysqlbinlog(corpus: Path) -> None:
    compared = 0
    pattern = re.compile(
        r"GTID\s+last_committed=(\d+)\s+sequence_number=(\d+)\s+.*"
        r"original_committed_timestamp=(\d+)\s+immediate_commit_timestamp=(\d+)\s+"
        r"transaction_length=(\d+)"
    )
    for name, events, text in scenarios(corpus, "mysql-9.7"):
        expected = [tuple(map(int, found)) for found in pattern.findall(text)]
        found = [
            (
                event.last_committed,
                event.sequence_number,
                event.original_commit_us,
                event.immediate_commit_us,
                event.transaction_length,
            )
            for event in events
            if isinstance(event, GtidEvent)
        ]
        assert found == expected, name
        compared += len(found)
    assert compared > 500


@pytest.mark.parametrize("server", ["mariadb-10.11", "mariadb-11.8"])
def test_gtids_are_those_of_mariadb_binlog(corpus: Path, server: str) -> None:
    compared = 0
    for name, events, text in scenarios(corpus, server):
        expected = re.findall(r"\tGTID (\d+-\d+-\d+)", text)
        found = [event.gtid for event in events if isinstance(event, MariadbGtidEvent)]
        assert found == expected, name
        compared += len(found)
    assert compared > 500


def column_lines(text: str) -> list[tuple[list[tuple[str, str]], list[str]]]:
    """Per TABLE_MAP that the reader prints with columns: (name, rest of the line), key names.

    No columns where the reader's own text is broken.
    """
    blocks: list[tuple[list[tuple[str, str]], list[str]]] = []
    for block in re.finditer(
        r"^# Columns\((.*(?:\n#         .*)*)\)\n(?:# Primary Key\((.*)\)\n)?", text, re.M
    ):
        columns: list[tuple[str, str]] = []
        if "INVALID_TYPE" in block[1]:  # mariadb-binlog does not know its compressed columns
            blocks.append((columns, []))
            continue
        for line in block[1].split("\n"):
            # a name is there with binlog_row_metadata=FULL; MariaDB does not double its backticks
            found = re.fullmatch(r"(?:#         )?(?:`(.*?)` (?=[A-Z]))?(.*?),?", line)
            assert found, line
            columns.append(((found[1] or "").replace("``", "`"), found[2]))
        blocks.append((columns, block[2].split(", ") if block[2] else []))
    return blocks


def expected_parts(
    column: ColumnDefinition, *, signs: bool
) -> tuple[bool, bool | None, str | None]:
    """(NOT NULL, UNSIGNED, collation name) of a column."""
    collation = None
    if column.collation_id not in (None, 63):
        collation = COLLATIONS[column.collation_id].name
    # no tool prints that a YEAR is unsigned
    unsigned = bool(column.unsigned) and column.type_code != MYSQL_TYPE_YEAR
    return not column.nullable, unsigned if signs else None, collation


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_columns_are_those_of_the_servers_reader(corpus: Path, server: str) -> None:
    # mariadb-binlog counts no bit for a YEAR, which its server writes: its UNSIGNED is wrong then
    signs = server == "mysql-9.7"
    compared = 0
    for name, events, text in scenarios(corpus, server):
        described = [event.definition() for event in events if isinstance(event, TableMapEvent)]
        blocks = column_lines(text)
        assert len(described) == len(blocks), name
        for definition, (columns, key) in zip(described, blocks, strict=True):
            if not columns:
                continue
            if definition.name_source == "metadata":
                assert [c.name for c in definition.columns] == [found for found, _ in columns], name
            names = [definition.columns[i].name for i in definition.primary_key]
            assert names == [re.sub(r"\(\d+\)$", "", part) for part in key]
            for column, (_, line) in zip(definition.columns, columns, strict=True):
                collate = re.search(r" COLLATE (\w+)", line)
                printed = (
                    " NOT NULL" in line,
                    " UNSIGNED" in line if signs else None,
                    collate[1] if collate else None,
                )
                assert expected_parts(column, signs=signs) == printed, (name, column, line)
                members = re.match(r"(?:ENUM|SET)\((.*?)\)(?: |$)", line)
                if members and column.members and PLAIN.fullmatch("".join(column.members)):
                    assert ",".join(f"'{m}'" for m in column.members) == members[1]
                decimal = re.match(r"DECIMAL\((\d+),(\d+)\)", line)
                if decimal:
                    assert (column.precision, column.decimals) == tuple(map(int, decimal.groups()))
                compared += 1
    assert compared > 2000


# --- broken -----------------------------------------------------------------------------------


def samples_by_type(corpus: Path) -> dict[str, list[tuple[Frame, bytes, EventFormat | None]]]:
    """A few bodies of each type and flavour, of different lengths."""
    found: dict[str, dict[int, tuple[Frame, bytes, EventFormat | None]]] = {}
    for _, data, _ in logs(corpus):
        for frame, body, fmt in bodies(data):
            if len(body) <= CUT_BODY_BYTES:
                flavour = "" if fmt is None else fmt.flavour
                kind = f"{event_name(frame.type_code)} {flavour}"
                found.setdefault(kind, {}).setdefault(len(body), (frame, body, fmt))
    chance = random.Random(SEED)
    return {
        kind: chance.sample(list(by_length.values()), min(CUTS_PER_TYPE, len(by_length)))
        for kind, by_length in found.items()
    }


def test_cut_and_changed_bodies_are_events_or_errors(corpus: Path) -> None:
    kinds = samples_by_type(corpus)
    assert len(kinds) > 40
    chance = random.Random(SEED)
    for samples in kinds.values():
        for frame, body, fmt in samples:
            changed = [body[:cut] for cut in range(len(body))]
            for _ in range(100 if body else 0):
                copy = bytearray(body)
                copy[chance.randrange(len(copy))] = chance.randrange(256)
                changed.append(bytes(copy))
            for other in changed:
                with suppress(BinlogError):
                    use(decode_event(frame, other, fmt), fmt)
