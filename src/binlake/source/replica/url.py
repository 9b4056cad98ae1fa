"""URLs of live servers, as users write them.

    mysql://repl@db1.example.com:3306/                  a server
    mysql://repl@db1/binlog.000012                      one of its logs
    mariadb://repl@[2001:db8::1]/                       MariaDB; IPv6
    mysql://repl@%2Frun%2Fmysqld%2Fmysqld.sock/         a unix socket, or ?socket=/run/…
    mysql://repl@db1,db2:3307/                          servers that replicate one another
    mysql://repl@db1/?ssl-mode=verify_identity&ssl-ca=/etc/ca.pem

User, password and everything else may be percent-encoded. A password in a URL is taken out of
it and remembered by this process (`passwords`), so that no text made of the URL has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from binlake.errors import OptionError
from binlake.source.replica.passwords import Account, remember

#: The schemes of live servers. They set the expected flavour; the server reports its own.
SERVER_SCHEMES = ("mysql", "mariadb")
#: The default port of servers.
DEFAULT_PORT = 3306

_MAX_PORT = 65535
_SECONDS_LIMIT = 31_536_000.0
# a name of the server's option log_bin; one with & or = is a query whose ? is missing
_LOG_NAME = re.compile(r"[^/\\&=\x00-\x1f]{1,255}")
_HOST = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>\d*))?")
_OPTION = re.compile(r"[\w-]+=")
_NEXT_URL = re.compile(r",(?=(?:mysql|mariadb)://)", re.IGNORECASE)


class UrlOption(NamedTuple):
    """The meaning of an option of a URL, and the placeholder of its value in help texts."""

    meaning: str
    metavar: str


#: The options in the query of a URL. The flags of commands and the keys of `[archive.connection]`
#: have their texts from here.
URL_OPTIONS: dict[str, UrlOption] = {
    name: UrlOption(meaning, metavar)
    for name, metavar, meaning in (
        ("socket", "FILE", "unix socket of the server, instead of host and port"),
        ("password-file", "FILE", "file whose first line is the password"),
        ("option-file", "FILE", "option file to read instead of ~/.my.cnf; `none` reads no option file"),
        ("extra-option-file", "FILE", "option file to read after the other one"),
        ("option-group-suffix", "TEXT", "also read the groups whose names end with this text"),
        ("login-path", "NAME", "a login that mysql_config_editor stored in ~/.mylogin.cnf"),
        ("ssl-mode", "MODE", "how the connection is secured: disabled, preferred, required, verify_ca or verify_identity"),
        ("ssl-ca", "FILE", "PEM file of the certificate authorities for the server's certificate"),
        ("ssl-cert", "FILE", "PEM file of the client's certificate"),
        ("ssl-key", "FILE", "PEM file of the client's key"),
        ("ssl-capath", "DIR", "directory of certificate authorities, by hash"),
        ("ssl-crl", "FILE", "PEM file of revoked certificates"),
        ("ssl-crlpath", "DIR", "directory of revoked certificates, by hash"),
        ("ssl-cipher", "LIST", "ciphers up to TLS 1.2, as OpenSSL names them"),
        ("tls-version", "LIST", "versions of TLS, as in TLSv1.2,TLSv1.3"),
        ("server-public-key", "FILE", "PEM file of the server's RSA key, for logins without TLS"),
        ("compress", "zlib|zstd", "compress the connection"),
        ("zstd-compression-level", "N", "compression level of zstd, 1 to 22 (3)"),
        ("bind-address", "ADDRESS", "address of this machine to connect from"),
        ("connect-timeout", "SECONDS", "time limit of a login, in seconds"),
        ("read-timeout", "SECONDS",
         "seconds of silence after which the server counts as lost: in a stream (30), before the answer to a query (120), and without a row of a table (600)"),
        ("heartbeat", "SECONDS", "seconds between heartbeats of an idle server"),
        ("server-id", "N", "server id of binlake among the replicas; a free one by default"),
        ("report-host", "HOST", "host shown in SHOW REPLICAS"),
        ("report-port", "PORT", "port shown in SHOW REPLICAS"),
        ("report-user", "USER", "user shown in SHOW REPLICAS"),
        ("semi-sync", "on|off", "act as a semi-synchronous replica"),
        ("skip-replication", "keep|drop|filter",
         "events marked SKIP_REPLICATION: keep them, drop them, or (filter) have the server leave them out"),
        ("gtid-strict", "on|off", "off: accept a MariaDB position that the server never had"),
        ("gtid-ignore-duplicates", "on|off",
         "on: accept a MariaDB server that is behind the position of binlake, and leave out the events up to it"),
        ("until-gtid", "GTIDS", "MariaDB: the server ends the stream at these GTIDs"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """One live server, or one of its logs.

    `flavour` is the scheme as typed; `host` "" means that the options file, or else this
    machine, is meant; `port` 0 and `user` "" likewise. `log_name` is "" or the base name of one
    log. `options` are (name, value) pairs of `URL_OPTIONS`. No password is in it.
    """

    flavour: str
    host: str = ""
    port: int = 0
    user: str = ""
    unix_socket: str = ""
    log_name: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> ServerUrl:
        """One server's URL. Raises OptionError, which shows no password."""
        urls = cls.parse_all(text)
        if len(urls) > 1:
            raise OptionError(
                f"{', '.join(map(str, urls))}: one server is expected here", name="url"
            )
        return urls[0]

    @classmethod
    def parse_all(cls, text: str | Iterable[str]) -> tuple[ServerUrl, ...]:
        """The servers of a list: several URLs, or one with several hosts, separated by commas.

        Raises OptionError.
        """
        texts = [text] if isinstance(text, str) else list(text)
        return tuple(
            url for part in texts for one in _NEXT_URL.split(part) for url in _hosts_of(one.strip())
        )

    def option(self, name: str, default: str = "") -> str:
        """The value of one option, `default` where the URL does not have it."""
        if name not in URL_OPTIONS:
            raise KeyError(name)
        return dict(self.options).get(name, default)

    def with_options(self, **given: str | None) -> ServerUrl:
        """Return the URL with more options (`password_file=…`); an option that is None keeps its value."""
        options = dict(self.options)
        options |= {k.replace("_", "-"): v for k, v in given.items() if v is not None}
        url = replace(self, options=tuple(sorted(options.items())))
        _check_options(str(url), options)
        return url

    def log(self, name: str) -> ServerUrl:
        """The URL of one of its logs; of the server itself with ""."""
        return replace(self, log_name=name)

    @property
    def account(self) -> Account:
        """The account to which a password belongs."""
        return Account(self.user, self.host, self.port, self.unix_socket)

    @property
    def where(self) -> str:
        """The server as messages name it: host and port, or the socket."""
        if self.unix_socket:
            return self.unix_socket
        host = f"[{self.host}]" if ":" in self.host else self.host or "localhost"
        return f"{host}:{self.port or DEFAULT_PORT}"

    def __str__(self) -> str:
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        if self.unix_socket:
            host = quote(self.unix_socket, safe="")
        port = f":{self.port}" if self.port and not self.unix_socket else ""
        query = "&".join(f"{name}={quote(value, safe=':,')}" for name, value in self.options)
        path = quote(self.log_name, safe="")
        return f"{self.flavour}://{user}{host}{port}/{path}{'?' if query else ''}{query}"


