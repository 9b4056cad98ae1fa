"""The options of `serve`, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from binlake.source.keyring import Keyring


@dataclass(frozen=True, slots=True)
class Settings:
    """How an archive is served.

    `server_id` and `server_uuid` are the identity that replicas see; None derives them from the
    archive (`identity.py`). `ssl_cert` and `ssl_key` are PEM files; without them a
    certificate is made at the start. Times are in seconds; `handshake_seconds` is for the whole
    login, `write_seconds` how long one block of events may wait for a replica that does not read,
    `stop_seconds` how long the end waits for the threads of connections.
    """

    path: str
    user: str
    password: str = field(repr=False)
    bind: str = "127.0.0.1"
    port: int = 3307
    source: str = ""
    server_id: int | None = None
    server_uuid: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    require_tls: bool = False
    keyring: Keyring | None = None
    max_connections: int = 100
    max_logins: int = 16
    handshake_seconds: float = 10
    idle_seconds: float = 600
    write_seconds: float = 60
    stop_seconds: float = 10
    poll_seconds: float = 0.02
    metrics_port: int | None = None
