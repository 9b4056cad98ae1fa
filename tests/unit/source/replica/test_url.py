"""URLs of servers as people write them, and where passwords come from and never go."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.errors import OptionError
from binlake.source.replica.handshake import FollowOptions
from binlake.source.replica.option_file import client_options
from binlake.source.replica.passwords import Secret, given_password
from binlake.source.replica.url import ServerUrl, is_server_url, without_password


@pytest.mark.parametrize(
    ("text", "host", "port", "user", "socket", "log", "shown"),
    [
        ("mysql://db1", "db1", 0, "", "", "", "mysql://db1/"),
        ("mysql://ada@db1:3307/", "db1", 3307, "ada", "", "", "mysql://ada@db1:3307/"),
        ("MariaDB://ada:pw@db1/b.000001", "db1", 0, "ada", "", "b.000001", "mariadb://ada@db1/b.000001"),
        ("mysql://a%40b:p%3A%2F@[2001:db8::1]:1/", "2001:db8::1", 1, "a@b", "", "", "mysql://a%40b@[2001:db8::1]:1/"),
        ("mysql://u:p@/w?#rd@db1/", "db1", 0, "u", "", "", "mysql://u@db1/"),
        ("mysql://u@%2Frun%2Fm.sock/", "", 0, "u", "/run/m.sock", "", "mysql://u@%2Frun%2Fm.sock/"),
        ("mysql://u@localhost/?socket=/run/m.sock", "localhost", 0, "u", "/run/m.sock", "", "mysql://u@%2Frun%2Fm.sock/"),
        ("mysql://", "", 0, "", "", "", "mysql:///"),
    ],
)  # fmt: skip
def test_forms(
    text: str, host: str, port: int, user: str, socket: str, log: str, shown: str
) -> None:
    url = ServerUrl.parse(text)
    assert (url.host, url.port, url.user) == (host, port, user)
    assert (url.unix_socket, url.log_name) == (socket, log)
    assert str(url) == shown
    assert str(ServerUrl.parse(str(url))) == shown


def test_options_and_several_hosts() -> None:
    urls = ServerUrl.parse_all("mysql://u@a,b:3307/?SSL_Mode=required&compress=zstd,mariadb://u@c")
    assert [url.where for url in urls] == ["a:3306", "b:3307", "c:3306"]
    assert urls[0].option("ssl-mode") == "required"
    assert urls[2].option("ssl-mode") == ""
    assert urls[0].with_options(heartbeat="2").option("heartbeat") == "2"
    with pytest.raises(OptionError, match="one server is expected"):
        ServerUrl.parse("mysql://u@a,b/")


@pytest.mark.parametrize(
    "text",
    [
        "mysql://ada:geheim@db1:99999/",
        "mysql://ada:geheim@db1:port/",
        "mysql://ada:geheim@db1/?colour=red",
        "mysql://ada:geheim@db1/a/b",
        "mysql://ada:geheim@db1/b.000001%00",
        "mysql://ada:geheim",
        "mysql://ada:geheim@[::1",
        "mysql://db1/?password=geheim&x",
        "postgres://ada:geheim@db1/",
        "mysql:/ada:geheim@db1/",
    ],
)
def test_mistakes_show_no_password(text: str) -> None:
    with pytest.raises(OptionError) as raised:
        ServerUrl.parse(text)
    assert "geheim" not in str(raised.value)
    assert "geheim" not in repr(raised.value.context)


@given(user=st.text(min_size=1), password=st.text(min_size=9), log=st.booleans())
def test_passwords_are_in_no_text(user: str, password: str, log: bool) -> None:
    from urllib.parse import quote

    text = f"mysql://{quote(user, safe='')}:{quote(password, safe='')}@db1/{'b.1' if log else ''}"
    url = ServerUrl.parse(text)
    assert url.user == user
    secret = given_password(url.account, "", None)
    assert secret is not None
    assert secret.reveal() == password
    fields = (url.flavour, url.host, user, url.log_name, "mysql://@/.%3306")
    if password not in "".join(fields) and password not in quote(user, safe=""):
        assert password not in str(url) + repr(url) + repr(url.account) + repr(secret)
    assert pickle.loads(pickle.dumps(url)) == url


def test_secrets_stay() -> None:
    secret = Secret("geheim")
    assert "geheim" not in f"{secret} {secret!r}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        copy.copy(secret)


def test_paths_that_are_no_urls() -> None:
    assert not is_server_url("/var/lib/mysql/binlog.000001")
    assert not is_server_url("s3://bucket/mysql")
    assert not is_server_url("mysql")
    assert without_password("/a/b:c@d") == "/a/b:c@d"
    assert without_password("mysql://u:pw@a,b/") == "mysql://u@a/,mysql://u@b/"
    assert len(ServerUrl.parse_all(without_password("mysql://u:pw@a,b/"))) == 2


def test_passwords_come_from_here_and_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = ServerUrl.parse("mysql://nobody@nowhere/").account
    file = tmp_path / "password"
    file.write_text("from a file\r\nand more\n")
    for name in ("BINLAKE_PASSWORD", "MYSQL_PWD"):
        monkeypatch.delenv(name, raising=False)

    def password(path: str, told: str | None) -> str | None:
        found = given_password(account, path, told)
        return None if found is None else found.reveal()

    assert password("", None) is None
    assert password("", "from my.cnf") == "from my.cnf"
    monkeypatch.setenv("MYSQL_PWD", "old name")
    assert password("", "from my.cnf") == "old name"
    monkeypatch.setenv("BINLAKE_PASSWORD", "our name")
    assert password("", "from my.cnf") == "our name"
    assert password(str(file), "from my.cnf") == "from a file"
    with pytest.raises(OptionError, match="cannot read the password file"):
        password(str(tmp_path / "none"), None)


def test_option_files(tmp_path: Path) -> None:
    (tmp_path / "more.cnf").write_text("[client]\nport=3309\n")
    file = tmp_path / "my.cnf"
    file.write_text(
        "# a comment\n[mysqld]\nuser=mysql\n[client]\nuser = ada  # who\n"
        f'password="p#w \\"d"\nssl_ca=/etc/ca.pem\n!include {tmp_path}/more.cnf\n[mysql]\nhost=x\n'
    )
    assert client_options(str(file)) == {
        "user": "ada", "password": 'p#w "d', "ssl-ca": "/etc/ca.pem", "port": "3309"
    }  # fmt: skip
    assert client_options("none") == {}
    extra = tmp_path / "extra.cnf"
    extra.write_text("[client]\nport=1\n[client_b]\nport=2\nbind_address=::1\n")
    assert client_options("none", str(extra)) == {"port": "1"}
    assert client_options("none", str(extra), "_B") == {"port": "2", "bind-address": "::1"}
    extra.write_text("!include ~\0x\n[client]\nport=3\n")
    assert client_options("none", str(extra)) == {"port": "3"}
    with pytest.raises(OptionError, match="gone"):
        client_options("none", str(tmp_path / "gone"))
    with pytest.raises(OptionError, match="cannot read the options file"):
        client_options(str(tmp_path / "gone"))


# Made by mysql_config_editor 9.7: [client] with a user; [far] with user, password, host and port.
LOGIN_FILE = bytes.fromhex(
    "0000000011100c1f1a181d0310131b05131b11160d171517100000005b6e5994ee855907e4bf1bf60cf153152000"
    "0000ee0a80e9c18949e805c8bcebe6b762449926b8bc84cbaa6af03512ab30ae68081000000005c9bb7e6b7ea8a9"
    "057aa608f08270f4100000000d928d1802787850279bea5939a78156200000004c78da4dae78f51dc5e5c7c53842"
    "0747fe71804bd6075a4a1722f8308ebd35a2200000003b2412b875b06b8408bb4021447b459a7dae2552aeda78e4"
    "4f60c12597d191a410000000cc5cebea281930f6ea13a57cce14053d"
)


def test_login_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "login.cnf"
    file.write_bytes(LOGIN_FILE)
    monkeypatch.setenv("MYSQL_TEST_LOGIN_FILE", str(file))
    far = {"user": "far", "password": 'ge"h#eim', "host": "127.0.0.1", "port": "3307"}
    assert client_options("none", login_path="far") == far
    assert client_options("none", login_path="client") == {"user": "nobody"}
    assert client_options("none") == {}
    with pytest.raises(OptionError, match="no login path near"):
        client_options("none", login_path="near")
    for size in range(24, len(LOGIN_FILE)):
        file.write_bytes(LOGIN_FILE[:size])
        with pytest.raises(OptionError) as raised:
            client_options("none", login_path="nobody's")
        assert "geheim" not in str(raised.value)
    file.unlink()
    with pytest.raises(OptionError, match="mysql_config_editor set --login-path=far"):
        client_options("none", login_path="far")


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode), st.booleans())
def test_option_files_of_any_bytes(data: bytes, as_login_file: bool) -> None:
    """Options, or one line of ours; nothing else."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = Path(folder) / "my.cnf"
        file.write_bytes(data if as_login_file else b"[client]\n" + data)
        patch.setenv("MYSQL_TEST_LOGIN_FILE", str(file))
        with suppress(OptionError):
            if as_login_file:
                client_options("none", login_path="client")
            else:
                client_options(str(file))


def test_option_files_that_include_one_another(tmp_path: Path) -> None:
    """Five includes of itself, ten deep, were ten million files to read."""
    file = tmp_path / "my.cnf"
    file.write_text(f"!include {file}\n" * 5)
    with pytest.raises(OptionError, match="more than 100 files are included"):
        client_options(str(file))
    deep = tmp_path / "deep.cnf"
    deep.write_text(f"!include {deep}\n[client]\nuser=ada\n")
    assert client_options(str(deep)) == {"user": "ada"}
    file.write_text("!include a\0b\n!include ~nobody-of-here/x\n[client]\nuser=ada\n")
    assert client_options(str(file)) == {"user": "ada"}


def test_an_option_file_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[client]\nhost=elsewhere\n")
    file.chmod(0o666)
    with pytest.raises(OptionError, match=r"everybody can write .*; chmod o-w"):
        client_options(str(file))
    file.chmod(0o660)
    assert client_options(str(file)) == {"host": "elsewhere"}


@pytest.mark.parametrize("digits", ["9" * 5000, "65536", "²"])
def test_numbers_are_bounded(digits: str) -> None:
    with pytest.raises(OptionError):
        ServerUrl.parse(f"mysql://ada@db1:{digits}/")
    for option in ("server-id", "report-port", "heartbeat"):
        url = ServerUrl.parse("mysql://ada@db1/").with_options(
            **{option.replace("-", "_"): digits if digits != "65536" else "x" * 9}
        )
        with pytest.raises(OptionError):
            FollowOptions.of(url)


@given(st.text(min_size=6, max_size=30), st.sampled_from(["{}", "{}:99999", "[{}", "{}:x", "a b{}"]),
       st.sampled_from(["", "?ssl-mode=x&nope=1", "?password=x", "/a/b\x00", "?{}"]))  # fmt: skip
def test_no_mistake_in_a_url_shows_its_password(secret: str, host: str, rest: str) -> None:
    secret = f"Qz7{secret}"
    text = f"mysql://ada:{quote(secret, safe='')}@{host.format('db1')}/{rest.format('a=b')}"
    try:
        shown = str(ServerUrl.parse(text))
    except OptionError as error:
        shown = str(error)
    assert "Qz7" not in shown
