"""Which machines go and come, in which order and why, on objects as Cluster API's controllers leave them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmConfigSpec
from espalier.api.capi.machine import Machine, MachineSet
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.upgrade_keys import UNFINISHED
from espalier.api.meta import ObjectMeta, Tree
from espalier.clusterapi.changes import machine_change
from espalier.clusterapi.machines import removal
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.clusters.design.provider import infrastructures
from espalier.clusters.effects import summary
from espalier.clusters.effects.duration import UNKNOWN, duration
from espalier.clusters.effects.machines import (
    GROUP_REMOVED,
    SCALED_IN,
    Fleet,
    Group,
    groups,
    refused_groups,
    refused_in_place,
)
from espalier.clusters.effects.simulate import simulate
from espalier.clusters.observe.scope import Scope
from espalier.providers.registry import PROVIDERS
from tests.support.objects.made_clusters import made, objects
from tests.support.objects.observed_clusters import as_object, machine_objects

GROUPS = [{"name": "md-0", "count": 2}]


KNOWN = infrastructures(PROVIDERS)


def owner(kind: str, name: str) -> list[Tree]:
    return [{"apiVersion": "a", "kind": kind, "name": name, "uid": name, "controller": True}]


def machine(name: str, kind: str, of: str, spec: Tree, *, age: int = 0, annotations: Tree | None = None) -> Machine:
    metadata = {
        "name": name,
        "namespace": "eksa-system",
        "ownerReferences": owner(kind, of),
        "annotations": annotations or {},
        "creationTimestamp": f"2026-01-01T00:0{9 - age}:00Z",
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "lastTransitionTime": f"2026-01-01T00:0{9 - age}:40Z",
    }
    status = {"nodeRef": {"name": name}, "conditions": [ready]}
    head = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine"}
    return msgspec.convert({**head, "metadata": metadata, "spec": spec, "status": status}, Machine)


def fleet(scope: Scope, *, marked: str = "") -> Fleet:
    """Machines exactly as the objects of a scope ask for."""
    seen: list[MachineObjects] = []
    sets: dict[str, MachineSet] = {}
    control_plane = scope.capi_objects.control_plane
    assert control_plane is not None
    reference = control_plane.spec.machine_template.spec.infrastructure_ref
    for number in range(control_plane.spec.replicas or 0):
        name = f"cp-{number}"
        spec = {
            "clusterName": "garden",
            "version": control_plane.spec.version,
            "bootstrap": {},
            "infrastructureRef": msgspec.to_builtins(reference),
        }
        annotations = {removal.DELETE_FIRST: ""} if name == marked else {}
        made_of = machine(name, "KubeadmControlPlane", "garden", spec, age=number, annotations=annotations)
        own = msgspec.to_builtins(control_plane.spec.kubeadm_config_spec)
        given = machine_change.control_plane_bootstrap(own, control_plane.spec.version)
        config = KubeadmConfig(metadata=ObjectMeta(name=name), spec=msgspec.convert(given, KubeadmConfigSpec))
        cloned = {
            machine_change.CLONED_FROM_NAME: reference.name,
            machine_change.CLONED_FROM_GROUP_KIND: f"{reference.kind}.{reference.api_group}",
        }
        seen.append(machine_objects(made_of, config, ObjectMeta(name=name, annotations=cloned)))
    for name, deployment in scope.capi_objects.typed_deployments.items():
        template = msgspec.to_builtins(deployment.spec.template)
        tree = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineSet",
            "metadata": {"name": f"{name}-a", "ownerReferences": owner("MachineDeployment", name)},
            "spec": {"clusterName": "garden", "selector": {}, "template": template},
        }
        sets[f"{name}-a"] = msgspec.convert(tree, MachineSet)
        for number in range(deployment.spec.replicas or 0):
            of_set = machine(f"{name}-a-{number}", "MachineSet", f"{name}-a", template["spec"])
            seen.append(machine_objects(of_set, KubeadmConfig(metadata=ObjectMeta(name=of_set.metadata.name))))
    return Fleet(seen, sets)


def groups_of(scope: Scope, *, marked: str = "") -> dict[str, Group]:
    return {group.name: group for group in groups(simulate(scope), fleet(scope, marked=marked), KNOWN)}


def names(group: Group) -> list[str]:
    return [going.name for going in group.going]


def changed(before: Tree | None = None, **spec: Any) -> Scope:
    """A cluster that was made of `before` and is asked for `spec` now."""
    return made(objects=objects(**(before or {})), **spec)


def test_a_cluster_as_it_should_be_keeps_its_machines() -> None:
    assert groups_of(changed()) == {}


def test_upgrade_replaces_all_machines_and_says_why() -> None:
    results = groups_of(
        changed(
            {"controlPlaneConfiguration": {"count": 3}},
            kubernetesVersion="1.36",
            controlPlaneConfiguration={"count": 3},
        )
    )
    assert names(results[""]) == ["cp-2", "cp-1", "cp-0"]  # the oldest first
    assert results[""].coming == 3
    assert results[""].going[0].why[0] == "version"
    assert "infrastructure.customImage" in results[""].going[0].why
    assert names(results["garden-md-0"]) == ["garden-md-0-a-0", "garden-md-0-a-1"]
    assert results["garden-md-0"].going[0].why == ("version", "infrastructure.customImage")


def test_machines_that_are_upgraded_in_place_stay() -> None:
    in_place = {"upgradeRolloutStrategy": {"type": "InPlace"}}
    before: Tree = {
        "controlPlaneConfiguration": {"count": 3} | in_place,
        "workerNodeGroupConfigurations": [GROUPS[0] | in_place],
    }
    scope = changed(before, **before, kubernetesVersion="1.36")
    for element in (groups_of(scope), {group.name: group for group in groups(simulate(scope), None, KNOWN)}):
        assert [(group.going, group.coming) for group in element.values()] == [((), 0), ((), 0)]
        assert [len(group.upgraded) for group in element.values()] == [3, 2]
        assert element[""].upgraded[0].why[0] == "version"
    assert {item.name for item in groups_of(scope)["garden-md-0"].upgraded} == {"garden-md-0-a-0", "garden-md-0-a-1"}
    live = objects(front_end=FrontEnd.HOOKS, **before)
    scope = made(objects=live, front_end=FrontEnd.HOOKS, **before, kubernetesVersion="1.36")
    assert [(len(group.upgraded), group.going, group.coming) for group in groups_of(scope).values()] == [
        (3, (), 0),
        (2, (), 0),
    ]


@pytest.mark.parametrize(
    ("version", "is_broken_off", "left"),
    [("v1.36.3-eks-1-36-1", False, 1), ("v1.36.3-eks-1-36-1", True, 2), ("v1.35.4-eks-1-35-1", False, 2)],
)
def test_upgraded_workers_are_not_upgraded_again(version: str, is_broken_off: bool, left: int) -> None:
    """Their set says what it is to bring once all of them have it: until then they are told by their own objects."""
    scope = changed(in_place_spec(), **in_place_spec(), kubernetesVersion="1.36")
    wanted = simulate(scope).after.typed_deployments["garden-md-0"].spec.template.spec
    assert wanted.bootstrap.config_ref is not None
    there = fleet(scope)
    (first,) = [item for item in there.machines if item.name == "garden-md-0-a-0"]
    metadata = msgspec.structs.replace(first.machine.metadata, annotations={UNFINISHED: "{}"} if is_broken_off else {})
    recorded = msgspec.structs.replace(
        first.machine, metadata=metadata, spec=msgspec.structs.replace(first.machine.spec, version=version)
    )
    config, infrastructure = (
        ObjectMeta(name=first.name, annotations={machine_change.CLONED_FROM_NAME: name})
        for name in (wanted.bootstrap.config_ref.name, wanted.infrastructure_ref.name)
    )
    done = machine_objects(recorded, KubeadmConfig(metadata=config), infrastructure)
    half = Fleet([done if item is first else item for item in there.machines], there.sets)
    result = {group.name: group for group in groups(simulate(scope), half, KNOWN)}["garden-md-0"]
    assert (result.present, result.going, result.coming) == (2, (), 0)
    assert [item.name for item in result.upgraded] == ["garden-md-0-a-0", "garden-md-0-a-1"][2 - left :]


@pytest.mark.parametrize(("group", "lost"), [("", "cp-1"), ("garden-md-0", "garden-md-0-a-1")])
@pytest.mark.parametrize("fallback", [None, "RollingUpdate"])
def test_group_without_kubeadm_config_is_not_in_place(group: str, lost: str, fallback: str | None) -> None:
    scope = changed(in_place_spec(fallback), **in_place_spec(fallback), kubernetesVersion="1.36")
    reference = {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": lost}
    there = fleet(scope)

    def without(first: MachineObjects) -> MachineObjects:
        tree = first.object.tree
        tree["spec"]["bootstrap"] = {"configRef": reference}
        return MachineObjects(as_object(tree), None, first.infrastructure)

    half = Fleet([without(item) if item.name == lost else item for item in there.machines], there.sets)
    results = {item.name: item for item in groups(simulate(scope), half, KNOWN)}
    assert (results[group].going, results[group].coming, results[group].upgraded) == ((), 0, ())
    assert [len(first.upgraded) > 0 for name, first in results.items() if name != group] == [True]
    told = refused_in_place(list(results.values()), "garden")
    assert told.startswith(f"InPlaceUpgradeFailed: KubeadmConfig {lost} of Machine {lost} does not exist, so ")
    assert "restore it, or delete the Machine" in told


def in_place_spec(fallback: str | None = None, **control_plane: Any) -> Tree:
    strategy = {"type": "InPlace"} | ({"fallback": fallback} if fallback else {})
    how = {"upgradeRolloutStrategy": strategy}
    return {
        "controlPlaneConfiguration": {"count": 3, **control_plane} | how,
        "workerNodeGroupConfigurations": [GROUPS[0] | how],
    }


def test_fallback_replacement_of_machines_says_why() -> None:
    fallback = "RollingUpdate"
    scope = changed(in_place_spec(fallback), **in_place_spec(fallback, certSans=["a.b"]), kubernetesVersion="1.36")
    certificate = "bootstrap.clusterConfiguration.apiServer.certSANs"
    for element in (groups_of(scope), {group.name: group for group in groups(simulate(scope), None, KNOWN)}):
        control_plane, workers = element[""], element["garden-md-0"]
        assert (len(control_plane.replaced), control_plane.upgraded) == (3, ())
        assert (control_plane.fallback, workers.fallback) == ((certificate,), ())
        assert (len(workers.upgraded), workers.going) == (2, ())
    sentences = list(summary.sentences(scope))
    assert any("control plane: would replace 3 machines" in item and certificate in item for item in sentences)
    assert any("garden-md-0: would upgrade 2 machines in place" in item for item in sentences)


def test_refused_change_touches_no_machine() -> None:
    scope = changed(in_place_spec(), **in_place_spec(certSans=["a.b"]), kubernetesVersion="1.36")
    simulated = simulate(scope)
    assert (simulated.acts, simulated.objects) == (False, ())
    assert simulated.stops.startswith("InPlaceUpgradeRefused: bootstrap.clusterConfiguration.apiServer.certSANs of the")
    (group,) = refused_groups(simulated)
    assert (group.name, group.present, group.going, group.upgraded) == ("", 3, (), ())
    assert list(summary.sentences(scope)) == [f"plan: then nothing is done: {simulated.stops}"]


def test_value_that_only_provider_knows_is_no_end() -> None:
    """A pattern in a new VSphereMachineConfig: the manager asks the vCenter, and goes on."""
    told = summary.held("ValuesNotResolved: VSphereMachineConfig vines: spec.resourcePool: waiting for the provider")
    assert told.startswith("the effects are known once the provider has answered, which needs no action: ")
    assert summary.held("ClusterInvalid: spec") == "then nothing is done: ClusterInvalid: spec"


def test_a_machine_annotated_by_somebody_goes_first() -> None:
    three = {"controlPlaneConfiguration": {"count": 3}}
    assert names(groups_of(changed(three, **three, kubernetesVersion="1.36"), marked="cp-0")[""])[0] == "cp-0"


def test_scaling_replaces_nothing() -> None:
    more = groups_of(changed(workerNodeGroupConfigurations=[{"name": "md-0", "count": 5}]))["garden-md-0"]
    assert (more.coming, more.going) == (3, ())
    fewer = groups_of(changed(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}]))["garden-md-0"]
    assert (names(fewer), fewer.going[0].why, fewer.coming) == (["garden-md-0-a-0"], (SCALED_IN,), 0)
    assert fewer.replaced == ()


def test_the_machines_of_a_group_that_is_removed_go() -> None:
    two = [{"name": "md-0", "count": 2}, {"name": "md-1", "count": 1}]
    results = groups_of(changed({"workerNodeGroupConfigurations": two}, workerNodeGroupConfigurations=GROUPS))
    assert names(results["garden-md-1"]) == ["garden-md-1-a-0"]
    assert results["garden-md-1"].going[0].why == (GROUP_REMOVED,)


def test_a_new_group_is_made_at_once() -> None:
    result = groups_of(changed(workerNodeGroupConfigurations=[*GROUPS, {"name": "md-1", "count": 3}]))["garden-md-1"]
    assert (result.present, result.coming, result.rounds) == (0, 3, 1)


def test_shrinking_control_plane_makes_what_it_needs() -> None:
    before = {"controlPlaneConfiguration": {"count": 3}}
    result = groups_of(changed(before, kubernetesVersion="1.36", controlPlaneConfiguration={"count": 1}))[""]
    assert (len(result.going), result.coming) == (3, 1)


def test_machines_of_reverted_rollout_are_those_to_go() -> None:
    scope = changed()
    there = fleet(scope)
    newer = told_set(scope, "garden-md-0", "v1.36.3-eks-1-36-1")
    back = Fleet([*there.machines, *newer[0]], {**there.sets, newer[1].metadata.name: newer[1]})
    (group,) = groups(simulate(scope), back, KNOWN)
    assert names(group) == ["garden-md-0-b-0"]
    assert group.coming == 0


def told_set(scope: Scope, deployment: str, version: str) -> tuple[list[MachineObjects], MachineSet]:
    template = msgspec.to_builtins(scope.capi_objects.typed_deployments[deployment].spec.template)
    template["spec"]["version"] = version
    tree = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineSet",
        "metadata": {"name": f"{deployment}-b", "ownerReferences": owner("MachineDeployment", deployment)},
        "spec": {"clusterName": "garden", "selector": {}, "template": template},
    }
    result = machine(f"{deployment}-b-0", "MachineSet", f"{deployment}-b", template["spec"])
    return [machine_objects(result)], msgspec.convert(tree, MachineSet)


def test_unreadable_machines_are_counted_by_replicas() -> None:
    scope = changed(kubernetesVersion="1.36")
    counted = {group.name: group for group in groups(simulate(scope), None, KNOWN)}
    named = groups_of(scope)
    assert counted.keys() == named.keys()
    for name, group in counted.items():
        assert [going.why for going in group.going] == [going.why for going in named[name].going]
        assert group.coming == named[name].coming
        assert not any(names(group))


@pytest.mark.parametrize(("surge", "unavailable", "rounds"), [(1, 0, 4), (2, 0, 2), (0, 1, 4), (1, 1, 2), (5, 0, 1)])
def test_limits_of_rollout_say_how_often_it_is_waited(surge: int, unavailable: int, rounds: int) -> None:
    limits = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    four = [{"name": "md-0", "count": 4, "upgradeRolloutStrategy": limits}]
    scope = changed(
        {"workerNodeGroupConfigurations": four}, workerNodeGroupConfigurations=four, kubernetesVersion="1.36"
    )
    assert groups_of(scope)["garden-md-0"].rounds == rounds


def test_time_is_estimated_by_machines_that_are_there() -> None:
    scope = changed(kubernetesVersion="1.36")
    there = fleet(scope)
    estimate = duration(groups(simulate(scope), there, KNOWN), there, workers_wait=True)
    assert estimate == (120.0, 40.0, 3)  # one of the control plane, then two workers one after the other
    assert duration(groups(simulate(scope), there, KNOWN), there, workers_wait=False).seconds == 80.0
    assert duration(groups(simulate(scope), there, KNOWN), Fleet(), workers_wait=True).machine_seconds == UNKNOWN


def test_workers_wait_for_changing_control_plane_only() -> None:
    assert simulate(changed(kubernetesVersion="1.36")).workers_wait
    assert not simulate(changed(controlPlaneConfiguration={"count": 1, "certSans": ["a.example.com"]})).workers_wait
