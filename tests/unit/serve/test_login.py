from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.errors import OptionError, ServerError
from binlake.format.auth_plugins import CACHING_SHA2, NATIVE
from binlake.format.protocol import (
    PLUGIN_AUTH,
    PLUGIN_AUTH_LENENC,
    PROTOCOL_41,
    SECURE_CONNECTION,
    SSL,
)
from binlake.serve.login import Identity, greeting, parse_response
from binlake.serve.passwords import PLUGINS, new_nonce, proves
from binlake.serve.settings import Settings
from binlake.serve.tls import ServerTls

NONCE = bytes(range(1, 21))


def response(capabilities: int, rest: bytes) -> bytes:
    return struct.pack("<IIB23x", capabilities, 1 << 24, 45) + rest


def test_a_response() -> None:
    capabilities = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | PLUGIN_AUTH_LENENC
    login = parse_response(response(capabilities, b"me\0\x03abc" + NATIVE.encode() + b"\0"))
    assert (login.user, login.answer, login.plugin) == ("me", b"abc", NATIVE)
    assert not login.wants_tls
    assert parse_response(response(capabilities | SSL, b"")).wants_tls


@pytest.mark.parametrize(
    "payload",
    [b"", b"\0" * 31, response(0, b"me\0"), response(PROTOCOL_41 | SECURE_CONNECTION, b"no end"),
     response(PROTOCOL_41 | SECURE_CONNECTION, b"me\0\xff1"), response(PROTOCOL_41 | SECURE_CONNECTION, b"x" * 300 + b"\0\0"),
     response(PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH_LENENC, b"me\0\xfe" + b"\xff" * 8)],
)  # fmt: skip
def test_a_bad_response(payload: bytes) -> None:
    with pytest.raises(ServerError) as caught:
        parse_response(payload)
    assert caught.value.code == 1043


@given(st.binary(max_size=200), st.integers(0, (1 << 32) - 1))
def test_any_bytes_are_a_response_or_refused(payload: bytes, capabilities: int) -> None:
    for given_bytes in (payload, response(capabilities, payload)):
        try:
            parse_response(given_bytes)
        except ServerError as refused:
            assert refused.code == 1043


def _client_native(password: bytes, nonce: bytes) -> bytes:
    one = hashlib.sha1(password).digest()
    two = hashlib.sha1(nonce + hashlib.sha1(one).digest()).digest()
    return bytes(a ^ b for a, b in zip(one, two, strict=True))


def _client_sha2(password: bytes, nonce: bytes) -> bytes:
    one = hashlib.sha256(password).digest()
    two = hashlib.sha256(hashlib.sha256(one).digest() + nonce).digest()
    return bytes(a ^ b for a, b in zip(one, two, strict=True))


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_only_the_password_proves_itself(password: str, other: str) -> None:
    for plugin, answer in ((NATIVE, _client_native), (CACHING_SHA2, _client_sha2)):
        right = answer(password.encode(), NONCE)
        assert proves(plugin, password, NONCE, right)
        assert proves(plugin, other, NONCE, right) is (other == password)
        assert not proves(plugin, password, NONCE[::-1], right)
        for wrong in (b"", b"\0", right[:-1], right + b"\0", bytes(len(right))):
            assert not proves(plugin, password, NONCE, wrong)


def test_nonces_have_no_byte_that_ends_them() -> None:
    for _ in range(200):
        nonce = new_nonce()
        assert len(nonce) == 20
        assert not {0, ord("$")} & set(nonce)
        assert max(nonce) < 128


@pytest.mark.parametrize(
    ("version", "flavour", "shown", "plugin"),
    [
        ("5.6.24-log", "mysql", b"5.6.24-log", NATIVE),
        ("9.7.4", "mysql", b"9.7.4", CACHING_SHA2),
        ("10.11.18-MariaDB", "mariadb", b"5.5.5-10.11.18-MariaDB", NATIVE),
        ("11.8.6-MariaDB", "mariadb", b"11.8.6-MariaDB", NATIVE),
    ],
)
def test_the_greeting(version: str, flavour: str, shown: bytes, plugin: str) -> None:
    packet = greeting(Identity(version, flavour, 1, ""), 7, NONCE, tls=True)
    assert packet[0] == 10
    text, _, rest = packet[1:].partition(b"\0")
    assert text == shown
    assert rest[4:12] == NONCE[:8]
    assert rest.endswith(NONCE[8:] + b"\0" + plugin.encode() + b"\0")
    assert plugin in PLUGINS


def test_settings_do_not_show_the_password() -> None:
    assert "secret" not in repr(Settings("/logs", "me", "secret"))


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    with pytest.raises(OptionError, match="must be given together"):
        ServerTls("cert.pem", None)
    bad = tmp_path / "bad.pem"
    bad.write_text("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n")
    for path in (str(bad), str(tmp_path / "missing.pem")):
        with pytest.raises(OptionError, match="are not a certificate"):
            ServerTls(path, path)
    assert ServerTls(None, None).self_made
