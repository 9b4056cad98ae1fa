"""Logins to servers that mean no good: refused, in time, and nothing is given away."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable

import pytest

from binlake.errors import AuthError, BinlogError, ConnectionLostError, OptionError, ServerError
from binlake.source.replica import parsec
from binlake.source.replica.connection import (
    ServerConnection,
    checked_log_name,
    connect,
)
from binlake.source.replica.url import ServerUrl
from dev.servers.ports import ReservedPort
from support.servers.fake_server import OK, Conversation, fake_server, greeting

SECRET = "not-for-everybody"


def url(port: int, **options: str) -> ServerUrl:
    given = {"option_file": "none", "connect_timeout": "120", "ssl_mode": "disabled", **options}
    return ServerUrl.parse(f"mysql://ada:{SECRET}@127.0.0.1:{port}/").with_options(**given)


def refused(
    talk: Callable[[Conversation], None], **options: str
) -> tuple[BinlogError, list[Conversation]]:
    with fake_server(talk) as (port, heard), pytest.raises(BinlogError) as raised:
        connect(url(port, **options))
    assert SECRET not in str(raised.value)
    assert "\n" not in str(raised.value)
    return raised.value, heard


def said_no(server: ServerConnection) -> str:
    with pytest.raises(ServerError) as raised:
        server.rows("SHOW BINARY LOGS")
    return str(raised.value)


@pytest.mark.parametrize(
    "packet",
    [b"", b"\x0a", b"\xff", b"\x0a8.0\0", b"\x0a" + b"x" * 300, b"\x09" + bytes(80),
     greeting(version="what"), greeting(version=""), greeting(plugin="nobody_knows")[:40], b"\0" * 60],
    ids=range(10),
)  # fmt: skip
def test_invalid_greetings(packet: bytes) -> None:
    refused(lambda talk: talk.send(packet))


def test_a_greeting_that_never_ends() -> None:
    """A byte now and then keeps no timeout of single reads busy, but the handshake has one."""
    ends = time.monotonic() + 120

    def trickle(talk: Conversation) -> None:
        talk.sock.sendall(b"\xff\x7f\0\0")
        while time.monotonic() < ends:
            talk.sock.sendall(b"\x0a")
            time.sleep(0.02)

    began = time.monotonic()
    error, _ = refused(trickle, connect_timeout="0.3")
    assert isinstance(error, ConnectionLostError)
    assert time.monotonic() - began < 60


def test_silence() -> None:
    def listen(talk: Conversation) -> None:
        talk.hear()

    error, _ = refused(listen, connect_timeout="0.2")
    assert any(words in str(error) for words in ("nothing arrived for", "too long"))


def test_a_greeting_of_16_megabytes_is_not_received() -> None:
    error, _ = refused(lambda talk: talk.sock.sendall(b"\xfe\xff\xff\0" + bytes(1000)))
    assert "answer to the login takes more than 64 KB: refused" in str(error)


def test_more_and_more_of_a_login() -> None:
    def more(talk: Conversation) -> None:
        talk.send(greeting(plugin="caching_sha2_password"))
        talk.hear()
        for sequence in range(2, 1 << 20, 2):
            talk.send(b"\1\4", sequence & 255)
            talk.hear()

    refused(more, connect_timeout="1")


def test_required_tls_is_not_offered() -> None:
    def talk(talk: Conversation) -> None:
        talk.send(greeting())
        talk.hear()

    error, heard = refused(talk, ssl_mode="required")
    assert "ssl-mode=required requires TLS, but the server does not offer it" in str(error)
    assert heard[0].heard == []


def test_plain_packets_before_tls_are_rejected() -> None:
    """Who sits in between can put words before the encrypted ones: an OK, so that no proof is asked."""
    pytest.importorskip("cryptography")
    from binlake.serve.tls import ServerTls

    def talk(talk: Conversation) -> None:
        first = greeting(capabilities=0xC1FFFFFF & ~0x01000000)
        ok = len(OK).to_bytes(3, "little") + b"\2" + OK
        talk.sock.sendall(len(first).to_bytes(3, "little") + b"\0" + first + ok)
        talk.hear()
        context = ServerTls(None, None).context
        with context.wrap_socket(talk.sock, server_side=True) as talk.sock:
            talk.hear()
            talk.hear()

    error, heard = refused(talk, ssl_mode="required")
    assert "sent something before TLS had begun" in str(error)
    assert len(heard[0].heard) <= 2


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog", b"mysql_old_password"])
def test_plugins_that_hand_over_the_password(plugin: bytes) -> None:
    def ask(talk: Conversation) -> None:
        talk.send(greeting())
        talk.hear()
        talk.send(b"\xfe" + plugin + b"\0" + b"12345678901234567890\0", 2)
        talk.hear()

    error, heard = refused(ask)
    assert plugin.decode() in str(error)
    assert len(heard[0].heard) == 1
    assert SECRET.encode() not in b"".join(heard[0].heard)


@pytest.mark.parametrize(
    ("salt", "said"),
    [(b"P\x0b" + bytes(18), r"1024 \* 2\*\*11 rounds"), (b"P\xff" + bytes(18), "rounds"),
     (b"", "no way to derive"), (b"Q\0" + bytes(18), "no way to derive"), (b"P\0", "no way")],
)  # fmt: skip
def test_a_salt_that_would_keep_us_busy(salt: bytes, said: str) -> None:
    """MariaDB's parsec: the server says how many rounds make the key."""

    def ask(talk: Conversation) -> None:
        talk.send(greeting())
        talk.hear()
        talk.send(b"\xfeparsec\0" + bytes(range(32)), 2)
        talk.hear()
        talk.send(b"\x01" + salt, 4)
        talk.hear()

    began = time.monotonic()
    error, heard = refused(ask)
    assert isinstance(error, AuthError)
    assert re.search(said, str(error))
    assert heard[0].heard[1:] == [b""]
    assert time.monotonic() - began < 60


