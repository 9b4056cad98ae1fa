"""A reader of the pages with the shop of `support.servers.shop`, on both flavours."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from dev.servers import Server
from support.pages import ROOT, Block, commands_of, is_left_out, shape_of
from support.servers.archiving import until
from support.servers.live import url_of
from support.servers.shop import Shop

__all__ = ["ShopReader", "World", "reading", "runs_elsewhere"]

SECONDS = 120  # a deadline only
ORDER = "2"  # an order that the shop deletes; the pages call it 4711
_UUIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562|a8ba829e-e596-11f1-9be8-02fc00000001"
_MARIADB = re.compile(r"mariadb|\b0-1-\d")
#: Commands that run until they are stopped, and the output after which they work.
_ENDLESS = (
    (re.compile(r"binlake tail "), r'\{"op"|^op,|\n'),
    (re.compile(r"binlake archive (?!.*--until-current)"), r" is (?:mysql|mariadb) "),
    (re.compile(r"binlake serve "), r"serving "),
    (re.compile(r"binlake ui "), r"the page is at "),
)
_SHIM = '#!/bin/sh\nexec {command} "$@"\n'
_DUCKDB = "#!{python}\nimport sys, duckdb\nprint(duckdb.sql(sys.argv[2]))\n"


def runs_elsewhere(block: Block) -> bool:
    """Whether `tests/meta` runs a whole block: those on the demo logs, and the programs of guides."""
    if block.language.startswith("python"):
        return block.language == "python runnable" or "demo/" in block.code
    return block.language in ("", "console", "sh") and not any(
        runs_here(block.page, command) for command, _ in commands_of(block.code)
    )


def runs_here(page: str, command: str) -> bool:
    """Whether `ShopReader` runs a command of a page."""
    return not is_left_out(page, command) and "demo/" not in command


@dataclass
class World:
    """The servers of the pages. `replica` is a MySQL server without a database."""

    mysql: Shop
    mariadb: Shop
    replica: Server
    certificates: dict[str, str]
    store: dict[str, str]
    ports: dict[str, int]
    #: Runs SQL that a page gives to a server, and returns when it has its effect.
    replicate: Callable[[str], None] | None = None

    def empty_replica(self) -> None:
        """Let the other server forget everything, as one that was just made."""
        self.replica.execute(
            "STOP REPLICA",
            "RESET REPLICA ALL",
            "DROP DATABASE IF EXISTS shop",
            self.replica.kind.reset_statement,
        )

    def restore(self, dump: str) -> None:
        """Load a dump of the shop into the other server."""
        self.empty_replica()
        self.replica.run_script((self.mysql.folder / dump).read_bytes())


@dataclass
class ShopReader:
    """Runs the blocks of a page in a folder, with the names of the test in place of the page's.

    `own` has texts of one page and what stands for them; they come before the others. `codes` has the
    exit codes of commands that do not return 0.
    """

    world: World
    folder: Path
    own: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "page"})
    #: Called with each command of a page before it starts, and after it has ended.
    before: Callable[[str], None] = lambda _: None
    after: Callable[[str], None] = lambda _: None
    _background: list[Started] = field(default_factory=list)

    def lay_out(self) -> None:
        """Put the files that the pages name into the folder."""
        mysql, mariadb, folder = self.world.mysql, self.world.mariadb, self.folder
        (folder / "demo").symlink_to(ROOT / "demo")
        (folder / "deploy").symlink_to(ROOT / "deploy")
        for shop in (mysql, mariadb):
            shutil.copytree(shop.folder / "archive", folder / f"{shop.server.flavour}-archive")
        for log in mysql.server.log_files():
            shutil.copyfile(log, folder / log.name)
        names = (f"./{log.name}\n" for log in mysql.server.log_files())
        (folder / "binlog.index").write_text("".join(names))
        dump = (mysql.folder / "dump.sql").read_bytes()
        for name in ("dump.sql", "backup.sql"):
            (folder / name).write_bytes(dump)
        (folder / "dump.sql.gz").write_bytes(
            gzip.compress((mariadb.folder / "dump.sql").read_bytes())
        )
        (folder / "schema.sql").write_bytes(mysql.server.dump("shop", "--no-data"))
        parquet.write_table(pa.table({"id": [115, 116]}), folder / "customers.parquet")
        (folder / "report.sql").write_text("SELECT op, count(*) FROM changes GROUP BY op;\n")
        for name in ("replica.txt", "source.txt"):
            (folder / name).write_text(mysql.gtid + "\n")
        for name in ("backup", "etc/ssl", "etc/binlake", "run/secrets", "bin"):
            (folder / name).mkdir(parents=True)
        for name in (".local/share/bash-completion/completions", ".config/fish/completions"):
            (folder / name).mkdir(parents=True)
        for name in (
            ".repl", "secret", "run/secrets/shop", "run/secrets/replicas",
            "etc/binlake/shop.password", "etc/binlake/replicas.password",
        ):  # fmt: skip
            (folder / name).write_text("secret\n")
        for name in ("databases.pem", "crm.pem"):
            shutil.copyfile(self.world.certificates["ca"], folder / "etc" / "ssl" / name)
        options = f"[client]\nuser=repl\npassword=secret\nssl-ca={self.world.certificates['ca']}\n"
        (folder / ".my.cnf").write_text(options)
        for path in (folder / ".my.cnf", folder / ".repl", folder / "secret"):
            path.chmod(0o600)
        self._programs()

    def _programs(self) -> None:
        mysql, mariadb = self.world.mysql.server, self.world.mariadb.server
        self.client_of(self.world.replica)
        self._program("mysqldump", mysql.kind.dump_command(), _login(mysql))
        self._program("mariadb-dump", mariadb.kind.dump_command(), _login(mariadb))
        self._program("mysqlbinlog", mysql.kind.reader_command(), [])
        duckdb = self.folder / "bin" / "duckdb"
        duckdb.write_text(_DUCKDB.format(python=sys.executable))
        duckdb.chmod(0o755)

    def client_of(self, server: Server) -> None:
        """Let `mysql` log in to a server."""
        self._program("mysql", server.kind.client_command(), _login(server))

    def _program(self, name: str, command: list[str], options: list[str]) -> None:
        path = self.folder / "bin" / name
        path.write_text(_SHIM.format(command=shlex.join([*command, *options])))
        path.chmod(0o755)

    def text(self, code: str) -> str:
        """Code with the servers, places and moments of the test. What reads the demo logs stays as it is."""
        about_mariadb = _MARIADB.search(code) and "mysql://" not in code
        shop = self.world.mariadb if about_mariadb else self.world.mysql
        found = {**self._own(), **self._servers(), **self._places(shop), **self._files(shop)}
        patterns = [re.compile(pattern) for pattern in found]
        answers = list(found.values())
        together = re.compile("|".join(f"(?P<p{n}>{p.pattern})" for n, p in enumerate(patterns)))

        def answer(match: re.Match[str]) -> str:
            wanted = answers[int(str(match.lastgroup)[1:])]
            return wanted if isinstance(wanted, str) else wanted(match[0])

        return together.sub(answer, code)

    def _own(self) -> dict[str, str | Callable[[str], str]]:
        return {rf"(?<![\w./*]){re.escape(shown)}": real for shown, real in self.own.items()}

    def _servers(self) -> dict[str, str | Callable[[str], str]]:
        def at(url: str) -> str:
            server = self._server(url)
            log = url.rpartition("/")[2]
            return f"{server.flavour}://repl@127.0.0.1:{server.port}/{log}"

        return {
            r"(?:mysql|mariadb)://root@(?:localhost|db1)/": lambda url: url_of(self._server(url)),
            r"(?:mysql|mariadb)://(?:repl@)?db\d[^\s/]*/(?:binlog\.\d+)?": at,
            r"-h db1\b": f"-h 127.0.0.1 -P {self.world.mysql.server.port}",
            r"binlake serve (?=/)": f"binlake serve --port {self.world.ports['3307']} ",
            r" -p --raw": " --password='a long password' --raw",
            r"(?<==)'?archive'?(?=[ ,])": lambda name: name.replace("archive", "127.0.0.1"),
            r"0\.0\.0\.0": "127.0.0.1",
            **{rf"(?<![\d.]){shown}\b": str(port) for shown, port in self.world.ports.items()},
        }

    def _server(self, url: str) -> Server:
        return (self.world.mariadb if url.startswith("mariadb") else self.world.mysql).server

    def _places(self, shop: Shop) -> dict[str, str | Callable[[str], str]]:
        def pos(mark: str) -> str:
            return shop.places[mark].partition(":")[2]

        def moment(of: datetime) -> str:
            return f"{of:%Y-%m-%d %H:%M:%S.%f}"

        ago = int((datetime.now(UTC) - shop.middle).total_seconds())
        local = shop.ended.astimezone()
        return {
            rf"(?:{_UUIDS}):\d+|\b0-1-4711\b": shop.gtid,
            rf"(?:{_UUIDS})": shop.identity,
            r"(?<=--undo )binlog\.000012:4711": shop.places["rows"],
            r"binlog\.000012:4711": shop.places["deleted"],
            r"binlog\.000012:157": shop.places["later"],
            r"binlog\.000007:157": shop.places["dumped"],
            r"binlog\.000009:48136": shop.places["dropped"],
            r"binlog\.000009 --at": "binlog.000012 --at",
            r"binlog\.000042:4711": shop.places["newest"],
            r"binlog\.000042": "binlog.000013",
            r"binlog\.000043": "binlog.000013",
            r"binlog\.000211": "binlog.000007",
            r"--start-position=157|-j 4711": f"--start-position={pos('dumped')}",
            r"--stop-position=48136": f"--stop-position={pos('dropped')}",
            r"--stop-datetime '2026-11-21 14:00'": f"--stop-datetime '{local:%Y-%m-%d %H:%M:%S}'",
            r"2026-11-21 14:00": moment(shop.began),
            r"2026-11-21 14:03": moment(shop.middle),
            r"2026-11-21 14:05": moment(shop.ended),
            r"2026-11-21": f"{shop.began:%Y-%m-%d}",
            r"(?<= )-1h\b": f"-{ago}s",
            r"code=A-17": f"id={ORDER}",
            r"(?<![:.\d-])471[12]\b": ORDER,
        }

    def _files(self, shop: Shop) -> dict[str, str | Callable[[str], str]]:
        archive = f"{self.folder}/{shop.server.flavour}-archive"
        folders = {
            "/var/lib/mysql/": f"{shop.server.data}/",
            "/var/lib/binlake": f"{self.folder}/var",
            "/backup/binlogs": archive,
            "/archive": archive,
            "/backup/": f"{self.folder}/backup/",
            "/etc/": f"{self.folder}/etc/",
            "/run/secrets/": f"{self.folder}/run/secrets/",
        }
        return {rf"(?<![\w./*]){re.escape(shown)}": real for shown, real in folders.items()}

    def run(self, block: Block) -> None:
        """Run a block. Raises AssertionError if a command fails or prints something else than the page."""
        match block.language:
            case "python":
                code = compile(self.text(block.code), f"{block.page}:{block.line}", "exec")
                exec(code, self.names)  # noqa: S102
            case "sql":
                assert self.world.replicate is not None
                self.world.replicate(self.text(block.code))
            case "toml":
                name = block.code.split(maxsplit=2)[1]
                Path(self.text(name)).write_text(self.text(block.code), encoding="utf-8")
            case "" | "console" | "sh":
                for command, output in commands_of(block.code):
                    if runs_here(block.page, command):
                        self.before(command)
                        self.command(command, output, f"{block.page}:{block.line}: {command}\n")
                        self.after(command)
            case other:
                raise AssertionError(f"{block.page}:{block.line}: no test runs {other!r}")

    def command(self, command: str, output: str | None, where: str) -> None:
        """Run a command of a page, to its end or until it works; compare its output."""
        if command.startswith("mysql> "):
            self.world.mysql.server.execute(self.text(command[7:]).partition(";")[0])
            return
        for endless, sign in _ENDLESS:
            if endless.match(command):
                kept = bool(output) or command.endswith("&")
                self._start(command.rstrip("& "), sign, where, kept=kept)
                return
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self.text(command)], cwd=self.folder,
            env=self._environment(), capture_output=True, text=True, errors="replace",
            check=False, timeout=SECONDS,
        )  # fmt: skip
        wanted = self.codes.get(command, 0)
        assert ran.returncode == wanted, f"{where}{ran.returncode}: {ran.stdout}{ran.stderr}"
        if output:
            parts = [re.escape(part) for part in shape_of(self.text(output)).split("…")]
            printed = shape_of(ran.stdout)
            assert re.fullmatch(".*".join(parts), printed), where + ran.stdout[:2000]

    def _environment(self) -> dict[str, str]:
        own = (str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
        return {
            **os.environ,
            **self.world.store,
            "PATH": os.pathsep.join(own),
            "HOME": str(self.folder),
            "BROWSER": "true",
            "CRM_PASSWORD": "secret",
        }

    def _start(self, command: str, sign: str, where: str, *, kept: bool) -> None:
        started = Started(self.text(command), self.folder, self._environment())
        self._background.append(started)

        def works() -> bool:
            printed = started.printed()
            assert started.runs(), f"{where}{printed}"
            self.world.mysql.change_a_row()
            self.world.mariadb.change_a_row()
            return re.search(sign, printed) is not None

        until(works, SECONDS)
        if not kept:
            self._background.pop().stop(where)

    def close(self) -> None:
        """Stop what still runs in the background."""
        while self._background:
            started = self._background.pop()
            started.stop(started.command)


class Started:
    """A command in the background."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        self.command = command
        self._output = folder / f"output-{time.monotonic_ns()}"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def printed(self) -> str:
        """Everything that it has printed."""
        return self._output.read_text(errors="replace")

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self, where: str) -> None:
        """Send SIGTERM, as a service manager does, and wait."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(SECONDS)
        assert code in (0, -signal.SIGTERM, 128 + signal.SIGTERM), (
            f"{where}{code}: {self.printed()}"
        )


def _login(server: Server) -> list[str]:
    return [f"--socket={server.run / 'server.sock'}", "--user=root"]


@contextmanager
def reading(world: World, folder: Path) -> Iterator[ShopReader]:
    """A reader with its files; stops what still runs in the background at the end."""
    reader = ShopReader(world, folder)
    reader.lay_out()
    try:
        yield reader
    finally:
        reader.close()
