"""PyMySQL, made safe towards a hostile server, and able to compress.

PyMySQL does the logins; this subclass gives it our receiver, a time limit for the whole
handshake, limits on sizes, the compressed protocol, and refuses what would hand a password to
whoever asks. Only this module and `connection` know PyMySQL.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
import zlib
from typing import Any

import pymysql
import zstandard
from pymysql.connections import Connection
from pymysql.constants import CLIENT, CR

from binlake.source.replica.receiver import (
    COMPRESSED_HEADER,
    CompressedReceiver,
    PlainReceiver,
    Receiver,
    SilenceError,
)

__all__ = ["Driver"]

_ZSTD = 1 << 26  # CLIENT_ZSTD_COMPRESSION_ALGORITHM
_MAX_PACKET = (1 << 24) - 1
_QUERY_SECONDS = 120.0  # MariaDB reads a log to tell the GTID of a place in it
_MIN_COMPRESSED = 50  # the servers leave shorter packets as they are
# A greeting or an answer to a login is a few hundred bytes; an answer to a query is a listing.
_MAX_LOGIN_BYTES = 64 << 10
_MAX_ANSWER_BYTES = 64 << 20
# The plugins that send a password as it is.
_CLEAR = (b"mysql_clear_password", b"dialog")
_WEAK = (b"mysql_old_password",)


class Driver(Connection):  # type: ignore[misc]  # PyMySQL has no types
    """A connection of PyMySQL; `compression` is "", zlib or zstd, `patience_s` for the login,
    `bind_address` "" or the address of this machine to connect from.

    `tls` is None where the connection shall not be encrypted; with `tls_required` a server that
    offers none is refused.
    """

    def __init__(
        self,
        *,
        compression: str,
        zstd_level: int,
        bind_address: str,
        patience_s: float,
        tls: ssl.SSLContext | None,
        tls_required: bool,
        **options: Any,
    ) -> None:
        self._receiver: Receiver | None = None
        self._wanted = compression
        self._zstd_level = zstd_level
        self._from = (bind_address, 0) if bind_address else None
        self._compression = ""
        self._patience_s = patience_s
        self._deadline: float | None = None
        self._packet_budget = _MAX_LOGIN_BYTES
        self._answering = False
        self._sequence = 0  # of compressed packets
        self._answer_left = 0
        options |= {"ssl_disabled": True} if tls is None else {"ssl": tls}
        super().__init__(**options, defer_connect=True, connect_timeout=patience_s)
        if not tls_required:  # PyMySQL takes a context of ours for a demand
            self._ssl_required = False
            self.client_flag &= ~CLIENT.SSL

    def connect(self, sock: Any = None) -> None:
        self._deadline = time.monotonic() + self._patience_s
        self._read_timeout = self._write_timeout = self._patience_s
        super().connect(sock or self._opened())
        self._deadline = None
        self._read_timeout = self._write_timeout = max(self._patience_s, _QUERY_SECONDS)

    def _opened(self) -> socket.socket:
        """A connected socket; PyMySQL would leave one open that is refused."""
        where = self.unix_socket or f"{self.host}:{self.port}"
        try:
            if not self.unix_socket:
                sock = socket.create_connection(
                    (self.host, self.port), self._patience_s, self._from
                )
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
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
            raise pymysql.OperationalError(
                CR.CR_CONN_HOST_ERROR, f"cannot connect to {where}: {said}"
            ) from None
        self._secure = True  # nobody else listens on it
        return sock

    @property
    def compression(self) -> str:
        """How the connection is compressed: "", zlib or zstd."""
        return self._compression

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS, or a unix socket, protects the connection."""
        return bool(self._secure)

    @property
    def capabilities(self) -> int:
        """The capability flags of the greeting."""
        return int(self.server_capabilities)

    @property
    def receiver(self) -> Receiver:
        """What has been received, and what will be."""
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
        """Send one packet that is no command: sequence 0, nothing is waited for."""
        self._write_bytes(struct.pack("<I", len(payload)) + payload)

    # -- what PyMySQL calls ------------------------------------------------------------------

    def _request_authentication(self) -> None:
        self.client_flag |= self._compression_flag()
        self._answering = True
        super()._request_authentication()
        if self.client_flag & _ZSTD:
            self._compression = "zstd"
        elif self.client_flag & CLIENT.COMPRESS:
            self._compression = "zlib"
        if self._compression:
            self._receiver = CompressedReceiver(self._sock, self._compression)
        self._packet_budget = _MAX_ANSWER_BYTES

    def _compression_flag(self) -> int:
        offered = self.server_capabilities
        if self._wanted == "zstd" and offered & _ZSTD:
            return _ZSTD
        return int(CLIENT.COMPRESS & offered) if self._wanted else 0

    def write_packet(self, payload: bytes) -> None:
        if (
            self._answering and len(payload) > 32
        ):  # the answer to the greeting, not the start of TLS
            self._answering = False
            if self.client_flag & _ZSTD:
                payload += bytes([self._zstd_level])
        super().write_packet(payload)

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        if plugin_name in _WEAK or (plugin_name in _CLEAR and not self._secure):
            raise pymysql.OperationalError(
                CR.CR_AUTH_PLUGIN_ERR,
                f"the server asks for the password by {plugin_name.decode()} on a connection that "
                "anybody can read: refused",
            )
        return super()._process_auth(plugin_name, auth_packet, handler)

    def _read_packet(self, packet_type: Any = None) -> Any:
        self._answer_left = self._packet_budget
        kind = {} if packet_type is None else {"packet_type": packet_type}
        return super()._read_packet(**kind)

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._answer_left -= num_bytes
        if self._answer_left < 0:
            self._force_close()
            raise pymysql.OperationalError(
                CR.CR_MALFORMED_PACKET, f"the server sends a packet of {num_bytes} bytes here"
            )
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
        if not self._compression:
            super()._write_bytes(data)
            return
        if data[3] == 0:  # a new command: both counts begin again
            self._sequence = 0
        for at in range(0, len(data), _MAX_PACKET):
            super()._write_bytes(self._compressed(data[at : at + _MAX_PACKET]))

    def _compressed(self, piece: bytes) -> bytes:
        plain_size = len(piece)
        packed = piece
        if plain_size >= _MIN_COMPRESSED:
            if self._compression == "zstd":
                packed = zstandard.ZstdCompressor(level=self._zstd_level).compress(piece)
            else:
                packed = zlib.compress(piece)
        if len(packed) >= plain_size:
            packed, plain_size = piece, 0
        sequence = self._sequence
        self._sequence = (sequence + 1) & 0xFF
        return (
            COMPRESSED_HEADER.pack(
                len(packed) & 0xFFFF, len(packed) >> 16, sequence,
                plain_size & 0xFFFF, plain_size >> 16,
            ) + packed
        )  # fmt: skip
