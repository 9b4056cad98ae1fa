"""The shop of the pages on a real server: its logs, dumps, an archive, and moments in them.

The logs have the names that the pages use: `binlog.000007` to `binlog.000013`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import binlake
from dev import demo_logs
from dev.servers import Server
from dev.servers.server import Session
from support.servers import archiving

__all__ = ["TABLES", "Shop", "checksums"]

TABLES = "shop.customers, shop.products, shop.orders, shop.order_lines, shop.opening_hours"
_PLACE = re.compile(r"_LOG_FILE='(?P<file>[^']+)', \w+_LOG_POS=(?P<pos>\d+)")


def checksums(server: Server) -> list[list[str | None]]:
    """The checksums of the shop's tables."""
    return server.rows(f"CHECKSUM TABLE {TABLES}")


@dataclass
class Shop:
    """A server on which the shop has had its days. Places are texts such as `binlog.000009:48136`.

    `dump.sql` in the folder was made at `dumped`, `later.sql` at `later`, the start of `binlog.000012`.
    `dropped` is the place of a DROP TABLE, before which the tables had the checksums `held`; `deleted` is
    that of a DELETE of orders with the GTID `gtid`, `rows` that of its row event, and `middle` is a moment between the last two.
    `newest` is the start of `binlog.000013`.
    """

    server: Server
    folder: Path
    places: dict[str, str] = field(default_factory=dict)
    held: list[list[str | None]] = field(default_factory=list)
    gtid: str = ""
    began: datetime = datetime.min
    middle: datetime = datetime.min
    ended: datetime = datetime.min

    def open(self) -> None:
        """Run the shop's days, and archive their logs into `archive` in the folder."""
        self.folder.mkdir()
        server = self.server
        server.execute(f"{server.kind.reset_statement} TO 7")
        self.began = datetime.now(UTC)
        with server.session() as session:
            statements = demo_logs.statements(server)
            marks = self._marks(statements)
            for number, statement in enumerate(statements):
                for mark in marks.get(number, ()):
                    self._mark(session, mark)
                session.execute(statement)
                if statement.startswith("DELETE FROM orders"):
                    self.gtid = self._last_gtid(session)
                elif statement == "FLUSH BINARY LOGS":
                    self._note("newest")
        self.ended = datetime.now(UTC)
        server.settle()
        done = archiving.archive(archiving.url_of(server), self.folder / "archive")
        assert done.returncode == 0, done.stderr
        logs = binlake.open(self.folder / "archive", at=self.gtid, table="shop.orders")
        [row] = next(logs.changes()).slice(0, 1).to_pylist()
        self.places["rows"] = f"{row['file']}:{row['pos']}"

    def _marks(self, statements: list[str]) -> dict[int, list[str]]:
        """Steps before a statement, by its number."""
        sales = [number for number, text in enumerate(statements) if text == "BEGIN"]

        def first(start: str) -> int:
            return next(n for n, text in enumerate(statements) if text.startswith(start))

        deleted = first("DELETE FROM orders")
        return {
            sales[0]: ["dumped"],
            sales[50]: ["flush"],
            sales[100]: ["flush"],
            sales[125]: ["dropped"],
            first("UPDATE orders SET state"): ["flush"],
            first("ALTER TABLE orders"): ["flush"],
            first("UPDATE orders SET channel"): ["flush", "later"],
            deleted - 60: ["middle"],
            deleted: ["deleted"],
        }

    def _mark(self, session: Session, mark: str) -> None:
        match mark:
            case "flush":
                session.execute("FLUSH BINARY LOGS")
            case "dumped":
                dump = self._dump("dump.sql", "--databases")
                found = _PLACE.search(dump)
                assert found is not None
                self.places[mark] = f"{found['file']}:{found['pos']}"
            case "later":
                self._dump("later.sql", "--databases")
                self._note(mark)
            case "dropped":
                session.execute("CREATE TABLE returns (id INT PRIMARY KEY)")
                self._note(mark)
                self.held = checksums(self.server)
                session.execute("DROP TABLE returns")
            case "middle":
                time.sleep(1.1)  # MariaDB logs whole seconds
                self.middle = datetime.now(UTC)
                time.sleep(1.1)
            case "deleted":
                self._note(mark)

    def _note(self, mark: str) -> None:
        file, pos = self.server.position()
        self.places[mark] = f"{file}:{pos}"

    def _dump(self, name: str, *options: str) -> str:
        word = "source" if self.server.flavour == "mysql" else "master"
        dump = self.server.dump("shop", f"--{word}-data=2", *options)
        (self.folder / name).write_bytes(dump)
        return dump[:100_000].decode(errors="replace")

    def _last_gtid(self, session: Session) -> str:
        if self.server.flavour == "mariadb":
            [[gtid]] = session.rows("SELECT @@last_gtid")
            return str(gtid)
        [[executed]] = session.rows("SELECT @@gtid_executed")
        uuid, _, numbers = str(executed).partition(":")
        return f"{uuid}:{numbers.rpartition('-')[2]}"

    @property
    def identity(self) -> str:
        """The name of the server's directory in an archive."""
        [folder] = [one for one in (self.folder / "archive").iterdir() if one.is_dir()]
        return folder.name

    def change_a_row(self) -> None:
        """Change an order that nothing else looks at."""
        self.server.execute("UPDATE shop.orders SET note = UUID() ORDER BY id DESC LIMIT 1")

    def delete_again(self) -> None:
        """Delete the orders that an undo has put back."""
        self.server.execute("DELETE FROM shop.orders WHERE state = 'returned'")
