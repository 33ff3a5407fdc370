"""The report on machines that are held for an upgrade in place: by its conditions, whatever their reasons are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.parts.rollouts import ControlPlaneUpgradeRolloutStrategy
from espalier.api.eksa.upgrades import (
    PAUSED_FOR_UPGRADE,
    ControlPlaneUpgrade,
    FrontEnd,
    MachineDeploymentUpgrade,
    NodeUpgrade,
    refusal,
)
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import (
    IN_PLACE_CONTROL_PLANE,
    IN_PLACE_HOOKS,
    IN_PLACE_REFUSED,
    REPLACING,
)
from espalier.api.meta import Tree
from espalier.clusterapi.changes.classification import Classification, MachineEffect
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.clusters.act.step import decisions_of
from espalier.clusters.design import names
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.observe.machines import in_place_progress
from espalier.clusters.plan import in_place, plan
from espalier.clusters.report import readiness
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait
from tests.support.objects.made_clusters import made, objects
from tests.support.objects.observed_clusters import as_object


def held() -> KubeadmControlPlane:
    [tree] = [object_ for object_ in objects() if object_["kind"] == "KubeadmControlPlane"]
    tree["metadata"].setdefault("annotations", {})[IN_PLACE_CONTROL_PLANE] = "true"
    return as_object(tree).decode(KubeadmControlPlane)


def upgrade(live: KubeadmControlPlane, **statuses: str) -> Tree:
    """An upgrade of it with these conditions, all of a reason that nobody knows."""
    result = {"Ready": "False", **statuses}
    return {
        "apiVersion": ControlPlaneUpgrade.resource.api_version,
        "kind": ControlPlaneUpgrade.resource.kind,
        "metadata": {
            "name": f"{live.metadata.name}-cp-upgrade",
            "namespace": live.metadata.namespace,
            "uid": "upgrade",
            "resourceVersion": "5",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "K", "name": live.metadata.name, "uid": live.metadata.uid}
            ],
        },
        "spec": {
            "controlPlane": {"name": live.metadata.name},
            "machinesRequireUpgrade": [],
            "kubernetesVersion": "v1.36.3",
            "controlPlaneSpecData": "",
        },
        "status": {
            "conditions": [
                {"type": type_, "status": status, "reason": "OfAnotherVersion", "message": "so it is"}
                for type_, status in result.items()
            ]
        },
    }


@pytest.mark.parametrize(("observed", "is_reported"), [(2, False), (1, True)])
def test_counters_of_earlier_generations_hide_nothing(observed: int, is_reported: bool) -> None:
    """Cluster API did not begin with the change that hooks have refused: all machines are as before it."""
    [tree] = [object_ for object_ in objects() if object_["kind"] == "KubeadmControlPlane"]
    tree["metadata"] |= {"generation": 2, "annotations": {IN_PLACE_HOOKS: "Fail", IN_PLACE_REFUSED: refusal(2, "no")}}
    tree["status"] = {**tree["status"], "observedGeneration": observed, "replicas": 1, "upToDateReplicas": 1}
    state = in_place_progress.progress(as_object(tree).decode(KubeadmControlPlane), ())
    assert state == (Wait(Reason.IN_PLACE_UPGRADE_REFUSED, "no") if is_reported else None)


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ({"Progressing": "True", "Accepted": "True"}, Reason.IN_PLACE_UPGRADE_IN_PROGRESS),
        ({"Progressing": "Unknown", "Accepted": "True"}, Reason.IN_PLACE_UPGRADE_IN_PROGRESS),
        ({"Progressing": "False", "Accepted": "True"}, Reason.IN_PLACE_UPGRADE_FAILED),
        ({"Progressing": "False", "Accepted": "False"}, Reason.IN_PLACE_UPGRADE_REFUSED),
        ({}, Reason.IN_PLACE_UPGRADE_IN_PROGRESS),
    ],
)
def test_the_report_follows_conditions_and_no_reason(statuses: Tree, reason: str) -> None:
    live = held()
    results = (as_object(upgrade(live, **statuses)),)
    assert in_place_progress.progress(live, results) == Wait(reason, "so it is")


STEPS = ("UpgraderPodCreated", "BinariesCopied", "ContainerdUpgraded", "CNIPluginsUpgraded", "KubeadmUpgraded")


def node_upgrade(done: int, progressing: str, node_type: str = "ControlPlane", *, completed: bool = False) -> Object:
    """The upgrade of a node of which so many steps are done, the pod's creation counted as one."""
    conditions = [
        *({"type": step, "status": "True", "reason": "Done"} for step in STEPS[:done]),
        {"type": "Progressing", "status": progressing, "reason": "So"},
        {"type": "Ready", "status": str(completed), "reason": "So"},
    ]
    return as_object(
        {
            "apiVersion": NodeUpgrade.resource.api_version,
            "kind": NodeUpgrade.resource.kind,
            "metadata": {"name": "one-node-upgrader", "namespace": "eksa-system", "uid": "1", "resourceVersion": "5"},
            "spec": {"machine": {"name": "one"}, "kubernetesVersion": "v1.36.3", "nodeType": node_type},
            "status": {"conditions": conditions, "completed": completed},
        }
    )


