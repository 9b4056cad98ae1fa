"""Find the password of a connection, without showing it to anyone.

The sources, in this order, are the URL, a password file, the environment variable BINLAKE_PASSWORD
(then the servers' own, MYSQL_PWD), and the group [client] of the option file (~/.my.cnf). If the
server refuses a login without a password, binlake asks on the terminal.

A password that was in a URL or was typed is remembered for the process: the URL's text travels
through chains, plans and messages, and the password must not.
"""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import NamedTuple

from binlake.errors import OptionError

_MAX_PASSWORD_FILE = 64 << 10
_ENVIRONMENT = ("BINLAKE_PASSWORD", "MYSQL_PWD")


class Account(NamedTuple):
    """The account to which a password belongs."""

    user: str
    host: str
    port: int
    unix_socket: str


class Secret:
    """A text that does not show itself, is not pickled, and is only available by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret stays in its process")


# The one memory of a process for passwords; an account means the same everywhere in it.
_remembered: dict[Account, Secret] = {}


def remember(account: Account, password: str) -> None:
    """Keep the password of an account for later connections of this process."""
    _remembered[account] = Secret(password)


def given_password(
    account: Account, password_file: str, from_option_file: str | None
) -> Secret | None:
    """Return the password of an account without asking the user; None if there is none.

    `from_option_file` is the value in the option file. Raises OptionError for a password file that
    cannot be read.
    """
    known = _remembered.get(account)
    if known is not None:
        return known
    if password_file:
        return Secret(password_of_file(password_file))
    for name in _ENVIRONMENT:
        if name in os.environ:
            return Secret(os.environ[name])
    return None if from_option_file is None else Secret(from_option_file)


def is_of_this_process(account: Account, password_file: str) -> bool:
    """Whether the password of an account may be unknown to other processes of this machine: it was typed, in a URL,
    or in the environment.
    """
    if account in _remembered:
        return True
    return not password_file and any(name in os.environ for name in _ENVIRONMENT)


def ask(account: Account, where: str) -> Secret | None:
    """Ask for the password on the terminal and remember it; return None if there is no terminal."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    typed = getpass.getpass(f"Password of {account.user or getpass.getuser()} at {where}: ")
    remember(account, typed)
    return _remembered[account]


def password_of_file(path: str) -> str:
    """Return the first line of a password file. Raises OptionError."""
    try:
        with Path(path).open("rb") as file:
            line = file.read(_MAX_PASSWORD_FILE).partition(b"\n")[0]
        return line.rstrip(b"\r").decode()
    except OSError as error:
        raise OptionError(
            f"cannot read the password file {path}: {error.strerror}", name="password_file"
        ) from None
    except UnicodeDecodeError:
        raise OptionError(f"the password file {path} is not UTF-8", name="password_file") from None
