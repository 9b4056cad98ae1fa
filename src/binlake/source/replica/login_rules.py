"""Which login method may send what over which channel: the table, and the password behind it.

`RULES` is the only place that decides. `Credentials` holds the password and computes every answer
to a server; each answer asks the table first. No other object of a connection knows the password,
so a server cannot obtain it by asking in another way or at another moment.

Defaults follow the newest clients of both servers: `mysql` 9.7 (no RSA key is taken from the server,
the password is never sent as it is) and `mariadb` 11.8 (a login to MariaDB needs TLS and a verified
certificate, unless `ssl-mode` says otherwise). binlake is stricter than `mysql` in one case: TLS
without a verified certificate does not carry a password.

    sources: MySQL sql-common/client.cc, sql-common/client_authentication.cc; MariaDB Connector/C 3.4
"""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum
from typing import NamedTuple

from pymysql import _auth

from binlake.errors import AuthError
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
from binlake.format.certificate_proof import certificate_proof, native_hash
from binlake.source.replica import parsec
from binlake.source.replica.passwords import Secret


class ChannelKind(Enum):
    """How a connection is protected; the value is the heading in the documentation."""

    PLAIN = "TCP without TLS"
    TLS_UNVERIFIED = "TLS, certificate not verified"
    TLS_PROVEN = "TLS, MariaDB's default"
    TLS_VERIFIED = "TLS, `verify_ca` or `verify_identity`"
    UNIX_SOCKET = "unix socket"


class Sends(Enum):
    """The secret that binlake sends for a method; the value is the word in the documentation."""

    PROOF = "proof"
    """A response to a random challenge: the password can only be guessed from it."""
    TO_KNOWN_KEY = "to `server-public-key`"
    """The password, encrypted to the RSA key that the user has given; refused without one."""
    TO_ANY_KEY = "encrypted"
    """The password, encrypted to the given RSA key, or to the one that the server sends."""
    PASSWORD = "password"
    """The password as it is: the channel protects it."""
    REFUSED = "refused"


#: The method of CACHING_SHA2 that sends the password; servers have no name for it.
CACHING_SHA2_FULL = f"{CACHING_SHA2} (full)"

_P, _W, _X = Sends.PROOF, Sends.PASSWORD, Sends.REFUSED
_KNOWN, _ANY = Sends.TO_KNOWN_KEY, Sends.TO_ANY_KEY

#: The secrets that a method may send, by channel: plain, TLS unverified, TLS proven, TLS verified, unix socket.
RULES: dict[str, dict[ChannelKind, Sends]] = {
    method: dict(zip(ChannelKind, row, strict=True))
    for method, row in {
        NATIVE:            (_P,     _P, _P, _P, _P),
        CACHING_SHA2:      (_P,     _P, _X, _P, _P),
        CACHING_SHA2_FULL: (_KNOWN, _X, _X, _W, _W),
        SHA256:            (_KNOWN, _X, _X, _W, _ANY),
        ED25519:           (_P,     _P, _P, _P, _P),
        PARSEC:            (_P,     _P, _P, _P, _P),
        CLEAR:             (_X,     _X, _X, _W, _W),
        DIALOG:            (_X,     _X, _X, _W, _W),
        OLD:               (_X,     _X, _X, _X, _X),
    }.items()
}  # fmt: skip

_MAX_KEY_BYTES = 16 << 10


class _StoredHash(NamedTuple):
    """The value that MariaDB stores for a user, and the challenge with which it proves its certificate."""

    data: bytes
    nonce: bytes


