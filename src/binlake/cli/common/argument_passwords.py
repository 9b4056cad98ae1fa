"""Take passwords and keys on a command line out of a message that may repeat arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from urllib.parse import unquote

from binlake.printable import printable
from binlake_passwords import FILE_NAME, SECRET_NAME

_NEXT_URL = re.compile(r",(?=\w+://)")
_SECRET_NAME = re.compile(SECRET_NAME, re.IGNORECASE)
# the name of a file with a password is no secret
_FILE_NAME = re.compile(FILE_NAME + "$", re.IGNORECASE)
# NAME= outside of a URL, also in a flag or behind other settings
_SETTING = re.compile(r"([\w.%-]{1,128})=")
_SEPARATOR = re.compile(r"[,;]")
# Each name and value in a query; a value may contain another question mark.
_URL_OPTION = re.compile(r"(?<=[?&])(?=(([^=&?]*)=([^&]+)))")


def without_passwords(message: str, arguments: Sequence[str]) -> str:
    """Return a message that may repeat arguments, without the passwords and keys in them: a URL may stand in the
    place of any other argument, and the value of an option in the argument behind it.
    """
    for value in _secrets_of_options(arguments):
        message = _without_value(message, value)
    for argument in arguments:
        for url in (argument, *_NEXT_URL.split(argument)):
            for secret in _secrets_of_url(url):
                shown = ":…@" if secret[0] == ":" and secret[-1] == "@" else "…"
                for printed in _as_printed(secret):
                    message = message.replace(printed, shown)
        message = _without_settings(message, argument)
    return message


def _without_settings(message: str, argument: str) -> str:
    """Hide the value of NAME=VALUE in an argument, with all that follows: a password may contain any character."""
    outside = argument.partition("://")[0]
    for setting in _SETTING.finditer(outside):
        name, value = setting[1], argument[setting.end() :]
        if not value or not _is_secret(name):
            continue
        for printed in _as_printed(f"{name}={value}"):
            message = message.replace(printed, f"{name}=…")
        for part in (value, _SEPARATOR.split(value)[0]):
            message = _without_value(message, part)
    return message


def _without_value(message: str, value: str) -> str:
    for printed in filter(None, _as_printed(value)):
        # a short value may also be a part of other words
        message = re.sub(rf"(?<!\w){re.escape(printed)}(?!\w)", "…", message)
    return message


def _is_secret(name: str) -> bool:
    """Whether the value of an option or setting is a secret, by its name, which may be percent-encoded."""
    name = unquote(name)
    return _SECRET_NAME.search(name) is not None and _FILE_NAME.search(name) is None


def _secrets_of_options(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the values of options whose names mean a secret: `--token VALUE`, and `-pVALUE` of mysqlbinlog."""
    for flag, value in pairwise(arguments):
        if flag.startswith("-") and "=" not in flag and _is_secret(flag):
            yield value
    if arguments[:1] == ["mysqlbinlog"]:
        yield from (one[2:] for one in arguments if one.startswith("-p") and len(one) > 2)


def _secrets_of_url(url: str) -> list[str]:
    """Return the parts of a URL that contain a password or key: `:password@`, `secret_key=…`, or more where it may be
    either.

    A password may contain any character, also the separators of URLs.
    """
    _, separator, rest = url.partition("://")
    if not separator:
        return []
    spans = [
        (option.start(1), option.end(3))
        for option in _URL_OPTION.finditer(rest)
        if _is_secret(option[2])
    ]
    colon, ends = rest.find(":"), (rest.partition("?")[0].rfind("@"), rest.rfind("@"))
    spans += [(colon, end + 1) for end in ends if 0 <= colon < end]
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    # a message may also have but one of those that overlap
    return [rest[start:end] for start, end in (*joined, *spans)]


def _as_printed(text: str) -> list[str]:
    """Return the forms that a text may have in a message, the longest first: as it is, escaped, or with other spaces."""
    # repr() escapes quotes only in a text with both kinds
    forms = {text, printable(text), repr(text)[1:-1], repr("'\"" + text)[4:-1]}
    forms |= {" ".join(form.split()) for form in forms}
    return sorted(forms, key=len, reverse=True)
