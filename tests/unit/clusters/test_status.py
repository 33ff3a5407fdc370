"""The status of a Cluster, from existing objects: one row, one story."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.cluster import ClusterStatus
from espalier.api.eksa.vocabulary import metadata_keys, reasons
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.clusters import Isolation
from espalier.clusters.design import names
from espalier.clusters.design.drift import gate
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report import readiness
from espalier.clusters.report.status import status_of
from espalier.clusters.report.validity import problem
from espalier.providers.registry import PROVIDERS
from espalier.releases import UnusableBundles
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from tests.support.objects.made_clusters import made, objects, settled
from tests.support.objects.observed_clusters import GARDEN, example, laptop, observer, scope

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WAITING = Wait("OutdatedInformation", "waiting for Cluster API to observe the control plane")


def report(scope: Scope, outcome: Outcome = WAITING) -> ClusterStatus:
    return status_of(scope, outcome, NOW)


def states(status: ClusterStatus) -> dict[str, str]:
    """Conditions as `True` or `False/Reason`."""
    return {
        item.type: "True" if item.status == "True" else f"{item.status}/{item.reason}" for item in status.conditions
    }


def condition(status: ClusterStatus, type_: str) -> Condition:
    return next(item for item in status.conditions if item.type == type_)


@pytest.mark.demand("L36")
def test_everything_is_waited_for_at_first() -> None:
    status = report(scope(*example()))
    assert status.phase == "Pending"
    assert states(status) == {
        "ControlPlaneInitialized": "False/ControlPlaneInitializationInProgress",
        "ControlPlaneReady": "False/ControlPlaneInitializationInProgress",
        "DefaultCNIConfigured": "False/ControlPlaneNotReady",
        "WorkersReady": "False/ControlPlaneNotInitialized",
        "Ready": "False/ControlPlaneInitializationInProgress",
        "Reconciling": "True",
    }
    assert (status.ready, status.control_plane_ready, status.observed_generation) == (False, False, 0)


@pytest.mark.demand("L32", "I11", "I12", "I26")
def test_ready_cluster_has_its_generations_written() -> None:
    status = report(made(objects=objects()), Done())
    assert {type_ for type_, value in states(status).items() if value != "True"} == {"Synced"}
    assert (status.phase, status.ready, status.spec_valid) == ("Running", True, True)
    assert (status.observed_generation, status.children_observed_generation) == (1, 1)
    assert condition(status, "WorkersReady").message == "2 of 2 worker nodes are ready"
    assert condition(status, "Ready").message == "3 nodes are ready, Kubernetes v1.35.4-eks-1-35-1"
    assert status.eksd_release_ref is not None
    assert status.eksd_release_ref.name == "kubernetes-1-35-eks-2"


@pytest.mark.demand("L35")
@pytest.mark.parametrize(
    ("control_plane", "reason", "message"),
    [
        (
            {"observedGeneration": 0},
            "OutdatedInformation",
            "control plane: Cluster API has not observed the last change",
        ),
        (
            {"replicas": 2, "upToDateReplicas": 1},
            "RollingUpgradeInProgress",
            "control plane machines are being replaced: 1 of 1 are up to date, 1 to replace; 1 of 2 nodes are ready",
        ),
        ({"replicas": 0, "upToDateReplicas": 0}, "ScalingUp", "scaling up control plane machines: 0 of 1 exist"),
        (
            {"replicas": 3, "upToDateReplicas": 3},
            "ScalingDown",
            "scaling down control plane machines: 3 exist, 1 stay",
        ),
        ({"readyReplicas": 0}, "NodesNotReady", "0 of 1 control plane nodes are ready"),
        (
            {"conditions": [{"type": "Available", "status": "False", "reason": "X", "message": "etcd has no leader"}]},
            "ControlPlaneComponentsUnhealthy",
            "etcd has no leader",
        ),
    ],
)
def test_unready_control_plane_says_why_in_numbers(control_plane: Tree, reason: str, message: str) -> None:
    status = report(made(objects=objects(control_plane=control_plane), status=settled()), Done())
    result = condition(status, "ControlPlaneReady")
    assert (result.status, result.reason) == ("False", reason)
    assert message in result.message
    assert status.control_plane_ready is False
    assert condition(status, "Ready").reason == reason


@pytest.mark.demand("L37")
@pytest.mark.parametrize(
    ("workers", "count", "reason", "message"),
    [
        ({"observedGeneration": 0}, 2, "OutdatedInformation", "workers: Cluster API has not observed the last change"),
        (
            {"replicas": 3, "upToDateReplicas": 1},
            2,
            "RollingUpgradeInProgress",
            "worker machines are being replaced: 1 of 2 are up to date, 2 to replace; 2 of 3 nodes are ready",
        ),
        ({}, 4, "ScalingUp", "scaling up worker machines: 2 of 4 exist"),
        ({}, 1, "ScalingDown", "scaling down worker machines: 2 exist, 1 stay"),
        ({"readyReplicas": 1}, 2, "NodesNotReady", "1 of 2 worker nodes are ready"),
    ],
)
def test_workers_are_not_ready_and_say_why_in_numbers(workers: Tree, count: int, reason: str, message: str) -> None:
    groups = [{"name": "md-0", "count": count}]
    status = report(made(objects=objects(workers=workers), workerNodeGroupConfigurations=groups))
    result = condition(status, "WorkersReady")
    assert (result.status, result.reason) == ("False", reason)
    assert message in result.message


def scaled_to(number: int, there: int) -> list[Tree]:
    """The example, with a MachineDeployment that somebody told another number."""
    results = objects(workers={"replicas": there, "upToDateReplicas": there, "readyReplicas": there})
    next(tree for tree in results if tree["kind"] == "MachineDeployment")["spec"]["replicas"] = number
    return results


@pytest.mark.demand("L37")
@pytest.mark.parametrize(
    ("number", "there", "annotations", "reason", "message"),
    [
        (
            3,
            3,
            {},
            "ReplicasChanged",
            "there are 3 worker machines, 2 in the spec; replicas were changed in a Cluster API obj",
        ),
        (1, 1, {}, "ReplicasChanged", f"set annotation {metadata_keys.DRIFT_ANNOTATION}=correct to correct it"),
        (3, 3, {metadata_keys.DRIFT_ANNOTATION: "correct"}, "ScalingDown", "scaling down worker machines"),
        (1, 2, {}, "True", ""),  # on its way, by hand
        (3, 3, {PAUSED_ANNOTATION: "true"}, "Paused", "nothing is scaled while the cluster is paused"),
    ],
)
def test_nothing_is_said_to_scale_that_stays_as_it_is(
    number: int, there: int, annotations: Tree, reason: str, message: str
) -> None:
    status = report(made(objects=scaled_to(number, there), status=settled(), annotations=annotations), Done())
    result = condition(status, "WorkersReady")
    assert reason in (result.status, result.reason)
    assert message in result.message
    assert (status.failure_reason == "ReplicasChanged") == (reason == "ReplicasChanged")


def paused_by_somebody(kind: str, tree: Tree) -> list[Tree]:
    results = objects(workers={"readyReplicas": 1}, control_plane={"readyReplicas": 0})
    for item in results:
        if item["kind"] == kind:
            item["metadata"].setdefault("annotations", {}).update(tree.get("annotations", {}))
            item["spec"] |= tree.get("spec", {})
    return results


PAUSE: Tree = {"annotations": {"cluster.x-k8s.io/paused": ""}}


@pytest.mark.demand("L37")
@pytest.mark.parametrize(
    ("kind", "how", "remedy"),
    [
        ("Cluster", PAUSE, "Cluster eksa-system/garden is paused: remove annotation cluster.x-k8s.io/paused"),
        ("Cluster", {"spec": {"paused": True}}, "eksa-system/garden is paused: set spec.paused to false"),
        ("KubeadmControlPlane", PAUSE, "KubeadmControlPlane eksa-system/garden is paused"),
        ("MachineDeployment", PAUSE, "MachineDeployment eksa-system/garden-md-0 is paused"),
    ],
)
def test_foreign_pause_is_named_with_the_remedy(kind: str, how: Tree, remedy: str) -> None:
    status = report(made(objects=paused_by_somebody(kind, how)))
    assert (condition(status, "Ready").reason, status.failure_reason) == ("ClusterAPIPaused", "ClusterAPIPaused")
    assert remedy in condition(status, "WorkersReady").message


RESUME = "or `espalier rollout resume garden md-0 -n team-a`"


@pytest.mark.parametrize("kind", ["MachineDeployment", "KubeadmControlPlane"])
def test_blocked_rollout_names_cause_and_command_first(kind: str) -> None:
    status = report(made(objects=paused_by_somebody(kind, PAUSE)))
    message = condition(status, "WorkersReady").message
    command = RESUME if kind == "MachineDeployment" else RESUME.replace("md-0", "--control-plane")
    assert message.startswith(f"{kind} eksa-system/")
    assert command in message
    assert message.endswith("worker nodes are ready")


def paused_group(**change: Any) -> ClusterStatus:
    """The status of a steady cluster whose group is paused by its spec, which Cluster API never observes."""
    results = objects()
    for item in results:
        if item["kind"] == "MachineDeployment":
            item["metadata"]["generation"] = 2
            item["spec"] |= {"paused": True} | change
    return report(made(objects=results, status=settled()), Done())


def test_pause_of_a_group_that_is_right_blocks_nothing() -> None:
    status = paused_group()
    assert condition(status, "WorkersReady").status == "True"
    assert (condition(status, "Ready").status, status.failure_reason) == ("True", None)


@pytest.mark.parametrize("change", [{"replicas": 5}, {"template": "labels"}, {"template": "version"}], ids=str)
def test_pause_of_a_group_that_has_to_change_is_named(change: Tree) -> None:
    if "template" in change:
        of_group = next(object_ for object_ in objects() if object_["kind"] == "MachineDeployment")
        template = copy.deepcopy(of_group["spec"]["template"])
        if change["template"] == "labels":
            template.setdefault("metadata", {}).setdefault("labels", {})["a"] = "b"
        else:
            template["spec"]["version"] = "v1.34.1"
        change = {"template": template}
    status = paused_group(**change)
    assert (condition(status, "Ready").reason, status.failure_reason) == ("ClusterAPIPaused", "ClusterAPIPaused")
    assert f"set spec.paused to false, {RESUME}" in condition(status, "WorkersReady").message


def test_own_pause_is_not_taken_for_a_foreign() -> None:
    how = {"annotations": {"cluster.x-k8s.io/paused": "", IN_PLACE_CONTROL_PLANE: "true"}}
    status = report(made(objects=paused_by_somebody("KubeadmControlPlane", how)))
    assert status.failure_reason is None


@pytest.mark.demand("U56")
def test_paused_cluster_tells_outdated_workers() -> None:
    half = objects(version="1.36")
    earlier = next(tree for tree in half if tree["kind"] == "MachineDeployment")
    earlier["spec"]["template"]["spec"]["version"] = "v1.35.4-eks-1-35-1"
    pause = {PAUSED_ANNOTATION: "true"}
    status = report(made(objects=half, kubernetesVersion="1.36", status=settled(), annotations=pause), Done())
    said_of_it = condition(status, "Ready").message
    assert said_of_it == "3 nodes are ready, Kubernetes v1.36.3-eks-1-36-1, workers v1.35.4-eks-1-35-1"


def test_uncounted_deployment_is_not_up_to_date() -> None:
    """Its counters come from its sets, which speak of the template before until they are reconciled."""
    made_objects = objects()
    deployment = next(tree for tree in made_objects if tree["kind"] == "MachineDeployment")
    status = report(made(objects=[*made_objects, machine_set(deployment)]))
    assert states(status)["WorkersReady"] == "True"
    status = report(made(objects=[*made_objects, machine_set(deployment, version="v1.34.4-eks-1-34-1")]))
    assert states(status)["WorkersReady"] == "False/RollingUpgradeInProgress"
    assert condition(status, "WorkersReady").message.endswith("0 of 2 are up to date, 2 to replace")


IN_PLACE: Tree = {"upgradeRolloutStrategy": {"type": "InPlace"}}
IN_PLACE_OR_ELSE: Tree = {"upgradeRolloutStrategy": {"type": "InPlace", "fallback": "RollingUpdate"}}
TAINTED: Tree = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
"""A change that is not made in place."""


@pytest.mark.parametrize(
    ("first", "second", "reason", "message"),
    [
        (IN_PLACE, IN_PLACE, "InPlaceUpgradeInProgress", "4 worker machines are upgraded in place after the"),
        (IN_PLACE, {}, "InPlaceUpgradeInProgress", "control plane, and 2 replaced"),
        (IN_PLACE, IN_PLACE_OR_ELSE | TAINTED, "InPlaceUpgradeInProgress", "control plane, and 2 replaced"),
        ({}, IN_PLACE_OR_ELSE | TAINTED, "RollingUpgradeInProgress", "worker machines are being replaced: 0 of 4"),
    ],
)
def test_waiting_workers_are_named(first: Tree, second: Tree, reason: str, message: str) -> None:
    """One group that is replaced says nothing of another; nor a strategy, where a fallback takes its place."""
    groups: list[Tree] = [{"name": "one", "count": 2} | first, {"name": "two", "count": 2} | second]
    before = [{name: value for name, value in group.items() if name != "taints"} for group in groups]
    stood = objects(workerNodeGroupConfigurations=before)
    result = condition(
        report(made(objects=stood, kubernetesVersion="1.36", workerNodeGroupConfigurations=groups)), "WorkersReady"
    )
    assert (result.status, result.reason) == ("False", reason)
    assert message in result.message


def test_workers_with_late_flags_are_not_ready() -> None:
    """Another release changes flags and files of machines without another version of Kubernetes."""
    before = [{"name": "one", "count": 2} | IN_PLACE, {"name": "two", "count": 2}]
    after = [before[0] | {"kubeletConfiguration": {"maxPods": 44}}, before[1]]
    stood = objects(workerNodeGroupConfigurations=before)
    status = report(made(objects=stood, workerNodeGroupConfigurations=after))
    assert states(status)["WorkersReady"] == "False/InPlaceUpgradeInProgress"
    told = condition(status, "WorkersReady").message
    assert told == "2 worker machines are upgraded in place after the control plane"


def test_workers_replaced_later_are_not_ready() -> None:
    """Their version stays; what their template will have is not written yet."""
    stood = objects(workerNodeGroupConfigurations=[{"name": "one", "count": 2}, {"name": "two", "count": 2}])
    groups: list[Tree] = [{"name": "one", "count": 2} | TAINTED, {"name": "two", "count": 2}]
    status = report(made(objects=stood, workerNodeGroupConfigurations=groups))
    assert states(status)["WorkersReady"] == "False/RollingUpgradeInProgress"
    assert "worker machines are being replaced: 2 of 4 are up to date" in condition(status, "WorkersReady").message
    written = objects(workerNodeGroupConfigurations=groups)
    assert states(report(made(objects=written, workerNodeGroupConfigurations=groups)))["WorkersReady"] == "True"


def test_replaced_workers_are_not_called_in_place() -> None:
    """The fallback has them replaced, whatever the strategy of their group is: nothing is pending any more."""
    groups = [{"name": "md-0", "count": 2} | IN_PLACE_OR_ELSE | TAINTED]
    stood = objects(workers={"upToDateReplicas": 1}, workerNodeGroupConfigurations=groups)
    status = report(made(objects=stood, workerNodeGroupConfigurations=groups, status=settled()), Done())
    assert states(status)["WorkersReady"] == "False/RollingUpgradeInProgress"


def test_unseen_machine_set_says_nothing_of_workers() -> None:
    """The deployment has counted, and its counts are those of the template before."""
    unseen = [tree for tree in objects() if tree["kind"] != "MachineSet"]
    assert states(report(made(objects=unseen)))["WorkersReady"] == "False/OutdatedInformation"
    assert not report(made(objects=unseen)).ready


def machine_set(deployment: Tree, **machine: object) -> Tree:
    """The set that a deployment has, for machines that differ in these fields."""
    template = copy.deepcopy(deployment["spec"]["template"])
    template["spec"] |= machine
    name = deployment["metadata"]["name"]
    labels = {"cluster.x-k8s.io/cluster-name": "garden", "cluster.x-k8s.io/deployment-name": name}
    return {
        "apiVersion": deployment["apiVersion"],
        "kind": "MachineSet",
        "metadata": {**deployment["metadata"], "name": f"{name}-abcde", "labels": labels},
        "spec": {"clusterName": "garden", "replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        "status": {"replicas": 2},
    }


@pytest.mark.demand("L34")
def test_cluster_without_its_network_is_not_ready() -> None:
    without = objects()
    next(tree for tree in without if tree["kind"] == "Cluster")["metadata"]["annotations"] = {}
    status = report(made(objects=without))
    assert (status.control_plane_ready, states(status)["WorkersReady"]) == (True, "True")
    assert states(status)["DefaultCNIConfigured"] == "False/DefaultCNIInstallationInProgress"
    assert (status.ready, condition(status, "Ready").reason) == (False, "DefaultCNIInstallationInProgress")


def test_machines_of_a_removed_group_are_too_many() -> None:
    groups = [{"name": "md-0", "count": 2}, {"name": "old", "count": 1}]
    status = report(made(objects=objects(workerNodeGroupConfigurations=groups)))
    assert condition(status, "WorkersReady").message == "scaling down worker machines: 3 exist, 2 stay"


def test_fresh_upgrade_is_ready_nowhere() -> None:
    """Everything that is there is ready, but it is not what is asked for: nobody may read True."""
    status = report(made(objects=objects(version="1.35"), kubernetesVersion="1.36"))
    assert states(status)["ControlPlaneReady"] == "False/OutdatedInformation"
    assert states(status)["WorkersReady"] == "False/RollingUpgradeInProgress"
    assert condition(status, "WorkersReady").message.endswith("0 of 2 are up to date, 2 to replace")


def test_change_of_an_existing_cluster_is_an_upgrade() -> None:
    known = settled(observedGeneration=7)
    assert report(made(objects=objects(), status=known)).phase == "Upgrading"
    assert report(made(objects=objects(), status={})).phase == "Creating"


def test_ready_says_what_else_is_waited_for() -> None:
    status = report(made(objects=objects()), Wait("WaitingForKubeconfig", "Secret x is not there"))
    ready = condition(status, "Ready")
    assert (ready.status, ready.reason, ready.message) == ("False", "WaitingForKubeconfig", "Secret x is not there")
    assert status.failure_reason is None


@pytest.mark.demand(L31="each reason that no time heals, by one table")
@pytest.mark.parametrize("reason", sorted(reasons.waiting_for_people(reasons.CLUSTER)))
def test_whatever_no_time_heals_is_a_failure(reason: str) -> None:
    status = report(made(objects=objects()), Wait(reason, "do this"))
    assert (status.failure_reason, status.failure_message) == (reason, "do this")
    assert status.phase == "Failed" or condition(status, "Ready").status == "True"


@pytest.mark.demand(L33="*Failed*")
def test_lost_object_is_failure_and_no_pending_cluster() -> None:
    scope_ = made(objects=[], status=settled())
    scope_ = made(objects=[], status=settled(), annotations={metadata_keys.GATE_ANNOTATION: scope_.content_hash})
    status = report(scope_, Wait(Reason.CLUSTER_API_OBJECTS_MISSING, readiness.OBJECTS_MISSING))
    assert (status.phase, status.failure_reason) == ("Failed", "ClusterAPIObjectsMissing")


def test_an_obstacle_is_reported_before_ordinary_waits() -> None:
    scope = made(objects=objects(workers={"readyReplicas": 0}))
    held = Wait("KubeconfigSecretTaken", "the Secret is taken")
    assert condition(report(scope, held), "Ready").message == "the Secret is taken"
    unreachable = Fault("WorkloadClusterUnreachable", "no answer")
    assert condition(report(scope, unreachable), "Ready").message == "no answer"
    fought = Fault("TooManyWrites", "x is written too often", after=30.0)
    assert condition(report(scope, fought), "Ready").reason == "TooManyWrites"
    passing = Fault("Conflict", "somebody was faster")
    assert condition(report(scope, passing), "Ready").reason == "NodesNotReady"


@pytest.mark.demand("L31")
def test_missing_child_is_failure_that_is_waited_out() -> None:
    outcome = Wait("MissingDependentObjects", "waiting for DockerDatacenterConfig garden")
    status = report(scope(example()[0]), outcome)
    assert (status.failure_reason, status.failure_message) == (outcome.reason, outcome.message)
    assert (status.phase, condition(status, "Ready").reason) == ("Pending", "MissingDependentObjects")


@pytest.mark.demand(L33="*Failed*")
def test_a_refused_object_is_a_failure() -> None:
    status = report(made(objects=objects()), Fault("ObjectRefused", "spec.x: no"))
    assert (status.phase, status.failure_reason, status.failure_message) == ("Failed", "ObjectRefused", "spec.x: no")


def test_a_temporary_problem_is_no_failure() -> None:
    status = report(made(objects=objects()), Fault("WorkloadClusterUnreachable", "no answer"))
    assert status.failure_reason is None
    assert condition(status, "Ready").message == "no answer"


@pytest.mark.demand("L31", "L32")
def test_a_failure_is_gone_after_its_repair() -> None:
    before = settled(failureReason="ClusterInvalid", failureMessage="count is even", specValid=False)
    status = report(made(objects=objects(), status=before), Done())
    assert (status.failure_reason, status.failure_message, status.spec_valid) == (None, None, True)


@pytest.mark.demand("L32")
def test_an_invalid_spec_is_said_to_be_so() -> None:
    bad = {"count": 2}
    status = report(scope(*example(controlPlaneConfiguration=bad)), Wait("ClusterInvalid", "count"))
    assert status.spec_valid is False


def test_a_change_is_not_judged_before_it_has_settled() -> None:
    """Nor is what failed before still a failure: the change may end it."""
    wait = Wait(Reason.SETTLING, "a change was requested", after=3.0)
    bad = {"count": 2}
    before = scope(*example(controlPlaneConfiguration=bad))
    judged = report(before, Wait("ClusterInvalid", "count"))
    assert (judged.failure_reason, condition(judged, "SpecValid").observed_generation) == ("ClusterInvalid", 1)
    fresh = msgspec.structs.replace(before, settling=wait)
    assert (report(fresh, wait).failure_reason, "SpecValid" in states(report(fresh, wait))) == (None, False)
    assert states(report(fresh, wait))["Ready"] == "False/ControlPlaneInitializationInProgress"

    tree = example(controlPlaneConfiguration={"count": 3})[0]
    tree["metadata"]["generation"] = 2
    tree["status"] = msgspec.to_builtins(judged)
    status = report(msgspec.structs.replace(scope(tree, *example()[1:]), settling=wait), wait)
    assert (status.failure_reason, status.spec_valid) == (None, False)
    assert condition(status, "SpecValid") == condition(judged, "SpecValid"), "of the generation that was judged"
    ready = report(msgspec.structs.replace(made(objects=objects()), settling=wait), wait)
    assert states(ready)["Ready"] == "False/Settling"


@pytest.mark.demand("L34")
def test_settled_cluster_with_a_lost_node_is_not_ready() -> None:
    status = report(made(objects=objects(workers={"readyReplicas": 1}), status=settled()), Done())
    assert (status.phase, status.ready, status.observed_generation) == ("Running", False, 1)


def test_paused_cluster_reports_its_state() -> None:
    pause = {PAUSED_ANNOTATION: "true"}
    old = settled(observedGeneration=7)
    status = report(made(objects=objects(workers={"readyReplicas": 1}), status=old, annotations=pause), Done())
    assert status.observed_generation == 7
    assert states(status)["WorkersReady"] == "False/NodesNotReady"


@pytest.mark.parametrize(("annotations", "phase"), [({PAUSED_ANNOTATION: "true"}, "Running"), ({}, "Upgrading")])
def test_a_paused_cluster_is_not_being_upgraded(annotations: dict[str, str], phase: str) -> None:
    """Nothing of its change is made."""
    stood = made(objects=objects(), status=settled(observedGeneration=7), annotations=annotations)
    assert report(stood).phase == phase


@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        ({"annotations": {PAUSED_ANNOTATION: "true"}}, "True"),
        ({"status": settled()}, "True"),
        ({}, "False/InPlaceUpgradeInProgress"),
    ],
)
def test_changes_that_nobody_makes_are_not_reported(marks: dict[str, Any], reason: str) -> None:
    """Of a paused cluster, and of a settled one whose manager renders otherwise now."""
    before = [{"name": "one", "count": 2} | IN_PLACE]
    after = [before[0] | {"kubeletConfiguration": {"maxPods": 44}}]
    stood = made(objects=objects(workerNodeGroupConfigurations=before), workerNodeGroupConfigurations=after, **marks)
    assert states(report(stood, Done()))["WorkersReady"] == reason


def test_record_of_management_cluster_is_calm_and_true() -> None:
    status = report(scope(key=Key("default", "laptop")), Done())
    assert states(status) == {
        "ControlPlaneInitialized": "True",
        "ControlPlaneReady": "True",
        "WorkersReady": "True",
        "Ready": "True",
    }
    assert "serves the API" in condition(status, "Ready").message
    assert status.phase == "Running"
    assert laptop()["metadata"]["name"] == "laptop"


@pytest.mark.demand("L37")
def test_deleted_cluster_tells_what_is_awaited() -> None:
    tree = example()[0]
    tree["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = report(scope(tree, *objects()), Wait("Deleting", "waiting for 2 worker machines to be deleted"))
    ready = condition(status, "Ready")
    assert (status.phase, ready.reason, ready.message) == (
        "Deleting",
        "Deleting",
        "waiting for 2 worker machines to be deleted",
    )


@pytest.mark.parametrize(("begun", "expected"), [(True, "False/Deleting"), (False, "True")])
def test_parts_are_deleted_once_cluster_api_deletes(begun: bool, expected: str) -> None:
    tree, there = example()[0], objects()
    tree["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for item in there:
        if begun and item["kind"] == "Cluster":
            item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    result = states(report(scope(tree, *example()[1:], *there), Wait("Deleting", "waiting")))
    assert (result["ControlPlaneReady"], result["WorkersReady"]) == (expected, expected)
    assert result["ControlPlaneInitialized"] == "True"


@pytest.mark.demand("L36")
def test_times_of_transitions_move_only_with_status() -> None:
    first = report(made(objects=objects()), Done())
    later = datetime(2026, 1, 2, tzinfo=UTC)
    tree = {"conditions": [_tree(item) for item in first.conditions]}
    compared = next(item for item in first.conditions if item.type == "Synced")
    same = status_of(made(objects=objects(), status=settled(**tree)), Done(), later, compared)
    assert same.conditions == first.conditions
    worse = status_of(made(objects=objects(workers={"readyReplicas": 0}), status=settled(**tree)), Done(), later)
    assert condition(worse, "WorkersReady").last_transition_time == "2026-01-02T00:00:00Z"
    assert condition(worse, "ControlPlaneReady").last_transition_time == "2026-01-01T00:00:00Z"


def test_status_of_an_older_manager_is_rewritten() -> None:
    tree = example()[0]
    tree["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "reconciledGeneration": 1}
    status = report(scope(tree))
    assert states(status)["Ready"].startswith("False/")


def _tree(first: Condition) -> dict[str, Any]:
    return {
        "type": first.type,
        "status": first.status,
        "reason": first.reason,
        "message": first.message,
        "lastTransitionTime": first.last_transition_time,
        "observedGeneration": first.observed_generation,
    }


def test_other_network_plugin_is_always_refused() -> None:
    network = {**example()[0]["spec"]["clusterNetwork"], "cniConfig": {"cilium": {}}}
    result = problem(made(objects=objects(), clusterNetwork=network))
    assert result is not None
    assert (result.reason, "set kindnetd again" in result.message) == ("ClusterInvalid", True)
    half = objects()
    tree = next(item for item in half if item["kind"] == "Cluster")
    tree["metadata"]["annotations"] = {metadata_keys.CNI_ANNOTATION: f"cilium-{names.UNFINISHED}"}
    assert problem(made(objects=half)) is None
    assert problem(made(objects=half, clusterNetwork=network)) is None


def test_a_reason_under_its_earlier_name_is_not_kept() -> None:
    """As a manager before this one wrote it."""
    old = {"type": "Synced", "status": "Unknown", "reason": "NotLookedYet", "message": "waiting"}
    status = report(made(objects=objects(), status=settled(conditions=[old])), Done())
    assert states(status)["Synced"] == "Unknown/NotYetCompared"


@pytest.mark.parametrize("mark", ["settled", gate.OPENED])
def test_missing_linked_object_claims_no_creation(mark: str) -> None:
    """Of a settled cluster nothing was asked for; of one that was being changed nothing goes on."""
    annotations = {metadata_keys.GATE_ANNOTATION: mark}
    trees = [*example(), *objects()]
    trees[0] |= {"status": settled()}
    trees[0]["metadata"]["annotations"] = annotations
    for kind in ("datacenter", "bundles"):
        with_releases = kind == "datacenter"
        there = [tree for tree in trees if tree["kind"] != "DockerDatacenterConfig" or not with_releases]
        observed = observer(*there, with_releases=with_releases).scope(GARDEN)
        assert observed is not None
        result = condition(report(observed), "Synced")
        assert (result.status, result.reason) == ("Unknown", "NotComparable")
        what = "DockerDatacenterConfig garden in namespace team-a" if with_releases else "its Bundles do not exist"
        assert what in result.message


def test_a_lost_cni_is_said_until_it_is_compared_again() -> None:
    lost = {"type": "DefaultCNIConfigured", "status": "False", "reason": "DefaultCNIMissing", "message": "gone"}
    before = made(objects=objects(), status=settled(conditions=[lost]))
    assert states(report(before, Done()))["DefaultCNIConfigured"] == "False/DefaultCNIMissing"
    seen = msgspec.structs.replace(before, lost_cni=())
    assert states(report(seen, Done()))["DefaultCNIConfigured"] == "True"
    without_layers = msgspec.structs.replace(before, isolation=Isolation.GATE)  # nobody compares it any longer
    assert states(report(without_layers, Done()))["DefaultCNIConfigured"] == "True"


def test_machines_are_held_around_an_in_place_upgrade() -> None:
    results = objects()
    plane = next(tree for tree in results if tree["kind"] == "KubeadmControlPlane")
    plane["metadata"]["annotations"] = {IN_PLACE_CONTROL_PLANE: "true"}
    ready = condition(report(made(objects=results)), "ControlPlaneReady")
    assert ready.message == (
        "machines of KubeadmControlPlane garden are reserved for an in-place upgrade, which begins or has just ended"
    )


def test_image_invalid_later_keeps_steady_cluster() -> None:
    """Its Bundles can't have changed, so nothing of the cluster did: it only can't be compared any longer."""
    broken = UnusableBundles("Bundles bundles-1, Kubernetes 1.35: spec.versionsBundles[1].kindnetd.image.uri: ...")
    steady = made(objects=objects(), status=settled())
    status = report(msgspec.structs.replace(steady, render_input=None, problem=broken), Done())
    assert status.spec_valid
    assert states(status) == states(report(steady, Done())) | {"Synced": "Unknown/NotComparable"}
    assert str(broken) in condition(status, "Synced").message
    changed = made(objects=objects(), status=settled(observedGeneration=0))
    status = report(msgspec.structs.replace(changed, render_input=None, problem=broken), Done())
    assert not status.spec_valid
    assert states(status)["SpecValid"] == f"False/{Reason.BUNDLES_INVALID}"


def test_image_needed_later_keeps_steady_cluster() -> None:
    """Nor is anything rendered without the image, to be compared or corrected by."""
    docker = "DockerDatacenterConfig"
    providers = {**PROVIDERS, docker: replace(PROVIDERS[docker], images=("docker.gatekeeper",))}
    cluster, *others = example()

    def seen(**status: Any) -> Scope:
        cluster["status"] = settled(**status)
        observed = observer(cluster, *others, *objects(), providers=providers).scope(GARDEN)
        assert observed is not None
        return observed

    lacking = "the release has no images for clusters with DockerDatacenterConfig (docker.gatekeeper)"
    status = report(seen(), Done())
    assert status.spec_valid
    assert states(status)["Synced"] == "Unknown/NotComparable"
    assert lacking in condition(status, "Synced").message
    status = report(seen(observedGeneration=0), Done())
    assert states(status)["SpecValid"] == "False/EksaVersionInvalid"
    assert lacking in condition(status, "SpecValid").message
