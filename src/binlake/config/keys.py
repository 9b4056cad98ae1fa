"""The keys of the configuration file. `docs/configuration.md` lists them from here, and options of `binlake archive` and
`binlake serve` have their meanings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from binlake.archive.finishing import COMPRESSIONS
from binlake.config.toml_file import Key, WholeNumber, flag, number, path, place, size, text
from binlake.source.replica.url import URL_OPTIONS, ServerUrl, holds_password, is_server_url
from binlake.values.gtid import SERVER_UUID

_PORT = WholeNumber(0, 65535)
_FILES = ("ssl-ca", "ssl-cert", "ssl-key", "ssl-capath", "ssl-crl", "ssl-crlpath", "server-public-key",
          "extra-option-file")  # fmt: skip
_NOT_OF_A_CONNECTION = ("password-file", "skip-replication", "socket", "until-gtid")


def _compression(value: Any, folder: Path) -> str:
    if value not in COMPRESSIONS:
        raise ValueError(f"expected one of {', '.join(COMPRESSIONS)}")
    return str(value)


def _urls(value: Any, folder: Path) -> tuple[ServerUrl, ...]:
    """Read a URL, or a list of URLs of servers that replicate one another; without a password."""
    urls = [text(one, folder) for one in (value if isinstance(value, list) else [value])]
    for url in urls:
        if is_server_url(url) and holds_password(url):
            raise ValueError("the URL contains a password; use password_file or password_variable")
    if not urls:
        raise ValueError("expected the URL of a server")
    return ServerUrl.parse_all(urls)


def _option(value: Any, folder: Path) -> str:
    """Read the value of an option of a connection."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | float) else text(value, folder)


def _option_file(value: Any, folder: Path) -> str:
    return "none" if value == "none" else path(value, folder)


def _parse_of(name: str) -> Any:
    if name == "option-file":
        return _option_file
    return path if name in _FILES else _option


def _uuid(value: Any, folder: Path) -> str:
    if not SERVER_UUID.fullmatch(text(value, folder)):
        raise ValueError("expected a UUID")
    return str(value).lower()


#: In `[archive]` for all servers, and in `[archive.servers.NAME]` for one.
ARCHIVE_KEYS: dict[str, Key] = {
    "target": Key(place, "directory or URI of the archive; several servers may share it"),
    "password_file": Key(path, "file whose first line is the password"),
    "password_variable": Key(text, "environment variable that holds the password"),
    "compress": Key(_compression, f"compression of complete logs: {' or '.join(COMPRESSIONS)}", "none"),
    "index": Key(flag, "write an index beside each complete log", "true"),
    "key_index": Key(flag, "also write a key index, as `binlake index --keys` does", "false"),
    "from": Key(text, "first log of a server that is new in the archive: a name, oldest or newest", "oldest"),
    "sync_seconds": Key(number, "seconds between syncs while data is arriving", "1; object store: 10"),
    "restart_if_lost": Key(flag, "if the server has purged the next log, continue in a new directory", "false"),
    "keep_days": Key(number, "remove logs that ended more than this number of days ago"),
    "keep_bytes": Key(size, 'remove the oldest logs while the archive is larger than this size, such as "500GB"'),
}  # fmt: skip
#: Only in `[archive.servers.NAME]`.
SERVER_KEYS: dict[str, Key] = {
    "url": Key(_urls, "URL of the server, or a list of URLs of servers that replicate one another"),
}
#: Only in `[archive]`.
METRICS_KEYS: dict[str, Key] = {
    "metrics_port": Key(_PORT, "port for Prometheus metrics"),
    "metrics_address": Key(text, "address for Prometheus metrics", "127.0.0.1"),
}
#: In `[archive.connection]` for all servers, and in `[archive.servers.NAME.connection]` for one.
CONNECTION_KEYS: dict[str, Key] = {
    name.replace("-", "_"): Key(_parse_of(name), option.meaning)
    for name, option in URL_OPTIONS.items()
    if name not in _NOT_OF_A_CONNECTION
}
#: In `[serve]` for all listeners, and in `[serve.listeners.NAME]` for one.
SERVE_KEYS: dict[str, Key] = {
    "bind": Key(text, "address to listen on; 0.0.0.0 listens on all addresses", "127.0.0.1"),
    "user": Key(text, "user name for replicas", "replica"),
    "password_file": Key(path, "file whose first line is the password of that user"),
    "password_variable": Key(text, "environment variable that holds the password"),
    "ssl_cert": Key(path, "certificate (PEM); by default binlake creates one"),
    "ssl_key": Key(path, "its private key (PEM)"),
    "require_tls": Key(flag, "refuse connections without TLS", "false"),
    "max_connections": Key(WholeNumber(1, 100_000), "maximum number of connections", "100"),
    "keyring": Key(path, "keyring of encrypted logs"),
    "keyring_password_file": Key(path, "file with the password of the keyring"),
}
#: Only in `[serve.listeners.NAME]`.
LISTENER_KEYS: dict[str, Key] = {
    "path": Key(place, "the archive or logs to serve"),
    "port": Key(_PORT, "port to listen on"),
    "source": Key(text, "the server to serve, if the archive contains several"),
    "server_id": Key(WholeNumber(1, (1 << 32) - 1), "the server_id to answer with"),
    "server_uuid": Key(_uuid, "the server_uuid to answer with (MySQL)"),
    "metrics_port": Key(WholeNumber(1, 65535), "port for Prometheus metrics"),
}
