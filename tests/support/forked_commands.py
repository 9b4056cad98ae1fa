"""Commands in processes of their own, which begin as copies of one process that has imported them.

The imports are most of what a short command does.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["run_binlake"]

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        # a child imports the main module, which is that of pytest
        *("pytest", "binlake.cli.main", "binlake.cli.archive", "binlake.cli.schema"),
        *("binlake.cli.history.command", "binlake.cli.sql.command", "binlake.cli.state.command"),
        *("binlake.archive.archiver", "binlake.source.replica.driver", "binlake.api", "pyarrow"),
    ]
)


def run_binlake(
    *argv: str | Path, timeout_s: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `binlake`. Raises subprocess.TimeoutExpired after `timeout_s`."""
    words = list(map(str, argv))
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = _FORKS.Process(target=_command, args=(words, dict(os.environ), out, err))
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, timeout_s or 0.0, out.read_bytes())
        assert process.exitcode is not None
        return subprocess.CompletedProcess(
            words, process.exitcode, out.read_bytes(), err.read_bytes()
        )


def _command(argv: list[str], environment: dict[str, str], out: Path, err: Path) -> None:
    """Do as `python -m binlake.cli.main`, with standard output and standard error in files."""
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for path, number in ((out, 1), (err, 2)):
        with path.open("wb") as opened:
            os.dup2(opened.fileno(), number)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False))
    sys.stderr = io.TextIOWrapper(
        os.fdopen(2, "wb", closefd=False), errors="backslashreplace", line_buffering=True
    )
    from binlake.cli.main import main

    sys.exit(main(argv))
