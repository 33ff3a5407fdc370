"""The view of one cluster, and its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import msgspec
import structlog

from espalier.api import conditions
from espalier.api.capi.machine import Machine
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, PAUSED_ANNOTATION
from espalier.api.text import redaction
from espalier.api.text.printable import quoted
from espalier.clusters.observe.scope import read
from espalier.clusters.report.status import reported
from espalier.dashboard.cluster_watch import ClusterWatch
from espalier.dashboard.feed import Fragment
from espalier.dashboard.html import cluster as html
from espalier.dashboard.html import page as frames
from espalier.dashboard.html.fleet import path_of
from espalier.dashboard.html.page import Frame
from espalier.dashboard.models import cluster, fleet
from espalier.dashboard.models.plans import Plan, Planner
from espalier.dashboard.views.views import FIRST_PAINT, NOT_SERVED, FleetView, View
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object

PLAN_AGAIN = 5.0
"""Seconds between two plans of a cluster that changes."""
_STEADY = 10.0
"""Seconds by which an estimate may move without being pushed."""
_LONGEST = 500


class ClusterView(View):
    """One cluster."""

    def __init__(
        self, watch: ClusterWatch, frame: Frame, all_: FleetView, planner: Planner, planning: asyncio.Semaphore
    ) -> None:
        """`planning` limits the plans that are made at the same time."""
        super().__init__(watch, frame)
        self._watch = watch
        self._all = all_
        self._planner = planner
        self._planning = planning
        self._plan: Plan | None = None
        self._planned = ""
        self._shown: dict[str, object] = {}
        self._progress: cluster.Progress | None = None
        self._notices: list[str] = []
        for cache in (watch.cluster, watch.events, *watch.parts):
            cache.subscribe(lambda _old, _new, _first: self.mark())

    @property
    def absence(self) -> str:
        """A sentence if there is no such Cluster, as far as the caller may see."""
        if self._watch.cluster.is_absent:
            return NOT_SERVED
        if self._watch.object is not None or not self._watch.cluster.synced:
            return ""
        return f"There is no cluster {self._watch.key.name} in namespace {self._watch.key.namespace}."

    def works(self) -> list[Coroutine[None, None, None]]:
        """Its own watches, and its plans."""
        return [self._watch.caches.run(), self.run(), self.run_plans()]

    async def wait_filled(self) -> None:
        """Wait for the first objects, but not for long."""
        await self._watch.wait_filled(FIRST_PAINT)
        await self.update()

    async def run_plans(self) -> None:
        """Plan again whenever the Cluster, or a part of it that plans depend on, has changed, and after a failure."""
        await self._watch.wait_filled(FIRST_PAINT)
        while True:
            object_ = self._watch.object
            state = self._state_of_plan(object_)
            if object_ is not None and state != self._planned:
                async with self._planning:
                    is_made = await self._make_plan()
                self._planned = state if is_made else ""
                self.mark()
            await asyncio.sleep(PLAN_AGAIN)

    def _state_of_plan(self, object_: Object | None) -> str:
        """The versions of all objects whose change may change the plan."""
        if object_ is None:
            return ""
        parts = [(each.metadata.uid, each.metadata.generation) for each in self._watch.objects]
        return f"{object_.resource_version} {sorted(parts)}"

    async def _make_plan(self) -> bool:
        """False if there is a sentence in the place of the plan, that a second attempt may replace."""
        try:
            self._plan = await self._planner(self._watch.client, self._watch.key)
        except (KubeError, TimeoutError) as error:
            why = str(error) or "no answer in time"
        except Exception as error:  # an object that nobody expected ends neither this plan nor later ones
            structlog.get_logger("espalier.dashboard").exception("a cluster could not be planned")
            why = repr(error)
        else:
            return True
        self._plan = Plan(problem=f"The plan is not shown: {quoted(why, _LONGEST)}")
        return False

    async def render(self) -> None:
        """Render the sections whose content has changed."""
        object_, now = self._watch.object, self._watched.clock.now()
        notices = [self._watch.notice(cache) for cache in (*self._watch.parts, self._watch.events, self._watch.cluster)]
        if not self._was_stale() and notices == self._notices and self._progress is None:
            return  # estimates alone move with time
        self._notices = notices
        self._watch.follow_links(self.mark)
        if object_ is None:
            self._shown.clear()
            self.feed.put(frames.notice(self._absent(), id_=html.id_of("head"), place=html.PLACE))
            for name in html.SECTIONS[1:]:
                self.feed.put(Fragment(html.id_of(name), html.PLACE, html.nothing(name)))
            return
        page = cluster.page_of(cluster.Parts(object_, self._watch.objects, self._watch.events.list()), now)
        row, message, paused = self._head_of(object_)
        head = (row, paused, message, page.obstacle)
        if self._is_new("head", head):
            self._put("head", head, html.head(row, paused, message, page.obstacle, now))
        progress = self._steady(page.progress)
        if self._is_new("progress", progress):
            self._put("progress", progress, html.progress(progress, now))
        kinds = [cache.source.resource for cache in self._watch.parts]
        of_machines = dict(zip(kinds, notices, strict=False)).get(Machine.resource, "")
        machines = (page.machines, page.more_machines, of_machines)
        if self._is_new("machines", machines):
            self._put("machines", machines, html.machines(*machines, now))
        if self._is_new("conditions", page.conditions):
            self._put("conditions", page.conditions, html.conditions(page.conditions, now))
        if self._is_new("plan", self._plan):
            self._put("plan", self._plan, html.plan(self._plan))
            self._put("drift", self._plan, html.drift(self._plan, ""))
        events = (page.events, self._watch.notice(self._watch.events))
        if self._is_new("events", events):
            self._put("events", events, html.events(*events, now))
        objects = (
            page.objects,
            page.more_objects,
            [text for text in notices[: len(kinds)] if text and text != of_machines],
        )
        if self._is_new("objects", objects):
            self._put("objects", objects, html.objects(*objects, now))

    def _absent(self) -> str:
        why = NOT_SERVED if self._watch.cluster.is_absent else self._watch.notice(self._watch.cluster)
        if why:
            return why
        return f"There is no cluster {self._watch.key.name} in namespace {self._watch.key.namespace} (any more)."

    def _head_of(self, object_: Object) -> tuple[fleet.ClusterRow, str, str]:
        row = self._all.row(object_)
        try:
            status = read(object_).status
        except msgspec.ValidationError:
            status = reported(object_)
        secrets = redaction.secrets_of(object_.tree.get("spec"))
        is_ready = conditions.is_true(status.conditions, "Ready")
        message = "" if is_ready else redaction.concealed(fleet.message_of(status) or row.message, secrets)
        annotations = object_.metadata.annotations
        if MOVE_ANNOTATION in annotations:
            paused = "The cluster is being moved to another management cluster, and neither acts on it."
        elif PAUSED_ANNOTATION in annotations and not row.is_management:
            paused = f"Paused: nothing is done until annotation {PAUSED_ANNOTATION} is removed."
        else:
            paused = ""
        return row, message, paused

    def _steady(self, progress: cluster.Progress | None) -> cluster.Progress | None:
        """The progress; the one before, if only its estimate has moved a little."""
        before = self._progress
        if progress is not None and before is not None and progress._replace(ends=before.ends) == before:
            ends, old = (conditions.parse_timestamp(each.ends) for each in (progress, before))
            if ends is not None and old is not None and abs((ends - old).total_seconds()) < _STEADY:
                return before
        self._progress = progress
        return progress

    def _is_new(self, section: str, content: object) -> bool:
        return section not in self._shown or self._shown[section] != content

    def _put(self, section: str, content: object, text: str) -> None:
        self._shown[section] = content
        self.feed.put(Fragment(html.id_of(section), html.PLACE, text))

    def page(self) -> str:
        """The page of the cluster."""
        path = path_of(self._watch.key)
        return frames.page(
            self.frame, path, self._watch.key.name, self.feed, f"events/{path}", *html.content(self.feed)
        )
