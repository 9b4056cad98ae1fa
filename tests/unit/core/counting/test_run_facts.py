"""The facts about plain transactions, compared with their frames and columns, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.core.counting.run_facts import FACTS, run_facts
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import PlainRun
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_SECOND_US = 1_000_000


def _runs(path: Path) -> list[PlainRun]:
    (reader,) = LogReader.of_chains(resolve([str(path)]), ReadOptions(), Ledger())
    return [run for run in reader.runs() if isinstance(run, PlainRun)]


def _facts_of_one(run: PlainRun, group: int) -> dict[str, int]:
    one = run.part(group, group + 1)
    commit_us = run.plain.commit_us[group]
    last = one.window.frame(one.last - 1)
    ended_us = max(commit_us // _SECOND_US, last.timestamp) * _SECOND_US
    return {
        "pos": one.start,
        "end_pos": one.end,
        "bytes": one.bytes,
        "commit_us": commit_us,
        "duration_us": max(0, ended_us - run.plain.begun_us[group]),
        "server_id": one.window.frame(one.first).server_id,
        "thread_id": run.plain.thread_id[group],
    }


@pytest.mark.parametrize("server", ["mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_the_columns_are_the_facts_of_each_transaction(golden: Path, server: str) -> None:
    compared = 0
    for path in sorted((golden / server).glob("types-*/binlog.000*")):
        for run in _runs(path):
            low = run.low + run.groups // 3  # a part of a run, too
            for first in {run.low, low}:
                values, without_thread = run_facts(run.plain, first, run.high)
                count = run.high - first
                columns = {
                    name: list(values[place * count : (place + 1) * count])
                    for place, name in enumerate(FACTS)
                }
                wanted = [_facts_of_one(run, group) for group in range(first, run.high)]
                assert columns == {name: [facts[name] for facts in wanted] for name in FACTS}
                assert without_thread == sum(facts["thread_id"] < 0 for facts in wanted)
                compared += count
    assert compared


def test_transactions_that_are_not_there_are_an_error(golden: Path) -> None:
    run = next(
        run for path in sorted(golden.glob("*/types-full/binlog.000*")) for run in _runs(path)
    )
    for low, high in ((-1, 1), (0, run.plain.count + 1), (2, 1)):
        with pytest.raises(IndexError):
            run_facts(run.plain, low, high)
