"""The decisions of the plan: made once for each state of a cluster's objects, for the steps and for the report."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import msgspec

from espalier.api.kinds import KubeObject
from espalier.api.resource import Resource
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.plan import in_place, plan
from espalier.clusters.plan.in_place import OwnerChange
from espalier.clusters.plan.plan import Change
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait


class Compared(NamedTuple):
    """The comparison of an object."""

    wanted: KubeObject
    live: Object | None
    change: Change | None


class Decisions(msgspec.Struct, frozen=True, dict=True):
    """The decisions for one render input and one state of the Cluster API objects. Each is made when it is first asked
    for; what they hold is shared, to be read.
    """

    render_input: RenderInput
    capi_objects: ClusterAPIObjects

    @cached_property
    def control_plane(self) -> list[KubeObject]:
        """The objects that the cluster has once; referenced objects come first."""
        return plan.control_plane(self.render_input, self.capi_objects)

    @cached_property
    def worker_groups(self) -> list[KubeObject]:
        """The objects of the worker node groups; referenced objects come first."""
        return plan.worker_groups(self.render_input, self.capi_objects)

    @cached_property
    def owner_changes(self) -> list[OwnerChange]:
        """The pending changes of the control plane and all groups whose machines are upgraded in place."""
        if self.capi_objects.control_plane is None or not in_place.is_asked_for(self.render_input):
            return []
        wanted = [*self.control_plane, *self.worker_groups]
        return in_place.owner_changes(wanted, self.render_input, self.capi_objects)

    @cached_property
    def refused(self) -> Wait | None:
        """The wait while any of these can't be made in place: then nothing of the cluster is written."""
        return in_place.refused(self.owner_changes)

    @cached_property
    def postponed(self) -> str:
        """The reason why changes of the control plane wait for the end of its creation; empty if they needn't."""
        has_cni = bool(self.capi_objects.installed_cni)
        if not in_place.lacking(self.capi_objects.control_plane, has_cni):
            return ""
        messages = (in_place.postponed(change, has_cni) for change in self.owner_changes)
        return next(filter(None, messages), "")

    def obstacle(self, wanted: Iterable[KubeObject]) -> Wait | None:
        """The reason why these objects may not be written yet: machines to be upgraded in place would be replaced."""
        return plan.obstacle(wanted, self.render_input, self.capi_objects)

    def changes(self, wanted: Iterable[KubeObject]) -> list[Change]:
        """The changes that make our fields of the live objects those of `wanted`."""
        changes = (self._change(object_) for object_ in wanted)
        return [change for change in changes if change is not None]

    def _change(self, wanted: KubeObject) -> Change | None:
        resource, name = wanted.resource, wanted.metadata.name
        live = self.capi_objects.of(resource).get(name)
        last = self._compared.get((resource, name))
        if last is None or last.live != live or last.wanted != wanted:
            last = self._compared[resource, name] = Compared(wanted, live, plan.change(wanted, live))
        return last.change

    @property
    def _compared(self) -> dict[tuple[Resource, str], Compared]:
        """The last comparison of each object, held by the render input: from one reconcile to the next only few
        objects change.
        """
        compared: dict[tuple[Resource, str], Compared] = vars(self.render_input).setdefault("compared", {})
        return compared


def of(scope: Scope) -> Decisions | None:
    """The decisions for a scope, held by its Cluster API objects; None without a render input."""
    if scope.render_input is None:
        return None
    held = vars(scope.capi_objects)
    decisions: Decisions | None = held.get("decisions")
    if decisions is None or decisions.render_input is not scope.render_input:
        decisions = held["decisions"] = Decisions(scope.render_input, scope.capi_objects)
    return decisions
