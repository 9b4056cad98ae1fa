"""A subclass of PyMySQL's connection that is safe with a hostile server, and supports compression.

PyMySQL runs queries and reads their results. This subclass gives it our receiver, the login of
`login` (PyMySQL never knows the password), limits on the size and the duration of every answer,
and the compressed protocol. Only this module, `login_rules` and `connection` know PyMySQL.
"""

from __future__ import annotations

import socket
import struct
import time
import zlib
from typing import Any

import pymysql
import zstandard
from pymysql.charset import charset_by_name
from pymysql.connections import Connection
from pymysql.constants import CR

from binlake.errors import AuthError
from binlake.format.protocol import COMPRESS, MAX_PACKET_BYTES, SSL, ZSTD_COMPRESSION
from binlake.source.replica.answers import AnswerLimits
from binlake.source.replica.login import Login, handshake_response, info_of_ok
from binlake.source.replica.login_rules import ChannelKind, Credentials
from binlake.source.replica.receiver import (
    CompressedReceiver,
    PlainReceiver,
    Receiver,
    SilenceError,
    compressed_packet,
)
from binlake.source.replica.tls import Peer, TlsPolicy

# After so many seconds of silence, and then so many probes at this interval without an answer, a connection is lost: a half-open
# one would be noticed after two hours, or after a quarter of one if it has not acknowledged what was sent.
_KEEP_ALIVE = {
    "TCP_KEEPIDLE": 30,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 60_000,  # milliseconds
}
_MAX_LOGIN_BYTES = 64 << 10  # of all packets of a login; an honest one needs a few hundred bytes
# Of a packet in a stream: a slower server counts as lost, so that an event cannot take hours.
_LEAST_BYTES_S = 1024
_COST_OF_PACKET = 64
_COST_OF_COLUMN = 1024  # PyMySQL's object for the definition of a column
_COST_OF_VALUE = 56  # a short str of Python and its place in the row


