"""Writes and deletions, planned from desired and existing objects."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import msgspec.structs

from espalier.api.meta import Tree
from espalier.clusterapi.contract import SKIP_COREDNS_ANNOTATION
from espalier.clusters.design.drift import ownership
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import plan
from espalier.clusters.plan.plan import Change
from tests.support.objects.made_clusters import made, objects
from tests.support.objects.observed_clusters import applied, as_object

MORE_WORKERS = [{"name": "md-0", "count": 4}]


def changes(scope: Scope) -> list[Change]:
    assert scope.render_input is not None
    capi_objects = scope.capi_objects
    wanted = [
        *plan.control_plane(scope.render_input, capi_objects),
        *plan.worker_groups(scope.render_input, capi_objects),
    ]
    return plan.changes(wanted, capi_objects)


def descriptions(changes: list[Change]) -> list[tuple[str, str]]:
    return [(change.resource.kind, change.body["metadata"]["name"]) for change in changes]


def test_nothing_is_written_for_a_cluster_in_order() -> None:
    assert changes(made(objects=objects())) == []


def test_new_cluster_is_written_in_order_of_references() -> None:
    kinds = [kind for kind, _ in descriptions(changes(made(objects=[])))]
    assert kinds == [
        "DockerMachineTemplate",
        "DockerCluster",
        "KubeadmControlPlane",
        "Cluster",
        "MachineHealthCheck",
        "DockerMachineTemplate",
        "KubeadmConfigTemplate",
        "MachineDeployment",
        "MachineHealthCheck",
    ]


def test_scaling_a_group_writes_its_deployment_alone() -> None:
    (change,) = changes(made(objects=objects(), workerNodeGroupConfigurations=MORE_WORKERS))
    assert change.body["spec"]["replicas"] == 4
    assert change.fields == ("spec.replicas",)
    assert str(change) == "changed MachineDeployment eksa-system/garden-md-0"


def test_templates_with_other_image_get_the_next_name() -> None:
    results = changes(made(objects=objects(), kubernetesVersion="1.36"))
    assert descriptions(results) == [
        ("DockerMachineTemplate", "garden-control-plane-2"),
        ("KubeadmControlPlane", "garden"),
        ("DockerMachineTemplate", "garden-md-0-2"),
        ("MachineDeployment", "garden-md-0"),
    ]
    deployment = results[-1].body["spec"]["template"]["spec"]
    assert deployment["version"] == "v1.36.3-eks-1-36-1"
    assert deployment["infrastructureRef"]["name"] == "garden-md-0-2"
    assert deployment["bootstrap"]["configRef"]["name"] == "garden-md-0-1"


def test_rollback_lets_coredns_version_go_down_once() -> None:
    (_, change, *_) = changes(made(objects=objects(version="1.36")))
    assert change.body["metadata"]["annotations"] == {SKIP_COREDNS_ANNOTATION: "true"}
    assert change.body["spec"]["version"].startswith("v1.35")

    change.body["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["name"] = "garden-control-plane-1"
    others = [tree for tree in objects() if tree["kind"] != "KubeadmControlPlane"]
    (again,) = changes(made(objects=[*others, applied(change.body)]))
    assert again.fields == ("metadata.annotations",)
    assert "annotations" not in again.body["metadata"]


def test_coredns_of_others_is_not_annotated() -> None:
    unchanged = objects(version="1.36")
    control_plane = next(tree for tree in unchanged if tree["kind"] == "KubeadmControlPlane")
    control_plane["metadata"].setdefault("annotations", {})[SKIP_COREDNS_ANNOTATION] = "ours"
    (_, change, *_) = changes(made(objects=unchanged))
    assert change.fields[-1] == "spec.version"
    assert SKIP_COREDNS_ANNOTATION not in change.body["metadata"].get("annotations", {})


def test_other_taints_give_a_config_the_next_name() -> None:
    taints = [{"key": "a", "effect": "PreferNoSchedule"}]
    groups = [{"name": "md-0", "count": 2, "taints": taints}]
    results = changes(made(objects=objects(), workerNodeGroupConfigurations=groups))
    assert descriptions(results) == [("KubeadmConfigTemplate", "garden-md-0-2"), ("MachineDeployment", "garden-md-0")]


def test_field_changed_by_others_is_reverted() -> None:
    changed = objects()
    deployment = next(tree for tree in changed if tree["kind"] == "MachineDeployment")
    deployment["spec"]["replicas"] = 9
    (change,) = changes(made(objects=changed))
    assert change.fields == ("spec.replicas",)


def test_fields_of_others_are_left_alone() -> None:
    changed = objects()
    cluster = next(tree for tree in changed if tree["kind"] == "Cluster")
    cluster["spec"]["controlPlaneEndpoint"] = {"host": "127.0.0.1", "port": 6443}
    cluster["metadata"]["labels"]["added"] = "by-others"
    assert changes(made(objects=changed)) == []


def test_removed_group_is_superfluous() -> None:
    groups = [{"name": "md-0", "count": 2}, {"name": "old", "count": 1}]
    scope = made(objects=objects(workerNodeGroupConfigurations=groups))
    assert scope.render_input is not None
    assert [str(removal) for removal in plan.superfluous_workers(scope.render_input, scope.capi_objects)] == [
        "deleted MachineDeployment eksa-system/garden-old",
        "deleted MachineHealthCheck eksa-system/garden-old-worker-unhealthy",
    ]


def test_templates_that_nothing_refers_to_are_unused() -> None:
    old = copy.deepcopy(next(tree for tree in objects() if tree["kind"] == "DockerMachineTemplate"))
    old["metadata"]["name"] = "garden-control-plane-0"
    scope = made(objects=[*objects(), old])
    assert [removal.object.name for removal in plan.unused_templates(scope.capi_objects)] == ["garden-control-plane-0"]


def test_planning_changes_none_of_its_inputs() -> None:
    scope = made(objects=objects(), kubernetesVersion="1.36")
    before = msgspec.json.encode(scope.spec)
    assert changes(scope) == changes(scope)
    assert msgspec.json.encode(scope.spec) == before


def differences(wanted: Tree, live: Tree) -> list[str]:
    return ownership.differences(wanted, as_object(live))


def thing(**spec: Any) -> Tree:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "n"}, "spec": spec}


def test_an_object_that_we_never_applied_differs() -> None:
    assert differences(thing(a=1), applied(thing(a=1), manager="somebody")) == ["metadata.managedFields"]


def test_field_that_we_own_and_no_longer_want_differs() -> None:
    assert differences(thing(a=1), applied(thing(a=1, b={"c": 2}))) == ["spec.b"]


def test_object_without_labels_differs_in_them_alone() -> None:
    wanted = thing(a=1)
    wanted["metadata"]["labels"] = {"b": "2", "c": "3"}
    live = applied(wanted)
    live["metadata"] |= {"finalizers": ["others"], "ownerReferences": []}
    del live["metadata"]["labels"], live["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]
    assert differences(wanted, live) == ["metadata.labels"]
    live["metadata"]["labels"] = {"b": "2", "c": "other", "d": "4"}
    assert differences(wanted, live) == ["metadata.labels.c"]


def test_keyed_lists_are_compared_in_any_order() -> None:
    live = applied(thing(args=[{"name": "b", "value": "2"}, {"name": "a", "value": "1"}, {"name": "c", "value": "x"}]))
    item: Tree = {".": {}, "f:name": {}, "f:value": {}}
    keyed = {f'k:{{"name":"{name}"}}': item for name in ("a", "b")}
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:args"] = keyed
    wanted = [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    assert differences(thing(args=wanted), live) == []
    assert differences(thing(args=[wanted[0], {"name": "b", "value": "3"}]), live) == ["spec.args.value"]
    assert differences(thing(args=wanted[:1]), live) == ["spec.args"]


def test_object_can_carry_the_label_of_shares() -> None:
    scope = made(objects=[])
    assert scope.render_input is not None
    shared = msgspec.structs.replace(scope.render_input, watch_filter="blue")
    wanted = [*plan.control_plane(shared, scope.capi_objects), *plan.worker_groups(shared, scope.capi_objects)]
    assert {object_.metadata.labels.get("cluster.x-k8s.io/watch-filter") for object_ in wanted} == {"blue"}


def test_entries_of_others_in_an_empty_map_are_equal() -> None:
    """As a spec into which the infrastructure provider alone writes."""
    wanted: Tree = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}
    live = applied(wanted)
    live["spec"] = {"controlPlaneEndpoint": {"host": "a"}}
    assert ownership.differences(wanted, as_object(live)) == []
    assert ownership.differences({**wanted, "spec": {"paused": True}}, as_object(live)) != []
