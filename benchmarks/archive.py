"""Copying a server's logs: `binlake archive` and `binlake mysqlbinlog --raw` against the server's tool.

The server that made the logs of the benchmark serves them again; all three copy its first log and
everything after it, about 1.5 GB, to the same disk.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dev.servers import Server, installation

if TYPE_CHECKING:
    from benchmarks.__main__ import Bench

__all__ = ["TOOL", "archive"]

TOOL = "mysqlbinlog --raw"
#: Every run begins with an empty directory, because an existing archive is only continued.
ANEW = """
import shutil, sys
from binlake.cli.main import main
shutil.rmtree(sys.argv[3], ignore_errors=True)
sys.exit(main(sys.argv[1:]))
"""


def archive(bench: Bench, server_name: str, scratch: Path) -> None:
    """Time the three, each into a new directory."""
    server = Server(installation(server_name), bench.folder)
    server.start()
    try:
        socket = server.run / "server.sock"
        url = f"mysql://root@{str(socket).replace('/', '%2F')}/"
        ours = [sys.executable, "-m", "binlake.cli.main"]
        raw = ["-R", "--raw", f"--socket={socket}", "--user=root", "--to-last-log", bench.log.name]
        for name, words in (
            (TOOL, [*server.kind.reader_command(), *raw, f"--result-file={scratch}/tool-"]),
            ("binlake " + TOOL, [*ours, "mysqlbinlog", *raw, f"--result-file={scratch}/ours-"]),
        ):
            bench.command(name, words, keep_output=False)
            for path in scratch.glob("*-binlog.*"):
                path.unlink()
        target = scratch / "archive"
        for name, more in (("archive", ["--no-index"]), ("archive, indexes", [])):
            words = [
                sys.executable,
                "-c",
                ANEW,
                "archive",
                url,
                str(target),
                "--until-current",
                *more,
            ]
            bench.command(name, words, keep_output=False)
        shutil.rmtree(target, ignore_errors=True)
    finally:
        server.stop()
