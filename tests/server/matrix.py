"""Logs that servers write under every pair of their settings, decoded and compared with SELECT.

A combination has a log of its own: tables of every column type with edge and random values, and
changes of them, made under its settings. All types are in every combination; of the settings,
every two values meet in one (`pairwise`), and every collation is in one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev.golden.keys import Keys, prepare_keys
from dev.golden.oracle import snapshot
from dev.golden.types import Column, Table, characters_held, literal
from dev.servers import Server
from support.oracles.definitions import definitions
from support.oracles.oracle import Snapshot, snapshot_of
from support.oracles.reading import printed_rows
from support.oracles.replay import Outcome, Replay
from support.oracles.typed_rows import typed_lines, without_partial_dates
from support.servers.sql_workload import DATABASE, DOCUMENT_CHANGES, EDGES, SESSION, Workload
from support.values.pairwise import covering
from support.values.random_values import with_random_values

__all__ = ["AXES", "Found", "Matrix"]

#: Setting -> its values, by server. `start:` settings are options of the server's start.
AXES: dict[str, dict[str, tuple[str, ...]]] = {
    "mysql-5.6.24": {
        "start:log-bin-use-v1-row-events": ("OFF", "ON"),
        "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB"),
        "binlog_checksum": ("CRC32", "NONE"),
    },
    "mysql-9.7": {
        "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB"),
        "binlog_row_metadata": ("FULL", "MINIMAL"),
        "binlog_transaction_compression": ("OFF", "ON"),
        "binlog_encryption": ("OFF", "ON"),
        "binlog_row_value_options": ("", "PARTIAL_JSON"),
        "binlog_checksum": ("CRC32", "NONE"),
    },
    "mariadb-10.11": {
        "start:encrypt-binlog": ("OFF", "AES_CBC", "AES_CTR"),
        "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB"),
        "binlog_row_metadata": ("FULL", "MINIMAL", "NO_LOG"),
        "log_bin_compress": ("OFF", "ON"),
        "mysql56_temporal_format": ("ON", "OFF"),
        "binlog_checksum": ("CRC32", "NONE"),
    },
    "mariadb-11.8": {
        "start:encrypt-binlog": ("OFF", "AES_CBC", "AES_CTR"),
        "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB", "FULL_NODUP"),
        "binlog_row_metadata": ("FULL", "MINIMAL", "NO_LOG"),
        "log_bin_compress": ("OFF", "ON"),
        "mysql56_temporal_format": ("ON", "OFF"),
        "binlog_checksum": ("CRC32", "NONE"),
    },
}  # fmt: skip

#: InnoDB cascades without a row event, so the log does not contain all rows of the table.
_NOT_TOLD = "child"
#: Columns that the server computes, by the kinds that it leaves out of images although they changed:
#: MariaDB does so with virtual ones, as of 11.8.9 with stored ones, too.
_VIRTUAL = frozenset({("made", "v"), ("u_made", "v")})
_STORED = frozenset({("made", "s"), ("u_made", "s")})
_UNKEYED = (
    "CREATE TABLE u_made (a INT, v INT AS (a * 2) VIRTUAL, s CHAR(9) AS (CONCAT('s', a)) STORED, z INT)",
    "INSERT INTO u_made (a, z) VALUES (1, 1), (2, 2)",
)
_UNKEYED_CHANGES = ("UPDATE u_made SET a = a + 5", "UPDATE u_made SET z = 9 WHERE a = 6")
_WIDE_EVERY = 3  # combinations: 300 columns of three types
_RANDOM_VALUES = 6  # of each column in each combination, beside its edges


@dataclass
class Found:
    """The result of the comparison of one combination, `text` as JSON lines and `typed` as Arrow."""

    settings: dict[str, str]
    seed: int
    files: list[Path]
    text: Outcome
    typed: Outcome
    collations: list[str] = field(default_factory=list)
    families: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.settings}, seed {self.seed}"

    @property
    def problems(self) -> list[str]:
        """Everything that differs, and where."""
        return [
            f"{self}: {view}: {problem}"
            for view, outcome in (("text", self.text), ("typed", self.typed))
            for problem in outcome.problems
        ]

    def values(self) -> Iterator[tuple[str, int, int]]:
        """Family of types ("others": tables of no family), values compared, values that differ."""
        compared: Counter[str] = Counter()
        differing: Counter[str] = Counter()
        for outcome in (self.text, self.typed):
            for table, count in outcome.compared.items():
                family = table.removeprefix("u_")
                family = family if family in self.families else "others"
                compared[family] += count
                differing[family] += outcome.differing[table]
        for family, count in compared.items():
            yield family, count, differing[family]


class Matrix:
    """The combinations of one running server, which is started anew as they need."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.seed = seed
        combinations = covering(AXES[server.name])
        self.combinations = sorted(combinations, key=lambda settings: list(_at_start(settings)))
        self.families = Workload(server, seed).families
        self.collations = list(_collations(server))
        server.stop()
        self.keys = prepare_keys(server, Keys.NONE if server.name == "mysql-5.6.24" else Keys.PLAIN)
        self.options: list[str] | None = None

    def run(self) -> Iterator[Found]:
        """Run and compare each combination."""
        for number, settings in enumerate(self.combinations):
            self._start(settings)
            yield self._run(number, settings)

    def _start(self, settings: dict[str, str]) -> None:
        options = [*self.keys, *_at_start(settings)]
        if options != self.options:
            self.server.stop()
            self.server.start(options)
            self.options = options

    def _run(self, number: int, settings: dict[str, str]) -> Found:
        seed = self.seed * 1000 + number
        rng = random.Random(seed)
        work = Workload(self.server, seed)
        mine = self.collations[number :: len(self.combinations)]
        tables = [t for t in self.families if t.name != "wide" or number % _WIDE_EVERY == 0]
        tables.append(Table("collations", tuple(column for _, column in mine)))
        work.families = [with_random_values(table, rng, _RANDOM_VALUES) for table in tables]
        self.server.execute(*_globals(settings), "FLUSH BINARY LOGS")
        before = set(self.server.log_files()[:-1])
        wanted = self._change(work, settings)
        self.server.execute("FLUSH BINARY LOGS")
        files = [path for path in self.server.log_files()[:-1] if path not in before]
        found = Found(settings, seed, files, Outcome(), Outcome())
        found.collations = [name for name, _ in mine]
        found.families = {table.name for table in work.families}
        return self._compare(found, wanted)

    def _change(self, work: Workload, settings: dict[str, str]) -> list[Snapshot]:
        """Fill tables, change them, and ask for them after both."""
        server = self.server
        server.execute(
            f"DROP DATABASE IF EXISTS {DATABASE}",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
        )
        documents = DOCUMENT_CHANGES if server.name == "mysql-9.7" else ()
        made = server.name != "mysql-5.6.24"
        with server.session(DATABASE) as session:
            session.execute(*SESSION, *_of_session(settings), *work.tables(), *documents[:2])
            session.execute(*work.first_rows(), *(_UNKEYED if made else ()))
        wanted = list(self._snapshots("filled"))
        with server.session(DATABASE) as session:
            session.execute(*SESSION, *_of_session(settings), *documents[2:], *work.changes())
            session.execute(*(_UNKEYED_CHANGES if made else ()))
        return [*wanted, *self._snapshots("changed")]

    def _snapshots(self, label: str) -> Iterator[Snapshot]:
        file, pos = self.server.position()
        with self.server.session(DATABASE) as session:
            for (name,) in session.rows("SHOW TABLES"):
                if name != _NOT_TOLD:
                    seen = snapshot(session, DATABASE, str(name))
                    yield snapshot_of({"label": label, "file": file, "pos": pos, **seen})

    def _compare(self, found: Found, wanted: list[Snapshot]) -> Found:
        names = [path.name for path in found.files]
        options = self._options_of_reading(found.settings)
        defined = [d for path in found.files for d in definitions(path, **options)]
        lines = list(printed_rows(*found.files, **options))
        virtual = self._left_out()
        found.text = Replay(names, wanted, virtual=virtual).run(lines, defined)
        typed = typed_lines(found.files, lines, **options)
        found.typed = Replay(names, map(without_partial_dates, wanted), virtual=virtual).run(
            typed, defined
        )
        return found

    def _left_out(self) -> frozenset[tuple[str, str]]:
        if self.server.flavour != "mariadb":
            return frozenset()
        version = str(self.server.rows("SELECT VERSION()")[0][0]).partition("-")[0]
        is_new = tuple(map(int, version.split("."))) >= (11, 8, 9)
        return _VIRTUAL | _STORED if is_new else _VIRTUAL

    def _options_of_reading(self, settings: dict[str, str]) -> dict[str, Any]:
        if settings.get("start:encrypt-binlog", "OFF") != "OFF":
            return {"keyring": str(self.server.run / "file-keys.txt")}
        if settings.get("binlog_encryption") == "ON":
            return {"keyring": str(self.server.data / "keyring")}
        return {}


