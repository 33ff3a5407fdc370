"""The dashboard in a real Chromium: what people see, follow and operate there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.kube.client import PatchType
from tests.support.environments import browser as browsers
from tests.support.environments.browser import BEYOND, Reader, checks, dashboard, follow_rolling_upgrade, reader
from tests.support.environments.environment import PROGRAM, LocalEnvironment, local_environment

pytestmark = [pytest.mark.browser, pytest.mark.embedded]

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
IN_PLACE = "upgradeRolloutStrategy:\n      type: InPlace"
VIEWS = ("", "clusters/default/garden", "clusters/default/orchard")
WIDTHS = (320, 768, 1280, 3840)
SLOW = 120_000
"""Milliseconds."""


def named(name: str) -> str:
    return EXAMPLE.replace("garden", name)


def change(env: LocalEnvironment, name: str, spec: Tree) -> None:
    """Merge a patch into the spec of a Cluster, in a thread without an event loop: playwright's runs in this one."""

    async def patch() -> None:
        async with connection.connect(flags.Connection(env.home / "kubeconfig")) as connected:
            resource = Cluster.resource
            await connected.client.patch(resource, name, "default", patch={"spec": spec}, type=PatchType.MERGE)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, patch()).result()


def create(env: LocalEnvironment, text: str) -> None:
    told = env.apply(text)
    assert told.code == 0, told.err


