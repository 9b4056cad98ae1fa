"""Passwords on the command line, as other users of the machine see it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the list of processes of Linux")

LOOK = (
    "import sys; before = set(sys.modules); import binlake_program;"
    "binlake_program.hide_passwords(sys.argv);"
    "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
    "print(open('/proc/self/cmdline').read().replace(chr(0), ' '));"
    "print(sorted(new & {'binlake', 'click', 'ctypes', 'pathlib', 'typing', 'pyarrow'}))"
)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["tail", "mysql://ada:geheim@db1/"], "tail mysql://ada:xxxxxx@db1/"),
        (["tail", "mariadb://ada:geh/e@im?@db1:3307/"], "tail mariadb://ada:xxxxxxxxx@db1:3307/"),
        (["rows", "mysql://ada@db1/?password=geheim&heartbeat=1"], "password=xxxxxx&heartbeat=1"),
        (["archive", "mysql://a:geheim@db1/", "mysql://b:geheim@db2/", "dir"],
         "mysql://a:xxxxxx@db1/ mysql://b:xxxxxx@db2/ dir"),
        (["mysqlbinlog", "-pgeheim", "-h", "db1"], "mysqlbinlog -pxxxxxx -h db1"),
        (["mysqlbinlog", "--password=geheim", "log"], "--password=xxxxxx log"),
        (["verify", "s3://key:geheim@bucket/x"], "s3://key:xxxxxx@bucket/x"),
        (["verify", "s3://b/x?secret_key=geheim&region=eu"], "secret_key=xxxxxx&region=eu"),
        (["rows", "--token", "geheim", "log"], "rows --token xxxxxx log"),
        (["rows", "--ssl-key-password", "geheim"], "--ssl-key-password xxxxxx"),
        (["tail", "--password=geheim", "log"], "tail --password=xxxxxx log"),
        (["mirror", "status", "d", "--conf", "spark.hadoop.fs.s3a.secret.key=geh&eim=", "--conf", "a=b"],
         "spark.hadoop.fs.s3a.secret.key=xxxxxxxx --conf a=b"),
        (["mirror", "status", "d", "--conf=spark.hadoop.fs.azure.account.key.x.net=geheim"],
         "--conf=spark.hadoop.fs.azure.account.key.x.net=xxxxxx"),
        (["rows", "fs.azure.sas.c.a.blob.core.windows.net=geheim"], "windows.net=xxxxxx"),
        (["rows", "fs.s3a.encryption.key=geheim"], "encryption.key=xxxxxx"),
        (["rows", "fs.s3a.server-side-encryption.key=geheim"], "encryption.key=xxxxxx"),
        (["rows", "secret%5Fkey=geheim"], "secret%5Fkey=xxxxxx"),
        (["rows", "s3://b/x?access%5Fkey=geheim&region=eu"], "access%5Fkey=xxxxxx&region=eu"),
        (["rows", "secretprofile=geheim"], "secretprofile=xxxxxx"),
    ],
)  # fmt: skip
def test_the_command_line_shows_no_password(arguments: list[str], shown: str) -> None:
    """And it is hidden before anything is imported that takes long."""
    run = subprocess.run(
        [sys.executable, "-c", LOOK, *arguments], capture_output=True, text=True, check=True
    )
    command, imported = run.stdout.splitlines()
    assert "geh" not in command
    assert shown in command
    assert imported == "[]"


@pytest.mark.parametrize("module", ["binlake_program", "binlake"])
def test_the_program_starts_there(module: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", module, "stats", "mysql://ada:geheim@[/"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr.startswith("binlake: ")
    assert "geheim" not in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize("module", ["binlake", "binlake.cli.main", "binlake_program"])
def test_every_way_to_start_binlake_hides_passwords(module: str) -> None:
    """The server is a socket that accepts and says nothing, so the process waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        url = f"mysql://ada:geheim@127.0.0.1:{server.getsockname()[1]}/?option-file=none"
        with subprocess.Popen(
            [sys.executable, "-m", module, "doctor", url], stderr=subprocess.DEVNULL
        ) as run:
            try:
                client, _ = server.accept()
                shown = Path(f"/proc/{run.pid}/cmdline").read_bytes()
                client.close()
            finally:
                run.kill()
    assert b"mysql://ada:xxxxxx@" in shown


def test_other_arguments_stay() -> None:
    arguments = [
        "tail",
        "--password-file",
        "/etc/key",
        "mysql://ada@db1/?password-file=/etc/key",
        "--table",
        "a.token",
    ]
    run = subprocess.run(
        [sys.executable, "-c", LOOK, *arguments], capture_output=True, text=True, check=True
    )
    assert " ".join(arguments) in run.stdout
