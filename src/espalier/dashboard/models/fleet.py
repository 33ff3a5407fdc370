"""All clusters, a row for each. Pure: from the objects of caches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from espalier.api import conditions
from espalier.api.eksa.cluster import Cluster, ClusterSpec, ClusterStatus
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.api.text import redaction
from espalier.api.text.printable import quoted
from espalier.clusters.design import names
from espalier.clusters.design.render_input import group_count
from espalier.clusters.observe.rules import releases
from espalier.clusters.observe.scope import is_self_managed, read
from espalier.clusters.report.readiness import machines_are_elsewhere
from espalier.clusters.report.status import reported
from espalier.dashboard.models.health import Health, State, needs_a_person
from espalier.kube.objects import Object
from espalier.releases.contents import is_due, resolve

LONGEST = 400
"""Characters of a message in a row; the page of the cluster has all of it."""


class Support(NamedTuple):
    """Until when a Kubernetes version is supported."""

    ends: str = ""
    """A date; empty if unknown."""
    is_over: bool = False
    is_due: bool = False
    """It ends soon, or has ended."""


class ClusterRow(msgspec.Struct, frozen=True):
    """A cluster in the list of all."""

    key: Key
    state: State
    is_management: bool = False
    is_paused: bool = False
    """It is, and its state does not say so. (The record of a management cluster is paused for good.)"""
    provider: str = ""
    kubernetes: str = ""
    support: Support = Support()
    release: str = ""
    behind: int = 0
    """Minor versions of the release behind that of the management cluster; 0 if unknown."""
    drift: bool | None = None
    """None: not compared."""
    control_planes: int = 0
    workers: int = 0
    since: str = ""
    created: str = ""
    reason: str = ""
    message: str = ""


class ReleaseFacts:
    """The facts about releases that all rows share, read once."""

    def __init__(self, eksa_releases: Iterable[EKSARelease] = (), bundles: Iterable[Bundles] = ()) -> None:
        self._bundles = {Key(each.metadata.namespace, each.metadata.name): each for each in bundles}
        self._references = {
            each.spec.version: Key(each.spec.bundles_ref.namespace, each.spec.bundles_ref.name)
            for each in eksa_releases
        }

    def support(self, spec: ClusterSpec, now: datetime) -> Support:
        """The end of support of a cluster's Kubernetes version, as its release says."""
        if spec.bundles_ref is not None:
            key: Key | None = Key(spec.bundles_ref.namespace, spec.bundles_ref.name)
        else:
            key = self._references.get(spec.eksa_version or "")
        bundles = self._bundles.get(key) if key is not None else None
        if bundles is None:
            return Support()
        try:
            ends = resolve(bundles, spec.kubernetes_version).end_of_standard_support
        except LookupError:
            return Support()
        return Support(ends, bool(ends) and ends < now.date().isoformat(), is_due(ends, now))


def row_of(object_: Object, facts: ReleaseFacts, managers: Mapping[str, str], now: datetime) -> ClusterRow:
    """The row of a Cluster. `managers`: the eksaVersion of each self-managed Cluster, by its name."""
    metadata = object_.metadata
    try:
        cluster = read(object_)
    except msgspec.ValidationError as error:
        status = reported(object_)
        text = status.failure_message or f"the spec can't be read: {error}"
        return ClusterRow(
            object_.key,
            State(Health.FAILING, "Unreadable"),
            created=metadata.creation_timestamp or "",
            reason=status.failure_reason or "",
            message=quoted(text, LONGEST),
        )
    spec, status = cluster.spec, cluster.status
    ready = conditions.get(status.conditions, names.READY)
    synced = conditions.get(status.conditions, names.SYNCED)
    state = state_of(cluster)
    manager = releases.parsed(managers.get(spec.management_cluster.name or metadata.name))
    release = releases.parsed(spec.eksa_version)
    behind = releases.distance(release, manager) if release is not None and manager is not None else 0
    message = message_of(status) if state.health is not Health.READY else ""
    plane = spec.control_plane_configuration
    is_elsewhere = machines_are_elsewhere(status)
    return ClusterRow(
        object_.key,
        state,
        is_management=is_self_managed(cluster),
        is_paused=is_paused(cluster) and not is_self_managed(cluster) and state.word != "Paused",
        provider=provider_of(spec),
        kubernetes=spec.kubernetes_version,
        support=facts.support(spec, now),
        release=spec.eksa_version or (spec.bundles_ref.name if spec.bundles_ref else ""),
        behind=behind,
        drift=None if synced is None or synced.status == "Unknown" else synced.status == "False",
        control_planes=plane.count if plane is not None and not is_elsewhere else 0,
        workers=0 if is_elsewhere else sum(map(group_count, spec.worker_node_group_configurations)),
        since=ready.last_transition_time if ready is not None else "",
        created=metadata.creation_timestamp or "",
        reason=ready.reason if ready is not None and ready.status != "True" else "",
        message=quoted(redaction.concealed(message, redaction.secrets_of(object_.tree.get("spec"))), LONGEST),
    )