class Driver(Connection):  # type: ignore[misc]  # PyMySQL has no types
    """A connection of PyMySQL; `compression` is "", zlib or zstd. `patience_s` limits a login,
    `silence_s` the silence of the server while it answers a query. `bind_address` is "" or the
    address of this machine to connect from. `where` names the server in messages, `limits` are those of
    one answer.
    """

    def __init__(
        self,
        *,
        compression: str,
        zstd_level: int,
        bind_address: str,
        patience_s: float,
        silence_s: float,
        tls: TlsPolicy,
        credentials: Credentials,
        where: str,
        limits: AnswerLimits,
        **options: Any,
    ) -> None:
        self._receiver: Receiver | None = None
        self._wanted = compression
        self._zstd_level = zstd_level
        self._from = (bind_address, 0) if bind_address else None
        #: The compression of the connection: "", zlib or zstd.
        self.compression = ""
        self._patience_s = patience_s
        self._silence_s = silence_s
        self._deadline: float | None = None
        self._sequence = 0  # of compressed packets
        self._answer_left = 0
        self._columns = 0  # of the result that is being read
        self._is_logging_in = False
        self._tls = tls
        self._credentials = credentials
        self._where = where
        self._limits = limits
        super().__init__(
            **options, ssl_disabled=True, defer_connect=True, connect_timeout=patience_s
        )

    def connect(self, sock: Any = None) -> None:
        self._deadline = time.monotonic() + self._patience_s
        self._answer_left, self._columns = _MAX_LOGIN_BYTES, 0
        self._is_logging_in = True
        self._read_timeout = self._write_timeout = self._patience_s
        super().connect(sock or self._opened())
        self._is_logging_in = False
        self._deadline = None
        self._read_timeout = self._write_timeout = self._silence_s

    def _opened(self) -> socket.socket:
        """Return a connected socket; PyMySQL would leave a refused one open."""
        where = self.unix_socket or f"{self.host}:{self.port}"
        try:
            if not self.unix_socket:
                sock = socket.create_connection(
                    (self.host, self.port), self._patience_s, self._from
                )
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _keep_alive(sock)
                return sock
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(self._patience_s)
                sock.connect(self.unix_socket)
            except OSError:
                sock.close()
                raise
        except OSError as error:
            said = error.strerror or str(error)
            if isinstance(error, ConnectionRefusedError):
                said += " (does the server run, and listen there?)"
            raise pymysql.OperationalError(
                CR.CR_CONN_HOST_ERROR, f"cannot connect to {where}: {said}"
            ) from None
        self._credentials.channel = ChannelKind.UNIX_SOCKET
        return sock

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS, or a unix socket, protects the connection."""
        return self.channel is not ChannelKind.PLAIN

    @property
    def is_verified(self) -> bool:
        """Whether the server is known to be the right one."""
        return self.channel not in (ChannelKind.PLAIN, ChannelKind.TLS_UNVERIFIED)

    @property
    def channel(self) -> ChannelKind:
        """How the connection is protected."""
        return self._credentials.channel

    @property
    def receiver(self) -> Receiver:
        """The receiver and its counts."""
        if self._sock is None:
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, "the connection is closed")
        receiver = self._receiver
        if receiver is None or receiver.sock is not self._sock:
            if receiver is not None and receiver.held:
                raise pymysql.OperationalError(
                    CR.CR_SSL_CONNECTION_ERROR, "the server sent something before TLS had begun"
                )
            receiver = self._receiver = PlainReceiver(self._sock)
        receiver.timeout, receiver.deadline = self._read_timeout, self._deadline
        return receiver

    def send(self, payload: bytes) -> None:
        """Send one packet that is not a command: sequence 0, without waiting for an answer."""
        self._write_bytes(struct.pack("<I", len(payload)) + payload)

    # -- called by PyMySQL -------------------------------------------------------------------

    def _request_authentication(self) -> None:
        """Log in; PyMySQL has read the greeting."""
        offered = self.server_capabilities
        flags = self.client_flag | self._compression_flag()
        collation = charset_by_name(self.charset).id
        if self._starts_tls(offered):
            flags |= SSL
            self.write_packet(struct.pack("<IIB23x", flags, MAX_PACKET_BYTES, collation))
            self._sock = self._tls.secured(self.receiver.sock, self.host)
        credentials = self._credentials
        login = Login(self, credentials, self.salt, self._auth_plugin_name, self._where)
        zstd_level = self._zstd_level if flags & ZSTD_COMPRESSION else None
        user = self.user.encode(self.encoding)
        answer = login.first_answer()
        response = handshake_response(
            flags, offered, collation, user, login.method, answer, self._connect_attrs, zstd_level
        )
        self.write_packet(response)
        ok = login.finish()
        if credentials.channel is ChannelKind.TLS_PROVEN:
            certificate = self._sock.getpeercert(binary_form=True) or b""
            credentials.check_proof(info_of_ok(ok), certificate)
        if flags & (ZSTD_COMPRESSION | COMPRESS):
            self.compression = "zstd" if flags & ZSTD_COMPRESSION else "zlib"
            self._receiver = CompressedReceiver(self._sock, self.compression)

    def _starts_tls(self, offered: int) -> bool:
        """Begin TLS if the policy wants it; tell the credentials how the channel is protected.

        Raises AuthError if TLS is required and the server does not offer it.
        """
        is_socket = self._credentials.channel is ChannelKind.UNIX_SOCKET
        peer = Peer(
            is_socket=is_socket,
            is_mariadb="mariadb" in self.server_version.lower(),
            offers_tls=bool(offered & SSL),
            has_password=not self._credentials.is_empty,
        )
        channel = self._tls.channel(peer)
        if channel is None:
            why, what_to_do = self._tls.missing()
            raise AuthError(f"{self._where}: {why}", hint=what_to_do)
        # a unix socket stays trusted, with or without TLS
        self._credentials.channel = ChannelKind.UNIX_SOCKET if is_socket else channel
        return channel not in (ChannelKind.PLAIN, ChannelKind.UNIX_SOCKET)

    def _compression_flag(self) -> int:
        offered = self.server_capabilities
        if self._wanted == "zstd" and offered & ZSTD_COMPRESSION:
            return ZSTD_COMPRESSION
        return int(COMPRESS & offered) if self._wanted else 0

    def read_payload(self) -> bytes:
        """One packet; raises PyMySQL's error for an ERR packet."""
        return bytes(self._read_packet().get_all_data())

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        done = super()._read_query_result(unbuffered=unbuffered)
        if self._result.has_next:  # PyMySQL would read them all
            self._force_close()
            raise pymysql.OperationalError(
                CR.CR_MALFORMED_PACKET, "the server sends several results for one query: refused"
            )
        return done

    def _execute_command(self, command: int, sql: bytes | str) -> None:
        self._columns = 0
        if not self._is_logging_in:  # which has one budget and one deadline
            self._answer_left = self._limits.memory_bytes
            self._deadline = time.monotonic() + self._limits.seconds
            self._read_timeout = self._silence_s  # a longer one was for one command
        super()._execute_command(command, sql)

    def allow_silence(self, seconds: float) -> None:
        """Wait so long for the answer to the command that was sent, instead of the time for a query."""
        self._deadline = time.monotonic() + seconds
        self._read_timeout = seconds

    def begin_stream(self, silence_s: float) -> Receiver:
        """Return the receiver for a stream of events: without an end, but with limits on silence and on slow packets."""
        self._deadline = None
        self._read_timeout = silence_s
        receiver = self.receiver
        receiver.least_bytes_s = _LEAST_BYTES_S
        return receiver

    def _read_packet(self, packet_type: Any = None) -> Any:
        if packet_type is None:
            self._charge(_COST_OF_PACKET + self._columns * _COST_OF_VALUE)
            return super()._read_packet()
        self._columns += 1
        self._charge(_COST_OF_COLUMN)
        return super()._read_packet(packet_type=packet_type)

    def _charge(self, size: int) -> None:
        """Take `size` bytes out of the budget of this answer. Raises OperationalError."""
        self._answer_left -= size
        if self._answer_left < 0:
            self._force_close()
            limit = _MAX_LOGIN_BYTES if self._is_logging_in else self._limits.memory_bytes
            raise pymysql.OperationalError(
                CR.CR_MALFORMED_PACKET,
                f"the server's answer to the {'login' if self._is_logging_in else 'query'}"
                " takes more "
                f"than {limit >> 10} KB: refused",
            )

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._charge(num_bytes)
        try:
            return self.receiver.take(num_bytes)
        except SilenceError as error:
            self._force_close()
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, str(error)) from None
        except (OSError, EOFError) as error:
            self._force_close()
            raise pymysql.OperationalError(
                CR.CR_SERVER_LOST, f"the connection was lost: {error}"
            ) from None

    def _write_bytes(self, data: bytes) -> None:
        if not self.compression:
            super()._write_bytes(data)
            return
        if data[3] == 0:  # a new command: both counts begin again
            self._sequence = 0
        for at in range(0, len(data), MAX_PACKET_BYTES):
            piece = compressed_packet(
                data[at : at + MAX_PACKET_BYTES], self._sequence, self._packed
            )
            self._sequence = (self._sequence + 1) & 0xFF
            super()._write_bytes(piece)

    def _packed(self, data: bytes) -> bytes:
        if self.compression == "zstd":
            return zstandard.ZstdCompressor(level=self._zstd_level).compress(data)
        return zlib.compress(data)


def _keep_alive(sock: socket.socket) -> None:
    """Have the system notice that the other end is gone, where it can be told when."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, number in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not on all systems
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), number)