def is_server_url(text: str) -> bool:
    """Whether a path is meant as the URL of a live server."""
    return text.partition("://")[0].lower() in SERVER_SCHEMES and "://" in text


def without_password(text: str) -> str:
    """A path for plans and messages: URLs of servers lose their passwords, which this process
    remembers; other paths stay unchanged. Raises OptionError.
    """
    return ",".join(map(str, ServerUrl.parse_all(text))) if is_server_url(text) else text


def holds_password(text: str) -> bool:
    """Whether the URL of a server, or of several, has a password in it, where people write one."""
    for url in _NEXT_URL.split(text):
        login, _, query = _parts(url.partition("://")[2])
        names = (_option_name(unquote(part.partition("=")[0])) for part in query.split("&"))
        if ":" in login or any(_ALIASES.get(name, name) == "password" for name in names):
            return True
    return False


def seconds_option(url: ServerUrl, name: str, default: float) -> float:
    """An option of a URL in seconds. Raises OptionError."""
    text = url.option(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _SECONDS_LIMIT:
        raise OptionError(f"{name}={text}: not a number of seconds", name=name, value=text)
    return seconds


def choice_option(url: ServerUrl, name: str, choices: tuple[str, ...], default: str) -> str:
    """An option of a URL that is one of some words. Raises OptionError."""
    text = url.option(name, default).lower().replace("-", "_")
    if text not in choices:
        raise OptionError(
            f"{name}={text}: expected one of {', '.join(filter(None, choices))}",
            name=name,
            value=text,
        )
    return text


def _hosts_of(text: str) -> list[ServerUrl]:
    """The servers of one URL: one for each of its hosts."""
    scheme, separator, rest = text.partition("://")
    flavour = scheme.lower()
    if not separator or flavour not in SERVER_SCHEMES:
        # do not repeat a text that may contain a password
        plain = text if text and not set(text) & set("@:") else "this"
        shown = f"{scheme}://…" if separator else plain
        raise OptionError(
            f"{shown} is not the URL of a server",
            name="url",
            hint="expected mysql://user@host:port/ or mariadb://user@host:port/",
        )
    login, after, query = _parts(rest)
    authority, _, path = after.partition("/")
    user, has_password, password = login.partition(":")
    shown = f"{flavour}://{','.join(map(_shown_host, authority.split(',')))}/{path}"
    given = dict(_options(query, shown))
    secret = given.pop("password", None)
    if has_password:
        secret = unquote(password)
    socket = given.pop("socket", "")
    log_name = unquote(path.strip("/"))
    if log_name and not _LOG_NAME.fullmatch(log_name):
        raise OptionError(
            f"{shown}: {log_name!r} is not the name of a log",
            name="url",
            hint="a path is the name of one log, as in mysql://host/binlog.000012",
        )
    options = tuple(sorted(given.items()))
    urls = []
    for part in authority.split(","):
        host, port, own_socket = _host(part, shown)
        url = ServerUrl(flavour, host, port, unquote(user), own_socket or socket, log_name, options)
        if secret is not None:
            remember(url.account, secret)
        urls.append(url)
    return urls


def _parts(rest: str) -> tuple[str, str, str]:
    """Login, host and path, query. A password may hold @, / and ? as they are."""
    before, _, query = rest.partition("?")
    if "@" in query and not _OPTION.match(query):
        login, _, after = rest.rpartition("@")
        before, _, query = after.partition("?")
        return login, before, query
    login, _, after = before.rpartition("@")
    return login, after, query


def _shown_host(text: str) -> str:
    """A part of the authority for a message; a text that is not a host may be a password."""
    return text if _HOST.fullmatch(text) else "…"


def _host(text: str, shown: str) -> tuple[str, int, str]:
    """Host, port and unix socket of one part of a URL's authority."""
    match = _HOST.fullmatch(text)
    if match is None:
        raise OptionError(
            f"{shown}: the part between // and / is not a host and a port",
            name="url",
            hint="an IPv6 address stands in brackets; @, : and / in a password are written %40, %3A, %2F",
        )
    port = port_number(match["port"] or "0", shown)
    host = unquote(match["v6"] or match["name"] or "")
    return ("", 0, host) if host.startswith("/") else (host, port, "")


def port_number(text: str, where: str) -> int:
    """A port. Raises OptionError, which begins with `where`."""
    if not re.fullmatch(r"\d{1,5}", text, re.ASCII) or int(text) > _MAX_PORT:
        raise OptionError(f"{where}: {text[:20]} is not a port", name="url")
    return int(text)


def _options(query: str, shown: str) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise OptionError(f"{shown}: its query is not name=value&…", name="url") from None
    named = [(_ALIASES.get(n, n), value) for n, value in ((_option_name(n), v) for n, v in pairs)]
    _check_options(shown, [name for name, _ in named if name != "password"])
    return named


# Other programs' names of the same options.
_ALIASES = {
    "unix-socket": "socket",
    "sslmode": "ssl-mode",
    "sslca": "ssl-ca",
    "compression": "compress",
    "passwd": "password",
    "defaults-file": "option-file",
    "defaults-extra-file": "extra-option-file",
    "defaults-group-suffix": "option-group-suffix",
}


def _option_name(name: str) -> str:
    return name.lower().replace("_", "-")


def _check_options(shown: str, names: Iterable[str]) -> None:
    for name in names:
        if name not in URL_OPTIONS:
            raise OptionError(
                f"{shown}: there is no option {name!r} of a connection",
                name="url",
                hint=f"options: {', '.join(URL_OPTIONS)}",
            )
