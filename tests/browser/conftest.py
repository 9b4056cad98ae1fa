"""A real Chromium, and pages of `binlake ui` and of the documentation in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from binlake.source.resolve import resolve
from binlake.ui.opened_logs import LogSession
from binlake.ui.server import PageServer
from binlake.values.options import ReadOptions
from conftest import missing

#: Nothing of the browser itself uses the network.
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
          "--disable-sync", "--no-first-run"]  # fmt: skip

OpensPage = Callable[..., Page]

#: A page of `binlake ui` that shows its answer.
_ANSWERED = "main:not([aria-busy]) >> css=h2, main p.lead"

#: A deadline only: other tests run beside these.
_PATIENCE_MS = 120_000
expect.set_options(timeout=_PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        missing("chromium is not installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=_FLAGS, timeout=_PATIENCE_MS
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def demo_url() -> Iterator[str]:
    """The address of a page with the demo logs."""
    files = [str(Path(__file__).resolve().parents[2] / "demo" / "mysql-9.7")]
    with closing(PageServer(LogSession(resolve(files), ReadOptions(), files), 0)) as server:
        server.start()
        yield server.url


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpensPage]:
    """Opens an address: `open_page(url, width=390)`, and waits until there is an element that matches `ready`. A script that
    fails, or a request to elsewhere, fails the test.
    """
    problems: list[str] = []
    with ExitStack() as stack:

        def open_it(url: str, width: int = 1400, ready: str = _ANSWERED, **options: Any) -> Page:
            context = browser.new_context(viewport={"width": width, "height": 900}, **options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(_PATIENCE_MS)
            page.on("pageerror", lambda error: problems.append(f"{error} {error.stack}"))
            page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
            page.on("console", lambda message: problems.extend(_complaint(message)))
            page.on("request", lambda request: problems.extend(_elsewhere(request.url)))
            page.goto(url)
            page.wait_for_selector(ready)
            return page

        yield open_it
    assert problems == []


def _complaint(message: ConsoleMessage) -> list[str]:
    """Messages of the browser about problems, such as a script that the policy forbids; errors of requests are answers."""
    is_answer = message.text.startswith("Failed to load resource")
    return [message.text] if message.type == "error" and not is_answer else []


def _elsewhere(url: str) -> list[str]:
    here = url.startswith(("http://127.0.0.1:", "file:", "blob:", "data:"))
    return [] if here else [f"request of {url}"]
