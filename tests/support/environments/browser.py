"""A real Chromium without a window, and a dashboard that it shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.support.environments.environment import PROGRAM, LocalEnvironment

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SECONDS = 300


@contextmanager
def chromium() -> Iterator[Browser]:
    """The Chromium of this machine; without one, tests are skipped."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium: install it (Debian: chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def dashboard(env: LocalEnvironment, *flags: str) -> Iterator[str]:
    """`espalier dashboard` as its users start it; its address."""
    command = [*PROGRAM, "dashboard", "--no-open", *flags]
    with (env.home / "dashboard.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=env.environment, cwd=env.home
        )
        assert process.stdout is not None
        try:
            match = re.search(r"http://\S+", process.stdout.readline())
            assert match is not None, (env.home / "dashboard.log").read_text()
            yield match[0]
        finally:
            process.terminate()
            assert process.wait(SECONDS) in (0, 130)
            process.stdout.close()


class Reader:
    """Somebody who looks at a dashboard. What goes wrong in the page is collected in `problems`."""

    def __init__(self, context: BrowserContext, address: str, enter: Callable[[Page], None] | None = None) -> None:
        """`enter` leads from what the address shows to the first page, where there is something between."""
        self.context = context
        self.problems: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("console", self._on_message)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self._on_request(request.url))
        self.origin = address.partition("/?")[0].rstrip("/")
        self.page.goto(address)
        if enter is not None:
            enter(self.page)
        self.page.wait_for_selector("#live.on")
        self.root = self.page.url

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _on_request(self, url: str) -> None:
        if not url.startswith(f"{self.origin}/"):
            self.problems.append(f"a request leaves: {url}")

    def look_at(self, path: str) -> Page:
        """Open a page of the dashboard."""
        self.page.goto(self.root.partition("?")[0] + path)
        self.page.wait_for_selector("#live.on")
        return self.page


@contextmanager
def reader(
    browser: Browser,
    address: str,
    *,
    width: int = 1280,
    scheme: str = "light",
    enter: Callable[[Page], None] | None = None,
) -> Iterator[Reader]:
    """A reader with a window of this width, in a theme, who accepts any certificate."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        ignore_https_errors=True,
    )
    context.set_default_timeout(SECONDS * 1000)
    try:
        yield Reader(context, address, enter)
    finally:
        context.close()


BEYOND = """(width) => [...document.querySelectorAll("main *")]
  .filter((element) => element.getBoundingClientRect().right > width + 1 && element.checkVisibility())
  .filter((element) => !element.closest(".unseen, pre")).map((element) => element.outerHTML.slice(0, 120))"""
"""The elements that reach beyond the window."""

WATCH_STATES = """() => {
  window.seen = new Set();
  new MutationObserver(() => {
    for (const state of document.querySelectorAll(".machines .state")) seen.add(state.textContent);
    if (document.querySelector("progress")) seen.add("a progress bar");
  }).observe(document.body, { subtree: true, childList: true });
}"""
"""Collect each state that a machine is shown in."""


def follow_rolling_upgrade(page: Page, begin: Callable[[], object], *, within: float) -> set[str]:
    """Begin a rolling upgrade of the cluster that a page shows, which has three machines, and look at it until all are
    replaced, without a reload. Returns the states of machines that were seen. `within`: milliseconds for each.
    """
    machines = page.locator(".machines tbody tr")
    expect(machines).to_have_count(3)
    before = set(page.locator(".machines td.name").all_text_contents())
    page.evaluate("window.same = true")
    page.evaluate(WATCH_STATES)
    begin()
    expect(page.locator(".head .title .state")).to_have_text("Upgrading", timeout=within)
    expect(page.locator(".plan pre")).to_contain_text("replaced", timeout=within)
    expect(page.locator(".head .title .state")).to_have_text("Ready", timeout=within)
    expect(machines).to_have_count(3, timeout=within)
    assert before.isdisjoint(page.locator(".machines td.name").all_text_contents())
    assert page.evaluate("window.same")
    return set(page.evaluate("[...seen]"))


def checks() -> str:
    """The checks of `tests/browser/accessibility.js`, which return what is wrong."""
    return (Path(__file__).parents[2] / "browser" / "accessibility.js").read_text()
