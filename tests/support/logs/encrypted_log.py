"""Plain logs made into encrypted ones as the servers do it, and keyrings with dummy keys."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

__all__ = [
    "KEY",
    "KEY_NAME",
    "component_keyring",
    "encrypt_events",
    "encrypt_file",
    "key_file",
    "openssl_enc",
    "plugin_keyring",
    "start_encryption",
]

#: A dummy: it has never protected anything.
KEY = bytes(range(32))
KEY_NAME = "MySQLReplicationKey_00000000-0000-0000-0000-000000000001_1"
NONCE = b"nonce of 12."


def _aes(
    key: bytes, mode: modes.CBC | modes.CTR | modes.ECB, data: bytes, *, decrypt: bool = False
) -> bytes:
    cipher = Cipher(algorithms.AES(key), mode)
    return (cipher.decryptor() if decrypt else cipher.encryptor()).update(data)


# --- logs ---


def aes_ecb(key: bytes, data: bytes) -> bytes:
    """Whole blocks, each encrypted alone."""
    return _aes(key, modes.ECB(), data, decrypt=False)


def encrypt_file(log: bytes, key: bytes = KEY, name: str = KEY_NAME) -> bytes:
    """A whole log as MySQL writes it."""
    iv, password = b"i" * 16, b"password of the file, 32 bytes.."
    header = b"\xfdbin\x01\x01" + bytes([len(name)]) + name.encode()
    header += b"\x02" + _aes(key, modes.CBC(iv), password) + b"\x03" + iv
    digest = hashlib.sha512(password).digest()
    counter = modes.CTR(digest[32:40] + bytes(8))
    return header.ljust(512, b"\0") + _aes(digest[:32], counter, log)


def start_encryption(offset: int, *, crc: bool, version: int = 1, flags: int = 0) -> bytes:
    """A START_ENCRYPTION event at an offset."""
    body = struct.pack("<BI", 1, version) + NONCE
    length = 19 + len(body) + 4 * crc
    event = struct.pack("<IBIIIH", 0, 164, 1, length, offset + length, flags) + body
    return event + (struct.pack("<I", zlib.crc32(event)) if crc else b"")


def encrypt_events(log: bytes, start: int, key: bytes = KEY, *, ctr: bool = False) -> bytes:
    """A log with the events from `start` on encrypted as MariaDB does it."""
    made = bytearray(log[:start])
    at = start
    while at < len(log):
        length = struct.unpack_from("<I", log, at + 9)[0]
        made += _encrypt_event(log[at : at + length], at, key, ctr=ctr)
        at += length
    return bytes(made)


def _encrypt_event(event: bytes, at: int, key: bytes, *, ctr: bool) -> bytes:
    iv = NONCE + struct.pack("<I", at)
    length = event[9:13]
    message = event[4:9] + event[:4] + event[13:]
    if ctr:
        secret = _aes(key, modes.CTR(iv), message)
    else:
        whole = len(message) // 16 * 16
        mask = _aes(key, modes.ECB(), iv)
        secret = _aes(key, modes.CBC(iv), message[:whole]) if whole else b""
        secret += bytes(a ^ b for a, b in zip(message[whole:], mask, strict=False))
    return secret[5:9] + secret[:5] + length + secret[9:]


# --- keyrings ---


def component_keyring(keys: dict[str, bytes]) -> bytes:
    """The file of MySQL's component_keyring_file."""
    elements = [
        {"user": "", "data_id": name, "data_type": "AES", "data": key.hex(), "extension": []}
        for name, key in keys.items()
    ]
    return json.dumps({"version": "1.0", "elements": elements}).encode()


def plugin_keyring(keys: dict[str, bytes], version: str = "2.0") -> bytes:
    """The file of MySQL's plugin keyring_file."""
    mask = b"*305=Ljt0*!@$Hnm(*-9-w;:"
    made = f"Keyring file version:{version}".encode()
    for name, key in keys.items():
        hidden = bytes(byte ^ mask[i % 24] for i, byte in enumerate(key))
        fields = name.encode() + b"AES" + hidden
        size = -(-(40 + len(fields)) // 8) * 8
        made += struct.pack("<5Q", size, len(name), 3, 0, len(key)) + fields.ljust(size - 40, b"\0")
    made += b"EOF"
    return made + (hashlib.sha256(made).digest() if version == "2.0" else b"")


def key_file(key: bytes = KEY) -> bytes:
    """The key file of MariaDB's file_key_management."""
    return f"# dummies\n1;{key.hex()}\n\n 2;{bytes(16).hex()}\n".encode()


def openssl_enc(text: bytes, password: bytes, digest: str = "sha1") -> bytes:
    """`openssl enc -aes-256-cbc -md DIGEST -k PASSWORD`."""
    salt = b"8 bytes!"
    made = last = b""
    while len(made) < 48:
        last = hashlib.new(digest, last + password + salt).digest()
        made += last
    count = 16 - len(text) % 16
    padded = text + bytes([count]) * count
    return b"Salted__" + salt + _aes(made[:32], modes.CBC(made[32:48]), padded)
