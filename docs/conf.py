"""Build of the documentation site with Sphinx: `make docs` writes it to build/site.

The pages are the Markdown files of this directory. A page loads nothing from other hosts when it
is viewed: the theme uses the fonts of the reader's system, and the search runs in the browser.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dev.docs.room_drawing import drawing  # noqa: E402 - Sphinx runs this file outside of the root

project = "binlake"
author = "the binlake contributors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
default_role = "code"  # docstrings write code in single backticks

highlight_language = "none"  # fences without a language are commands and results

myst_heading_anchors = 4  # the anchors of GitHub, so that links work there and on the site

html_theme = "furo"
html_title = f"binlake {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
suppress_warnings = ["misc.highlighting_failure"]  # JSON that is shortened with …
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_prompt_text = "$ "

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88

#: Files above docs/ that pages link to, and the pages of the site that include them.
_PAGES_ABOVE = {
    "../ARCHITECTURE.md": "project/architecture.md",
    "../CHANGELOG.md": "project/changelog.md",
    "../CONTRIBUTING.md": "project/contributing.md",
    "../SECURITY.md": "project/security.md",
    "../benchmarks/results/2026-11-26-decoders-archive-ask.md": "project/benchmark-decoding.md",
    "../benchmarks/results/2026-11-26-shapes-memory-python-spark.md": "project/benchmark-decoding.md",
    "../benchmarks/results/2026-11-26-large.md": "project/benchmark-decoding.md",
    "../benchmarks/results/2026-11-26-commands-start-spark-archive.md": "project/benchmark-decoding.md",
    "../benchmarks/results/2026-11-21-stream.md": "project/benchmark-stream.md",
    "../benchmarks/results/2026-11-29-mirror.md": "project/benchmark-mirror.md",
    "../benchmarks/results/2026-11-29-flat.md": "project/benchmark-mirror.md",
    "../benchmarks/results/2026-11-23-scale.md": "project/benchmark-scale.md",
}


def _link_to_pages(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Let links that leave docs/ lead to the page that includes the file."""
    if "/" not in docname:
        for above, page in _PAGES_ABOVE.items():
            source[0] = source[0].replace(f"]({above}", f"]({page}")


def _link_from_root(_app: Sphinx, _relative: Path, parent: str, content: list[str]) -> None:
    """Rewrite the links of an included file, which are relative to the root of the repository."""
    text = content[0].replace("](docs/", "](../")
    for above, page in _PAGES_ABOVE.items():
        text = text.replace(f"]({above.removeprefix('../')}", f"]({Path(page).name}")
    content[0] = text


class RoomDrawing(SphinxDirective):
    """`{room-drawing}`: the imports between the rooms, drawn from the source."""

    def run(self) -> list[nodes.Node]:
        """Return the drawing as HTML."""
        return [nodes.raw("", drawing(), format="html")]


def setup(app: Sphinx) -> None:
    """Register what this file adds to Sphinx."""
    app.add_directive("room-drawing", RoomDrawing)
    app.connect("source-read", _link_to_pages)
    app.connect("include-read", _link_from_root)
