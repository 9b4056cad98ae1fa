"""The TOML file of `archive` and `serve`: the servers to archive, and the archives to serve.

    [archive]
    target = "/backup/binlogs"

    [archive.servers.shop]
    url = "mysql://repl@db1/"
    password_file = "shop.password"

    [serve.listeners.shop]
    path = "/backup/binlogs"
    port = 3307
    password_variable = "SHOP_REPLICA_PASSWORD"

binlake reads and checks the whole file before anything starts, without connecting to a server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binlake.archive.archiver import ArchiveOptions
from binlake.archive.finishing import Finish
from binlake.archive.jobs import ArchiveJob
from binlake.archive.retention import Retention
from binlake.archive.start import OLDEST
from binlake.config.keys import (
    ARCHIVE_KEYS,
    CONNECTION_KEYS,
    LISTENER_KEYS,
    METRICS_KEYS,
    SERVE_KEYS,
    SERVER_KEYS,
)
from binlake.config.toml_file import Table, open_toml
from binlake.errors import BinlogError, OptionError
from binlake.serve.settings import Settings
from binlake.source.bytes import is_uri
from binlake.source.keyring import Keyring
from binlake.source.replica.connection import check_options
from binlake.source.replica.handshake import FollowOptions
from binlake.source.replica.passwords import password_of_file, remember
from binlake.source.replica.url import ServerUrl

_DEFAULT_METRICS_ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of a file. `metrics` is address and port for the archives, None without."""

    file: str
    archives: tuple[ArchiveJob, ...]
    metrics: tuple[str, int] | None
    listeners: tuple[tuple[str, Settings], ...]


def read_configuration(file: str) -> Configuration:
    """Read a file and check everything that needs no connection. Raises OptionError."""
    top = open_toml(file)
    top.take({}, ("archive", "serve"))
    archive, serve = top.table("archive"), top.table("serve")
    given = archive.take(ARCHIVE_KEYS | METRICS_KEYS, ("connection", "servers"))
    metrics = None
    if "metrics_port" in given:
        address = given.get("metrics_address", _DEFAULT_METRICS_ADDRESS)
        metrics = address, given["metrics_port"]
    made = Configuration(file, tuple(_archives(archive, given)), metrics, tuple(_listeners(serve)))
    if not made.archives and not made.listeners:
        raise OptionError(
            f"{file}: the file names nothing to archive and nothing to serve",
            name="config",
            hint="add [archive.servers.NAME] for a server, or [serve.listeners.NAME] for an archive",
        )
    _check_ports(serve, made)
    return made


# -- archives --------------------------------------------------------------------------------------


def _archives(archive: Table, common: dict[str, Any]) -> Iterator[ArchiveJob]:
    connection = archive.table("connection").take(CONNECTION_KEYS)
    known: dict[tuple[str, str], str] = {}
    for name, table in archive.named("servers"):
        given = common | table.take(ARCHIVE_KEYS | SERVER_KEYS, ("connection",))
        own = table.table("connection")
        urls = _urls(table, given, connection | own.take(CONNECTION_KEYS), own)
        target = given.get("target")
        if target is None:
            raise table.error("target", "it is missing, here and in [archive]")
        _check_target(table if "target" in table else archive, target)
        for url in urls:
            other = known.setdefault((url.where, target), name)
            if other != name:
                raise table.error("url", f"[archive.servers.{other}] already archives {url.where}")
        yield ArchiveJob(name, urls, target, _archive_options(given))


def _urls(
    table: Table, given: dict[str, Any], connection: dict[str, str], own: Table
) -> tuple[ServerUrl, ...]:
    """Return the servers of a table, with the options of their connections; their passwords are
    remembered.
    """
    if "url" not in given:
        raise table.error("url", "it is missing")
    password = _password(table, given)
    urls = []
    for url in given["url"]:
        named = dict(url.options)
        options = {k: v for k, v in connection.items() if k.replace("_", "-") not in named}
        if "password_file" in given and "password-file" not in named:
            options["password_file"] = given["password_file"]
        try:
            complete = url.with_options(**options)
            FollowOptions.of(complete)
            check_options(complete)
        except BinlogError as error:
            wrong = str(getattr(error, "name", "") or "").replace("-", "_")
            where = own if wrong in own else table
            raise where.error(wrong if wrong in where else "url", str(error)) from None
        if "password_variable" in given and password is not None:
            remember(complete.account, password)
        urls.append(complete)
    return tuple(urls)


