"""Every way to prove to a real server who one is, and what is said when it is not believed."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from binlake.errors import AuthError, BinlogError, ConnectionLostError
from binlake.source.replica.connection import connect
from binlake.source.replica.url import ServerUrl
from dev.servers import Server, running
from support.servers.archiving import command
from support.servers.certificates import certificate
from support.servers.live import tcp_url, to_the_end, url_of

pytestmark = pytest.mark.server

SECRET = "pässwörd:@/?#%&"
PLUGINS = {
    "mysql-5.6.24": ["mysql_native_password"],
    "mysql-9.7": ["caching_sha2_password", "sha256_password"],
    "mariadb-10.11": ["mysql_native_password", "ed25519"],
    "mariadb-11.8": ["mysql_native_password", "ed25519", "parsec"],
}
HAS_TLS = ("mysql-9.7", "mariadb-11.8")
OWN_NAME = getpass.getuser()


@pytest.fixture(scope="module")
def users(server: Server) -> dict[str, str]:
    """User by plugin; all have the same password, and may replicate."""
    return made_users(server)


def made_users(server: Server) -> dict[str, str]:
    made = {}
    for plugin in PLUGINS[server.name]:
        user = made[plugin] = f"u_{plugin}"[:16]
        if plugin in ("ed25519", "parsec"):
            server.execute(f"INSTALL SONAME 'auth_{plugin}'")
        how = {
            "mysql-5.6.24": f"BY '{SECRET}'",
            "mysql-9.7": f"WITH {plugin} BY '{SECRET}'",
        }.get(server.name, f"VIA {plugin} USING PASSWORD('{SECRET}')")
        for host in ("127.0.0.1", "localhost"):
            server.execute(
                "SET NAMES utf8mb4",
                f"CREATE USER {user}@'{host}' IDENTIFIED {how}",
                f"GRANT ALL ON *.* TO {user}@'{host}'",
            )
    return made


def user_of(url: str) -> tuple[str, bool]:
    """The user that a server takes us for, and whether it is on a safe connection."""
    with connect(ServerUrl.parse(url)) as connection:
        who = connection.value("SELECT CURRENT_USER()") or ""
        return who.partition("@")[0], connection.driver.is_encrypted


def forget(server: Server) -> None:
    """Make caching_sha2_password forget its hashes: the next login is a full one."""
    if server.name == "mysql-9.7":
        server.execute("FLUSH PRIVILEGES")


#: Methods that send the password itself; the others send a proof, over any channel.
SEND_PASSWORD = ("caching_sha2_password", "sha256_password")


@pytest.mark.parametrize("mode", ["disabled", "preferred"])
@pytest.mark.parametrize("compress", ["", "zlib"])
def test_each_plugin(server: Server, users: dict[str, str], mode: str, compress: str) -> None:
    """Over unverified channels: only methods that do not send the password."""
    for plugin, user in users.items():
        forget(server)
        url = tcp_url(server, user, SECRET, ssl_mode=mode, compress=compress)
        if plugin in SEND_PASSWORD:
            with pytest.raises(AuthError, match=f"by {plugin} .*: refused") as raised:
                user_of(url)
            assert "ssl-ca" in str(raised.value)
            assert raised.value.code is None
        if plugin == "caching_sha2_password":  # remembered by the server from now on
            assert user_of(tcp_url(server, user, SECRET))[0] == user
        if plugin != "sha256_password":
            encrypted = mode == "preferred" and server.name in HAS_TLS
            assert user_of(url) == (user, encrypted)


def test_each_plugin_by_default(server: Server, users: dict[str, str]) -> None:
    """The default is that of each server's newest client: MariaDB's proves its certificate with the password."""
    for plugin, user in users.items():
        forget(server)
        login = f"{user}:{quote(SECRET, safe='')}"
        url = ServerUrl.parse(f"mysql://{login}@127.0.0.1:{server.port}/?option-file=none")
        if plugin in SEND_PASSWORD or server.name == "mariadb-10.11":
            with pytest.raises(AuthError, match=r"refused|by default"):
                connect(url)
            continue
        with connect(url) as connection:
            assert connection.driver.is_verified == (server.name == "mariadb-11.8")
            assert connection.value("SELECT 1") == "1"


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_each_plugin_over_a_verified_channel(
    name: str, provisioned: Callable[[str], str], tmp_path: Path
) -> None:
    """A certificate of an authority: right, of another authority, of another host."""
    files, others = certificate(tmp_path), tmp_path / "other"
    others.mkdir()
    other_ca = certificate(others)["ca"]
    options = [f"--ssl-cert={files['server']}", f"--ssl-key={files['key']}"]
    with running(provisioned(name), [*options, f"--ssl-ca={files['ca']}"]) as server:
        for plugin, user in made_users(server).items():
            for mode in ("verify_ca", "verify_identity", ""):
                forget(server)
                url = tcp_url(server, user, SECRET, ssl_mode=mode, ssl_ca=files["ca"])
                with connect(ServerUrl.parse(url)) as connection:
                    assert connection.driver.is_verified, (plugin, mode)
            forget(server)
            with pytest.raises(AuthError, match=r"TLS failed: .*certificate"):
                user_of(tcp_url(server, user, SECRET, ssl_mode="verify_ca", ssl_ca=other_ca))
            elsewhere = tcp_url(
                server, user, SECRET, ssl_mode="verify_identity", ssl_ca=files["ca"]
            ).replace("@127.0.0.1", "@localhost")
            with pytest.raises(AuthError, match=r"TLS failed: .*[Hh]ostname mismatch"):
                user_of(elsewhere)
        if name == "mariadb-10.11":  # too old to prove its certificate with the password
            with pytest.raises(AuthError, match="does not prove with the password"):
                user_of(tcp_url(server, user, SECRET, ssl_mode=""))


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")
def test_an_account_with_two_methods(server: Server, users: dict[str, str]) -> None:
    """The server asks for the second method when the first does not accept the password."""
    ways = f"ed25519 USING PASSWORD('other') OR mysql_native_password USING PASSWORD('{SECRET}')"
    server.execute("SET NAMES utf8mb4", f"CREATE USER two@'127.0.0.1' IDENTIFIED VIA {ways}")
    assert user_of(tcp_url(server, "two", SECRET))[0] == "two"
    assert user_of(tcp_url(server, "two", "other"))[0] == "two"


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")
def test_pam(server: Server) -> None:
    """The password goes to PAM over the unix socket only, which refuses it here."""
    server.execute("INSTALL SONAME 'auth_pam_v1'")
    for host in ("127.0.0.1", "localhost"):
        server.execute(f"CREATE USER pam@'{host}' IDENTIFIED VIA pam USING 'no-such-service'")
    for mode in ("disabled", "preferred", ""):
        with pytest.raises(AuthError) as raised:
            user_of(tcp_url(server, "pam", SECRET, ssl_mode=mode))
        assert raised.value.code is None, "refused by us"
    with pytest.raises(AuthError) as raised:
        user_of(url_of(server).replace("root@", f"pam:{quote(SECRET, safe='')}@"))
    assert raised.value.code == 1045


def test_over_a_unix_socket(server: Server, users: dict[str, str]) -> None:
    for user in users.values():
        forget(server)
        login = f"{user}:{quote(SECRET, safe='')}@"
        assert user_of(url_of(server).replace("root@", login)) == (user, True)


def test_a_replica_logs_in(server: Server, users: dict[str, str]) -> None:
    """Not only a login: the stream that begins with it."""
    for user in users.values():
        assert to_the_end(tcp_url(server, user, SECRET))


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11", "mariadb-11.8")  # they have none
def test_a_key_that_is_kept(server: Server, users: dict[str, str]) -> None:
    """The server's RSA key from a file, so that an attacker in between cannot send another one."""
    keys = {"right": server.data / "public_key.pem", "none": server.data / "ca.pem"}
    for user in users.values():
        server.execute("FLUSH PRIVILEGES")
        url = tcp_url(server, user, SECRET, ssl_mode="disabled")
        assert user_of(f"{url}&server-public-key={keys['right']}")[0] == user
        server.execute("FLUSH PRIVILEGES")
        with pytest.raises(BinlogError) as raised:
            user_of(f"{url}&server-public-key={keys['none']}")
        assert "\n" not in str(raised.value)


