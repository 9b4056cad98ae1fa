"""The page of `binlake ui` in Chromium: what a person sees and does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")

from playwright.sync_api import Page, expect

import binlake

DEMO = Path(__file__).resolve().parents[2] / "demo" / "mysql-9.7"


def state(page: Page) -> str:
    return page.url.partition("#")[2]


def test_the_first_view_summarises_the_logs(open_page: Any, demo_url: str) -> None:
    page = open_page(demo_url)
    expect(page.locator(".lead")).to_have_text(
        re.compile(r"2,771 row changes in 572 transactions within 177 ms\. Most are in shop\.products \(36 %\)")
    )  # fmt: skip
    expect(page.locator("h1")).to_have_text("binlog.000001 to binlog.000002")
    assert "token" not in page.url
    rows = page.get_by_role("region", name="Tables").locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(page.locator(".plot canvas")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('.u-over').length") == 1


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_no_view_is_wider_than_the_window(open_page: Any, demo_url: str, width: int) -> None:
    page = open_page(demo_url, width=width)
    for place in ("#overview", "#transactions", "#transaction?at=binlog.000001:237129", "#changes?where=changed(state)", "#history?table=shop.orders&key=26"):  # fmt: skip
        page.evaluate("place => { location.hash = place }", place)
        page.wait_for_selector("main:not([aria-busy])")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_timeline_zooms_by_pointer_and_keyboard(open_page: Any, demo_url: str) -> None:
    page = open_page(demo_url)
    box = page.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    expect(page.locator(".readout")).to_have_text(
        re.compile(r"^2026-11-21 10:31:09\.\d{3} UTC: \d+")
    )
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"since=\d{16}&until=\d{16}"))
    expect(page.locator(".lead")).not_to_have_text(re.compile("572 transactions"))
    zoomed = state(page)
    drawn = page.locator("main:not([aria-busy]) .timeline")  # keys wait for what is being loaded
    drawn.press("ArrowRight")
    expect(page).not_to_have_url(re.compile(re.escape(zoomed)))
    expect(page.locator(".lead")).not_to_have_text(re.compile("572 transactions"))
    drawn.press("0")
    expect(page.locator(".lead")).to_have_text(re.compile("572 transactions"))
    page.go_back()
    page.go_back()
    expect(page).to_have_url(re.compile(re.escape(zoomed)))
    page.get_by_role("button", name="Zoom in").click()
    expect(page).not_to_have_url(re.compile(re.escape(zoomed)))


def test_a_span_has_no_empty_time_around_it(open_page: Any, demo_url: str) -> None:
    """Outside of it something happened, so bars of nothing would be wrong."""
    page = open_page(demo_url + "#overview?since=1795257069250000&until=1795257069320000")
    label = page.locator(".timeline").get_attribute("aria-label")
    assert "from 2026-11-21 10:31:09.250 to 2026-11-21 10:31:09.320 UTC" in label


def test_a_table_is_shown_alone(open_page: Any, demo_url: str) -> None:
    page = open_page(demo_url)
    page.get_by_role("region", name="Tables").get_by_role("link", name="shop.orders").click()
    expect(page.locator(".lead")).to_have_text(re.compile("^687 row changes"))
    page.get_by_role("link", name="Transactions").click()
    assert "table=shop.orders" in state(page)
    expect(page.locator("main tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    page.get_by_role("link", name="Show everything").click()
    expect(page).not_to_have_url(re.compile("table="))


def test_from_a_search_to_the_undo_with_the_keyboard(open_page: Any, demo_url: str) -> None:
    """3 is the search; a row leads to its transaction and its history; c is the code."""
    page = open_page(demo_url)
    page.keyboard.press("3")
    page.wait_for_selector("#where")
    page.keyboard.press("/")
    page.keyboard.type("id = 26 AND after.state = 'paid'")
    page.keyboard.press("Enter")
    card = page.locator("article.change").first
    expect(card).to_contain_text("shop.orders")
    expect(card.locator("td.old")).to_have_text(["new"])
    expect(card.locator("td.new").first).to_have_text("paid")
    card.get_by_role("link", name=re.compile("binlog")).click()
    expect(page.locator(".facts")).to_contain_text("shop.orders")
    page.keyboard.press("c")
    page.locator("#code").get_by_role("button", name="Undo SQL").click()
    expect(page.locator(".program")).to_contain_text("UPDATE `shop`.`orders`")
    page.keyboard.press("Escape")
    expect(page.locator("#code")).not_to_be_visible()
    page.locator("article.change").get_by_role("link", name="id = 26").click()
    expect(page.locator("main")).to_contain_text("5 changes.")
    expect(page.locator(".history > li")).to_have_count(6)
    page.locator(".history > li").last.get_by_role("button", name="Undo from here").click()
    expect(page.locator(".program")).to_contain_text("INSERT INTO `shop`.`orders`")


def test_a_link_shows_the_same_again(open_page: Any, demo_url: str) -> None:
    page = open_page(demo_url + "#changes?where=total+%3E+500&op=insert&table=shop.orders")
    expected = binlake.open(DEMO, where="total > 500", op="insert", table="shop.orders")
    assert page.locator("#where").input_value() == "total > 500"
    expect(page.locator("article.change")).to_have_count(min(50, expected.to_arrow().num_rows))


def test_an_error_appears_beside_its_field(open_page: Any, demo_url: str) -> None:
    page = open_page(demo_url + "#changes?table=shop.orders")
    page.locator("#since").fill("yesterday-ish")
    page.get_by_role("button", name="Apply").click()
    assert "Expected a time like" in page.evaluate(
        "document.getElementById('since').validationMessage"
    )
    page.locator("#since").fill("2026-11-21 10:31:09.3")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("since=1795257069300000"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(open_page: Any, demo_url: str, scheme: str) -> None:
    page = open_page(demo_url, color_scheme=scheme)
    ratios = page.evaluate(_CONTRASTS)
    assert len(ratios) > 20
    assert {text: ratio for text, ratio in ratios if ratio < 4.5} == {}


_CONTRASTS = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("h1,h2,p,a,button,td,th,dt,dd,label,code")]
    .filter((e) => e.textContent.trim() && e.getClientRects().length && !e.closest(".hidden,.skip"))
    .map((e) => {
      const pair = [light(getComputedStyle(e).color), light(back(e))].sort((a, b) => b - a);
      return [e.tagName + " " + e.textContent.trim().slice(0, 40), (pair[0] + 0.05) / (pair[1] + 0.05)];
    });
}"""


def test_everything_that_acts_has_a_name(open_page: Any, demo_url: str) -> None:
    page = open_page(demo_url)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a,button,input,select,[tabindex='0']")]
        .filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels || []).length))
        .map((e) => e.outerHTML)"""
    )
    assert nameless == []


def test_a_restarted_server_is_reported(open_page: Any, demo_url: str) -> None:
    page = open_page(demo_url)
    page.context.clear_cookies()
    failures: list[str] = []
    page.on("console", lambda message: failures.append(message.text))
    page.evaluate("location.hash = '#history?table=shop.orders&key=1'")
    page.context.add_cookies([])
    expect(page.locator("[role=alert]")).to_have_text(re.compile("was started again"))
