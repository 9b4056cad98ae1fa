"""`make mirror-random`: random DML and DDL on tables of every type, which a mirror follows; the lake equals the server.

    python -m proof.mirror_random --seconds 600 --server mariadb-11.8 --seed 1 --tables 30

It prints its seed. If the lake differs, or a table is quarantined, it ends with exit code 1, and leaves the files of the
server, the lake and `statements.sql` in the folder `--state`. The statements depend on the seed and on the answers of the
server only. How far the mirror has followed when the next one runs differs each time.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from binlake.errors import BinlogError
from binlake.mirror.sessions import mirror_session
from dev.servers import RefusedError, Server, Session, installation
from proof.random_ddl import RandomTables, Step
from support.servers.random_tables import Columns, RandomTable, row_changes
from support.spark.mirrored import Lake, iceberg_jar, quarantined
from support.spark.spark_processes import PATIENT

__all__ = ["OPTIONS", "RandomLoad", "RandomProof", "say"]

DATABASE = "chance"
_SESSION = (
    "SET NAMES utf8mb4",
    "SET SESSION sql_mode = ''",
    "SET SESSION time_zone = '+00:00'",
    f"USE {DATABASE}",
)
#: Options of the mirror: many chunks in a copy, compaction all the time, and no table that stays in quarantine.
OPTIONS = {
    "tables": (f"{DATABASE}.t*",),
    "on_alter": "resync",
    "chunk_rows": 20,
    "round_bytes": 1 << 20,
    "compact_files": 4,
    "max_snapshots": 50,
}
_HOT = 5  # tables that change between two DDL statements: each costs the mirror a commit
_DDL_EVERY = 8  # transactions
_FLUSH_EVERY = 100
_PATIENCE_S = 300


class RandomLoad:
    """Writes transactions and DDL from a thread of its own, and keeps all statements in the file `statements`.

    `written`: transactions so far; `accepted` and `refused`: DDL statements by their first two words.
    """

    def __init__(self, server: Server, seed: int, tables: int, statements: Path) -> None:
        self.server = server
        self.written = 0
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self.tables = RandomTables(Columns(server, self._rng), self._rng, tables)
        self.statements = statements
        self.statements.write_text(
            f"-- {server.name}, seed {seed}, {tables} tables; some statements are refused\n"
        )
        self._hot: list[RandomTable] = []
        self._over = threading.Event()
        self._error: BaseException | None = None

    def prepare(self) -> None:
        """Make the tables and their first rows."""
        self.server.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        with self._session() as session:
            for steps in self.tables.first():
                self._make(session, steps)
            self._choose_hot()

    @contextmanager
    def running(self, seconds: float, pause_s: float) -> Iterator[None]:
        """Write for a while, with a pause after each transaction, until the block ends at the latest. The end of the
        time does not depend on the mirror: after a copy, it follows until the end of the log, which may have more DDL.

        Raises what the thread has raised.
        """
        self._over.clear()
        until = time.monotonic() + seconds
        thread = threading.Thread(target=self._run, args=(until, pause_s), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(_PATIENCE_S)
        if self._error is not None:
            raise self._error

    def _run(self, until: float, pause_s: float) -> None:
        try:
            with self._session() as session:
                while not self._over.is_set() and time.monotonic() < until:
                    self._one(session)
                    self._over.wait(pause_s)
        except BaseException as error:  # noqa: BLE001 - raised again where the thread is joined
            self._error = error

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with self.server.session() as session:
            for statement in _SESSION:
                self._do(session, statement)
            yield session

    def _one(self, session: Session) -> None:
        """One transaction; a DDL statement before it from time to time."""
        if self.written % _DDL_EVERY == _DDL_EVERY - 1:
            table = self._rng.choice(self._hot)
            self._make(session, self.tables.ddl(table))
            self._choose_hot(table)
        if self.written % _FLUSH_EVERY == _FLUSH_EVERY - 1:
            self._do(session, "FLUSH BINARY LOGS")
        begin, *end = self._rng.choices(list(_TRANSACTIONS), list(_TRANSACTIONS.values()))[0]
        changes = [
            statement
            for _ in range(self._rng.choice((1, 2, 5, 12)))
            for statement in row_changes(self._rng.choice(self._hot), self._rng)
        ]
        for statement in (begin, *changes, *end):
            if statement:
                self._do(session, statement)
        self.written += 1

    def _choose_hot(self, *also: RandomTable) -> None:
        """The tables that change next; also some that have just changed, if they still exist."""
        there = self.tables.tables
        some = self._rng.sample(there, min(_HOT, len(there)))
        self._hot = some + [table for table in also if table in there]

    def _make(self, session: Session, steps: list[Step]) -> None:
        """Run statements, and note those that the server accepts."""
        for step in steps:
            words = " ".join(step.sql.split()[:2])
            is_accepted = self._do(session, step.sql)
            if is_accepted:
                step.accepted()
            if not words.startswith("INSERT"):
                (self.accepted if is_accepted else self.refused)[words] += 1

    def _do(self, session: Session, statement: str) -> bool:
        """Whether the server accepts a statement."""
        with self.statements.open("a") as out:
            out.write(f"{statement};\n")
        try:
            session.execute(statement)
        except RefusedError as error:
            with self.statements.open("a") as out:
                out.write(f"-- refused: {str(error)[:200]!r}\n")
            return False
        return True


#: The first statement of a transaction and those after its changes, and how often.
_TRANSACTIONS: dict[tuple[str, ...], int] = {
    ("BEGIN", "COMMIT"): 16,
    ("",): 2,
    ("BEGIN", "ROLLBACK"): 1,
    ("XA START 'x'", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"): 1,
}


class RandomProof:
    """A server with random tables, and a lake that follows it: made with `OPTIONS`. `say` receives the lines of the report."""

    def __init__(
        self,
        lake: Lake,
        folder: Path,
        seed: int,
        tables: int,
        say: Callable[[str], None] = print,
    ) -> None:
        self.lake, self.seed, self._say = lake, seed, say
        self.load = RandomLoad(lake.server, seed, tables, folder / "statements.sql")
        self._rng = random.Random(f"{seed} of the mirror")
        self._say(f"{lake.server.name}, seed {seed}, statements in {self.load.statements}")

    def run(self, seconds: float, pause_s: float) -> None:
        """Follow the server while it is written to, compare now and then, and compare all at the end.

        Raises AssertionError with the seed.
        """
        try:
            self.load.prepare()
            self.lake.catch_up()
            tables = self.load.accepted.total()
            until = time.monotonic() + seconds
            with self.load.running(seconds, pause_s):
                while (left := until - time.monotonic()) > 0:
                    self._follow(min(left, self._rng.uniform(2, 10)))
                    if time.monotonic() < until:
                        self._compare(is_last=False)
            self._compare(is_last=True)
            assert self.load.accepted.total() > tables, "no DDL after the first copy"
        except (AssertionError, BinlogError) as error:
            raise AssertionError(
                f"seed {self.seed}, statements in {self.load.statements}: {error}"
            ) from error

    def say_statements(self) -> None:
        """Report how many DDL statements the server has accepted and refused, by their first words."""
        self._say(f"accepted: {dict(self.load.accepted)}; refused: {dict(self.load.refused)}")

    def _follow(self, seconds: float) -> None:
        """Run a new mirror for a while."""
        mirror = self.lake.mirror()
        timer = threading.Timer(seconds, mirror.stop)
        timer.start()
        try:
            mirror.run(once=False, interval_s=0.1)
        finally:
            timer.cancel()
            mirror.close()
        self._check_quarantines()

    def _check_quarantines(self) -> None:
        found = quarantined(self.lake)
        assert not found, f"quarantined: {found}"

    def _compare(self, *, is_last: bool) -> None:
        """Compare all tables. While DDL goes on, some may be altered each time that they are compared."""
        found = self.lake.verify()
        self._check_quarantines()
        different = [table for table in found.tables if table.state == "different"]
        assert not different, "\n".join(
            f"{table.table}: {', '.join(map(str, table.differences[:5]))}" for table in different
        )
        states = Counter(table.state for table in found.tables)
        if is_last:
            others = [table for table in found.tables if table.state != "equal"]
            assert found.is_equal, f"{others[:3]} of {len(others)}"
            names = {f"{DATABASE}.{name}" for name in self.load.tables.selected}
            missing = names ^ {table.table for table in found.tables}
            assert not missing, f"on one side only: {missing}"
        rows = sum(table.source_rows for table in found.tables)
        copies = sum(note.endswith(" copied") for note in self.lake.notes)
        self._say(
            f"{self.load.written} transactions, {sum(self.load.accepted.values())} DDL statements,"
            f" {copies} copies: {dict(states)}, {rows} rows"
        )


def say(text: str) -> None:
    """A line of the report, with the time."""
    print(time.strftime("%H:%M:%S"), text, flush=True)


def main() -> None:
    """Run it for a while, in a new folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--seconds", type=float, default=120, help="how long the server is written to"
    )
    parser.add_argument("--seed", type=int, help="by default one that the clock gives")
    parser.add_argument("--server", default="mysql-9.7", help="a name of `python -m dev.servers`")
    parser.add_argument("--tables", type=int, default=30)
    parser.add_argument(
        "--pause", type=float, default=0.25, help="seconds between two transactions"
    )
    parser.add_argument("--state", default="build/mirror-random", help="a folder for everything")
    arguments = parser.parse_args()
    seed = int(time.time()) % 100_000 if arguments.seed is None else arguments.seed
    folder = Path(arguments.state).absolute() / f"{arguments.server}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with ExitStack() as held:
        server = Server(installation(arguments.server), folder / "server")
        held.callback(server.stop)
        server.start()
        spark = mirror_session(
            str(folder / "lake"), master="local[2]", iceberg_jar=str(iceberg_jar()),
            config={**PATIENT, "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "1"},
        )  # fmt: skip
        held.callback(spark.stop)
        (folder / "lake").mkdir()
        lake = Lake(spark, folder / "lake", server, **OPTIONS)
        proof = RandomProof(lake, folder, seed, arguments.tables, say)
        try:
            proof.run(arguments.seconds, arguments.pause)
        except AssertionError as error:
            say(str(error))
            sys.exit(1)
        proof.say_statements()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