@pytest.mark.parametrize(
    ("value", "is_untouched"),
    [
        ([], True),
        ([node_upgrade(0, "False")], True),  # no image for the version
        ([node_upgrade(1, "False")], True),  # the image can't be pulled, or the copy failed
        ([node_upgrade(3, "False")], True),  # the CNI plugins could not be replaced
        ([node_upgrade(1, "True")], False),  # it goes on: kubeadm may run by the time that this is read
        ([node_upgrade(4, "False")], False),  # kubeadm failed: nobody knows how far it came
        ([node_upgrade(5, "False")], False),
        ([node_upgrade(0, "True", completed=True)], False),
        ([node_upgrade(5, "True", "Worker")], True),
    ],
)
def test_possibility_of_rollback_follows_from_steps(value: list[Object], is_untouched: bool) -> None:
    assert in_place_progress.is_untouched([], value) is is_untouched


def test_there_is_no_rollback_once_a_node_was_upgraded() -> None:
    live = held()
    tree = upgrade(live)
    tree["status"]["upgraded"] = 1
    assert not in_place_progress.is_untouched([as_object(tree)], [])


def test_upgraded_workers_allow_a_rollback() -> None:
    tree = {
        "apiVersion": MachineDeploymentUpgrade.resource.api_version,
        "kind": MachineDeploymentUpgrade.resource.kind,
        "metadata": {"name": "md-upgrade", "namespace": "eksa-system", "uid": "2", "resourceVersion": "5"},
        "spec": {
            "machineDeployment": {"name": "md"},
            "machinesRequireUpgrade": [],
            "kubernetesVersion": "v1.36.3",
            "machineSpecData": "",
        },
        "status": {"upgraded": 1},
    }
    assert in_place_progress.is_untouched([as_object(tree)], [])


def asked(
    replicas: int, front_end: FrontEnd = FrontEnd.HOOKS, kind: str | None = "InPlace", fallback: str | None = None
) -> str:
    """Why another version may not be written to a control plane of so many machines yet; empty when it may."""
    strategy = {"type": kind} | ({"fallback": fallback} if fallback else {})
    spec: Tree = {
        "controlPlaneConfiguration": {"count": replicas} | ({"upgradeRolloutStrategy": strategy} if kind else {})
    }
    scope = made(objects=objects(front_end=front_end, **spec), front_end=front_end, kubernetesVersion="1.36", **spec)
    assert scope.render_input is not None
    wanted = plan.control_plane(scope.render_input, scope.capi_objects)
    result = plan.obstacle(wanted, scope.render_input, scope.capi_objects)
    return result.reason if result else ""