def state_of(cluster: Cluster) -> State:
    """The state of a Cluster, as its status has it."""
    status = cluster.status
    ready = conditions.get(status.conditions, names.READY)
    if cluster.metadata.deletion_timestamp is not None:
        is_held = ready is not None and needs_a_person(ready.reason)
        return State(Health.FAILING if is_held else Health.CHANGING, "Deleting")
    if ready is None:
        return State(Health.UNKNOWN, "Not reported yet")
    if ready.status == "True":
        return State(Health.READY, "Ready")
    if conditions.is_true(status.conditions, names.STALLED) or status.phase == "Failed" or needs_a_person(ready.reason):
        return State(Health.PAUSED, "Paused") if ready.reason == Reason.PAUSED else State(Health.FAILING, "Failing")
    if status.phase in ("Creating", "Upgrading", "Pending"):
        return State(Health.CHANGING, status.phase)
    return State(Health.CHANGING if ready.status == "False" else Health.UNKNOWN, "Not ready")


def message_of(status: ClusterStatus) -> str:
    """The obstacle of a Cluster, in words."""
    ready = conditions.get(status.conditions, names.READY)
    if status.failure_message and (ready is None or ready.status != "True"):
        return status.failure_message
    return ready.message if ready is not None else ""


def is_paused(cluster: Cluster) -> bool:
    """True if nobody acts on the cluster, because of a pause or a move."""
    annotations = cluster.metadata.annotations
    return PAUSED_ANNOTATION in annotations or MOVE_ANNOTATION in annotations


def provider_of(spec: ClusterSpec) -> str:
    """The infrastructure, as the kind of its datacenter config begins. A kind has a capital that the name may lack."""
    kind = spec.datacenter_ref.kind.removesuffix("DatacenterConfig") if spec.datacenter_ref is not None else ""
    return kind[:1].lower() + kind[1:] if kind[:2].isupper() else kind


def manager_of(object_: Object) -> str | None:
    """The eksaVersion of a Cluster that may manage others; None if it does not."""
    try:
        cluster = read(object_)
    except msgspec.ValidationError:
        return None
    return (cluster.spec.eksa_version or "") if is_self_managed(cluster) else None


def skew_of(row: ClusterRow) -> tuple[str, bool]:
    """The skew between a cluster and its management cluster in words, and whether it holds something up."""
    most = releases.MAXIMUM_SKEW
    if row.behind < 0:
        return "ahead of its management cluster", True
    if row.behind > most:
        return f"{row.behind} behind, more than {most} are not supported", True
    if row.behind == most:
        return f"{row.behind} behind: upgrade it before its management cluster", True
    return (f"{row.behind} behind" if row.behind else ""), False


class Summary(NamedTuple):
    """How many clusters there are, in each state."""

    total: int
    by_health: Mapping[Health, int]
    drifted: int
    support_due: int
    behind: int


def summary_of(rows: Iterable[ClusterRow]) -> Summary:
    """The counts of all rows."""
    every = list(rows)
    return Summary(
        len(every),
        {health: sum(row.state.health is health for row in every) for health in Health},
        sum(bool(row.drift) for row in every),
        sum(row.support.is_due for row in every),
        sum(row.behind > 0 for row in every),
    )
