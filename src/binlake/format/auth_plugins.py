"""The names of the authentication plugins of both servers, as the login protocol has them."""

from __future__ import annotations

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"
SHA256 = "sha256_password"
#: MariaDB's `ed25519`; the protocol uses the name of the client's plugin.
ED25519 = "client_ed25519"
PARSEC = "parsec"
CLEAR = "mysql_clear_password"
DIALOG = "dialog"
OLD = "mysql_old_password"
