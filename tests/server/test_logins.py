"""Every way to prove to a real server who one is, and what is said when it is not believed."""

from __future__ import annotations

import getpass
import subprocess
from urllib.parse import quote

import pytest

from archiving import command
from binlake.errors import AuthError, BinlogError
from binlake.source.replica.connection import connect
from binlake.source.replica.url import ServerUrl
from dev.servers import Server, running
from live import tcp_url, to_the_end, url_of

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


@pytest.mark.parametrize("mode", ["disabled", "preferred"])
@pytest.mark.parametrize("compress", ["", "zlib"])
def test_each_plugin(server: Server, users: dict[str, str], mode: str, compress: str) -> None:
    """Twice, the first time without what the server remembers: RSA without TLS, the password with."""
    for user in users.values():
        if server.name == "mysql-9.7":
            server.execute("FLUSH PRIVILEGES")  # caching_sha2_password forgets its hashes
        for _ in range(2):
            url = tcp_url(server, user, SECRET, ssl_mode=mode, compress=compress)
            assert user_of(url) == (user, mode == "preferred" and server.name in HAS_TLS)


def test_over_a_unix_socket(server: Server, users: dict[str, str]) -> None:
    for user in users.values():
        if server.name == "mysql-9.7":
            server.execute("FLUSH PRIVILEGES")
        login = f"{user}:{quote(SECRET, safe='')}@"
        assert user_of(url_of(server).replace("root@", login)) == (user, True)


def test_a_replica_logs_in(server: Server, users: dict[str, str]) -> None:
    """Not only a login: the stream that begins with it."""
    for user in users.values():
        assert to_the_end(tcp_url(server, user, SECRET))


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11", "mariadb-11.8")  # they have none
def test_a_key_that_is_kept(server: Server, users: dict[str, str]) -> None:
    """The server's RSA key from a file, so that nobody in between can hand out another."""
    keys = {"right": server.data / "public_key.pem", "none": server.data / "ca.pem"}
    for user in users.values():
        server.execute("FLUSH PRIVILEGES")
        url = tcp_url(server, user, SECRET, ssl_mode="disabled")
        assert user_of(f"{url}&server-public-key={keys['right']}")[0] == user
        server.execute("FLUSH PRIVILEGES")
        with pytest.raises(BinlogError) as raised:
            user_of(f"{url}&server-public-key={keys['none']}")
        assert "\n" not in str(raised.value)


def test_nobody_without_the_password(server: Server, users: dict[str, str]) -> None:
    for user in users.values():
        for password in ("wrong-secret", ""):
            for mode in ("disabled", "preferred"):
                with pytest.raises(AuthError) as raised:
                    user_of(tcp_url(server, user, password, ssl_mode=mode))
                assert raised.value.code == 1045
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
        with pytest.raises(BinlogError, match="SSL is required"):
            connect(ServerUrl.parse(url))
        return
    with connect(ServerUrl.parse(url)) as connection:
        assert connection.driver.is_encrypted
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
