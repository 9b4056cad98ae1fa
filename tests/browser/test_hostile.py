"""Names, statements and values of an attacker are text on the page, and nothing else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")

from playwright.sync_api import Page, expect

from binlake.cli.main import main
from binlake.source.resolve import resolve
from binlake.ui.opened_logs import LogSession
from binlake.ui.server import PageServer
from binlake.values.options import ReadOptions
from support.logs.hostile_log import MYSQL, named

EVIL = "<img src=x onerror=owned=1><script>owned=1</script>\"'`&<b0rk>"
#: What the page must not have, whatever the log contains.
_FOREIGN = "document.querySelectorAll('img,b0rk,main script,iframe,[onerror],[onclick]').length"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(named(MYSQL, EVIL))
    return path


def check(page: Page) -> None:
    page.wait_for_selector("main:not([aria-busy])")
    assert page.evaluate(_FOREIGN) == 0
    assert page.evaluate("window.owned") is None
    assert page.evaluate("Object.getPrototypeOf({}).owned") is None


def test_every_view_of_a_hostile_log(open_page: Any, log: Path) -> None:
    files = [str(log)]
    with closing(PageServer(LogSession(resolve(files), ReadOptions(), files), 0)) as server:
        server.start()
        page = open_page(server.url)
        check(page)
        assert EVIL[:30] in page.locator("main").inner_text()
        for place in ("#transactions", "#changes", "#changes?where=%3Cb0rk%3E", "#history?table=%3Cb0rk%3E.x&key=%3Cb0rk%3E", "#transaction?at=%3Cb0rk%3E", "#%3Cb0rk%3E?since=%3Cb0rk%3E&order=__proto__&measure=constructor&by=%3Cb0rk%3E"):  # fmt: skip
            page.evaluate("place => { location.hash = place }", place)
            check(page)
        page.evaluate("location.hash = '#transactions'")
        page.locator("main tbody tr a").first.click()
        check(page)
        page.keyboard.press("c")
        for kind in ("Python", "Spark", "Undo SQL"):
            page.locator("#code").get_by_role("button", name=kind).click()
            check(page)


def test_the_page_in_a_file(
    open_page: Any, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.html"
    assert main(["stats", str(log), "--html", str(target)]) == 0
    page = open_page(target.as_uri())
    check(page)
    assert EVIL[:30] in page.locator("main").inner_text()


def test_the_file_zooms_and_needs_no_server(open_page: Any, tmp_path: Path) -> None:
    demo = Path(__file__).resolve().parents[2] / "demo" / "mysql-9.7"
    target = tmp_path / "page.html"
    assert main(["stats", str(demo), "--html", str(target)]) == 0
    page = open_page(target.as_uri(), width=390)
    lead = page.locator(".lead")
    expect(lead).to_contain_text("2,771 row changes in 572 transactions")
    page.get_by_role("button", name="Zoom in").click()
    expect(lead).not_to_contain_text("572 transactions")
    page.get_by_role("button", name="Show all of the log").click()
    expect(lead).to_contain_text("572 transactions")
    page.get_by_role("region", name="Tables").get_by_role("link", name="shop.orders").click()
    expect(lead).to_contain_text("687 row changes")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.get_by_role("button", name="Code")).to_have_count(0)
