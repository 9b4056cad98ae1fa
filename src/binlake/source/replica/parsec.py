"""MariaDB's login plugin parsec (11.6 and later): a signature of both sides' random numbers.

PyMySQL does not know it. The key that signs is derived from the password and a salt that the
server keeps for the user, so that neither the password nor a hash of it crosses the connection.

    server  AuthSwitchRequest: parsec, nonce (32)
    client  nothing: asks for the salt
    server  "P", n, salt: PBKDF2 with HMAC-SHA512, 1024 * 2**n rounds, makes the private key
    client  nonce of its own (32), Ed25519 signature of both nonces (64)
    server  OK, or ERR 1045

Sources: MariaDB plugin/auth_parsec/server_parsec.cc and its documentation of the plugin.
"""

from __future__ import annotations

import hashlib
import secrets

_NONCE_BYTES = 32
_KEY_BYTES = 32
_FIRST_ROUNDS = 1024
# MariaDB's own client goes up to 8192 rounds; a million take about a second.
_MOST_DOUBLINGS = 10


def check_salt(salt: bytes) -> tuple[int, bytes]:
    """Return rounds and salt from the server's packet about a user. Raises ValueError."""
    if len(salt) < 3 or salt[:1] != b"P":
        raise ValueError("parsec: the server names no way to derive a key that is known")
    if salt[1] > _MOST_DOUBLINGS:
        raise ValueError(
            f"parsec: the server asks for 1024 * 2**{salt[1]} rounds of PBKDF2: refused"
        )
    return _FIRST_ROUNDS << salt[1], salt[2:]


def answer(password: bytes, server_nonce: bytes, extended_salt: bytes) -> tuple[bytes, bytes]:
    """Return the client's proof, and the public key that the server keeps for the user.

    Raises ValueError for a nonce or a salt in the wrong form.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if len(server_nonce) != _NONCE_BYTES:
        raise ValueError(f"parsec: a nonce of {len(server_nonce)} bytes")
    rounds, salt = check_salt(extended_salt)
    seed = hashlib.pbkdf2_hmac("sha512", password, salt, rounds, _KEY_BYTES)
    key = Ed25519PrivateKey.from_private_bytes(seed)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + key.sign(server_nonce + nonce), key.public_key().public_bytes_raw()
