"""The documentation site as `make docs` builds it, in a real browser: wide and narrow, light and dark, and its search."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpensPage

_ROOT = Path(__file__).resolve().parents[2]
_HEADING = "article h1"
_WIDTHS = {"phone": 360, "desktop": 1280}
_OVERHANG_PX = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_BACKGROUND = "getComputedStyle(document.body).backgroundColor"


class _Handler(SimpleHTTPRequestHandler):
    """Serves files, and writes no line for each of them."""

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, as `make docs` builds it."""
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--doctree-dir", str(built / "doctrees")]
    subprocess.run([*command, "docs", str(built / "site")], cwd=_ROOT, check=True)
    return built / "site"


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """The address of the site: the search of a page that is a file cannot read the other pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("width", _WIDTHS.values(), ids=_WIDTHS)
def test_no_page_is_wider_than_the_screen(
    folder: Path, site: str, open_page: OpensPage, width: int
) -> None:
    page = open_page(f"{site}/index.html", width=width, ready=_HEADING)
    wide = {}
    pages = sorted(str(one.relative_to(folder)) for one in folder.rglob("*.html"))
    for one in pages:
        page.goto(f"{site}/{one}")
        if overhang_px := page.evaluate(_OVERHANG_PX):
            wide[one] = overhang_px
    assert len(pages) > 40
    assert wide == {}


def test_the_menu_opens_on_a_phone(site: str, open_page: OpensPage) -> None:
    page = open_page(f"{site}/start.html", width=_WIDTHS["phone"], ready=_HEADING)
    link = page.locator(".sidebar-tree").get_by_role("link", name="Undo", exact=False).first
    expect(link).not_to_be_in_viewport()
    page.locator("label.nav-overlay-icon").first.click()
    expect(link).to_be_in_viewport()


def test_the_search_finds_a_setting(site: str, open_page: OpensPage) -> None:
    page = open_page(f"{site}/index.html", ready=_HEADING)
    page.get_by_placeholder("Search").fill("binlog_row_image")
    page.keyboard.press("Enter")
    results = page.locator("#search-results li a")
    expect(results.filter(has_text=re.compile("row changes by their values")).first).to_be_visible()
    expect(
        results.filter(has_text=re.compile("[Mm]irror")).first
    ).to_be_visible()  # they come one by one


def test_dark_mode_follows_the_system_and_the_button(site: str, open_page: OpensPage) -> None:
    backgrounds = {
        scheme: _background(open_page(f"{site}/start.html", ready=_HEADING, color_scheme=scheme))
        for scheme in ("light", "dark")
    }
    assert backgrounds["light"] > 200 > 60 > backgrounds["dark"]
    page = open_page(f"{site}/start.html", ready=_HEADING, color_scheme="light")
    for _ in range(3):  # the system's, light, dark, in an order that depends on the system
        page.locator("button.theme-toggle:visible").first.click()
        if _background(page) < 60:
            return
    raise AssertionError("the button does not choose the dark mode")


def _background(page: Page) -> float:
    """How light the background is, from 0 to 255."""
    parts = re.findall(r"\d+", page.evaluate(_BACKGROUND))[:3]
    return sum(map(int, parts)) / 3
