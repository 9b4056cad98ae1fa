"""Keyrings: every form of file, and nothing of a key in any text."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from binlake.errors import BinlogError, KeyringError, OptionError, SourceError
from binlake.source.keyring import Keyring
from binlake.values.options import ReadOptions
from support.logs.encrypted_log import (
    KEY,
    KEY_NAME,
    component_keyring,
    key_file,
    openssl_enc,
    plugin_keyring,
)

OTHER = bytes(range(100, 132))
MYSQL_KEYS = {"some_other": OTHER[:16], KEY_NAME: KEY}
PASSWORD = b"a password that nobody should see"


def keyring(folder: Path, content: bytes, password: bytes | None = None) -> Keyring:
    path = folder / "keyring"
    path.write_bytes(content)
    if password is None:
        return Keyring(str(path))
    secret = folder / "password"
    secret.write_bytes(password)
    return Keyring(str(path), str(secret))


@pytest.mark.parametrize(
    "content",
    [
        component_keyring(MYSQL_KEYS),
        b"\n " + component_keyring(MYSQL_KEYS),
        plugin_keyring(MYSQL_KEYS),
        plugin_keyring(MYSQL_KEYS, "1.0"),
    ],
)
def test_mysql_keyrings(tmp_path: Path, content: bytes) -> None:
    keys = keyring(tmp_path, content)
    assert keys.mysql_key(KEY_NAME) == KEY
    assert keys.mysql_key("some_other") == OTHER[:16]


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_mariadb_key_files(tmp_path: Path, end: str) -> None:
    lines = [
        "# a comment",
        "",
        f"1;{KEY.hex()}",
        f" 7;{OTHER[:24].hex().upper()} # why",
        "3;" + "0" * 32 + " --> no",
    ]
    keys = keyring(tmp_path, (f"{end or chr(10)}".join(lines) + end).encode())
    assert keys.mariadb_key(1, 1) == KEY
    assert keys.mariadb_key(7, 1) == OTHER[:24]
    assert keys.mariadb_key(3, 1) == bytes(16)


def test_versions_of_a_key(tmp_path: Path) -> None:
    keys = keyring(tmp_path, f"1;{KEY.hex()}\n1;3;{OTHER.hex()}\n".encode())
    assert keys.mariadb_key(1, 1) == KEY
    assert keys.mariadb_key(1, 3) == OTHER
    with pytest.raises(KeyringError, match="id 1 in version 2; it contains 2 others"):
        keys.mariadb_key(1, 2)


@pytest.mark.parametrize("digest", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_encrypted_key_files(tmp_path: Path, digest: str, end: bytes) -> None:
    keys = keyring(tmp_path, openssl_enc(key_file(), PASSWORD, digest), PASSWORD + end)
    assert keys.mariadb_key(1, 1) == KEY


def broken() -> list[tuple[bytes, str]]:
    plugin = bytearray(plugin_keyring({KEY_NAME: KEY}))
    plugin[24:32] = b"\xff" * 8
    return [
        (b"", "contains no key"),
        (b"# nothing\n", "contains no key"),
        (f"1;{KEY.hex()}\n2;{KEY.hex()[:-1]}\n".encode(), "line 2 is not ID;HEX"),
        (KEY.hex().encode(), "line 1 is not ID;HEX"),
        (KEY, "is not ID;HEX"),
        (component_keyring(MYSQL_KEYS)[:-9], "begins like JSON but is not valid JSON"),
        (b'{"path": "/k", "read_only": false}', "is the file at its `path`"),
        (b'{"version": "1.0"}', "element 1 is not a key"),
        (b'{"elements": [{"data_id": "a", "data": "zz"}]}', "element 1 is not a key"),
        (b'{"elements": [7]}', "element 1 is not a key"),
        (plugin_keyring(MYSQL_KEYS)[:100], "ends inside a key|impossible lengths"),
        (bytes(plugin), "key 1 has impossible lengths"),
        (openssl_enc(key_file(), PASSWORD), "option keyring_password_file to"),
    ]


@pytest.mark.parametrize(("content", "text"), broken())
def test_an_invalid_keyring_error_contains_the_reason(
    tmp_path: Path, content: bytes, text: str
) -> None:
    with pytest.raises(KeyringError, match=text) as caught:
        keyring(tmp_path, content).mariadb_key(1, 1)
    assert_no_secret(str(caught.value))


@pytest.mark.parametrize(
    "content",
    [component_keyring(MYSQL_KEYS), plugin_keyring(MYSQL_KEYS), key_file(), openssl_enc(key_file(), PASSWORD)],
)  # fmt: skip
def test_every_prefix_is_a_keyring_or_an_error(tmp_path: Path, content: bytes) -> None:
    for size in range(len(content)):
        keys = keyring(tmp_path, content[:size], PASSWORD)
        try:
            found = [keys.mysql_key(KEY_NAME), keys.mariadb_key(1, 1)]
        except BinlogError as error:
            assert_no_secret(str(error))
        else:
            assert KEY in found


def test_a_wrong_password(tmp_path: Path) -> None:
    keys = keyring(tmp_path, openssl_enc(key_file(), PASSWORD), b"another")
    with pytest.raises(KeyringError, match="does not open the key file") as caught:
        keys.mariadb_key(1, 1)
    assert "another" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        Keyring(str(tmp_path / "absent")).mysql_key(KEY_NAME)
    with pytest.raises(KeyringError, match="too large"):
        keyring(tmp_path, b"#" * ((16 << 20) + 1)).mysql_key(KEY_NAME)
    with pytest.raises(KeyringError, match="too long for a password"):
        keyring(tmp_path, openssl_enc(key_file(), PASSWORD), b"x" * 300).mariadb_key(1, 1)


def test_a_key_of_a_wrong_length(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match="has 5 bytes"):
        keyring(tmp_path, component_keyring({KEY_NAME: b"short"})).mysql_key(KEY_NAME)


def assert_no_secret(text: str) -> None:
    lowered = text.lower()
    assert KEY.hex()[:8] not in lowered
    assert OTHER.hex()[:8] not in lowered
    assert PASSWORD.decode() not in text


def test_texts_and_pickles_hold_no_key(tmp_path: Path) -> None:
    keys = keyring(tmp_path, openssl_enc(key_file(), PASSWORD), PASSWORD)
    assert keys.mariadb_key(1, 1) == KEY
    pickled = pickle.dumps(keys)
    assert KEY not in pickled
    assert PASSWORD not in pickled
    assert pickle.loads(pickled).mariadb_key(1, 1) == KEY
    assert repr(keys) == f"<Keyring {tmp_path / 'keyring'}>"
    assert_no_secret(repr(vars(keys)["path"]))
    shown = Keyring("s3://user:secret@bucket/keyring?token=secret")
    assert "secret" not in repr(shown)


def test_the_options(tmp_path: Path) -> None:
    assert Keyring.of(ReadOptions()) is None
    options = ReadOptions.parse({"keyring": tmp_path / "k", "keyring_password_file": "p"})
    found = Keyring.of(options)
    assert found is not None
    assert (found.path, found.password_path) == (str(tmp_path / "k"), "p")
    with pytest.raises(OptionError, match="needs option keyring"):
        Keyring.of(ReadOptions.parse({"keyring_password_file": "p"}))
