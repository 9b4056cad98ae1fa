"""Check that Spark's tasks can log in to the server, before a mirror begins.

Passwords are not sent between processes: each process finds its own. One that was typed, or put into the environment
after Spark had started, is known to this process only.
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.errors import AuthError, OptionError
from binlake.lake.engine import Engine, Task
from binlake.snapshot.read_session import open_session
from binlake.source.replica.passwords import is_of_this_process
from binlake.source.replica.url import ServerUrl


@dataclass
class _Login(Task):
    url: str

    def run(self) -> str:
        with open_session(self.url):
            return ""


def check_task_login(engine: Engine, url: str) -> None:
    """Log in from a task, unless it finds the same password as this process for certain.

    Raises OptionError if the server refuses the task and not this process, ServerError if it refuses both.
    """
    parsed = ServerUrl.parse(url)
    if engine.is_here and not is_of_this_process(parsed.account, parsed.option("password-file")):
        return
    with open_session(url):
        pass
    try:
        engine.run([_Login(url)], "log in", lambda _done, _all: None)
    except AuthError as error:
        raise OptionError(
            f"Spark's tasks cannot log in to the server, but this process can: {error.message}",
            name="url",
            hint="set BINLAKE_PASSWORD before Spark starts, or put the password into a password file or ~/.my.cnf, on "
            "every machine of the cluster",
        ) from None