def test_no_login_without_the_password(server: Server, users: dict[str, str]) -> None:
    for plugin, user in users.items():
        for password in ("wrong-secret", ""):  # the process remembers the first for the second
            for mode in ("disabled", "preferred", "verified"):
                options = {} if mode == "verified" else {"ssl_mode": mode}
                with pytest.raises(AuthError) as raised:
                    user_of(tcp_url(server, user, password, **options))
                # a wrong password is not sent either
                refused_by_us = plugin in SEND_PASSWORD and mode != "verified"
                assert raised.value.code == (None if refused_by_us else 1045)
                assert "wrong-secret" not in str(raised.value)


def test_a_user_without_a_password(server: Server) -> None:
    server.execute("CREATE USER blank@'127.0.0.1'")
    for mode in ("disabled", "preferred"):
        assert user_of(tcp_url(server, "blank", ssl_mode=mode))[0] == "blank"
    with pytest.raises(AuthError):
        user_of(tcp_url(server, "blank", "something"))


@pytest.mark.not_on("mysql-5.6.24")  # comes without its plugins
def test_users_of_the_machine(server: Server) -> None:
    """auth_socket of MySQL, unix_socket of MariaDB: the socket says whose process it is."""
    if server.flavour == "mysql":
        server.execute("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'")
    how = "WITH auth_socket AS" if server.flavour == "mysql" else "VIA unix_socket AS"
    for name, machine_user in (("own", OWN_NAME), ("other", "nobody-of-here")):
        server.execute(f"CREATE USER {name}@localhost IDENTIFIED {how} '{machine_user}'")
    own, other = (url_of(server).replace("root@", f"{name}@") for name in ("own", "other"))
    if server.name == "mariadb-10.11":  # takes no name: the user has to be called so
        server.execute(f"CREATE USER IF NOT EXISTS {OWN_NAME}@localhost")
        server.execute(f"ALTER USER {OWN_NAME}@localhost IDENTIFIED VIA unix_socket")
        own = url_of(server).replace("root@", f"{OWN_NAME}@")
    assert user_of(own)[1]
    with pytest.raises(AuthError, match="Access denied"):
        user_of(other)


def test_a_refused_login_is_one_line(server: Server, users: dict[str, str]) -> None:
    """Every command that takes a URL says so, once, and does not try again and again."""
    user = next(iter(users.values()))
    url = tcp_url(server, user, "wrong-secret")
    for words in (["tail", url], ["archive", url, "/nowhere"]):
        run = subprocess.run(
            command(*words), capture_output=True, text=True, check=False, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert run.returncode == 1, words
        assert run.stdout == ""
        lines = run.stderr.splitlines()
        assert len(lines) == 1, run.stderr
        assert f"Access denied for user '{user}'" in lines[0]
        assert "wrong-secret" not in run.stderr


def test_tls_is_insisted_on(server: Server) -> None:
    server.execute("CREATE USER tls@'127.0.0.1' IDENTIFIED BY 'pw'")
    url = tcp_url(server, "tls", "pw", ssl_mode="required")
    if server.name not in HAS_TLS:
        with pytest.raises(BinlogError, match="ssl-mode=required requires TLS"):
            connect(ServerUrl.parse(url))
        return
    if server.name == "mysql-9.7":
        user_of(tcp_url(server, "tls", "pw"))  # the server remembers a verified login
    with connect(ServerUrl.parse(url)) as connection:
        assert connection.driver.is_encrypted
        assert not connection.driver.is_verified
        assert connection.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
    with pytest.raises(AuthError, match="certificate"):
        connect(ServerUrl.parse(tcp_url(server, "tls", "pw", ssl_mode="verify_ca")))


def test_client_certificates() -> None:
    with running("mysql-9.7") as server:
        files = {f"ssl_{n}": str(server.data / f) for n, f in (
            ("ca", "ca.pem"), ("cert", "client-cert.pem"), ("key", "client-key.pem"))}  # fmt: skip
        server.execute("CREATE USER cert@'127.0.0.1' IDENTIFIED BY 'pw' REQUIRE X509")
        with connect(ServerUrl.parse(tcp_url(server, "cert", "pw", **files))) as connection:
            assert connection.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
        with pytest.raises(AuthError):
            connect(ServerUrl.parse(tcp_url(server, "cert", "pw", ssl_ca=files["ssl_ca"])))
        with pytest.raises(AuthError, match="TLS failed"):
            connect(
                ServerUrl.parse(tcp_url(server, "cert", "pw", **files, ssl_mode="verify_identity"))
            )


def test_a_login_beyond_the_connections_of_the_account_can_be_tried_again(server: Server) -> None:
    server.execute(
        "CREATE USER few@'127.0.0.1' IDENTIFIED BY 'pw'",
        "GRANT USAGE ON *.* TO few@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1"
        if server.name != "mysql-9.7"
        else "ALTER USER few@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1",
    )
    url = ServerUrl.parse(tcp_url(server, "few", "pw"))
    with connect(url), pytest.raises(ConnectionLostError, match="max_user_connections"):
        connect(url)
