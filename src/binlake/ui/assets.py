"""The files of the page: its scripts and styles, which are part of the package.

`static/README.md` names the plotting library, its version and the digests of its files.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

#: In the order in which the page loads them.
STYLES = ("uPlot.min.css", "page.css")
SCRIPTS = (
    "uPlot.iife.min.js",
    "format.js",
    "dom.js",
    "state.js",
    "source.js",
    "timeline.js",
    "overview.js",
    "transactions.js",
    "rows.js",
    "code.js",
    "page.js",
)
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def index_page() -> str:
    """Return the page that loads its scripts and styles from the server."""
    styles = "".join(f'<link rel="stylesheet" href="/static/{name}">\n' for name in STYLES)
    scripts = "".join(f'<script src="/static/{name}" defer></script>\n' for name in SCRIPTS)
    page = static_text("page.html")
    icon = '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">\n'
    return page.replace("<!-- head -->\n", icon + styles + scripts)


def static_file(name: str) -> tuple[bytes, str] | None:
    """Return a file of the page and its media type; None if the page has no such file."""
    if name not in (*STYLES, *SCRIPTS, "icon.svg"):
        return None
    return static_text(name).encode(), _KINDS[name[name.rindex(".") :]]


@cache
def static_text(name: str) -> str:
    """Return the text of a file."""
    return (files("binlake.ui") / "static" / name).read_text(encoding="utf-8")
