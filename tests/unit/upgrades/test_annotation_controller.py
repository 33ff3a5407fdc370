"""From a mark to an upgrade, and when the mark goes: then Cluster API may replace machines."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL as CLUSTER_LABEL
from espalier.api.eksa.vocabulary.group import CLUSTER_NAMESPACE_LABEL
from espalier.api.eksa.vocabulary.upgrade_keys import FALLBACK_ANNOTATION, IN_PLACE_CONTROL_PLANE, NODE_IN_WORK
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait
from espalier.upgrades import expected
from espalier.upgrades.annotation_controller import (
    AnnotationContext,
    _is_annotated,
    _upgrade_of,
    advance,
    end_without_annotation,
    leave_to_hooks,
    read_cluster,
)
from espalier.upgrades.group.control_plane import ControlPlaneGroup
from espalier.upgrades.group.group import DueMachines
from espalier.upgrades.observed.observe import UpgradeObserver
from tests.support.objects.observed_upgrades import machine, made

TEMPLATE = {"apiGroup": "g", "kind": "K", "name": "t"}
ASKED: Tree = {"version": "v1.36.3", "machineTemplate": {"spec": {"infrastructureRef": TEMPLATE}}}
MARKED = {IN_PLACE_CONTROL_PLANE: "true", PAUSED_ANNOTATION: PAUSED_FOR_UPGRADE}
FALLS_BACK = {**MARKED, FALLBACK_ANNOTATION: "RollingUpdate"}
MACHINES = (machine("a", control_plane=True),)


def upgrade(*, ready: bool = False, version: str = "v1.36.3") -> Object:
    spec = {
        "controlPlane": {"name": "garden"},
        "machinesRequireUpgrade": [],
        "kubernetesVersion": version,
        "controlPlaneSpecData": expected.encoded({**ASKED, "version": version}),
    }
    metadata = {"name": "garden-cp-upgrade", "namespace": "eksa-system"}
    status = {"status": {"ready": True}} if ready else {}
    return made({"kind": "ControlPlaneUpgrade", "metadata": metadata, "spec": spec, **status})


def ended(
    step: Any,
    annotations: dict[str, str],
    *,
    due: DueMachines | None = None,
    of: Object | None = None,
    node_upgrades: tuple[Object, ...] = (),
    uses_hooks: bool = False,
    is_asked_for: bool = False,
) -> tuple[Outcome, list[str]]:
    """How a step over a control plane ends, and what it did, by words."""
    did: list[str] = []

    async def create(_resource: Any, body: Any) -> None:
        did.append(f"made {body.metadata.name}")

    async def delete(_resource: Any, object_: Object, *_: Any) -> None:
        did.append(f"deleted {object_.name}")

    async def merge(_resource: Any, _object: Any, patch: Tree) -> None:
        gone = [name for name, value in patch["metadata"]["annotations"].items() if value is None]
        did.append("unmarked" if IN_PLACE_CONTROL_PLANE in gone else "written")
        if PAUSED_ANNOTATION in gone:
            did.append("unpaused")

    class Group(ControlPlaneGroup):
        def is_expected(self, *_: Any) -> bool:
            return False

        def due(self, capi_objects: Any, owner: Any) -> DueMachines:
            assert due is not None
            return due

    tools: Any = SimpleNamespace(
        writer=SimpleNamespace(create=create, delete=delete, merge=merge),
        recorder=SimpleNamespace(event=lambda _owner, kind, reason, _message: did.append(f"{kind} {reason}")),
        observer=SimpleNamespace(
            node_upgrades=lambda _upgrade: list(node_upgrades), asks_in_place=lambda _owner: is_asked_for
        ),
    )
    metadata = {"name": "garden", "namespace": "eksa-system", "uid": "1", "annotations": annotations}
    owner = made({"kind": "KubeadmControlPlane", "metadata": metadata, "spec": ASKED})
    capi_objects: Any = SimpleNamespace(machine=machine)
    return asyncio.run(step(AnnotationContext(tools, Group(), owner, of, capi_objects, uses_hooks))), did


UNMARKED = ["unmarked", "unpaused"]


@pytest.mark.parametrize(
    ("annotations", "due", "did"),
    [
        (MARKED, DueMachines(MACHINES, (), is_due=True), ["made garden-cp-upgrade"]),
        (
            MARKED,
            DueMachines(MACHINES, ("taints",), is_due=True),
            ["made garden-cp-upgrade"],
        ),  # it says that it is refused
        (FALLS_BACK, DueMachines(MACHINES, (), is_due=True), ["made garden-cp-upgrade"]),
        (FALLS_BACK, DueMachines(MACHINES, ("taints",), is_due=True), ["Warning FallbackToRollingUpdate", *UNMARKED]),
        (MARKED, DueMachines((), (), is_due=False), UNMARKED),
        ({**MARKED, PAUSED_ANNOTATION: "by hand"}, DueMachines((), (), is_due=False), ["unmarked"]),
    ],
)
def test_machines_are_replaced_on_request_only(annotations: dict[str, str], due: DueMachines, did: list[str]) -> None:
    assert ended(advance, annotations, due=due)[1] == did


ALONE = {IN_PLACE_CONTROL_PLANE: "true"}
IGNORED = ["Warning MarkIgnored", "unmarked"]


@pytest.mark.parametrize(
    ("annotations", "of", "uses_hooks", "did"),
    [
        (ALONE, None, True, IGNORED),
        ({**ALONE, PAUSED_ANNOTATION: "by hand"}, None, True, IGNORED),
        (ALONE, upgrade(), True, []),
        (MARKED, None, True, []),
        (ALONE, None, False, []),
    ],
)
def test_annotation_begins_nothing_with_hooks(
    annotations: dict[str, str], of: Object | None, uses_hooks: bool, did: list[str]
) -> None:
    assert ended(leave_to_hooks, annotations, of=of, uses_hooks=uses_hooks)[1] == did


BEGUN = made(
    {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "NodeUpgrade",
        "metadata": {"name": "a-node-upgrader"},
        "spec": {"machine": {"name": "a"}, "kubernetesVersion": "v1.35.9", "nodeType": "ControlPlane"},
        "status": {"conditions": [{"type": "UpgraderPodCreated", "status": "True", "reason": "So"}]},
    }
)


CONDITIONS = BEGUN.tree["status"]["conditions"]
STOPPED = made(
    {
        **BEGUN.tree,
        "status": {"conditions": [*CONDITIONS, {"type": "Progressing", "status": "False", "reason": "VersionRefused"}]},
    }
)
GOING = made({**BEGUN.tree, "metadata": {"name": "a-node-upgrader", "deletionTimestamp": "2026-01-01T00:00:00Z"}})


@pytest.mark.parametrize(
    ("of", "node_upgrades", "annotations", "reason"),
    [
        (upgrade(), (BEGUN,), MARKED, ""),
        (upgrade(ready=True), (), MARKED, "UpgradeDeleting"),
        (upgrade(ready=True), (BEGUN,), MARKED, ""),  # somebody edited the status
        (upgrade(ready=True), (STOPPED,), MARKED, "UpgradeDeleting"),
        (upgrade(ready=True), (GOING,), MARKED, "UpgradeDeleting"),
        (upgrade(version="v1.35.9"), (), MARKED, "UpgradeDeleting"),
        (upgrade(version="v1.35.9"), (BEGUN,), MARKED, "NodeUpgradeInProgress"),
        (upgrade(version="v1.35.9"), (BEGUN,), FALLS_BACK, "UpgradeDeleting"),
    ],
)
def test_upgrade_ends_when_no_node_is_under_way(
    of: Object, node_upgrades: tuple[Object, ...], annotations: dict[str, str], reason: str
) -> None:
    refused = ("taints",) if annotations is FALLS_BACK else ()
    due = DueMachines(MACHINES, refused, is_due=True)
    outcome, did = ended(advance, annotations, due=due, of=of, node_upgrades=node_upgrades)
    assert isinstance(outcome, Wait | Continue)
    assert (outcome.reason if isinstance(outcome, Wait) else "") == reason
    assert did == (["deleted garden-cp-upgrade"] if reason == "UpgradeDeleting" else [])


def test_an_upgrade_is_deleted_with_its_annotation() -> None:
    assert ended(end_without_annotation, MARKED, of=upgrade()) == (Continue(), [])
    assert ended(end_without_annotation, {}, of=upgrade()) == (Done(), ["deleted garden-cp-upgrade"])
    assert ended(end_without_annotation, {}) == (Done(), [])


@pytest.mark.parametrize(
    ("pause", "of", "is_asked_for", "did"),
    [
        (PAUSED_FOR_UPGRADE, upgrade(), True, []),
        (PAUSED_FOR_UPGRADE, upgrade(), False, ["deleted garden-cp-upgrade"]),
        (PAUSED_FOR_UPGRADE, upgrade(ready=True), True, ["deleted garden-cp-upgrade"]),
        (PAUSED_FOR_UPGRADE, None, True, ["unpaused"]),
        ("by hand", upgrade(), True, ["deleted garden-cp-upgrade"]),
    ],
)
def test_requested_upgrade_outlives_its_annotation(
    pause: str, of: Object | None, is_asked_for: bool, did: list[str]
) -> None:
    actions = ended(end_without_annotation, {PAUSED_ANNOTATION: pause}, of=of, is_asked_for=is_asked_for)[1]
    assert [action for action in actions if action != "written"] == did


GROUPS = [
    {"name": "a", "upgradeRolloutStrategy": {"type": "InPlace"}},
    {"name": "a-b", "upgradeRolloutStrategy": None},
]


@pytest.mark.parametrize(
    ("name", "is_in_place"), [("garden-a", True), ("garden-a-zone", True), ("garden-a-b", False), ("garden-c", False)]
)
def test_cluster_tells_which_groups_are_in_place(name: str, is_in_place: bool) -> None:
    """Also of one with failure domains, whose MachineDeployments have their names at the end."""
    labels = {CLUSTER_LABEL: "garden", CLUSTER_NAMESPACE_LABEL: "team"}
    owner = {"kind": "MachineDeployment", "metadata": {"name": name, "labels": labels}}
    cluster: Tree = {"kind": "Cluster", "metadata": {"name": "garden", "namespace": "team"}}
    spec = {"spec": {"workerNodeGroupConfigurations": GROUPS}}

    def asks(**metadata: str) -> bool:
        cluster_object = made({**cluster, "metadata": {**cluster["metadata"], **metadata}, **spec})
        observer: Any = SimpleNamespace(_clusters={Key("team", "garden"): cluster_object})
        return UpgradeObserver.asks_in_place(observer, made(owner))

    assert asks() is is_in_place
    assert not asks(deletionTimestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(("uid", "is_ours"), [("1", True), ("2", False)])
def test_upgrade_by_hand_outlives_an_annotation(uid: str, is_ours: bool) -> None:
    tree = upgrade().tree
    owner = {"apiVersion": "v1", "kind": "K", "name": "garden", "uid": uid, "controller": True}
    stored_upgrade = made({**tree, "metadata": {**tree["metadata"], "ownerReferences": [owner]}})
    tools: Any = SimpleNamespace(observer=SimpleNamespace(upgrade=lambda *_: stored_upgrade))
    plane = made({"kind": "KubeadmControlPlane", "metadata": {"name": "garden", "uid": "1"}})
    assert (_upgrade_of(tools, ControlPlaneGroup(), plane) is stored_upgrade) is is_ours
    tools.observer.upgrade = lambda *_: None
    assert _upgrade_of(tools, ControlPlaneGroup(), plane) is None


def test_an_owner_being_deleted_is_left_to_cluster_api() -> None:
    def read(deletion: Tree) -> tuple[Outcome, list[Tree]]:
        written: list[Tree] = []

        async def merge(_resource: Any, _object: Any, patch: Tree) -> None:
            written.append(patch["metadata"]["annotations"])

        tools: Any = SimpleNamespace(
            writer=SimpleNamespace(merge=merge), observer=SimpleNamespace(view=lambda _cluster: None)
        )
        plane = made({"kind": "K", "metadata": {"name": "garden", "annotations": MARKED, **deletion}})
        return asyncio.run(read_cluster(AnnotationContext(tools, ControlPlaneGroup(), plane, None))), written

    outcome, written = read({"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert outcome == Done()
    assert [marks[IN_PLACE_CONTROL_PLANE] for marks in written] == [None]
    outcome, written = read({})
    assert isinstance(outcome, Wait)
    assert (outcome.reason, written) == ("CacheNotSynced", [])


def test_owner_with_an_edited_label_waits() -> None:
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "garden", "uid": "2"}
    metadata = {"name": "garden", "labels": {"cluster.x-k8s.io/cluster-name": "other"}, "ownerReferences": [cluster]}
    plane = made({"kind": "KubeadmControlPlane", "metadata": metadata | {"annotations": MARKED}})
    outcome = asyncio.run(read_cluster(AnnotationContext(cast(Any, None), ControlPlaneGroup(), plane, None)))
    assert isinstance(outcome, Wait)
    assert outcome.reason == "LabelsChanged"
    assert 'it is owned by Cluster garden: set it to "garden"' in outcome.message


@pytest.mark.parametrize(("seen", "is_read"), [("7", True), ("6", False), (None, False)])
def test_owner_is_judged_as_it_was_annotated(seen: str | None, is_read: bool) -> None:
    """The marks are watched by themselves: of the rest an older state may be there for a while."""

    def plane(version: str) -> Object:
        metadata = {"name": "garden", "resourceVersion": version, "annotations": MARKED}
        return made({"kind": "KubeadmControlPlane", "metadata": metadata})

    objects: Any = SimpleNamespace(get=lambda *_: plane(seen) if seen else None)
    tools: Any = SimpleNamespace(observer=SimpleNamespace(view=lambda _cluster: SimpleNamespace(capi_objects=objects)))
    ctx = AnnotationContext(tools, ControlPlaneGroup(), plane("7"), None)
    outcome = asyncio.run(read_cluster(ctx))
    assert (outcome == Continue(), ctx.capi_objects is objects) == (is_read, is_read)


@pytest.mark.parametrize(("is_there", "written"), [(True, []), (False, [{NODE_IN_WORK: None}])])
def test_claim_goes_with_its_holder(is_there: bool, written: list[Tree]) -> None:
    """Upgrades by hand claim it as well: without the claim a second node would be begun with."""
    changes: list[Tree] = []

    async def merge(_resource: Any, _object: Any, patch: Tree) -> None:
        changes.append(patch["metadata"]["annotations"])

    tools: Any = SimpleNamespace(
        writer=SimpleNamespace(merge=merge), observer=SimpleNamespace(is_there=lambda _claim: is_there)
    )
    claimed = made({"kind": "K", "metadata": {"name": "garden", "annotations": {NODE_IN_WORK: "a-node-upgrader 1"}}})
    assert asyncio.run(end_without_annotation(AnnotationContext(tools, ControlPlaneGroup(), claimed, None))) == Done()
    assert changes == written


def test_annotations_alone_wake_their_controller() -> None:
    marked, other = (made({"metadata": {"name": "a", "annotations": marks}}) for marks in (MARKED, {}))
    assert [_is_annotated(*pair) for pair in ((None, marked), (marked, other), (other, marked))] == [True] * 3
    assert [_is_annotated(*pair) for pair in ((None, other), (other, other), (other, None))] == [False] * 3
    claimed = made({"metadata": {"name": "a", "annotations": {NODE_IN_WORK: "a-node-upgrader 1"}}})
    assert _is_annotated(None, claimed), "nobody else removes a claim that is left"
