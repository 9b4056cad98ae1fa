"""Commands of `binlake` in one process, so that its JVM starts once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from support.pages import Done
from support.spark.mirrored import format_jars
from support.spark.spark_processes import PATIENT, environment

__all__ = ["CommandProcess"]

_PROGRAM = """
import contextlib, io, json, sys
from binlake.cli.main import main

answers = sys.stdout
for line in sys.stdin:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(json.loads(line))
        out.flush(), err.flush()
    texts = [one.buffer.getvalue().decode() for one in (out, err)]
    print(json.dumps([code, *texts]), file=answers, flush=True)
"""


class CommandProcess:
    """Runs `binlake mirror` with sessions of their own, which have the jars of Iceberg and Delta.

    A mirror that would run until Ctrl-C gets the option `--once`. `variables`: of the environment.
    """

    def __init__(self, folder: Path, **variables: str) -> None:
        self._log = (folder / "commands.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], env=environment(**variables), cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        settings = {
            **PATIENT,
            "spark.jars": ",".join(format_jars()),
            "spark.driver.extraClassPath": ":".join(format_jars()),
            "spark.sql.shuffle.partitions": "1",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
        self._spark = ["--master", "local[2]"]
        for name, value in settings.items():
            self._spark += ["--conf", f"{name}={value}"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._log.close()

    def mirror(self, words: Sequence[str]) -> Done:
        """Run `binlake mirror` with these arguments."""
        follows = words[0] == "--config" or words[0].startswith("mysql://")
        once = ["--once"] if follows and "--once" not in words else []
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(
            json.dumps(["mirror", *words, *once, *self._spark]),
            file=self._process.stdin, flush=True,
        )  # fmt: skip
        answer = self._process.stdout.readline()
        assert answer, Path(self._log.name).read_text()
        return Done(*json.loads(answer))
