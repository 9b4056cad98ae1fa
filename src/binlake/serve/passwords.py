"""The two ways in which a client proves that it knows a password, seen from the server.

Neither sends the password: the client mixes its hash with the server's nonce, and `serve`, which
knows the password, does the same and compares. So caching_sha2_password never needs the exchange
in which a server that only has a salted hash asks for the password itself (over TLS or RSA).

    mysql_native_password    SHA1(pw) XOR SHA1(nonce + SHA1(SHA1(pw)))                  20 bytes
    caching_sha2_password    SHA256(pw) XOR SHA256(SHA256(SHA256(pw)) + nonce)          32 bytes
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from binlake.format.auth_plugins import CACHING_SHA2, NATIVE

#: The plugins that `serve` knows.
PLUGINS = (NATIVE, CACHING_SHA2)

NONCE_BYTES = 20


def new_nonce() -> bytes:
    """Return 20 random bytes without the two that clients take for an end of text."""
    return bytes(secrets.choice(range(1, 128)) for _ in range(NONCE_BYTES)).replace(b"$", b"%")


def proves(plugin: str, password: str, nonce: bytes, answer: bytes) -> bool:
    """Whether `answer` is the result of `plugin` for the password and the nonce.

    Takes the same time for every wrong answer. An empty answer proves nothing: `serve` has no
    users without a password.
    """
    return hmac.compare_digest(_expected(plugin, password.encode(), nonce), answer)


def _expected(plugin: str, password: bytes, nonce: bytes) -> bytes:
    if plugin == NATIVE:
        first = hashlib.sha1(password).digest()
        return _xor(first, hashlib.sha1(nonce + hashlib.sha1(first).digest()).digest())
    once = hashlib.sha256(password).digest()
    return _xor(once, hashlib.sha256(hashlib.sha256(once).digest() + nonce).digest())


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
