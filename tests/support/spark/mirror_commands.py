"""`binlake mirror` as users run it, with the words that describe a lake in a catalog."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

from support.spark.spark_processes import environment

__all__ = ["MirrorCommands", "settings_as_words"]

PATIENCE_S = 800


def settings_as_words(settings: Mapping[str, str]) -> list[str]:
    """Settings of Spark as options."""
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


class MirrorCommands:
    """Commands on one lake. `lake`: the lake and its options; `variables`: of the environment.

    `messages` is the stderr of the last command.
    """

    def __init__(
        self,
        lake: Sequence[str],
        settings: Mapping[str, str],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._lake = [*lake, *settings_as_words(settings)]
        self._variables = dict(variables or {})
        self.messages = ""

    def mirror(self, url: str, *words: str) -> str:
        """Mirror a server."""
        return self._run(url, *self._lake, *words)

    def of_lake(self, name: str, *words: str) -> str:
        """Run a command that takes the lake alone."""
        return self._run(name, *self._lake, *words)

    def _run(self, *words: str) -> str:
        """The stdout of a command."""
        done = subprocess.run(
            [sys.executable, "-m", "binlake_program", "mirror", *words],
            env=environment(**self._variables), capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
        self.messages = done.stderr
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout
