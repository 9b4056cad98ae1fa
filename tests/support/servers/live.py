"""Following the servers of `dev.servers`: URLs, whole logs, and a stop at the server's end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from binlake.source.replica.follower import Block, Follower, FollowOptions, Idle, Item
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from dev.servers import Server

MAGIC = b"\xfebin"
OLDEST = Position("", "", 0)


def url_of(server: Server, log: str = "", **options: str) -> str:
    """The URL of a running server, over its socket, as root."""
    socket = quote(str(server.run / "server.sock"), safe="")
    query = "&".join(f"{name.replace('_', '-')}={value}" for name, value in options.items())
    return f"{server.flavour}://root@{socket}/{log}?{query}option-file=none".replace(
        "?" + query + "o", "?" + query + ("&o" if query else "o")
    )


def tcp_url(server: Server, user: str, password: str = "", **options: str) -> str:
    """The URL of a running server over TCP, with what a login to it needs by default."""
    if "ssl_mode" not in options:
        if server.name == "mysql-9.7":
            options.setdefault("ssl_ca", str(server.data / "ca.pem"))
        elif server.name == "mariadb-10.11":  # has no TLS here
            options["ssl_mode"] = "preferred"
    query = "&".join(f"{name.replace('_', '-')}={value}" for name, value in options.items())
    login = f"{user}:{quote(password, safe='')}" if password else user
    return f"mysql://{login}@127.0.0.1:{server.port}/?option-file=none&{query}".rstrip("&")


def trusting(folder: Path, *servers: Server) -> str:
    """The part of a URL that lets logins with a password reach these servers: those of MySQL 9.7
    each have an authority of their own.
    """
    own = [
        (server.data / "ca.pem").read_bytes() for server in servers if server.name == "mysql-9.7"
    ]
    if not own:
        return ""
    together = folder / "ca.pem"
    together.write_bytes(b"".join(own))
    return f"?ssl-ca={quote(str(together))}"


def to_the_end(url: str, start: Position = OLDEST, **options: Any) -> list[Item]:
    """The items of a follower, until the server has no more."""
    parsed = ServerUrl.parse(url)
    given = FollowOptions.of(parsed, until_current=True, attempts=3, **options)
    with Follower(parsed, start, given) as follower:
        return list(follower)


def files_of(items: list[Item]) -> dict[str, bytes]:
    """The bytes of each file; what was followed from its start has its magic. Blocks must join."""
    files: dict[str, bytearray] = {}
    for item in items:
        if isinstance(item, Idle):
            continue
        if item.file not in files:
            files[item.file] = bytearray(MAGIC if item.start == 4 else b"")
            offset = item.start
        assert item.start == offset, f"{item.file}: {item.start} does not join {offset}"
        offset = item.end
        files[item.file] += item.data
    return {name: bytes(data) for name, data in files.items()}


def next_block(items: Iterator[Item]) -> Block:
    """The next block, whatever idling there is before it."""
    return next(item for item in items if isinstance(item, Block))
