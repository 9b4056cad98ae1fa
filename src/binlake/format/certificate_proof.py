"""How a MariaDB server (11.4 and newer) proves with a user's password that a TLS certificate is its own.

An attacker in between does not know the password, and so not this text. Found by testing MariaDB 11.8.
"""

from __future__ import annotations

import hashlib

_MARK = b"\x01"


def native_hash(password: bytes) -> bytes:
    """Return the value that servers store for a user of mysql_native_password."""
    return hashlib.sha1(hashlib.sha1(password).digest()).digest()


def certificate_proof(stored: bytes, nonce: bytes, fingerprint: bytes) -> bytes:
    """Return the text of the server's OK packet: the byte 1, and in hex SHA-256 of the value that it stores for the
    user, the challenge of its greeting, and the SHA-256 of the certificate (DER).
    """
    digest = hashlib.sha256(stored + nonce + fingerprint)
    return _MARK + digest.hexdigest().upper().encode()
