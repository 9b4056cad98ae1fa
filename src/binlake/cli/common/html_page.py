"""The frame of HTML pages: one file that loads nothing and runs no script.

All texts of a log must be escaped; in addition, a policy in the page forbids scripts and loading.
"""

from __future__ import annotations

from html import escape

__all__ = ["html_page"]

_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1c2430;--soft:#5d6877;--line:#d9dee5;
--card:#f5f7f9;--inserts:#2a78b5;--updates:#e09c1f;--deletes:#c8443c;--bytes:#4b8b6a}
@media (prefers-color-scheme:dark){:root{--back:#14181e;--text:#e4e8ee;--soft:#97a2b0;
--line:#333c48;--card:#1d232b;--inserts:#5aa6e0;--updates:#eab54d;--deletes:#ea766e;--bytes:#74bb95}}
body{background:var(--back);color:var(--text);font:14px/1.45 system-ui,sans-serif;
max-width:1100px;margin:0 auto;padding:24px}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:32px 0 8px}p{color:var(--soft);margin:4px 0}
h2{break-after:avoid}tr{break-inside:avoid}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{padding:4px 10px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:normal}
code{font:12px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
"""


def html_page(title: str, style: str, body: str) -> str:
    """Return a page. `title` is text, `style` is added to the common one, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )
