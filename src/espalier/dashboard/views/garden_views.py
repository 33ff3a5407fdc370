"""The views of shoots and seeds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

import msgspec

from espalier.api import conditions
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.resource import Key
from espalier.dashboard.feed import Fragment
from espalier.dashboard.html import garden as html
from espalier.dashboard.html import page as frames
from espalier.dashboard.html.page import Frame
from espalier.dashboard.models import garden
from espalier.dashboard.observation import GardenObservation
from espalier.dashboard.views.views import FIRST_PAINT, View
from espalier.kube.objects import Object, readable


class GardenView(View):
    """All shoots and seeds, and the timelines of shoots that move."""

    def __init__(self, observation: GardenObservation, frame: Frame) -> None:
        super().__init__(observation, frame)
        self.observation = self._observation = observation
        """The caches, for views of single shoots."""
        self._shoots: dict[Key, garden.ShootRow] = {}
        self._seeds: dict[str, garden.SeedRow] = {}
        self._changed: dict[Key, None] = {}
        self._timelines: dict[Key, garden.Timeline] = {}
        observation.shoots.subscribe(self._on_shoot)
        observation.seeds.subscribe(lambda _old, _new, _first: self.mark())
        observation.leases.subscribe(lambda _old, _new, _first: self.mark())

    def works(self) -> list[Coroutine[None, None, None]]:
        """Its own watches."""
        return [self._observation.caches.run(), self.run()]

    def timeline(self, key: Key) -> garden.Timeline:
        """The moves of a shoot since the dashboard was started."""
        return self._timelines.get(key, garden.Timeline())

    def _on_shoot(self, old: Object | None, new: Object | None, is_first: bool) -> None:
        object_ = new or old
        if object_ is None:
            return
        key = object_.key
        self._changed[key] = None
        if new is None:
            self._timelines.pop(key, None)
        elif old is not None and not is_first:
            now = conditions.timestamp(self._watched.clock.now())
            line = garden.advanced(self.timeline(key), old, new, now)
            if line.moments:
                self._timelines[key] = line
        self.mark()

    async def render(self) -> None:
        """Render the rows of changed shoots, and of all seeds that have changed."""
        observed, now, root = self._observation, self._watched.clock.now(), self.frame.root
        if not self._was_stale():
            self._put_notices()
            return
        changed, self._changed = self._changed, {}
        for key in changed:
            object_ = observed.shoots.get(key)
            if object_ is None:
                self._shoots.pop(key, None)
                self.feed.remove(html.shoot_id(key))
                continue
            row = garden.row_of(object_)
            if self._shoots.get(key) != row:
                self._shoots[key] = row
                self.feed.put(html.shoot(row, root, now))
        self._render_seeds()
        self.feed.put(Fragment("summary", "summary-place", html.summary(list(self._shoots.values()))))
        self._put_notices()

    def _put_notices(self) -> None:
        observed = self._observation
        sentences = [observed.notice(observed.shoots)]
        if observed.shoots.synced and not self._shoots and not sentences[0]:
            sentences.append("There are no shoots.")
        self.feed.put(frames.notice(" ".join(filter(None, sentences))))
        about_seeds = [observed.notice(observed.seeds), observed.notice(observed.leases, instead="Leases of seeds")]
        text = " ".join(filter(None, about_seeds))
        self.feed.put(frames.notice(text, id_="seeds-notice", place="seeds-notice-place"))

    def _render_seeds(self) -> None:
        observed, now = self._observation, self._watched.clock.now()
        shoots = list(readable(observed.shoots.list(), Shoot))
        renewed = {lease.name: _renewed(lease) for lease in observed.leases.list()}
        present: dict[str, garden.SeedRow] = {}
        for object_ in observed.seeds.list():
            try:
                present[object_.name] = garden.seed_of(object_, shoots, renewed.get(object_.name, ""))
            except msgspec.ValidationError:
                continue
        for name, row in present.items():
            if self._seeds.get(name) != row:
                self.feed.put(html.seed(row, now))
        for name in self._seeds.keys() - present.keys():
            self.feed.remove(html.seed_id(name))
        self._seeds = present

    def page(self) -> str:
        """The page of shoots and seeds."""
        is_known = self._shoots or self._observation.shoots.synced
        total = len(self._shoots) if is_known else None
        return frames.page(self.frame, "shoots", "Shoots", self.feed, "events/shoots", *html.content(self.feed, total))


class ShootView(View):
    """One shoot."""

    def __init__(self, observation: GardenObservation, frame: Frame, key: Key, all_: GardenView) -> None:
        super().__init__(observation, frame)
        self._observation = observation
        self._key = key
        self._all = all_
        self._shown: dict[str, object] = {}
        self._notice = ""
        self._subscriptions.append(observation.shoots.subscribe(self._on_shoot))

    async def wait_filled(self) -> None:
        """Wait for the first list, but not for long."""
        await self._watched.wait_filled(FIRST_PAINT)
        await self.update()

    @property
    def absence(self) -> str:
        """A sentence if there is no such Shoot, as far as the caller may see."""
        shoots = self._observation.shoots
        if shoots.get(self._key) is not None or not shoots.synced:
            return ""
        return f"There is no shoot {self._key.name} in namespace {self._key.namespace}."

    def _on_shoot(self, old: Object | None, new: Object | None, _first: bool) -> None:
        object_ = new or old
        if object_ is not None and object_.key == self._key:
            self.mark()

    async def render(self) -> None:
        """Render the sections whose content has changed."""
        object_, now = self._observation.shoots.get(self._key), self._watched.clock.now()
        notice = self._watched.notice(self._observation.shoots)
        if not self._was_stale() and notice == self._notice:
            return
        self._notice = notice
        if object_ is None:
            self._shown.clear()
            text = notice or f"There is no shoot {self._key.name} in namespace {self._key.namespace} (any more)."
            self.feed.put(frames.notice(text, id_=html.id_of("head"), place=html.PLACE))
            for name in html.SECTIONS[1:]:
                self.feed.put(Fragment(html.id_of(name), html.PLACE, html.nothing(name)))
            return
        page, line = garden.page_of(object_), self._all.timeline(self._key)
        self._put("head", (page.row, page.technical_id, page.errors), lambda: html.head(page, now))
        self._put("tasks", page.tasks, lambda: html.tasks(page.tasks))
        self._put("timeline", line, lambda: html.timeline(line, now))
        self._put("conditions", page.conditions, lambda: html.conditions(page, now))
        self._put("epochs", (page.epochs, page.problem), lambda: html.epochs(page.epochs, page.problem))

    def _put(self, section: str, content: object, render: Callable[[], str]) -> None:
        if section in self._shown and self._shown[section] == content:
            return
        self._shown[section] = content
        self.feed.put(Fragment(html.id_of(section), html.PLACE, render()))

    def page(self) -> str:
        """The page of the shoot."""
        path = html.path_of(self._key)
        return frames.page(self.frame, path, self._key.name, self.feed, f"events/{path}", *html.sections(self.feed))


def _renewed(lease: Object) -> str:
    spec = lease.tree.get("spec")
    return str(spec.get("renewTime", "")) if isinstance(spec, dict) else ""
