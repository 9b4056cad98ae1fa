"""The group [client] of an options file (~/.my.cnf): what people have already told their clients.

Format: https://dev.mysql.com/doc/refman/8.4/en/option-files.html. Of it: groups, `name=value`,
`name`, quotes, escapes, comments and `!include`.
"""

from __future__ import annotations

import re
from pathlib import Path

from binlake.errors import OptionError

__all__ = ["client_options"]

_GROUP = re.compile(r"\[(?P<name>[^\]]+)\]")
_GROUPS = ("client", "binlake")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " ", '"': '"', "'": "'"}
_MAX_FILE = 1 << 20
_MAX_INCLUDES = 10


def client_options(path: str, extra: str = "", suffix: str = "") -> dict[str, str]:
    """The options of [client] and [binlake] in a file, and in `extra` behind it; later lines win,
    `_` is `-`. With `suffix` also those of [client<suffix>], [binlake<suffix>].

    "" means ~/.my.cnf, which need not be there; "none" means no file. Raises OptionError for a
    named file that cannot be read.
    """
    groups = (*_GROUPS, *(f"{group}{suffix.lower()}" for group in _GROUPS))
    options: dict[str, str] = {}
    if path.lower() != "none":
        _read(Path(path or "~/.my.cnf").expanduser(), groups, options, required=bool(path), depth=0)
    if extra:
        _read(Path(extra).expanduser(), groups, options, required=True, depth=0)
    return options


def _read(
    path: Path, groups: tuple[str, ...], options: dict[str, str], *, required: bool, depth: int
) -> None:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE).decode("utf-8", "surrogateescape")
    except OSError as error:
        if required:
            raise OptionError(
                f"cannot read the options file {path}: {error.strerror}", name="option_file"
            ) from None
        return
    group = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("!include ") and depth < _MAX_INCLUDES:
            inner = Path(line.partition(" ")[2].strip()).expanduser()
            _read(inner, groups, options, required=False, depth=depth + 1)
            continue
        if not line or line[0] in "#;!":
            continue
        if match := _GROUP.match(line):
            group = match["name"].strip().lower()
        elif group in groups:
            name, _, value = line.partition("=")
            options[name.strip().lower().replace("_", "-")] = _value(value)


def _value(text: str) -> str:
    text = text.strip()
    if text[:1] in ("'", '"') and (end := text.rfind(text[0])) > 0:
        text = text[1:end]
    else:
        text = re.sub(r"\s+#.*", "", text)  # a comment may follow a value
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)
