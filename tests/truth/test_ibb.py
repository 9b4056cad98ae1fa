"""The golden logs of MariaDB as its InnoDB binlog (.ibb): the same rows, whatever the pages.

The writer is the tests' own; the events are those of real servers.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from binlake.source.log_file import LogFile
from support.logs.ibb_log import IbbWriter, groups_of
from support.logs.mutations import mutated
from support.oracles.reading import Line, command, row_lines

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = [
    case
    for case in sorted(GOLDEN.glob("mariadb-*/*"))
    if not case.name.startswith(("encrypted", "copy"))
]


def groups(case: Path) -> list[list[bytes]]:
    """All event groups of a case."""
    found: list[list[bytes]] = []
    for path in sorted(case.glob("binlog.0*")):
        with LogFile.open(str(path)) as log:
            assert log.format is not None
            checksum_bytes = log.format.checksum_bytes
        found += groups_of(path.read_bytes(), checksum_bytes)
    return found


def write(events: list[list[bytes]], directory: Path, chance: random.Random) -> None:
    """Small files; some groups in one record, others out of band, while others commit."""
    writer = IbbWriter(
        pages_per_file=chance.randrange(3, 8), page_bytes=chance.choice((4096, 16384))
    )
    for group in events:
        if len(group) < 3 or chance.random() < 0.4:
            writer.commit(b"".join(group))
            continue
        running = writer.begin()
        data = b"".join(group[1:])
        at = 0
        while at < len(data):
            size = chance.randrange(1, 4000)
            running.out_of_band(data[at : at + size])
            at += size
            if chance.random() < 0.2:
                writer.begin().out_of_band(b"of another, which never commits" * 20)
        running.commit(group[0])
    writer.save(directory, allocated=True)


def without_place(lines: list[Line]) -> list[Line]:
    return [
        {k: v for k, v in line.items() if k not in ("file", "pos", "end_pos", "row")}
        for line in lines
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_golden_rows(case: Path, tmp_path: Path) -> None:
    write(groups(case), tmp_path, random.Random(case.name))
    logs = sorted(case.glob("binlog.0*"))
    options: dict[str, Any] = {"on_error": "skip"}  # rotation has a log that crashed
    expected = without_place(list(row_lines(*logs, **options)))
    found = list(row_lines(tmp_path, **options))
    assert without_place(found) == expected
    places = [(line["file"], line["pos"], line["row"]) for line in found]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_events_in_good_pages(seed: int, tmp_path: Path) -> None:
    """Rows or an error in one line, nothing else."""
    chance = random.Random(seed)
    case = chance.choice(CASES)
    path = chance.choice(sorted(case.glob("binlog.0*")))
    with LogFile.open(str(path)) as log:
        assert log.format is not None
        checksum_bytes = log.format.checksum_bytes
    events = list(groups_of(mutated(path.read_bytes(), chance), checksum_bytes))
    write(events or groups(case), tmp_path, chance)
    code, out, err = command("rows", str(tmp_path))
    assert code in (0, 1, 2), code
    for line in out.splitlines():
        json.loads(line)
    errors = err.splitlines()
    assert code == 0 or (len(errors) == 1 and errors[0].startswith("binlake: ")), err
