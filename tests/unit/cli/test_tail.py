"""`tail` into a file: however it ends, the file has what came."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlake.cli.tail
from binlake.cli.main import main
from binlake.errors import PositionLostError
from binlake.interrupts import Interrupts
from binlake.source.replica.url import ServerUrl
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Run
from binlake.stream.sql.ddl import DdlStatement, TakesDdl
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import Position

LOG = "mysql-9.7/transactions/binlog.000001"


def lost() -> None:
    raise PositionLostError("the server has purged what comes next")


def terminated() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def end_by(golden: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """A server that sends a log, and then something happens."""

    class Connected:
        url = ServerUrl.parse("mysql://repl@db1/")

        def position(self) -> Position:
            return Position("", "", 0)

    def prepare(ending: Callable[[], None]) -> None:
        class Live:
            def __init__(
                self, _: object, options: ReadOptions, ledger: Ledger, on_idle: Callable[[], None]
            ) -> None:
                [self.reader] = LogReader.of_chains(resolve([str(golden / LOG)]), options, ledger)
                self.on_idle = on_idle

            def ddl_before(self) -> Iterator[DdlStatement]:
                return self.reader.ddl_before()

            def runs(self, on_ddl: TakesDdl) -> Iterator[Run]:
                yield from self.reader.runs(on_ddl)
                self.on_idle()
                ending()
                raise AssertionError("the end was not heard")

        monkeypatch.setattr(binlake.cli.tail, "LiveReader", Live)
        monkeypatch.setattr(binlake.cli.tail, "Follower", lambda *_: nullcontext())
        monkeypatch.setattr(binlake.cli.tail, "connect_any", lambda _: nullcontext(Connected()))

    return prepare


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
@pytest.mark.parametrize(
    ("ending", "code"), [(lost, 3), (terminated, 0), (interrupted, 0)], ids=lambda value: str(value)
)
def test_the_output_file_contains_the_received_changes(
    ending: Callable[[], None],
    code: int,
    form: str,
    end_by: Callable[[Callable[[], None]], None],
    golden: Path,
    tmp_path: Path,
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    end_by(ending)
    came, expected = tmp_path / "came", tmp_path / "expected"
    assert main(["rows", str(golden / LOG), "-f", form, "-o", str(expected)]) == 0
    assert main(["tail", "mysql://repl@db1/", "-f", form, "-o", str(came)]) == code
    assert content(came, form) == content(expected, form)
    assert came.stat().st_size
    assert sorted(tmp_path.iterdir()) == [came, expected]
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def content(path: Path, form: str) -> Any:
    """The rows of an Arrow stream, if it is complete."""
    data = path.read_bytes()
    if form != "arrow":
        return data
    assert data.endswith(b"\xff\xff\xff\xff\0\0\0\0")
    return pa.ipc.open_stream(io.BytesIO(data)).read_all().to_pylist()


def test_it_is_in_the_file_while_the_server_is_idle(
    end_by: Callable[[Callable[[], None]], None], tmp_path: Path
) -> None:
    came, seen = tmp_path / "came", []

    def look() -> None:
        seen.append(came.read_bytes())
        lost()

    end_by(look)
    assert main(["tail", "mysql://repl@db1/", "-o", str(came)]) == 3
    assert seen == [came.read_bytes()]
    assert seen[0].endswith(b"\n")


@pytest.mark.parametrize("ending", [terminated, interrupted])
@pytest.mark.parametrize("given", [["--where", "nope = 1"], ["--columns", "nope"]])
def test_a_column_that_no_table_has_is_reported_early_and_is_an_error_at_the_end(
    given: list[str],
    ending: Callable[[], None],
    end_by: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    early = []

    def look() -> None:
        early.append(capsys.readouterr().err)
        ending()

    end_by(look)
    assert main(["tail", "mysql://repl@db1/", "--start", "binlog.000001:4", *given]) == 2
    assert ("so far, no table has the column 'nope'" in early[0]) == ("--where" in given)
    assert "column 'nope'" in capsys.readouterr().err


def test_a_column_of_where_that_some_table_has_is_no_error(
    end_by: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    end_by(interrupted)
    assert (
        main(["tail", "mysql://repl@db1/", "--start", "binlog.000001:4", "--where", "id = -1"]) == 0
    )
    assert "no table" not in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_an_atomic_step(number: signal.Signals) -> None:
    done = False
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt), interrupts.later():  # noqa: PT012
            os.kill(os.getpid(), number)
            done = True
        with interrupts.later():
            pass
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert done
