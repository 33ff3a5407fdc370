"""Views that follow caches: what has changed is rendered again, at most a few times in a second."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress

import structlog

from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.resource import Key
from espalier.dashboard.feed import Feed, Fragment
from espalier.dashboard.html import fleet as fleet_html
from espalier.dashboard.html import page as frames
from espalier.dashboard.html.page import Frame
from espalier.dashboard.models import fleet
from espalier.dashboard.observation import Observation, Watched
from espalier.kube.objects import Object, readable

PAUSE = 0.2
"""Seconds between two renderings: what changes together is pushed together."""
FIRST_PAINT = 2.0
"""Seconds for which a page waits for objects that no page has shown yet."""
AGAIN = 1.0
"""Seconds after which a view looks at what comes without an event: errors of requests, silence."""
NOT_SERVED = "This API server does not serve Clusters: use the kubeconfig of a management cluster."
_AT_ONCE = 50
"""Rows that are rendered before other work of the event loop gets its turn."""


class View(ABC):
    """A page that is kept up to date."""

    def __init__(self, watched: Watched, frame: Frame) -> None:
        self.feed = Feed()
        self.frame = frame
        self._watched = watched
        self._wake = asyncio.Event()
        self._is_stale = True
        self._failure = ""
        self._subscriptions: list[Callable[[], None]] = []
        """Of caches that outlive it."""

    def mark(self) -> None:
        """Have it rendered again soon, as objects have changed."""
        self._is_stale = True
        self._wake.set()

    def _was_stale(self) -> bool:
        """True if objects have changed since this was asked last."""
        was, self._is_stale = self._is_stale, False
        return was

    async def run(self) -> None:
        """Keep the fragments up to date until cancelled."""
        while True:
            self._wake.clear()
            await self.update()
            await asyncio.sleep(PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN):
                    await self._wake.wait()

    async def update(self) -> None:
        """Render what has changed. A failure is shown until rendering a later change succeeds."""
        was_stale = self._is_stale
        try:
            await self.render()
        except Exception as error:  # an object that nobody expected does not end the page
            structlog.get_logger("espalier.dashboard").exception("a page could not be rendered")
            self._failure = f"This page could not be rendered, and shows what was before: {error!r}"
        else:
            if was_stale:
                self._failure = ""
        self.feed.put(frames.banner(self._watched.banner() or self._failure))

    def works(self) -> list[Coroutine[None, None, None]]:
        """All that keeps it up to date, each until cancelled."""
        return [self.run()]

    def close(self) -> None:
        """End it, once its works are cancelled."""
        for unsubscribe in self._subscriptions:
            unsubscribe()

    async def wait_filled(self) -> None:
        """Wait for its first content, but not for long."""
        await self.update()

    @property
    def absence(self) -> str:
        """A sentence if what it shows does not exist; else empty."""
        return ""

    @abstractmethod
    async def render(self) -> None:
        """Render what has changed, except the banner."""

    @abstractmethod
    def page(self) -> str:
        """The page as it is now."""


class FleetView(View):
    """All clusters."""

    def __init__(self, observation: Observation, frame: Frame) -> None:
        super().__init__(observation, frame)
        self._observation = observation
        self._rows: dict[Key, fleet.ClusterRow] = {}
        self._managers: dict[str, str] = {}
        self._facts = fleet.ReleaseFacts()
        self._changed: dict[Key, None] = {}
        self._releases_changed = True
        self._day = ""
        observation.clusters.subscribe(self._on_cluster)
        observation.releases.subscribe(self._on_release)
        observation.bundles.subscribe(self._on_release)

    def _on_cluster(self, old: Object | None, new: Object | None, _first: bool) -> None:
        object_ = new or old
        if object_ is not None:
            self._changed[object_.key] = None
            self.mark()

    def _on_release(self, _old: Object | None, _new: Object | None, _first: bool) -> None:
        self._releases_changed = True
        self.mark()

    async def render(self) -> None:
        """Render the rows of changed clusters; all, if what they have in common has changed."""
        if not self._was_stale() and self._day == self._today():
            self.feed.put(frames.notice(self._notice()))
            return
        changed, self._changed = self._changed, {}
        if self._learn(changed):
            changed = dict.fromkeys([*self._rows, *changed])
        for count, key in enumerate(changed, 1):
            self._render(key)
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)
        summary = fleet_html.summary(fleet.summary_of(self._rows.values()))
        self.feed.put(Fragment("summary", "summary-place", summary))
        self.feed.put(frames.notice(self._notice()))

    def _learn(self, changed: dict[Key, None]) -> bool:
        """Read what all rows have in common; True if it has changed."""
        observed, day = self._observation, self._today()
        is_new = self._releases_changed or day != self._day  # support ends by date
        if self._releases_changed:
            self._releases_changed = False
            eksa_releases = readable(observed.releases.list(), EKSARelease)
            self._facts = fleet.ReleaseFacts(eksa_releases, readable(observed.bundles.list(), Bundles))
        self._day = day
        for key in changed:
            object_ = observed.clusters.get(key)
            version = fleet.manager_of(object_) if object_ is not None else None
            if version is None and (key.name not in self._managers or self._is_manager_elsewhere(key)):
                continue
            if self._managers.get(key.name) != version:
                is_new = True
                if version is None:
                    del self._managers[key.name]
                else:
                    self._managers[key.name] = version
        return is_new

    def _today(self) -> str:
        return self._watched.clock.now().date().isoformat()

    def _is_manager_elsewhere(self, key: Key) -> bool:
        """True if another Cluster of the name manages clusters."""
        return any(row.is_management and other != key for other, row in self._rows.items() if other.name == key.name)

    def row(self, object_: Object) -> fleet.ClusterRow:
        """The row of a Cluster."""
        return fleet.row_of(object_, self._facts, self._managers, self._watched.clock.now())

    def _render(self, key: Key) -> None:
        object_ = self._observation.clusters.get(key)
        if object_ is None:
            self._rows.pop(key, None)
            self.feed.remove(fleet_html.id_of(key))
            return
        row = self.row(object_)
        if self._rows.get(key) != row:
            self._rows[key] = row
            self.feed.put(fleet_html.fragment(row, self.frame.root, self._watched.clock.now()))

    def _notice(self) -> str:
        observed = self._observation
        if observed.clusters.is_absent:
            return NOT_SERVED
        sentences = [
            observed.notice(observed.clusters),
            observed.notice(observed.releases, observed.bundles, instead="Dates of support"),
        ]
        if observed.clusters.synced and not self._rows and not sentences[0]:
            sentences.insert(0, "There are no clusters. `espalier create cluster -f FILE` creates the first.")
        return " ".join(dict.fromkeys(filter(None, sentences)))

    def page(self) -> str:
        """The page of all clusters."""
        is_known = self._rows or self._observation.clusters.synced
        content = fleet_html.content(self.feed, len(self._rows) if is_known else None)
        return frames.page(self.frame, "", "Clusters", self.feed, "events/fleet", *content)
