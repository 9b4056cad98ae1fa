"""Keyrings: the files in which servers keep the keys of encrypted logs.

    keyring = Keyring("/var/lib/mysql-keyring/component_keyring_file")
    keyring.mysql_key("MySQLReplicationKey_…_1")
    keyring.mariadb_key(1, 1)

The beginning of a file shows its type:

    {"version": …, "elements": […]}   MySQL's component_keyring_file
    Keyring file version:…            MySQL's plugin keyring_file, up to 8.3
    1;A7EA…                           MariaDB's file_key_management: "id;hex", # for comments.
                                      "id;version;hex" are keys of another plugin, written out
    Salted__…                         the same, encrypted: `password_path` holds the password
                                      (the server's file_key_management_filekey)

The file is read when its first key is requested. No text made here contains a byte of a key, a
line of a file or a password: errors name the path, the key's name and the number of the line.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping
from typing import Any

from binlake.errors import KeyringError, OptionError, SourceError, TruncatedError
from binlake.source.aes import BLOCK_BYTES, Aes
from binlake.source.bytes import open_reader
from binlake.source.locations import location
from binlake.source.reader import without_secrets
from binlake.values.options import ReadOptions

#: The hint for an encrypted log without a keyring.
NO_KEYRING = "set the option keyring to the server's keyring file"

# The name of a MySQL key, or id and version of a MariaDB key.
_Keys = Mapping[str | tuple[int, int], bytes]

_MAX_FILE_BYTES = 16 << 20
_MAX_PASSWORD_BYTES = 256
_KEY_BYTES = (16, 24, 32)

_PLUGIN_MAGIC = b"Keyring file version:"
_PLUGIN_HEADER_BYTES = len(_PLUGIN_MAGIC) + 3  # 1.0 or 2.0
_PLUGIN_END = b"EOF"
# The plugin hides its keys behind this text (plugin/keyring/common/keyring_key.cc).
_PLUGIN_MASK = b"*305=Ljt0*!@$Hnm(*-9-w;:"
_POD_LENGTHS = struct.Struct("<5Q")  # of all, id, type, user, key

_OPENSSL_MAGIC = b"Salted__"
_SALT_BYTES = 8
# Community servers know SHA-1 only; file_key_management_digest sets the others.
_DIGESTS = ("sha1", "sha256", "sha512", "sha224", "sha384")

# As on the server, text after the digits of a key is ignored.
_KEY_LINE = re.compile(r"(\d{1,10});(?:(\d{1,10});)?([0-9a-fA-F]+)(?![0-9a-fA-F]).*", re.ASCII)


class Keyring:
    """The keys of the file at `path`, a local path or URI; its password is in `password_path`.

    Picklable: the keys stay behind, and are read again. Methods raise SourceError if a file cannot
    be read, KeyringError if it is not a keyring or lacks the key.
    """

    def __init__(self, path: str, password_path: str | None = None) -> None:
        self.path = path
        self.password_path = password_path
        self._keys: _Keys | None = None

    @classmethod
    def of(cls, options: ReadOptions) -> Keyring | None:
        """The keyring that the options name; None if they name none.

        Raises OptionError for a password without a keyring.
        """
        if options.keyring is None:
            if options.keyring_password_file is not None:
                raise OptionError(
                    "option keyring_password_file needs option keyring",
                    name="keyring_password_file",
                )
            return None
        return cls(options.keyring, options.keyring_password_file)

    def expect_file(self) -> None:
        """Raise SourceError if a file does not exist, even if no log turns out to be encrypted."""
        for path in (self.path, self.password_path):
            if path is not None and location(path).kind() == "missing":
                raise SourceError(f"the keyring file {without_secrets(path)} does not exist")

    def mysql_key(self, name: str) -> bytes:
        """Return the key of that name."""
        return self._key(name, name)

    def mariadb_key(self, key_id: int, version: int) -> bytes:
        """Return the key of that id in that version; a file without versions holds version 1."""
        return self._key((key_id, version), f"id {key_id} in version {version}")

    def _key(self, name: str | tuple[int, int], shown: str) -> bytes:
        if self._keys is None:
            self._keys = self._read()
        key = self._keys.get(name)
        if key is None:
            raise KeyringError(
                f"the keyring {self} does not contain the key {shown}; it contains"
                f" {len(self._keys)} others",
                hint="is it the keyring of another server, or from before a key rotation?",
            )
        if len(key) not in _KEY_BYTES:
            raise KeyringError(f"the key {shown} of the keyring {self} has {len(key)} bytes")
        return key

    def _read(self) -> _Keys:
        data = _content(self.path, _MAX_FILE_BYTES, f"{self} is too large for a keyring")
        if data.startswith(_PLUGIN_MAGIC):
            return self._plugin_keys(data)
        if data.startswith(_OPENSSL_MAGIC):
            return self._encrypted_keys(data)
        if data.lstrip().startswith(b"{"):
            return self._component_keys(data)
        return self._listed_keys(data)

    def _component_keys(self, data: bytes) -> _Keys:
        try:
            document = json.loads(data)
            elements = document.get("elements")
        except (ValueError, RecursionError):
            raise self._broken("it begins like JSON but is not valid JSON") from None
        if elements is None and "path" in document:
            raise self._broken(
                "it is the configuration of the component",
                hint="the keyring is the file at its `path`",
            )
        keys: dict[str | tuple[int, int], bytes] = {}
        try:
            for element in elements:
                keys[str(element["data_id"])] = bytes.fromhex(element["data"])
        except (KeyError, TypeError, ValueError):
            raise self._broken(f"its element {len(keys) + 1} is not a key") from None
        return keys

    def _plugin_keys(self, data: bytes) -> _Keys:
        """Parse keys that follow one another, each padded to 8 bytes, up to "EOF" (2.0: and a
        digest).
        """
        keys: dict[str | tuple[int, int], bytes] = {}
        at = _PLUGIN_HEADER_BYTES
        while data[at : at + len(_PLUGIN_END)] != _PLUGIN_END:
            if at + _POD_LENGTHS.size > len(data):
                raise self._broken("it ends inside a key")
            size, *lengths = _POD_LENGTHS.unpack_from(data, at)
            if size < _POD_LENGTHS.size + sum(lengths) or at + size > len(data):
                raise self._broken(f"its key {len(keys) + 1} has impossible lengths")
            fields = at + _POD_LENGTHS.size
            name = data[fields : fields + lengths[0]].decode("utf-8", "backslashreplace")
            start = fields + sum(lengths[:3])
            keys[name] = _unmasked(data[start : start + lengths[3]])
            at += size
        return keys

    def _listed_keys(self, data: bytes) -> _Keys:
        keys = _parse_lines(data)
        if isinstance(keys, int):
            raise self._broken(f"line {keys} is not ID;HEX")
        if not keys:
            raise self._broken("it contains no key")
        return keys

    def _encrypted_keys(self, data: bytes) -> _Keys:
        """Decrypt a key file made by `openssl enc -aes-256-cbc -md sha1`, as the server reads it."""
        if self.password_path is None:
            raise KeyringError(
                f"the key file {self} is encrypted",
                hint="set the option keyring_password_file to the file with its password",
            )
        shown = without_secrets(self.password_path)
        password = _content(
            self.password_path, _MAX_PASSWORD_BYTES + 2, f"{shown} is too long for a password"
        ).rstrip(b"\r\n")
        salt = data[len(_OPENSSL_MAGIC) : len(_OPENSSL_MAGIC) + _SALT_BYTES]
        encrypted = data[len(_OPENSSL_MAGIC) + _SALT_BYTES :]
        if not encrypted or len(encrypted) % BLOCK_BYTES:
            raise self._broken("it is encrypted, and ends inside a block")
        for digest in _DIGESTS:
            key, iv = _bytes_to_key(digest, password, salt)
            aes = Aes(key)
            try:
                text = aes.unpadded(aes.decrypt_cbc(iv, encrypted))
            except ValueError:  # another digest, or another password
                continue
            if isinstance(keys := _parse_lines(text), dict) and keys:
                return keys
        raise KeyringError(f"the password in {shown} does not open the key file {self}")

    def _broken(self, what: str, hint: str | None = None) -> KeyringError:
        return KeyringError(f"{self} is not a keyring: {what}", hint=hint)

    def __str__(self) -> str:
        return without_secrets(self.path)

    def __repr__(self) -> str:
        return f"<Keyring {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Keyring, (self.path, self.password_path)


def _content(path: str, limit: int, too_large: str) -> bytes:
    with open_reader(path) as reader:
        data = reader.read_at(0, limit + 1)
        if reader.damage is not None:
            raise TruncatedError(f"{without_secrets(path)}: {reader.damage.message}")
    if len(data) > limit:
        raise KeyringError(too_large)
    return data


def _parse_lines(data: bytes) -> dict[str | tuple[int, int], bytes] | int:
    """Return the keys of a MariaDB key file, or the number of the first line that is not one."""
    keys: dict[str | tuple[int, int], bytes] = {}
    for number, line in enumerate(data.decode("latin-1").split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _KEY_LINE.fullmatch(line)
        if match is None or len(match[3]) not in [2 * size for size in _KEY_BYTES]:
            return number
        keys[int(match[1]), int(match[2] or 1)] = bytes.fromhex(match[3])
    return keys


def _unmasked(key: bytes) -> bytes:
    return bytes(byte ^ _PLUGIN_MASK[i % len(_PLUGIN_MASK)] for i, byte in enumerate(key))


def _bytes_to_key(digest: str, password: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """OpenSSL's EVP_BytesToKey with one round: a key of 32 bytes and an IV."""
    made = last = b""
    while len(made) < 32 + BLOCK_BYTES:
        last = hashlib.new(digest, last + password + salt, usedforsecurity=False).digest()
        made += last
    return made[:32], made[32 : 32 + BLOCK_BYTES]
