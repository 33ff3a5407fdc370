"""The plan: which objects of an Etcd have to be written, and which are deleted. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from espalier.api.core import STATEFUL_SET
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.etcd import MEMBERS
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.owners import owner_reference
from espalier.shoots.etcd import names, rendering
from espalier.shoots.etcd.observe import Scope
from espalier.shoots.etcd.rendering import Rendered
from espalier.shoots.etcd.settings import InvalidEtcd, has_members, is_copy

DIGEST = metadata_keys.DOMAIN + "rendered"
"""On each object: a digest of the rendered object, which changes when a field is no longer rendered."""


@dataclass(frozen=True)
class Plan:
    """The actions of a reconcile."""

    replace: tuple[Object, ...] = ()
    """Objects that can't be updated: deleted and recreated."""
    apply: tuple[Rendered, ...] = ()
    """Objects that are missing or differ from the rendered ones."""
    remove: tuple[tuple[Resource, Object], ...] = ()
    """Objects of this Etcd that it no longer has."""


def plan(scope: Scope, timing: Timing | None = None) -> Plan:
    """Plan how an Etcd gets its objects. Raises `InvalidEtcd`."""
    _check_stays_grown(scope)
    rendered_objects = rendering.rendered(scope.etcd, owner_reference(scope.object), timing)
    wanted = [_stamped(_grown(rendered, scope)) for rendered in rendered_objects]
    wanted_names = {(rendered.resource, rendered.name) for rendered in wanted}
    live = scope.live
    return Plan(
        tuple(
            present
            for rendered in wanted
            if (present := live.get((rendered.resource, rendered.name))) and _must_be_recreated(rendered, present)
        ),
        tuple(
            rendered for rendered in wanted if not _is_as_wanted(live.get((rendered.resource, rendered.name)), rendered)
        ),
        tuple((key[0], present) for key, present in live.items() if key not in wanted_names and scope.owns(present)),
    )


def _check_stays_grown(scope: Scope) -> None:
    """Raise `InvalidEtcd` for a single member with data of three: it has no quorum, so no agent could remove others."""
    if scope.etcd.spec.replicas != 1 or is_copy(scope.etcd):
        return
    if later := _claims_of_others(scope):
        raise InvalidEtcd(
            f"spec.replicas: found 1, allowed are 0 and {MEMBERS}: there are data of {MEMBERS} members, of which one "
            f"alone serves nothing. Set it to {MEMBERS}; if {' and '.join(later)} are of an earlier etcd, delete them"
        )


def _claims_of_others(scope: Scope) -> list[str]:
    """The claims of all members but the first: there are some once an etcd has had three."""
    return [claim.name for claim in scope.claims if claim.name != names.claim(scope.object.name)]


def _grown(wanted: Rendered, scope: Scope) -> Rendered:
    """The StatefulSet with one pod until that has the template of three: others join a member that has peers.

    One that has had three gets them at once, whoever scaled it down: the first alone never gets ready.
    """
    if _claims_of_others(scope):
        return wanted
    live, object_ = scope.stateful_set, scope.stateful_set_object
    if wanted.resource != STATEFUL_SET or not has_members(scope.etcd) or live is None or object_ is None:
        return wanted
    if live.spec.replicas != 1:
        return wanted
    counts = live.status
    is_observed = counts.observed_generation >= object_.metadata.generation
    has_template = _holds(object_.tree["spec"]["template"], wanted.body["spec"]["template"])
    if has_template and is_observed and counts.updated_replicas == 1 and counts.ready_replicas == 1:
        return wanted
    return Rendered(wanted.resource, {**wanted.body, "spec": {**wanted.body["spec"], "replicas": 1}})


def _must_be_recreated(wanted: Rendered, live: Object) -> bool:
    """True if a StatefulSet has to be recreated, because fields that can't be updated differ: those of an Etcd that
    only copies are others."""
    if wanted.resource != STATEFUL_SET:
        return False
    fixed = ("serviceName", "volumeClaimTemplates", "podManagementPolicy")
    spec, present = wanted.body["spec"], live.tree["spec"]
    return not all(_holds(present.get(field) or None, spec.get(field) or None) for field in fixed)


def _is_as_wanted(live: Object | None, wanted: Rendered) -> bool:
    return live is not None and live.metadata.deletion_timestamp is None and _holds(live.tree, wanted.body)


def _stamped(rendered: Rendered) -> Rendered:
    digest = hashlib.sha256(encode_json(rendered.body)).hexdigest()[:16]
    metadata: Tree = {**rendered.body["metadata"], "annotations": {DIGEST: digest}}
    return Rendered(rendered.resource, {**rendered.body, "metadata": metadata})


def _holds(live: Any, wanted: Any) -> bool:
    """True if `live` has all wanted fields; defaults that API servers add do not matter."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(name in live and _holds(live[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_holds, live, wanted))
    return bool(live == wanted)
