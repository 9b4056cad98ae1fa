"""The login, from the server's greeting to its OK, packet by packet, by the table of
`login_rules`.

    server  greeting: challenge, method
    client  SSLRequest, then TLS            (if both sides want it)
    client  capabilities, user, answer, method, attributes
    server  AuthSwitchRequest               (0xFE: another method, another challenge)
    server  AuthMoreData                    (0x01: the method continues)
    server  OK, or ERR

A server may ask for another method several times: MariaDB's accounts can have alternatives.

Sources: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html,
MySQL sql-common/client_authentication.cc, MariaDB plugin/auth_pam and client_plugins/dialog.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Protocol

from binlake.errors import AuthError
from binlake.events.body.writer import lenenc_bytes
from binlake.format.auth_plugins import (
    CACHING_SHA2,
    CLEAR,
    DIALOG,
    ED25519,
    NATIVE,
    OLD,
    PARSEC,
    SHA256,
)
from binlake.format.protocol import (
    CONNECT_ATTRS,
    MAX_PACKET_BYTES,
    PLUGIN_AUTH,
    PLUGIN_AUTH_LENENC,
)
from binlake.source.replica.login_rules import CACHING_SHA2_FULL, Credentials, Sends

_OK, _MORE_DATA, _SWITCH = 0x00, 0x01, 0xFE
_NONCE_BYTES = 20
_MOST_ROUNDS = 16
_REQUEST_KEY_SHA256, _REQUEST_KEY_SHA2 = b"\x01", b"\x02"
_FAST_OK, _FULL_LOGIN = b"\x03", b"\x04"
_PASSWORD_QUESTION, _QUESTION_KINDS = 4, 0x06
_PROMPT_SHOWN = 80


class Wire(Protocol):
    """Whole packets of a connection."""

    def write_packet(self, payload: bytes) -> None: ...

    def read_payload(self) -> bytes:
        """The next packet; raises for an ERR packet."""


def handshake_response(
    flags: int, offered: int, collation: int, user: bytes, method: str, answer: bytes,
    attributes: Mapping[str, str], zstd_level: int | None,
) -> bytes:  # fmt: skip
    """The client's answer to the greeting: `flags` are our capabilities, `offered` the server's."""
    out = struct.pack("<IIB23x", flags, MAX_PACKET_BYTES, collation) + user + b"\0"
    size = lenenc_bytes(len(answer)) if offered & PLUGIN_AUTH_LENENC else bytes([len(answer)])
    out += size + answer
    if offered & PLUGIN_AUTH:
        out += method.encode() + b"\0"
    if offered & CONNECT_ATTRS:
        pairs = b"".join(
            lenenc_bytes(len(raw)) + raw
            for pair in attributes.items()
            for raw in (text.encode() for text in pair)
        )
        out += lenenc_bytes(len(pairs)) + pairs
    return out + (bytes([zstd_level]) if zstd_level is not None else b"")


class Login:
    """One login. `greeting_nonce` and `greeting_method` come from the server's greeting."""

    def __init__(
        self, wire: Wire, credentials: Credentials, greeting_nonce: bytes, greeting_method: str,
        where: str,
    ) -> None:  # fmt: skip
        self._wire = wire
        self._credentials = credentials
        self._greeting_nonce = self._nonce = greeting_nonce[:_NONCE_BYTES]
        self._where = where
        # another method than these answers when the server asks for it
        sha2 = greeting_method == CACHING_SHA2
        if sha2 and credentials.sends(CACHING_SHA2) is Sends.REFUSED:
            sha2 = False
        self.method = CACHING_SHA2 if sha2 else NATIVE

    def first_answer(self) -> bytes:
        """Return the answer that goes with the user's name."""
        if self.method == CACHING_SHA2:
            return self._credentials.caching_sha2(self._nonce)
        return self._credentials.native(self._nonce)

    def finish(self) -> bytes:
        """Answer the server until it is satisfied; return its OK packet. Raises AuthError, and as
        `Wire`.
        """
        packet = self._wire.read_payload()
        for _ in range(_MOST_ROUNDS):
            kind = packet[0] if packet else None
            if kind == _OK:
                return packet
            if kind == _SWITCH:
                packet = self._switched(packet[1:])
            elif kind == _MORE_DATA:
                packet = self._continued(packet[1:])
            else:
                raise self._error("the server's answer to the login is not part of the protocol")
        raise self._error("the server asks for more and more to log in")

    def _switched(self, request: bytes) -> bytes:
        name, _, data = request.partition(b"\0")
        self.method = name.decode("latin-1") if name else OLD
        answer = _ANSWERS.get(self.method)
        if answer is None:
            raise self._error(
                f"the server asks for a login by {shown_method(name)}, which binlake does not"
                " know; "
                "give the user one of: " + ", ".join(sorted(_ANSWERS))
            )
        return answer(self, data)

    def _sent(self, answer: bytes) -> bytes:
        self._wire.write_packet(answer)
        return self._wire.read_payload()

    def _native(self, data: bytes) -> bytes:
        return self._sent(self._credentials.native(_nonce_of(data)))

    def _caching_sha2(self, data: bytes) -> bytes:
        self._nonce = _nonce_of(data)
        return self._sent(self._credentials.caching_sha2(self._nonce))

    def _continued(self, data: bytes) -> bytes:
        if self.method != CACHING_SHA2:
            raise self._error(f"the server asks for more than {self.method} has")
        if data == _FAST_OK:
            return self._wire.read_payload()
        if data != _FULL_LOGIN:
            raise self._error("the server's answer to caching_sha2_password is unknown")
        return self._with_password(CACHING_SHA2_FULL, _REQUEST_KEY_SHA2)

    def _sha256(self, data: bytes) -> bytes:
        self._nonce = _nonce_of(data)
        return self._with_password(SHA256, _REQUEST_KEY_SHA256)

    def _with_password(self, method: str, request_key: bytes) -> bytes:
        """Send the password itself in the one way that the table allows."""
        credentials = self._credentials
        allowed = credentials.sends(method)
        if credentials.is_empty or allowed is Sends.PASSWORD:
            return self._sent(credentials.as_it_is(method))
        key = None
        if allowed is Sends.TO_ANY_KEY and not credentials.knows_server_key:
            packet = self._sent(request_key)
            if packet[:1] != bytes([_MORE_DATA]):
                raise self._error("the server does not send its RSA key")
            key = packet[1:]
        return self._sent(credentials.encrypted(method, self._nonce, key))

    def _ed25519(self, data: bytes) -> bytes:
        return self._sent(self._credentials.ed25519(data, self._greeting_nonce))

    def _parsec(self, nonce: bytes) -> bytes:
        salt = self._sent(b"").removeprefix(bytes([_MORE_DATA]))
        return self._sent(self._credentials.parsec(nonce, salt, self._greeting_nonce))

    def _clear(self, data: bytes) -> bytes:
        return self._sent(self._credentials.as_it_is(CLEAR))

    def _dialog(self, question: bytes) -> bytes:
        """Answer one question for the password; a second factor cannot be answered."""
        password = self._credentials.as_it_is(DIALOG)
        kind = question[0] if question else _PASSWORD_QUESTION
        if kind & _QUESTION_KINDS != _PASSWORD_QUESTION:
            asked = ascii(question[1 : 1 + _PROMPT_SHOWN].decode("utf-8", "replace"))
            raise self._error(
                f"the server asks {asked} (dialog); binlake answers with a password only"
            )
        packet = self._sent(password)
        if packet[:1] == bytes([_OK]):
            return packet
        raise self._error("the server asks a second question (dialog); binlake answers only one")

    def _old(self, data: bytes) -> bytes:
        raise self._credentials.refusal(OLD)

    def _error(self, text: str) -> AuthError:
        return AuthError(f"{self._where}: {text}")


_ANSWERS: dict[str, Callable[[Login, bytes], bytes]] = {
    NATIVE: Login._native,
    CACHING_SHA2: Login._caching_sha2,
    SHA256: Login._sha256,
    ED25519: Login._ed25519,
    PARSEC: Login._parsec,
    CLEAR: Login._clear,
    DIALOG: Login._dialog,
    OLD: Login._old,
}


def _nonce_of(data: bytes) -> bytes:
    """Return the challenge of an AuthSwitchRequest, without the zero byte after it."""
    return data[:_NONCE_BYTES]


def info_of_ok(packet: bytes) -> bytes:
    """Return the text of an OK packet, b"" if it has none."""
    at = 1
    for _ in range(2):  # affected rows, insert id
        at += 1 + {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(packet[at] if at < len(packet) else 0, 0)
    at += 4  # status, warnings
    size = packet[at] if at < len(packet) else 0
    return packet[at + 1 : at + 1 + size]


def shown_method(name: bytes) -> str:
    """Return the name of a login method that a server sent, for a message."""
    return ascii(name.decode("latin-1")[:64])[1:-1]
