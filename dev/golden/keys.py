"""Keys of the encrypted golden logs: made for them, kept beside them, good for nothing else."""

from __future__ import annotations

import hashlib
import json
import shutil
from enum import Enum
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dev.servers import Server

__all__ = ["Keys", "keep_keys", "prepare_keys"]

PASSWORD = "a dummy password"
SALT = b"\x01dummies"
KEY_FILE = """\
# dummies: these keys protect nothing but the logs beside this file
1;000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
2;000102030405060708090a0b0c0d0e0f
"""


class Keys(Enum):
    """How a case keeps its keys."""

    NONE = "nothing is encrypted"
    PLAIN = "as they are"
    LOCKED = "encrypted, with a password"


def prepare_keys(server: Server, keys: Keys) -> tuple[str, ...]:
    """Put down what the server needs before it starts; returns its options."""
    if keys is Keys.NONE:
        return ()
    if server.flavour == "mysql":  # which makes its keys itself
        keyring = {"path": str(server.data / "keyring"), "read_only": False}
        manifest = {"components": "file://component_keyring_file"}
        (server.data / "component_keyring_file.cnf").write_text(json.dumps(keyring))
        (server.data / "mysqld.my").write_text(json.dumps(manifest))
        return ()
    plugin = "--plugin-load-add=file_key_management"
    if keys is Keys.PLAIN:
        (server.run / "file-keys.txt").write_text(KEY_FILE)
        return (plugin, f"--file-key-management-filename={server.run / 'file-keys.txt'}")
    (server.run / "file-keys.enc").write_bytes(_openssl_enc(KEY_FILE.encode()))
    (server.run / "file-keys.password").write_text(PASSWORD + "\n")
    return (
        plugin,
        f"--file-key-management-filename={server.run / 'file-keys.enc'}",
        f"--file-key-management-filekey=FILE:{server.run / 'file-keys.password'}",
    )


def keep_keys(server: Server, keys: Keys, out: Path) -> None:
    """Copy the keys to a case's folder."""
    if keys is not Keys.NONE:
        for path in (server.data / "keyring", *server.run.glob("file-keys.*")):
            if path.exists():
                shutil.copyfile(path, out / path.name)


def _openssl_enc(text: bytes) -> bytes:
    """The output of `openssl enc -aes-256-cbc -md sha1 -k PASSWORD`, with a fixed salt."""
    made = last = b""
    while len(made) < 48:
        last = hashlib.sha1(last + PASSWORD.encode() + SALT, usedforsecurity=False).digest()
        made += last
    count = 16 - len(text) % 16
    encryptor = Cipher(algorithms.AES(made[:32]), modes.CBC(made[32:48])).encryptor()
    return b"Salted__" + SALT + encryptor.update(text + bytes([count]) * count)
