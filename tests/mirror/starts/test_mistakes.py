"""Mistakes in how a mirror is started are errors before Spark starts, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror.lake_state import index_directory, lock
from dev.servers import Server, running
from dev.servers.ports import ReservedPort
from mirror.command_process import CommandProcess
from support.command_runs import run
from support.servers.live import tcp_url, url_of

pytestmark = pytest.mark.server


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
            "CREATE TABLE shop.returns (id INT PRIMARY KEY)",
            "INSERT INTO shop.orders VALUES (1)",
        )
        yield started


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a lake, where Spark cannot start."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("--logs /nowhere/archive", 2, "/nowhere/archive does not exist"),
        ("--append shop.orders --history shop.*", 2, "--append: table shop.orders also matches --history;"),
        ("--rename shop.*=a.b", 2, "tables shop.orders and shop.returns would both be a.b in the lake;"),
    ],
)  # fmt: skip
def test_options(
    server: Server,
    lake: Path,
    capfd: pytest.CaptureFixture[str],
    options: str,
    code: int,
    says: str,
) -> None:
    given = ["--table", "shop.*", "--once", *options.split()]
    found, out, err = run(capfd, "mirror", url_of(server), str(lake), *given)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert err.startswith(f"binlake: {says}")
    assert not lake.exists()


@pytest.mark.parametrize("lacking", ["PROCESS", "REPLICATION SLAVE"])
def test_a_privilege_of_the_whole_server(
    server: Server, lake: Path, capfd: pytest.CaptureFixture[str], lacking: str
) -> None:
    """Each copy met it, ten times. An archive has the log, and MariaDB shows the positions of snapshots to each user."""
    name, given = f"no_{lacking[:4].lower()}", {"PROCESS", "REPLICATION SLAVE"} - {lacking}
    server.execute(
        f"CREATE USER {name}@'127.0.0.1'",
        f"GRANT SELECT, REPLICATION CLIENT, {', '.join(given)} ON *.* TO {name}@'127.0.0.1'",
    )
    words = [tcp_url(server, name), str(lake), "--table", "shop.*", "--once"]
    code, out, err = run(capfd, "mirror", *words)
    if server.flavour == "mariadb" and lacking == "PROCESS":
        assert "JAVA_HOME" in err  # the next step
        return
    assert (code, out) == (1, "")
    assert err == (
        f"binlake: 127.0.0.1:{server.port}: '{name}'@'127.0.0.1' lacks {lacking}, which a mirror needs; "
        f"run GRANT {lacking} ON *.* TO '{name}'@'127.0.0.1'\n"
    )
    assert not lake.exists()


def test_a_pattern_in_upper_case_for_a_server_with_names_in_lower_case(
    provisioned: Any, lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The pattern excluded nothing."""
    with running(provisioned("mariadb-11.8"), ["--lower-case-table-names=1"]) as server:
        server.execute("CREATE DATABASE Shop", "CREATE TABLE Shop.CardData (id INT PRIMARY KEY)")
        given = ["--once", "--exclude-table", "Shop.CardData"]
        code, out, err = run(capfd, "mirror", url_of(server), str(lake), *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("binlake: --exclude-table: 'Shop.CardData' matches no table, because the")
    assert err.endswith("; write shop.carddata\n")
    assert not lake.exists()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("shop", "a mirror reads all logs of a server, and the path of "),
        ("&ssl-mode=verify_ca", "mysql://127.0.0.1/&ssl-mode=verify_ca: '&ssl-mode=verify_ca' is not the name of a log"),
    ],
)  # fmt: skip
def test_a_path_in_the_url(
    lake: Path, capfd: pytest.CaptureFixture[str], path: str, says: str
) -> None:
    """In other programs, it is a database; binlake would mirror all of them."""
    code, out, err = run(capfd, "mirror", f"mysql://127.0.0.1/{path}", str(lake), "--once")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"binlake: {says}")
    assert not lake.exists()


def test_a_server_that_does_not_answer(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    port = ReservedPort()
    url = f"mysql://root@127.0.0.1:{port.number}/?option-file=none"
    code, out, err = run(capfd, "mirror", url, str(lake), "--once")
    port.release()
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"cannot connect to 127.0.0.1:{port.number}" in err
    assert not lake.exists()


def test_a_lake_that_is_a_file(
    server: Server, lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.write_text("")
    code, _, err = run(capfd, "mirror", url_of(server), str(lake), "--once")
    assert (code, err) == (
        1,
        f"binlake: cannot write {lake}/_binlake/index: Not a directory\n",
    )


def test_a_second_mirror(server: Server, lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    says = (
        f"binlake: another process mirrors into {lake}; stop it first, or wait until it has ended\n"
    )
    with lock(index_directory(str(lake), None), str(lake)):
        for words in ((url_of(server), str(lake), "--once"), ("verify", str(lake))):
            code, _, err = run(capfd, "mirror", *words)
            assert (code, err) == (1, says)


@pytest.mark.lakes
def test_a_relative_path_and_a_misspelled_table(server: Server, tmp_path: Path) -> None:
    url, misspelled = url_of(server), ["--table", "shop.ordres", "--once"]
    with CommandProcess(tmp_path) as commands:
        none = commands.mirror([url, "nothing", *misspelled])
        done = commands.mirror([url, "lake", "--table", "shop.*", *misspelled])
        status = commands.mirror(["status", "lake"])
    refused = "the server has no table that matches shop.ordres"
    assert (none.code, refused in none.errors, "shop.orders" in none.errors) == (2, True, True)
    assert not (tmp_path / "nothing" / "shop").exists()
    noted = "--table shop.ordres matches no table of the server"
    assert (done.code, noted in done.errors) == (0, True), done.errors
    assert "shop.*" not in done.errors
    assert [line.split()[:3] for line in status.output.splitlines() if line.startswith("shop.")] == [
        ["shop.orders", "mirrored", "1"],
        ["shop.returns", "mirrored", "0"],
    ]  # fmt: skip