def _at_start(settings: dict[str, str]) -> Iterator[str]:
    for name, value in settings.items():
        if name == "start:encrypt-binlog" and value != "OFF":
            yield "--encrypt-binlog=ON"
            yield f"--file-key-management-encryption-algorithm={value}"
        elif name.startswith("start:"):
            yield f"--{name.removeprefix('start:')}={value}"


def _globals(settings: dict[str, str]) -> Iterator[str]:
    for name, value in settings.items():
        if not name.startswith("start:"):
            yield f"SET GLOBAL {name} = '{value}'"
    if settings.get("log_bin_compress") == "ON":
        yield "SET GLOBAL log_bin_compress_min_len = 10"


def _of_session(settings: dict[str, str]) -> Iterator[str]:
    """The settings that a session takes from the globals when it begins; set again, so that they are visible."""
    for name in ("binlog_row_image", "binlog_row_value_options", "binlog_transaction_compression"):
        if name in settings:
            yield f"SET SESSION {name} = '{settings[name]}'"


def _collations(server: Server) -> Iterator[tuple[str, Column]]:
    """Every collation that a column can have, by its name."""
    held = characters_held(server)
    full = "COLLATION_NAME"
    with server.session() as session:
        if session.rows("SHOW COLUMNS FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY LIKE 'FULL_COLLATION_NAME'"):  # fmt: skip
            full = "FULL_COLLATION_NAME"
        found = session.rows(f"SELECT {full}, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY ORDER BY 1")  # fmt: skip
    for name, charset in found:
        if charset in held:
            some = random.Random(name).choices(held[charset], k=EDGES)
            edges = (literal("".join(some)), literal(some[0] + "a"), "''")
            kind = random.Random(name).choice(("VARCHAR(12)", "CHAR(12)", "TEXT"))
            column = f"{kind} CHARACTER SET {charset} COLLATE {name}"
            yield str(name), Column(str(name), column, edges)