def test_control_plane_rolled_by_hooks_is_unwritten() -> None:
    assert asked(1) == Reason.TOO_FEW_MACHINES_FOR_HOOKS
    assert asked(1, fallback="RollingUpdate") == "", "it is to be rolled then"
    assert asked(3) == Reason.RUNTIME_HOOKS_NOT_DISCOVERED
    assert asked(3, fallback="RollingUpdate") == Reason.RUNTIME_HOOKS_NOT_DISCOVERED


def test_owner_upgraded_by_annotation_skips_hooks() -> None:
    live = held()
    wanted = msgspec.structs.replace(live, spec=msgspec.structs.replace(live.spec, version="v1.36.3"))
    strategy = ControlPlaneUpgradeRolloutStrategy(type="InPlace")
    outdated = Classification(MachineEffect.IN_PLACE, ("version",))
    held_one = in_place.OwnerChange(wanted, live, strategy, lambda: outdated)
    assert in_place.obstacle(held_one, FrontEnd.HOOKS, None) is None
    new_one = in_place.OwnerChange(wanted, None, strategy, Classification)
    assert in_place.obstacle(new_one, FrontEnd.HOOKS, None) is None, "a new one is made as it is asked"


def test_held_machines_are_compared_with_nothing() -> None:
    def compare() -> Classification:
        raise AssertionError("nobody needs to know")

    live = held()
    wanted = msgspec.structs.replace(live, spec=msgspec.structs.replace(live.spec, version="v1.36.3"))
    change = in_place.OwnerChange(wanted, live, ControlPlaneUpgradeRolloutStrategy(type="InPlace"), compare)
    for front_end in FrontEnd:
        assert in_place.with_upgrade_requested(change, front_end).spec == wanted.spec
        assert in_place.obstacle(change, front_end, None) is None
    assert in_place.postponed(change, has_cni=False) == ""


@pytest.mark.parametrize(
    ("annotations", "paused"),
    [
        ({}, PAUSED_FOR_UPGRADE),
        ({PAUSED_ANNOTATION: PAUSED_FOR_UPGRADE}, PAUSED_FOR_UPGRADE),
        ({PAUSED_ANNOTATION: "by hand"}, None),  # nothing of it is applied: it stays as it is, and a person's
        ({REPLACING: "one is lost"}, None),
        ({REPLACING: "one is lost", PAUSED_ANNOTATION: PAUSED_FOR_UPGRADE}, PAUSED_FOR_UPGRADE),
    ],
)
def test_cluster_api_is_paused_unless_it_is_needed(annotations: Tree, paused: str | None) -> None:
    mark = {IN_PLACE_CONTROL_PLANE: "true"}
    live, wanted = (
        msgspec.structs.replace(held(), metadata=msgspec.structs.replace(held().metadata, annotations=item))
        for item in (mark | annotations, {})
    )
    requested = in_place.with_upgrade_requested(
        in_place.OwnerChange(wanted, live, ControlPlaneUpgradeRolloutStrategy(type="InPlace"), Classification),
        FrontEnd.ANNOTATIONS,
    )
    assert requested.metadata.annotations[IN_PLACE_CONTROL_PLANE] == "true"
    assert requested.metadata.annotations.get(PAUSED_ANNOTATION) == paused


@pytest.mark.parametrize("front_end", FrontEnd)
def test_a_requested_upgrade_changes_nothing_rendered(front_end: FrontEnd) -> None:
    spec: Tree = {
        "controlPlaneConfiguration": {"count": 3, "upgradeRolloutStrategy": {"type": "InPlace"}},
        "workerNodeGroupConfigurations": [
            {"name": "md-0", "count": 1, "upgradeRolloutStrategy": {"type": "InPlace"}},
        ],
    }
    scope = made(objects=objects(front_end=front_end, **spec), front_end=front_end, kubernetesVersion="1.36", **spec)
    assert scope.render_input is not None
    before = msgspec.json.encode(rendered(scope.render_input))
    asked_for = [
        item.metadata.annotations
        for made_by in (plan.control_plane, plan.worker_groups)
        for item in made_by(scope.render_input, scope.capi_objects)
        if isinstance(item, KubeadmControlPlane | MachineDeployment)
    ]
    assert all(asked_for), "the upgrade of each owner is requested"
    assert msgspec.json.encode(rendered(scope.render_input)) == before