def test_an_unknown_plugin() -> None:
    def ask(talk: Conversation) -> None:
        talk.send(greeting())
        talk.hear()
        talk.send(b"\xfeauth_gss\x1b[2J_client\0" + bytes(20), 2)
        talk.hear()

    error, heard = refused(ask)
    assert "login by auth_gss\\x1b[2J_client, which binlake does not know" in str(error)
    assert "parsec" in str(error)
    assert len(heard[0].heard) == 1


def test_a_signature_of_both_nonces() -> None:
    """The answer of parsec is signed by the key from the password, salt and rounds."""
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    nonce, salt = bytes(range(32)), bytes(range(18))
    proof, public_key = parsec.answer(b"pw", nonce, b"P\x02" + salt)
    seed = hashlib.pbkdf2_hmac("sha512", b"pw", salt, 4096, 32)
    key = ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key()
    key.verify(proof[32:], nonce + proof[:32])
    assert public_key == key.public_bytes_raw()
    assert len(proof) == 96
    assert parsec.answer(b"pw", nonce, b"P\x02" + salt)[0][:32] != proof[:32]
    with pytest.raises(ValueError, match="nonce of 20 bytes"):
        parsec.answer(b"pw", bytes(20), b"P\x02" + salt)


def test_a_request_for_a_local_file() -> None:
    def ask(talk: Conversation) -> None:
        talk.login()
        talk.hear()
        talk.send(OK, 1)
        talk.hear()
        talk.send(b"\xfb/etc/passwd", 1)
        talk.hear()

    with fake_server(ask) as (port, heard), connect(url(port)) as server:
        error = said_no(server)
    assert "(LOAD DATA LOCAL): refused" in error
    assert len(heard[0].heard) <= 4
    assert b"root:" not in b"".join(heard[0].heard)


def test_answers_of_a_gigabyte() -> None:
    def talk(talk: Conversation) -> None:
        talk.login()
        talk.hear()
        talk.send(OK, 1)
        talk.hear()
        chunk = b"\xff\xff\xff"
        for sequence in range(1, 100):
            talk.sock.sendall(chunk + bytes([sequence]) + bytes(0xFFFFFF))

    with fake_server(talk) as (port, _), connect(url(port)) as server:
        assert "answer to the query takes more than 65536 KB: refused" in said_no(server)


def test_a_wrong_password_is_an_auth_error() -> None:
    def deny(talk: Conversation) -> None:
        talk.send(greeting())
        talk.hear()
        talk.send(b"\xff\x15\x04#28000Access denied", 2)

    error, _ = refused(deny)
    assert isinstance(error, AuthError)
    assert error.code == 1045


def test_no_server_answers() -> None:
    port = ReservedPort()
    with pytest.raises(ConnectionLostError):
        connect(url(port.number))
    port.release()


@pytest.mark.parametrize(
    ("option", "value"),
    [("ssl_mode", "sometimes"), ("compress", "lz4"), ("connect_timeout", "-1"),
     ("connect_timeout", "soon"), ("ssl_ca", "/nowhere/ca.pem"), ("server_public_key", "/nowhere")],
)  # fmt: skip
def test_wrong_options(option: str, value: str) -> None:
    given = {"ssl_mode": "required", option: value}
    with pytest.raises(OptionError):
        connect(url(1, **given))


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", "x" * 256, "a\nb"])
def test_names_that_no_log_has(name: str) -> None:
    with pytest.raises(ServerError, match="refused"):
        checked_log_name(name)


def test_a_server_without_the_driver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "binlake.source.replica.driver", None)
    with pytest.raises(BinlogError, match=r"needs PyMySQL; pip install 'binlake\[server\]'"):
        connect(url(1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"zstd_compression_level": "23"}, "zstd-compression-level=23"),
        ({"ssl_mode": "required", "tls_version": "TLSv1.1"}, "tls-version=TLSv1.1"),
        ({"ssl_mode": "required", "ssl_capath": "/nowhere"}, "/nowhere is not a folder"),
        ({"ssl_mode": "required", "ssl_crl": "/nowhere"}, "ssl-crl=/nowhere: cannot be used"),
        (
            {"ssl_mode": "required", "ssl_cipher": "NONE-SUCH"},
            "ssl-cipher=NONE-SUCH: cannot be used",
        ),
    ],
)
def test_invalid_login_options_are_rejected(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as raised:
        connect(url(1, **options))
    assert said in str(raised.value)