def _finish(given: dict[str, Any]) -> Finish:
    index, key_index = given.get("index", True), given.get("key_index", False)
    if key_index and not index:
        raise OptionError("key_index = true needs index = true", name="key_index")
    return Finish(given.get("compress", "none"), index, key_index)


def _archive_options(given: dict[str, Any]) -> ArchiveOptions:
    return ArchiveOptions(
        finish=_finish(given),
        first=given.get("from", OLDEST),
        restart_if_lost=given.get("restart_if_lost", False),
        retention=Retention(given.get("keep_days"), given.get("keep_bytes")),
        sync_s=given.get("sync_seconds"),
    )


def _check_target(table: Table, target: str) -> None:
    """Check a local directory: it must exist, or it must be possible to create it."""
    if is_uri(target):
        return
    there = next(path for path in (Path(target), *Path(target).parents) if path.exists())
    if not there.is_dir():
        raise table.error("target", f"{there} is not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise table.error("target", f"no permission to write {there}")


# -- listeners -------------------------------------------------------------------------------------


def _listeners(serve: Table) -> Iterator[tuple[str, Settings]]:
    common = serve.take(SERVE_KEYS, ("listeners",))
    for name, table in serve.named("listeners"):
        given = common | table.take(SERVE_KEYS | LISTENER_KEYS)
        for key in ("path", "port"):
            if key not in given:
                raise table.error(key, "it is missing")
        password = _password(table, given)
        if not password:
            raise table.error(
                "password_file",
                "the password with which replicas log in is missing",
                "or password_variable",
            )
        for key in ("ssl_cert", "ssl_key", "keyring"):
            if key in given and not is_uri(given[key]) and not Path(given[key]).is_file():
                raise table.error(key, f"{given[key]} is not a file")
        yield name, _settings(table, given, password)


def _settings(table: Table, given: dict[str, Any], password: str) -> Settings:
    keyring = None
    if "keyring" in given:
        keyring = Keyring(given.pop("keyring"), given.pop("keyring_password_file", None))
    elif "keyring_password_file" in given:
        raise table.error("keyring_password_file", "it needs keyring")
    if ("ssl_cert" in given) != ("ssl_key" in given):
        raise table.error("ssl_cert", "ssl_cert and ssl_key must be given together")
    left_out = ("password_file", "password_variable", "user")
    values = {key: value for key, value in given.items() if key not in left_out}
    user = given.get("user", "replica")
    return Settings(user=user, password=password, keyring=keyring, **values)


def _check_ports(serve: Table, made: Configuration) -> None:
    """Check that no two listeners have the same port. Port 0 is any free one."""
    taken: dict[int, str] = {}
    if made.metrics is not None and made.metrics[1]:
        taken[made.metrics[1]] = "[archive] metrics_port"
    for name, settings in made.listeners:
        table = serve.table("listeners").table(name)
        for key, port in (("port", settings.port), ("metrics_port", settings.metrics_port)):
            if not port:
                continue
            if port in taken:
                raise table.error(key, f"{port} is already the port of {taken[port]}")
            taken[port] = f"[{table.name}] {key}"


def _password(table: Table, given: dict[str, Any]) -> str | None:
    """Return the password that a table names, in a file or in the environment; None if it names
    none.
    """
    if "password_file" in table and "password_variable" in table:
        raise table.error("password_variable", "give either this or password_file")
    # a value in the table has priority over one in the table above
    variable, file = given.get("password_variable"), given.get("password_file")
    if "password_variable" in table:
        given.pop("password_file", None)
        file = None
    elif "password_file" in table:
        given.pop("password_variable", None)
        variable = None
    if variable is not None and file is None:
        if variable not in os.environ:
            raise table.error("password_variable", f"the environment has no variable {variable}")
        return os.environ[variable]
    if file is None:
        return None
    try:
        return password_of_file(file)
    except OptionError as error:
        raise table.error("password_file", error.message) from None
