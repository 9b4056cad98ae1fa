"""Authenticate an accepted connection: greeting, TLS, password.

Sources: MySQL's client/server protocol, protocol 4.1 handshake; sql/auth/sql_authentication.cc.

    server  greeting: version, nonce, capabilities, plugin
    client  SSLRequest, then TLS                  (where both want it)
    client  capabilities, user, answer, database, plugin, attributes
    server  AuthSwitchRequest                     (if the server does not have the plugin)
    client  answer
    server  OK, or ERR 1045
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass

from binlake.errors import FormatError
from binlake.events.body.reader import BodyReader
from binlake.events.common.format_description import version_numbers
from binlake.format.auth_plugins import CACHING_SHA2, NATIVE
from binlake.format.certificate_proof import certificate_proof, native_hash
from binlake.format.protocol import (
    COMPRESS,
    CONNECT_ATTRS,
    CONNECT_WITH_DB,
    LONG_FLAG,
    LONG_PASSWORD,
    PLUGIN_AUTH,
    PLUGIN_AUTH_LENENC,
    PROTOCOL_41,
    SECURE_CONNECTION,
    SSL,
    TRANSACTIONS,
    ZSTD_COMPRESSION,
)
from binlake.serve.answers import (
    ACCESS_DENIED,
    AUTOCOMMIT,
    HANDSHAKE,
    SECURE_TRANSPORT_REQUIRED,
    UTF8MB4,
    ok,
    refused,
)
from binlake.serve.channel import Channel
from binlake.serve.compression import Compression
from binlake.serve.passwords import PLUGINS, new_nonce, proves
from binlake.serve.settings import Settings
from binlake.serve.tls import ServerTls

_OFFERED = (
    LONG_PASSWORD | LONG_FLAG | CONNECT_WITH_DB | PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION
    | PLUGIN_AUTH | CONNECT_ATTRS | PLUGIN_AUTH_LENENC | COMPRESS | ZSTD_COMPRESSION
)  # fmt: skip

#: Clients send a name, a proof and some attributes: at most 64 KB of attributes.
MAX_LOGIN_BYTES = 128 << 10
_SSL_REQUEST_BYTES = 32
_MAX_NAME_BYTES = 256
_FAST_AUTH_OK = b"\x01\x03"


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity that the server shows: `version` and `flavour` as in the archive's logs."""

    version: str
    flavour: str
    server_id: int
    server_uuid: str

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The version as three numbers."""
        return version_numbers(self.version)

    @property
    def default_plugin(self) -> str:
        """The plugin that the greeting names: the one that a server of this version names."""
        newer = self.flavour == "mysql" and self.numbers >= (8, 0, 0)
        return CACHING_SHA2 if newer else NATIVE


@dataclass(frozen=True, slots=True)
class ReplicaLogin:
    """The client's first packet when it logs in; `compression` is "", zlib or zstd."""

    user: str
    answer: bytes
    plugin: str
    wants_tls: bool = False
    compression: str = ""
    zstd_level: int = 0


def greeting(who: Identity, connection_id: int, nonce: bytes, *, tls: bool) -> bytes:
    """The first packet, from the server."""
    capabilities = _OFFERED | (SSL if tls else 0)
    version = who.version
    if who.flavour == "mariadb" and version.startswith("10."):
        version = (
            "5.5.5-" + version
        )  # as those servers send it, for clients that know no version 10
    return (
        b"\x0a"
        + version.encode()
        + b"\0"
        + struct.pack("<I", connection_id & 0xFFFFFFFF)
        + nonce[:8]
        + b"\0"
        + struct.pack("<HBH", capabilities & 0xFFFF, UTF8MB4, AUTOCOMMIT)
        + struct.pack("<HB10x", capabilities >> 16, len(nonce) + 1)
        + nonce[8:]
        + b"\0"
        + who.default_plugin.encode()
        + b"\0"
    )


def parse_response(payload: bytes) -> ReplicaLogin:
    """Parse the client's first packet; `wants_tls` if it stops before the user's name.

    Raises ServerError (1043) for a packet that no client of protocol 4.1 sends.
    """
    try:
        return _parse_response(BodyReader(payload), len(payload))
    except FormatError:
        raise refused(HANDSHAKE, "08S01", "Bad handshake") from None