class Credentials:
    """A password, a channel, and the answers that the table allows.

    Set `channel` once the connection is protected as far as it will be. `server_key` is the PEM
    text of `server-public-key`. Every method raises AuthError where the table refuses.
    """

    def __init__(self, password: Secret | None, server_key: bytes | None, where: str) -> None:
        self._password = password
        self._server_key = server_key
        self._where = where
        self._stored: _StoredHash | None = None
        self.channel = ChannelKind.PLAIN

    @property
    def is_empty(self) -> bool:
        """Whether there is no password to protect."""
        return self._password is None or not self._password.reveal()

    @property
    def knows_server_key(self) -> bool:
        """Whether the user has given the server's RSA key."""
        return self._server_key is not None

    def sends(self, method: str) -> Sends:
        """Return the table's rule for this method on this channel."""
        return RULES[method][self.channel]

    def native(self, nonce: bytes) -> bytes:
        """Return the answer of mysql_native_password."""
        password = self._revealed(NATIVE)
        self._stored = _StoredHash(native_hash(password), nonce)
        return bytes(_auth.scramble_native_password(password, nonce))

    def caching_sha2(self, nonce: bytes) -> bytes:
        """Return the fast answer of caching_sha2_password."""
        self._stored = None
        return bytes(_auth.scramble_caching_sha2(self._revealed(CACHING_SHA2), nonce))

    def ed25519(self, nonce: bytes, greeting_nonce: bytes) -> bytes:
        """Return the answer of client_ed25519."""
        password = self._revealed(ED25519)
        signature = bytes(_auth.ed25519_password(password, nonce))
        self._stored = _StoredHash(_ed25519_public_key(password), greeting_nonce)
        return signature

    def parsec(self, nonce: bytes, salt: bytes, greeting_nonce: bytes) -> bytes:
        """Return the answer of parsec. Raises AuthError for an invalid salt or nonce."""
        try:
            answer, public_key = parsec.answer(self._revealed(PARSEC), nonce, salt)
        except ValueError as error:
            raise AuthError(f"{self._where}: {error}") from None
        self._stored = _StoredHash(salt + public_key, greeting_nonce)
        return answer

    def as_it_is(self, method: str) -> bytes:
        """Return the password itself, if the channel protects it."""
        if self.is_empty:
            return b"\0"
        if self.sends(method) is not Sends.PASSWORD:
            raise self.refusal(method)
        return self._revealed(method) + b"\0"

    def encrypted(self, method: str, nonce: bytes, sent_key: bytes | None) -> bytes:
        """Return the password, encrypted to the given key, or to the one that the server has sent."""
        allowed = self.sends(method)
        key = self._server_key
        if key is None and allowed is Sends.TO_ANY_KEY:
            key = sent_key
        if key is None or allowed not in (Sends.TO_KNOWN_KEY, Sends.TO_ANY_KEY):
            raise self.refusal(method)
        if len(key) > _MAX_KEY_BYTES:
            raise AuthError(f"{self._where}: the server sends an RSA key of {len(key)} bytes")
        try:
            return bytes(_auth.sha2_rsa_encrypt(self._revealed(method), nonce, key))
        except (ValueError, TypeError, AttributeError):
            raise AuthError(
                f"{self._where}: the RSA key is not a public key in PEM format",
                hint="server-public-key names the server's public_key.pem",
            ) from None

    def check_proof(self, info: bytes, certificate: bytes) -> None:
        """Check that a MariaDB knows the password and has this certificate (DER).

        `info` is the text of the OK packet (`certificate_proof`). Raises AuthError.
        """
        expected = b""
        if self._stored is not None:
            fingerprint = hashlib.sha256(certificate).digest()
            expected = certificate_proof(self._stored.data, self._stored.nonce, fingerprint)
        if not expected or not hmac.compare_digest(info, expected):
            raise AuthError(
                f"{self._where}: the server does not prove with the password that the TLS "
                "certificate is its own: it is older than MariaDB 11.4, or another server answers",
                hint="ssl-ca names the authority that signed the certificate; "
                "ssl-mode=preferred accepts any certificate",
            )

    def refusal(self, method: str) -> AuthError:
        """Return the error for a method that the table refuses on this channel."""
        name = method.partition(" ")[0]
        if method == OLD:
            return AuthError(
                f"{self._where}: the server asks for a login by {name}, which gives the"
                " password away",
                hint="give the user a newer login method",
            )
        ways = "ssl-mode=verify_ca or verify_identity with ssl-ca verifies the server's certificate"
        if Sends.TO_KNOWN_KEY in RULES[method].values():
            ways += "; server-public-key names the server's RSA key for ssl-mode=disabled"
        if self.channel is ChannelKind.PLAIN:
            why = "on a connection without TLS"
        else:
            why = "over TLS without a verified certificate"
        return AuthError(
            f"{self._where}: the server asks for the password by {name} {why}: refused", hint=ways
        )

    def _revealed(self, method: str) -> bytes:
        """Return the password for a method that the table does not refuse."""
        if self.sends(method) is Sends.REFUSED and not self.is_empty:
            raise self.refusal(method)
        return self._password.reveal().encode() if self._password is not None else b""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret stays in its process")


def _ed25519_public_key(password: bytes) -> bytes:
    """Return the public key that MariaDB stores for a user of ed25519."""
    from nacl import bindings

    scalar = _auth._scalar_clamp(hashlib.sha512(password).digest()[:32])
    return bytes(bindings.crypto_scalarmult_ed25519_base_noclamp(scalar))
