"""Commands about tables that do not exist, and about lakes that must stay as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server, running
from mirror.command_process import CommandProcess
from support.servers.live import url_of

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    with running(provisioned("mariadb-11.8")) as started:
        started.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
            "CREATE TABLE shop.secret (id INT PRIMARY KEY)",
            "CREATE VIEW shop.large AS SELECT * FROM shop.orders WHERE id > 1",
            "INSERT INTO shop.orders VALUES (1), (2)",
        )
        yield started


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandProcess]:
    with CommandProcess(tmp_path_factory.mktemp("commands")) as process:
        yield process


def test_no_table_matches(server: Server, commands: CommandProcess, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    done = commands.mirror([url_of(server), lake, "--once", "--table", "shp.*"])
    assert done.code == 2, done
    for part in ("the server has no table that matches shp.*", "did you mean shop.*", "SELECT"):
        assert part in done.errors
    assert "everything before" not in done.errors
    done = commands.mirror(["verify", lake])
    assert done.code != 0, done
    assert "no table" in done.errors
    done = commands.mirror([url_of(server), lake, "--once", "--table", "shop.large"])
    is_view = "shop.large is a view, and a mirror copies tables only"
    assert f"no table that matches shop.large; {is_view}; the user of the URL sees" in done.errors
    words = ["--table", "shop.orders", "--exclude-table", "shop.lar*"]
    done = commands.mirror([url_of(server), str(tmp_path / "other"), "--once", *words])
    assert f"--exclude-table shop.lar* matches no table of the server; {is_view}\n" in done.errors


def test_commands_that_leave_a_lake_unchanged(
    server: Server, commands: CommandProcess, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    patterns = ["--exclude-table", "shop.secert", "--append", "shop.ordres"]
    start = [url_of(server), lake, "--once", "--compact", "off", "--table", "shop.*", *patterns]

    def place() -> tuple[int, str, int]:
        found = json.loads(commands.mirror(["status", lake, "--json"]).output)
        return found["round"], found["log_file"], found["log_pos"]

    def files() -> list[Path]:
        return sorted(Path(lake, "shop", "orders", "data").rglob("*.parquet"))

    done = commands.mirror(start)
    assert done.code == 0, done
    for flag, pattern, meant in (
        ("--exclude-table", "shop.secert", "shop.secret"),
        ("--append", "shop.ordres", "shop.orders"),
    ):
        note = f"{flag} {pattern} matches no table of the server; did you mean {meant}"
        assert note in done.errors

    server.execute("INSERT INTO shop.orders VALUES (3)")
    before = place()
    done = commands.mirror(["verify", lake, "shop.ordres"])
    assert (done.code, place()) == (2, before), done
    assert "the mirror has no table shop.ordres; did you mean shop.orders" in done.errors
    done = commands.mirror(["pause", lake])
    assert done.errors == (
        f"the mirror pauses when it starts: no process mirrors into {lake} now. To continue: binlake mirror resume {lake}\n"
    )
    done = commands.mirror(["verify", lake])
    assert (done.code, place()) == (1, before), done
    assert "the mirror is paused" in done.errors
    assert "binlake mirror resume" in done.errors
    assert done.errors.count("\n") == 1
    done = commands.mirror(["resume", lake])
    assert (
        done.errors == f"the mirror of {lake} is not paused; no process mirrors into {lake} now\n"
    )
    done = commands.mirror(["verify", lake, "shop.o*"])
    assert (done.code, place() > before) == (0, True), done
    assert [line.split()[:2] for line in done.output.splitlines()] == [["shop.orders", "equal"]]

    assert len(files()) == 2
    for file in files():
        file.write_bytes(b"damaged")
    done = commands.mirror(["compact", lake, "shop.orders"])
    assert done.code == 1, done
    assert "shop.orders was not compacted: " in done.errors
    assert "binlake: not compacted: shop.orders" in done.errors
