"""Make logs of other shapes for the benchmark: `python -m dev.bench_shapes FOLDER`.

For a real MySQL 9.7 and a real MariaDB 11.8 the folder gets, in a directory named like the server,

    narrow.000001      rows of three integers, 2,000 to a statement
    wide.000001        rows of 200 columns, 50 to a statement
    small.000001       the narrow table, each row a transaction of its own
    compressed.000001  the narrow table, by the server's own compression: transaction payloads of
                       MySQL, compressed events of MariaDB
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from dev.servers import Server, installation

_SERVERS = ("mysql-9.7", "mariadb-11.8")
_OPTIONS = {
    "mysql-9.7": ("--binlog-row-metadata=FULL", "--max-binlog-size=1G"),
    "mariadb-11.8": ("--binlog-row-metadata=FULL", "--max-binlog-size=1G", "--binlog-format=ROW"),
}
_COMPRESSION = {
    "mysql-9.7": "SET SESSION binlog_transaction_compression = {}",
    "mariadb-11.8": "SET GLOBAL log_bin_compress = {}",
}
_NARROW = "(id INT PRIMARY KEY, a INT, b BIGINT)"
_WIDE_COLUMNS = 200


def _wide() -> str:
    kinds = ("INT", "VARCHAR(20)", "DECIMAL(10,2)", "DATETIME(3)", "TINYINT")
    columns = ", ".join(f"c{i} {kinds[i % len(kinds)]}" for i in range(1, _WIDE_COLUMNS))
    return f"(id INT PRIMARY KEY, {columns})"


def _narrow_rows(first: int, count: int, chance: random.Random) -> str:
    return ",".join(
        f"({key},{chance.randrange(1 << 31)},{chance.randrange(1 << 62)})"
        for key in range(first, first + count)
    )


def _wide_rows(first: int, count: int, chance: random.Random) -> str:
    def value(kind: int) -> str:
        number = chance.randrange(100_000_000)
        return (
            str(number),
            f"'text {number}'",
            f"{number / 100:.2f}",
            f"'2026-11-{number % 28 + 1:02d} 10:00:{number % 60:02d}.{number % 1000:03d}'",
            str(number % 100),
        )[kind]

    return ",".join(
        f"({key},{','.join(value(i % 5) for i in range(1, _WIDE_COLUMNS))})"
        for key in range(first, first + count)
    )


def _statements(shape: str, chance: random.Random) -> Iterator[str]:
    """Statements without end; the caller looks at the log."""
    first = 1
    while True:
        if shape == "wide":
            yield f"INSERT INTO wide VALUES {_wide_rows(first, 50, chance)}"
            first += 50
        elif shape == "small":
            yield f"INSERT INTO small VALUES {_narrow_rows(first, 1, chance)}"
            first += 1
        else:
            yield f"INSERT INTO {shape} VALUES {_narrow_rows(first, 2000, chance)}"
            first += 2000


def make(folder: Path, megabytes: int) -> None:
    """Make the logs of both servers, `megabytes` each (a compressed one a tenth of it)."""
    for name in _SERVERS:
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        server = Server(installation(name), target / "server")
        server.start(_OPTIONS[name])
        try:
            server.execute("CREATE DATABASE bench")
            for shape in ("narrow", "wide", "small", "compressed"):
                _fill(server, name, shape, megabytes)
                log = server.log_files()[-1]
                server.execute("FLUSH BINARY LOGS")
                shutil.copy(log, target / f"{shape}.000001")
                print(f"{name}, {shape}: {log.stat().st_size:,} bytes")
        finally:
            server.stop()
        shutil.rmtree(target / "server")
    (folder / "made").touch()


def _fill(server: Server, name: str, shape: str, megabytes: int) -> None:
    """One log of one shape: it begins with the table, and is the server's newest."""
    compressed = shape == "compressed"
    server.execute("FLUSH BINARY LOGS")
    server.execute(f"CREATE TABLE bench.{shape} {_wide() if shape == 'wide' else _NARROW}")
    size = megabytes * 1_000_000 // (10 if compressed else 1)
    log = server.log_files()[-1]
    with server.session("bench") as session:
        session.execute(_COMPRESSION[name].format("ON" if compressed else "OFF"))
        statements = _statements(shape, random.Random(7))
        while log.stat().st_size < size:
            session.execute(*(next(statements) for _ in range(500 if shape == "small" else 5)))
        session.execute(_COMPRESSION[name].format("OFF"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=100)
    given = parser.parse_args()
    make(given.folder.resolve(), given.megabytes)