def test_owner_without_hooks_does_not_wait_for_them() -> None:
    for replicas in (1, 3):
        assert asked(replicas, FrontEnd.ANNOTATIONS) == ""
        assert asked(replicas, kind="RollingUpdate") == ""
        assert asked(replicas, kind=None) == ""


REFUSING: Tree = {"certSans": ["garden.example"]}


def changes(strategy: Tree, front_end: FrontEnd = FrontEnd.ANNOTATIONS, **changed: Any) -> list[in_place.OwnerChange]:
    """The effect of a change on a control plane and a group that were made with this strategy."""
    groups = [{"name": "md-0", "count": 2, "upgradeRolloutStrategy": strategy}]
    before: Tree = {
        "controlPlaneConfiguration": {"count": 3, "upgradeRolloutStrategy": strategy},
        "workerNodeGroupConfigurations": groups,
    }
    after = {name: before[name] | changed.get(name, {}) for name in ("controlPlaneConfiguration",)}
    more = {name: value for name, value in changed.items() if name not in after}
    scope = made(objects=objects(front_end=front_end, **before), front_end=front_end, **{**before, **after, **more})
    assert scope.render_input is not None
    return decisions_of(scope).owner_changes


def effects(value: list[in_place.OwnerChange]) -> list[MachineEffect]:
    return [item.classified.effect for item in value]


@pytest.mark.parametrize("front_end", list(FrontEnd))
def test_each_owner_is_classified_before_it_is_written(front_end: FrontEnd) -> None:
    nothing = changes({"type": "InPlace"}, front_end)
    assert effects(nothing) == [MachineEffect.NOTHING, MachineEffect.NOTHING]
    version = changes({"type": "InPlace"}, front_end, kubernetesVersion="1.36")
    assert effects(version) == [MachineEffect.IN_PLACE, MachineEffect.IN_PLACE]
    refused = changes({"type": "InPlace"}, front_end, controlPlaneConfiguration=REFUSING, kubernetesVersion="1.36")
    assert effects(refused) == [MachineEffect.REFUSED, MachineEffect.IN_PLACE]
    fallback: Tree = {"type": "InPlace", "fallback": "RollingUpdate"}
    replaced = changes(fallback, front_end, controlPlaneConfiguration=REFUSING, kubernetesVersion="1.36")
    assert effects(replaced) == [MachineEffect.REPLACED, MachineEffect.IN_PLACE]
    assert changes({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}) == []


def test_all_that_is_refused_is_reported_at_once() -> None:
    labelled = {"name": "md-0", "count": 2, "labels": {"a": "b"}, "upgradeRolloutStrategy": {"type": "InPlace"}}
    results = changes({"type": "InPlace"}, controlPlaneConfiguration=REFUSING, workerNodeGroupConfigurations=[labelled])
    result = in_place.refused(results)
    assert result is not None
    assert result.reason == Reason.IN_PLACE_UPGRADE_REFUSED
    assert "bootstrap.clusterConfiguration.apiServer.certSANs of the control plane" in result.message
    assert "kubeletExtraArgs[node-labels] of worker node group md-0" in result.message


def test_fallback_is_annotated_and_paused_nowhere() -> None:
    fallback: Tree = {"type": "InPlace", "fallback": "RollingUpdate"}
    results = changes(fallback, controlPlaneConfiguration=REFUSING, kubernetesVersion="1.36")
    control_plane, group = (item.wanted.metadata.annotations for item in results)
    assert IN_PLACE_CONTROL_PLANE not in control_plane
    assert PAUSED_ANNOTATION not in control_plane
    assert group[PAUSED_ANNOTATION] == PAUSED_FOR_UPGRADE, "workers are upgraded in place"


