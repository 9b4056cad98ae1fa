"""The page as one file with its data, as `binlake stats --html` writes it.

The file loads nothing. Its policy allows the scripts that binlake wrote into it, by their digests, and no
others.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from typing import Any

from binlake.ui.assets import SCRIPTS, STYLES, static_text
from binlake.ui.overview import Overview, document
from binlake.values.ledger import Ledger

#: Bars of the timeline: enough to zoom in a little.
_BARS = 1000


def frozen_page(overview: Overview, ledger: Ledger, names: Sequence[str]) -> str:
    """Return the page. `names` are the names of the logs."""
    found = document(overview, ledger, bars=_BARS)
    state = {
        "files": {"count": len(names), "first": names[0], "last": names[-1]},
        "ready": True,
        "error": None,
        "filters": [],
    }
    return _page({"state": state, "timeline": found.pop("timeline"), "summary": found})


def _page(data: dict[str, Any]) -> str:
    """Return the page of some data."""
    # in an element, only "<" could end it
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    scripts = [static_text(name) for name in SCRIPTS]
    styles = [static_text(name) for name in STYLES]
    policy = (
        f"default-src 'none'; script-src {_digests(scripts)}; style-src {_digests(styles)};"
        " base-uri 'none'; form-action 'none'"
    )
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        *(f"<style>{style}</style>" for style in styles),
    ]
    tail = [
        f'<script type="application/json" id="data">{text}</script>',
        *(f"<script>{script}</script>" for script in scripts),
    ]
    page = static_text("page.html").replace("<!-- head -->\n", "\n".join(head) + "\n")
    return page.replace("</body>", "\n".join(tail) + "\n</body>")


def _digests(texts: Sequence[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
