"""The group [client] of an option file (~/.my.cnf): the settings of the servers' clients.

Also ~/.mylogin.cnf, which mysql_config_editor writes: the same, obscured with a key in the file.
Its layout is 4 unused bytes, 20 bytes from which the key is folded, then pieces: a length (int32),
and that many bytes in AES-128-ECB, padded as PKCS #7.

Format: https://dev.mysql.com/doc/refman/8.4/en/option-files.html. This module reads groups, `name=value`,
`name`, quotes, escapes, comments and `!include`. PyMySQL's parser is Python's `configparser`. It fails on `!include`, on a group that occurs twice and
on lines before the first group; it keeps escapes, and a comment behind a quoted value.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from binlake.errors import OptionError

_GROUP = re.compile(r"\[(?P<name>[^\]]+)\]")
_GROUPS = ("client", "binlake")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " ", '"': '"', "'": "'"}
_MAX_FILE = 1 << 20
_MAX_INCLUDES = 10  # nested, as the servers' clients allow
_MAX_FILES = 100
_LOGIN_HEAD_BYTES = 24


def client_options(
    path: str, extra: str = "", suffix: str = "", login_path: str = ""
) -> dict[str, str]:
    """The options of [client] and [binlake] in a file, and in `extra` behind it; later lines win,
    `_` is `-`. With `suffix` also those of [client<suffix>], [binlake<suffix>]; with `login_path`,
    last, those of [client] and of that group in ~/.mylogin.cnf (or $MYSQL_TEST_LOGIN_FILE).

    "" means ~/.my.cnf, which need not be there; "none" means no file. Raises OptionError for a
    named file that cannot be read.
    """
    files = _Files((*_GROUPS, *(f"{group}{suffix.lower()}" for group in _GROUPS)))
    if path.lower() != "none":
        files.read(_path(path or "~/.my.cnf"), required=bool(path))
    if extra:
        files.read(_path(extra), required=True)
    return files.options | (_login_options(login_path) if login_path else {})


def _login_options(name: str) -> dict[str, str]:
    path = _path(os.environ.get("MYSQL_TEST_LOGIN_FILE", "~/.mylogin.cnf"))
    try:
        with path.open("rb") as file:
            text = _revealed(file.read(_MAX_FILE))
    except OSError as error:
        raise OptionError(
            f"cannot read {path}: {error.strerror}",
            name="login_path",
            hint=f"mysql_config_editor set --login-path={name} … makes it",
        ) from None
    except ValueError:
        raise OptionError(
            f"{path} is not a file of mysql_config_editor", name="login_path"
        ) from None
    if f"[{name.lower()}]" not in (line.strip().lower() for line in text.splitlines()):
        raise OptionError(f"{path} has no login path {name}", name="login_path", value=name)
    login = _Files(("client", name.lower()))
    login.take(text, depth=_MAX_INCLUDES)
    return login.options


def _revealed(data: bytes) -> str:
    """Return the text of such a file. Raises ValueError."""
    from binlake.source.aes import Aes

    head, at = _LOGIN_HEAD_BYTES, 4
    if len(data) < head:
        raise ValueError("too short")
    key = bytearray(16)
    for index, byte in enumerate(data[at:head]):
        key[index % 16] ^= byte
    aes, text, at = Aes(bytes(key)), bytearray(), head
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        piece = data[at + 4 : at + 4 + size]
        if not size or size % 16 or len(piece) != size:
            raise ValueError("a piece is cut")
        text += aes.unpadded(aes.decrypt_blocks(piece))
        at += 4 + size
    return text.decode("utf-8", "surrogateescape")


def _path(text: str) -> Path:
    """Return a user's path; `~name` of an unknown user stays unchanged."""
    if "\0" in text:  # which expanduser does not take; opening such a path is an ordinary error
        return Path(text)
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path.expanduser raises RuntimeError


class _Files:
    """The options of some groups in files, and in those that they include."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        self.options: dict[str, str] = {}
        self._groups = groups
        self._left = _MAX_FILES

    def read(self, path: Path, *, required: bool, depth: int = 0) -> None:
        """Read the options of a file. Raises OptionError."""
        self._left -= 1
        if self._left < 0:
            raise OptionError(
                f"{path}: more than {_MAX_FILES} files are included", name="option_file"
            )
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                data = file.read(_MAX_FILE + 1)
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            if required:
                reason = getattr(error, "strerror", None) or str(error)
                raise OptionError(
                    f"cannot read the options file {path}: {reason}", name="option_file"
                ) from None
            return
        if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
            # anyone could name another server in it; the servers' clients ignore such a file
            raise OptionError(
                f"everybody can write the options file {path}: refused",
                name="option_file",
                hint=f"chmod o-w {path}",
            )
        if len(data) > _MAX_FILE:  # its end may ask for a verified connection
            raise OptionError(
                f"the options file {path} has more than {_MAX_FILE >> 20} MB: refused",
                name="option_file",
            )
        self.take(data.decode("utf-8", "surrogateescape"), depth=depth)

    def take(self, text: str, *, depth: int) -> None:
        """Read the options in the text of a file."""
        group = ""
        # a password may contain what else `splitlines` takes for an end
        for raw in text.split("\n"):
            line = raw.strip()
            if line.startswith("!include ") and depth < _MAX_INCLUDES:
                inner = _path(line.partition(" ")[2].strip())
                self.read(inner, required=False, depth=depth + 1)
                continue
            if not line or line[0] in "#;!":
                continue
            if match := _GROUP.match(line):
                group = match["name"].strip().lower()
            elif group in self._groups:
                name, _, value = line.partition("=")
                self.options[name.strip().lower().replace("_", "-")] = _value(value)


def _value(text: str) -> str:
    text = text.strip()
    if text[:1] in ("'", '"') and (end := text.rfind(text[0])) > 0:
        text = text[1:end]
    else:
        text = re.sub(r"(?<!\s)\s+#.*", "", text)  # a comment may follow a value
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)
