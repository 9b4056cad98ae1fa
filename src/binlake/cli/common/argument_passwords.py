"""Take the passwords of URLs on a command line out of a message that may repeat arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from binlake.printable import printable

__all__ = ["without_passwords"]

_NEXT_URL = re.compile(r",(?=\w+://)")
# Each name and value in a query; a value may contain another question mark.
_URL_OPTION = re.compile(r"(?<=[?&])(?=(([^=&?]*)=([^&]+)))")


def without_passwords(message: str, arguments: Sequence[str]) -> str:
    """Return a message that may repeat arguments, without the passwords of URLs in them: a URL may stand in the
    place of any other argument.
    """
    for argument in arguments:
        for url in (argument, *_NEXT_URL.split(argument)):
            for secret in _secrets(url):
                shown = ":…@" if secret[0] == ":" and secret[-1] == "@" else "…"
                for printed in _as_printed(secret):
                    message = message.replace(printed, shown)
    return message


def _secrets(url: str) -> list[str]:
    """Return the parts of a URL that contain a password: `:password@`, `password=…`, or more where it may be either.

    A password may contain any character, also the separators of URLs.
    """
    _, separator, rest = url.partition("://")
    if not separator:
        return []
    spans = [
        (option.start(1), option.end(3))
        for option in _URL_OPTION.finditer(rest)
        if "pass" in unquote(option[2]).lower()
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