def _parse_response(reader: BodyReader, size: int) -> ReplicaLogin:
    capabilities = reader.u32("capabilities")
    if not capabilities & PROTOCOL_41 or not capabilities & SECURE_CONNECTION:
        raise refused(HANDSHAKE, "08S01", "Bad handshake: clients before MySQL 4.1 are not served")
    reader.take("packet size, character set, filler", 28)
    if capabilities & SSL and size == _SSL_REQUEST_BYTES:
        return ReplicaLogin("", b"", "", wants_tls=True)
    user = reader.until_nul("user")
    if len(user) > _MAX_NAME_BYTES:
        raise refused(HANDSHAKE, "08S01", "Bad handshake: the user's name is too long")
    if capabilities & PLUGIN_AUTH_LENENC:
        answer = reader.counted("answer")
    else:
        answer = reader.short("answer")
    if capabilities & CONNECT_WITH_DB and reader.left:
        reader.until_nul("database")
    plugin = b""
    if capabilities & PLUGIN_AUTH and reader.left:
        plugin = reader.until_nul("plugin")
    if capabilities & CONNECT_ATTRS and reader.left:
        reader.counted("attributes")
    compression, level = "", 0
    if capabilities & COMPRESS:  # which servers prefer where a client offers both
        compression = "zlib"
    elif capabilities & ZSTD_COMPRESSION:
        compression, level = "zstd", reader.u8("zstd level") if reader.left else 0
    return ReplicaLogin(
        user.decode("utf-8", "replace"),
        answer,
        plugin.decode("ascii", "replace") or NATIVE,
        compression=compression,
        zstd_level=level,
    )


def log_in(
    channel: Channel,
    settings: Settings,
    tls: ServerTls | None,
    who: Identity,
    connection_id: int,
    host: str,
    deadline: float,
    admit: Callable[[], None],
) -> ReplicaLogin:
    """Log the client in. `admit` is called once it has proven its identity, and may raise.

    Raises PeerGoneError, and ServerError for a client that must not log in (the caller reports it
    to the client).
    """
    nonce = new_nonce()
    channel.write(greeting(who, connection_id, nonce, tls=tls is not None))
    login = parse_response(channel.read(MAX_LOGIN_BYTES, deadline))
    if login.wants_tls:
        if tls is None:
            raise refused(HANDSHAKE, "08S01", "Bad handshake: TLS was not offered")
        channel.secure(tls.context, deadline)
        login = parse_response(channel.read(MAX_LOGIN_BYTES, deadline))
        if login.wants_tls:
            raise refused(HANDSHAKE, "08S01", "Bad handshake: TLS within TLS")
    elif settings.require_tls:
        raise refused(
            SECURE_TRANSPORT_REQUIRED, "HY000",
            "Connections using insecure transport are prohibited: binlake serve runs with"
            " --require-tls (SOURCE_SSL=1, MASTER_SSL=1)",
        )  # fmt: skip
    plugin, answer = login.plugin, login.answer
    if plugin not in PLUGINS or not answer:
        # a client that ignores the plugin of the greeting has the older one, if any of binlake's
        plugin = NATIVE if plugin not in PLUGINS else plugin
        nonce = new_nonce()
        channel.write(b"\xfe" + plugin.encode() + b"\0" + nonce + b"\0")
        answer = channel.read(MAX_LOGIN_BYTES, deadline)
    known = hmac.compare_digest(login.user.encode(), settings.user.encode())
    if not proves(plugin, settings.password, nonce, answer) or not known:
        given = "YES" if answer.strip(b"\0") else "NO"
        raise refused(
            ACCESS_DENIED, "28000",
            f"Access denied for user '{login.user}'@'{host}' (using password: {given})",
        )  # fmt: skip
    admit()
    if plugin == CACHING_SHA2:
        channel.write(_FAST_AUTH_OK)
    proof = b""
    if tls is not None and channel.is_tls and plugin == NATIVE and who.flavour == "mariadb":
        stored = native_hash(settings.password.encode())
        proof = certificate_proof(stored, nonce, tls.fingerprint)
    channel.write(ok(proof))
    if login.compression:
        channel.compress(Compression(login.compression, login.zstd_level))
    return login