WATCH_STEPS = """() => {
  window.steps = new Set();
  new MutationObserver(() => {
    for (const list of document.querySelectorAll("ol.steps")) steps.add(list.ariaLabel);
  }).observe(document.body, { subtree: true, childList: true });
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browsers.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[LocalEnvironment]:
    """A garden that is ready, and an orchard that lacks its datacenter."""
    with local_environment(tmp_path_factory.mktemp("environment"), "--boot-seconds", "1") as running:
        create(running, named("garden"))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(running.send, named("orchard").split("---")[0]).result()
        yield running


@pytest.fixture(scope="module")
def address(env: LocalEnvironment) -> Iterator[str]:
    with dashboard(env) as address:
        yield address


@pytest.fixture
def look(chromium: Browser, address: str) -> Iterator[Reader]:
    with reader(chromium, address) as looking:
        yield looking
        assert looking.problems == []


def names(page: Page) -> list[str]:
    """The clusters that are shown, from top to bottom."""
    return page.locator("tbody#clusters tr:not([hidden]) td.name a").all_text_contents()


def test_fleet_is_shown_with_words_and_shapes(look: Reader) -> None:
    page = look.page
    row = page.locator("[id='c/default/garden']")
    expect(row.locator(".state")).to_have_text("Ready")
    expect(row.locator(".kubernetes")).to_contain_text("1.35")
    expect(page.locator("[id='c/default/orchard'] .state")).to_have_text("Failing", timeout=SLOW)
    shapes = {
        page.locator(f"[id='c/default/{name}'] td.health use").get_attribute("href") for name in ("garden", "orchard")
    }
    assert shapes == {"#i-ready", "#i-failing"}
    expect(page.locator("[id='c/default/orchard'] .message")).to_contain_text("MissingDependentObjects")


def test_token_is_in_no_address_and_no_script_sees_it(look: Reader) -> None:
    assert "token" not in look.page.url
    assert look.page.evaluate("document.cookie") == ""
    assert look.page.evaluate("document.referrer") == ""


def test_table_is_sorted_by_buttons_and_keys(look: Reader) -> None:
    page = look.page
    assert names(page) == ["garden", "laptop", "orchard"]
    head = page.locator("th.health")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert names(page)[0] == "orchard"
    head.get_by_role("button").press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    assert names(page)[-1] == "orchard"
    page.reload()
    expect(page.locator("th.health")).to_have_attribute("aria-sort", "descending")
    assert names(page)[-1] == "orchard"


def test_table_is_filtered_by_words_and_states(look: Reader) -> None:
    page = look.page
    page.keyboard.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("docker ORCH")
    expect(page.locator("#count")).to_have_text("1 of 3 clusters")
    assert names(page) == ["orchard"]
    page.keyboard.press("Escape")
    expect(page.locator("#count")).to_have_text("3 clusters")
    chip = page.locator("button.chip.ready")
    chip.click()
    expect(page.locator("button.chip.ready")).to_have_attribute("aria-pressed", "true")
    assert names(page) == ["garden", "laptop"]
    page.reload()
    assert names(page) == ["garden", "laptop"]
    page.locator("button.chip.ready").click()
    expect(page.locator("#count")).to_have_text("3 clusters")


def test_keyboard_reaches_the_content_first(look: Reader) -> None:
    page = look.page
    page.keyboard.press("Tab")
    skip = page.locator("a.skip")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    order = []
    for _ in range(40):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", order[-1]
        if order[-1] == "orchard":
            break
    assert order.index("filter") < order.index("State") < order.index("Release") < order.index("garden")
    assert order[-3:] == ["garden", "laptop", "orchard"]
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("orchard")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", VIEWS)
def test_view_is_accessible(chromium: Browser, address: str, path: str, scheme: str) -> None:
    with reader(chromium, address, scheme=scheme) as looking:
        page = looking.look_at(path)
        for details in page.locator("details").all():
            details.locator("summary").click()
        assert page.evaluate(checks()) == []
        assert looking.problems == []


def test_checks_find_what_they_look_for(look: Reader) -> None:
    look.page.evaluate(
        """() => {
          document.documentElement.removeAttribute("lang");
          document.querySelector("main").insertAdjacentHTML("beforeend", `<h4>deep</h4><button></button>
            <p id="main" class="grey">grey</p><table><tr><td>cell</td></tr></table>`);
          document.querySelector(".grey").style.color = "#999";
        }"""
    )
    result = "\n".join(look.page.evaluate(checks()))
    expected = ("no lang", "heading of level", "has no name", "id main is not unique", "contrast 2.", "takes its role")
    assert [words for words in expected if words not in result] == []


@pytest.mark.often("320")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", VIEWS)
def test_view_fits_into_its_window(chromium: Browser, address: str, path: str, width: int) -> None:
    with reader(chromium, address, width=width) as looking:
        page = looking.look_at(path)
        for details in page.locator("details").all():
            details.locator("summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BEYOND, width) == []


def test_rolling_upgrade_is_followed_without_a_reload(look: Reader, env: LocalEnvironment) -> None:
    create(env, named("meadow"))
    page = look.look_at("clusters/default/meadow")
    seen = follow_rolling_upgrade(page, lambda: change(env, "meadow", {"kubernetesVersion": "1.36"}), within=SLOW)
    assert {"Being made", "Being removed", "Outdated", "a progress bar"} <= seen
    assert env.espalier("delete", "cluster", "meadow").code == 0
    expect(page.locator("#s0-head")).to_contain_text("There is no cluster meadow", timeout=SLOW)


def test_steps_of_an_upgrade_in_place_are_followed(look: Reader, env: LocalEnvironment) -> None:
    text = named("terrace").replace("count: 1\n", f"count: 1\n    {IN_PLACE}\n")
    create(env, text.replace("- count: 2\n", f"- count: 1\n    {IN_PLACE}\n"))
    page = look.look_at("clusters/default/terrace")
    page.evaluate(WATCH_STEPS)
    change(env, "terrace", {"kubernetesVersion": "1.36"})
    expect(page.locator("#s1-progress")).to_contain_text("nodes are upgraded in place", timeout=SLOW)
    expect(page.locator(".machines td").filter(has_text="v1.36")).to_have_count(2, timeout=SLOW)
    expect(page.locator(".head .title .state")).to_have_text("Ready", timeout=SLOW)
    steps = page.evaluate("[...steps]")
    assert len(steps) > 3
    assert all(step.endswith("of 8 steps are done") for step in steps)
    assert env.espalier("delete", "cluster", "terrace").code == 0


def test_focus_and_filter_stay_while_rows_change(look: Reader, env: LocalEnvironment) -> None:
    page = look.page
    page.locator("#filter").fill("garden")
    expect(page.locator("#count")).to_have_text("1 of 3 clusters")
    link = page.get_by_role("link", name="garden")
    link.focus()
    change(env, "garden", {"workerNodeGroupConfigurations": [{"name": "md-0", "count": 3}]})
    expect(page.locator("[id='c/default/garden'] .machines")).to_contain_text("1 + 3", timeout=SLOW)
    expect(page.get_by_role("link", name="garden")).to_be_focused()
    assert names(page) == ["garden"]


def test_page_says_when_the_dashboard_has_ended(chromium: Browser, env: LocalEnvironment) -> None:
    with dashboard(env) as other:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(other)
        page.wait_for_selector("#live.on")
    expect(page.locator("#live")).not_to_have_class("on", timeout=SLOW)
    expect(page.locator("#live")).to_contain_text("connection lost", timeout=SLOW)
    context.close()


def test_page_is_not_live_while_the_server_is_silent(look: Reader, env: LocalEnvironment) -> None:
    page = look.page
    expect(page.locator("#live")).to_have_text("live", timeout=SLOW)
    process = json.loads(env.espalier("status", "-o", "json").out)["pid"]
    os.kill(process, signal.SIGSTOP)
    try:
        expect(page.locator("#banner")).to_contain_text("has not answered since", timeout=SLOW)
        expect(page.locator("#live")).to_have_text("not up to date")
        expect(page.locator("#live")).to_have_class("off")
    finally:
        os.kill(process, signal.SIGCONT)
    expect(page.locator("#banner")).to_be_hidden(timeout=SLOW)
    expect(page.locator("#live")).to_have_text("live")


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[tuple[str, str]]:
    """The address of a dashboard of a garden with three seeds and a shoot, and the garden's kubeconfig."""
    home = tmp_path_factory.mktemp("garden")
    running = LocalEnvironment(home)
    command = [*PROGRAM, "demo", "garden"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=running.environment
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            lines = (re.search(r"KUBECONFIG=(\S+)", line) for line in process.stdout)
            first = next(filter(None, lines), None)
            assert first is not None, (home / "log").read_text()
            with dashboard(running, "--kubeconfig", first[1]) as address:
                yield address, first[1]
        finally:
            process.terminate()
            process.communicate(timeout=browsers.SECONDS)


@pytest.mark.parametrize("path", ["shoots", "shoots/garden-dev/apple"])
def test_views_of_a_garden_are_accessible_and_fit(chromium: Browser, garden: tuple[str, str], path: str) -> None:
    for scheme, width in (("light", 1280), ("dark", 320)):
        with reader(chromium, garden[0], scheme=scheme, width=width) as looking:
            page = looking.look_at(path)
            assert page.evaluate(checks()) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(BEYOND, width) == []
            assert looking.problems == []


def test_move_of_a_shoot_is_followed_as_a_timeline(chromium: Browser, garden: tuple[str, str]) -> None:
    with reader(chromium, garden[0]) as looking:
        expect(looking.page.locator("[id='h/garden-dev/apple'] td.health .state")).to_have_text("Ready", timeout=SLOW)
        expect(looking.page.locator("tbody#seeds tr")).to_have_count(3)
        page = looking.look_at("shoots/garden-dev/apple")
        command = ["shoots", "migrate", "apple", "--to", "west", "--kubeconfig", garden[1]]
        subprocess.run([*PROGRAM, *command], check=True, capture_output=True, timeout=browsers.SECONDS * 2)
        moments = page.locator("ol.timeline li")
        expect(moments.filter(has_text="a move from east to west is requested")).to_have_count(1, timeout=SLOW)
        expect(moments.filter(has_text="east has handed over to west")).to_have_count(1, timeout=SLOW)
        expect(moments.filter(has_text="Restore Succeeded")).to_have_count(1, timeout=SLOW)
        expect(page.locator("#s2-timeline .note")).to_have_text(re.compile(r"API gap: \d+ s"), timeout=SLOW)
        expect(page.locator(".head .title .state")).to_have_text("Ready", timeout=SLOW)
        assert looking.problems == []
