"""The dashboard that a manager serves, in a real Chromium: tokens and rights are those of a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from playwright.sync_api import Browser, Page, expect

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.kube.client import PatchType
from tests.support.environments import browser as browsers
from tests.support.environments.browser import BEYOND, Reader, checks, follow_rolling_upgrade, reader
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import Production, production
from tests.support.servers.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
T = TypeVar("T")
SLOW = 120_000
"""Milliseconds."""
READERS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader-of-all}
rules:
  - {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader-of-all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader-of-all}
subjects:
  - {kind: ServiceAccount, namespace: default, name: operator}
  - {kind: ServiceAccount, namespace: default, name: leaver}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader-of-all}
subjects:
  - {kind: ServiceAccount, namespace: team-a, name: tenant}
"""
SHOOT = """
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: apple, namespace: team-a}
spec:
  cloudProfile: {kind: CloudProfile, name: local}
  region: local
  seedName: east
  provider: {type: local, workers: []}
  kubernetes: {version: 1.35.4}
"""
VIEWS = ("", "clusters/default/garden", "clusters/team-a/orchard", "shoots", "shoots/team-a/apple")


class Site:
    """A manager with its dashboard, and tokens of ServiceAccounts."""

    def __init__(self, management: Production, port: int, tokens: dict[str, str]) -> None:
        self.management, self.tokens = management, tokens
        self.origin = f"https://localhost:{port}"
        self._loop = asyncio.get_running_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work in the loop of the site, for a story in a thread of its own."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def change(self, name: str, version: str) -> None:
        patch = {"spec": {"kubernetesVersion": version}}
        client = self.management.client
        self.run(client.patch(Cluster.resource, name, "default", patch=patch, type=PatchType.MERGE))

    def sign_in(self, account: str, namespace: str = "") -> Callable[[Page], None]:
        """Enter the token of an account on the first page, as people do."""

        def enter(page: Page) -> None:
            page.get_by_label("Token").fill(self.tokens[account])
            page.get_by_label("Namespace").fill(namespace)
            page.get_by_role("button", name="Sign in").click()

        return enter

    @contextmanager
    def read_by(self, browser: Browser, account: str, namespace: str = "", **window: object) -> Iterator[Reader]:
        """Somebody who has signed in. Nothing may go wrong on his pages but what they are sent for without a token."""
        enter = self.sign_in(account, namespace)
        with reader(browser, self.origin, enter=enter, **window) as looking:  # type: ignore[arg-type]
            looking.problems[:] = [text for text in looking.problems if "status of 401" not in text]
            yield looking
            assert looking.problems == []


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A garden that is ready, an orchard that lacks its datacenter, and a shoot."""
    async with production(control_plane, tmp_path_factory.mktemp("management")) as management:
        await management.stop()
        port, kubectl = free_port(), management.kubectl
        management.flags = (*management.flags, "--dashboard-address", f"127.0.0.1:{port}")
        await management.start()
        await kubectl("create", "namespace", "team-a")
        accounts = {"operator": "default", "leaver": "default", "tenant": "team-a"}
        for name, namespace in accounts.items():
            await kubectl("-n", namespace, "create", "serviceaccount", name)
        await kubectl("apply", "-f", "-", stdin=READERS)
        for kind in (Shoot, Seed):
            await management.client.apply(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
        await kubectl(
            "wait", "--for=condition=Established", "crd/shoots.core.gardener.cloud", "crd/seeds.core.gardener.cloud"
        )
        await kubectl("apply", "-f", "-", stdin=SHOOT)
        await kubectl("-n", "default", "apply", "-f", "-", stdin=EXAMPLE)
        orchard = EXAMPLE.replace("garden", "orchard").split("---")[0]
        await kubectl("-n", "team-a", "apply", "-f", "-", stdin=orchard)
        await kubectl("wait", "--for=condition=Ready", "cluster.anywhere.eks.amazonaws.com/garden", "--timeout=300s")
        tokens = {
            name: (await kubectl("-n", namespace, "create", "token", name)).strip()
            for name, namespace in accounts.items()
        }
        yield Site(management, port, tokens)
        await kubectl("delete", "namespace", "team-a", "--wait=false")


async def in_browser(story: Callable[[Browser], None]) -> None:
    """Tell a story in a thread, while the loop goes on: machines are simulated in it."""

    def tell() -> None:
        with browsers.chromium() as browser:
            story(browser)

    await asyncio.to_thread(tell)


async def test_views_are_read_with_a_token(site: Site) -> None:
    def story(browser: Browser) -> None:
        with site.read_by(browser, "operator") as looking:
            page = looking.page
            assert page.url == f"{site.origin}/"
            expect(page.locator("[id='c/default/garden'] .state")).to_have_text("Ready", timeout=SLOW)
            expect(page.locator("[id='c/team-a/orchard'] .state")).to_have_text("Failing", timeout=SLOW)
            expect(page.locator(".signed-in .user")).to_have_text("system:serviceaccount:default:operator")
            assert page.evaluate("document.cookie") == ""
            assert site.tokens["operator"] not in page.content()
            looking.look_at("clusters/default/garden")
            expect(page.locator(".machines tbody tr")).to_have_count(3)
            expect(page.locator(".plan")).to_contain_text("Nothing", timeout=SLOW)
            looking.look_at("shoots/team-a/apple")
            expect(page.locator("h1")).to_have_text("apple")

    await in_browser(story)


@pytest.mark.often("320-dark", "1280-light")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
async def test_views_are_accessible_and_fit(site: Site, width: int, scheme: str) -> None:
    def story(browser: Browser) -> None:
        def check(page: Page) -> None:
            page.wait_for_load_state()  # without its style sheet a page has other colours
            assert page.evaluate(checks()) == [], page.url
            assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url
            assert page.evaluate(BEYOND, width) == [], page.url

        with site.read_by(browser, "operator", width=width, scheme=scheme) as looking:
            for path in VIEWS:
                page = looking.look_at(path)
                for details in page.locator("details").all():
                    details.locator("summary").click()
                check(page)
            page.get_by_role("button", name="Sign out").click()
            expect(page.locator("h1")).to_have_text("Sign in to Espalier")
            check(page)
            page.get_by_label("Token").fill("two words")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text("characters that no bearer token has")
            check(page)
            looking.problems.clear()  # the console names the status of that page

    await in_browser(story)


async def test_rolling_upgrade_is_followed_live(site: Site) -> None:
    def story(browser: Browser) -> None:
        with site.read_by(browser, "operator") as looking:
            page = looking.look_at("clusters/default/garden")
            seen = follow_rolling_upgrade(page, lambda: site.change("garden", "1.36"), within=SLOW)
            assert {"Being made", "Outdated", "a progress bar"} <= seen

    await in_browser(story)


async def test_tenant_signs_in_for_his_namespace(site: Site) -> None:
    def story(browser: Browser) -> None:
        with site.read_by(browser, "tenant", "team-a") as looking:
            page = looking.page
            assert page.url == f"{site.origin}/in/team-a/"
            expect(page.locator("[id='c/team-a/orchard']")).to_have_count(1)
            assert "garden" not in (page.locator("main").text_content() or "")
            page.get_by_role("link", name="orchard").click()
            expect(page.locator("h1")).to_have_text("orchard")
            page.get_by_role("button", name="Sign out").click()
            expect(page.locator("h1")).to_have_text("Sign in to Espalier")
            page.go_back()
            page.reload()
            expect(page.locator("h1")).to_have_text("Sign in to Espalier")
            assert looking.context.cookies() == []
            looking.problems.clear()

    await in_browser(story)


async def test_right_that_is_granted_shows_on_an_open_page(site: Site) -> None:
    def story(browser: Browser) -> None:
        with site.read_by(browser, "tenant") as looking:
            page = looking.page
            expect(page.locator("#notice")).to_contain_text("you may not list clusters", timeout=SLOW)
            expect(page.locator("#count")).to_have_text("")
            page.evaluate("window.same = true")
            names = ("--clusterrole=reader-of-all", "--serviceaccount=team-a:tenant")
            site.run(site.management.kubectl("create", "clusterrolebinding", "tenant", *names))
            expect(page.locator("#count")).to_have_text("3 clusters", timeout=SLOW)
            expect(page.locator("#notice")).to_be_hidden(timeout=SLOW)
            assert page.evaluate("window.same")
            site.run(site.management.kubectl("delete", "clusterrolebinding", "tenant"))

    await in_browser(story)


async def test_open_page_whose_token_is_refused_says_so(site: Site) -> None:
    def story(browser: Browser) -> None:
        with site.read_by(browser, "leaver") as looking:
            page = looking.look_at("clusters/default/garden")
            expect(page.locator("h1")).to_have_text("garden")
            site.run(site.management.kubectl("delete", "serviceaccount", "leaver"))
            expect(page.get_by_role("alert")).to_contain_text("refuses your token, which may have ended", timeout=SLOW)
            assert "garden" not in (page.locator("main").text_content() or "")
            assert looking.context.cookies() == []
            # Another token opens the page that was lost.
            site.sign_in("operator")(page)
            page.wait_for_selector("#live.on")
            expect(page.locator("h1")).to_have_text("garden")
            assert page.url.endswith("/clusters/default/garden")
            looking.problems.clear()

    await in_browser(story)