def test_defaults_of_the_api_server_are_no_change() -> None:
    """A new template has the defaults that the one before it was given."""
    strategy: Tree = {"upgradeRolloutStrategy": {"type": "InPlace"}}
    spec: Tree = {"workerNodeGroupConfigurations": [{"name": "md-0", "count": 2} | strategy]}
    live = objects(**spec)
    for tree in live:
        if tree["kind"] == "DockerMachineTemplate":
            tree["spec"]["template"]["spec"]["bootstrapTimeout"] = "3m"
    scope = made(objects=live, kubernetesVersion="1.36", **spec)
    assert scope.render_input is not None
    assert effects(decisions_of(scope).owner_changes) == [MachineEffect.IN_PLACE]


@pytest.mark.parametrize(("is_upgrading", "effect"), [(True, MachineEffect.NOTHING), (False, MachineEffect.REFUSED)])
def test_edit_of_held_objects_is_reverted(is_upgrading: bool, effect: MachineEffect) -> None:
    """Its machines did not follow the edit; those of a control plane that is not paused did."""
    spec: Tree = {"controlPlaneConfiguration": {"count": 1, "upgradeRolloutStrategy": {"type": "InPlace"}}}
    live = objects(**spec)
    [tree] = [item for item in live if item["kind"] == "KubeadmControlPlane"]
    configuration = tree["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]
    configuration["apiServer"]["certSANs"] = ["evil.example"]
    owned = next(entry for entry in tree["metadata"]["managedFields"] if entry["manager"] == names.FIELD_MANAGER)
    config = owned["fieldsV1"]["f:spec"]["f:kubeadmConfigSpec"]["f:clusterConfiguration"]
    del config["f:apiServer"]["f:certSANs"]
    if is_upgrading:
        tree["metadata"].setdefault("annotations", {})[IN_PLACE_CONTROL_PLANE] = "true"
    scope = made(objects=live, **spec)
    assert scope.render_input is not None
    (element,) = decisions_of(scope).owner_changes
    assert element.classified.effect is effect


def test_refused_change_is_reported_before_any_action() -> None:
    """In the conditions of both, whichever of the two is refused: nothing of either is written."""
    strategy: Tree = {"upgradeRolloutStrategy": {"type": "InPlace"}}
    group: Tree = {"name": "md-0", "count": 2, **strategy}
    plane: Tree = {"count": 1, **strategy}
    live = objects(controlPlaneConfiguration=plane, workerNodeGroupConfigurations=[group])

    def reasons(control_plane: Tree, workers: Tree, version: str = "1.36") -> dict[str, str]:
        groups = [group | workers]
        wanted: Tree = {"controlPlaneConfiguration": plane | control_plane, "workerNodeGroupConfigurations": groups}
        scope = made(objects=live, kubernetesVersion=version, **wanted)
        return {condition.type: condition.reason for condition in readiness.conditions(scope)}

    plane_changes: Tree = {"certSans": ["a.example.com"]}
    group_changes: Tree = {"labels": {"a": "b"}}
    types = ("ControlPlaneReady", "WorkersReady")

    def refused(value: dict[str, str]) -> list[str]:
        return [type_ for type_ in types if value[type_] == Reason.IN_PLACE_UPGRADE_REFUSED]

    assert refused(reasons(plane_changes, {})) == [*types]
    assert refused(reasons({}, group_changes)) == [*types]
    assert refused(reasons(plane_changes, {}, "1.35")) == ["ControlPlaneReady"], "the workers do not change"
    assert refused(reasons({}, group_changes, "1.35")) == ["WorkersReady"]
    assert refused(reasons({}, {})) == []
