"""Objects that a provider adds to those of every cluster: whose they are, and when they come and go."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec
import pytest

from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi import contract
from espalier.clusterapi.infrastructures.infrastructure import InfrastructureCluster
from espalier.clusters.act import steps
from espalier.clusters.admission.admission import Admission
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.drift import gate
from espalier.clusters.design.provider import Extras, Name, Provider
from espalier.clusters.observe.machines.observed_versions import running
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import plan
from espalier.clusters.report import readiness
from espalier.clusters.report.validity import problem
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.controllers.outcome import Continue, Wait
from espalier.runtime.servers.admission import AdmissionRequest
from tests.support.objects.observed_clusters import NAMESPACE, NOW, applied, as_object, observer
from tests.support.providers.orchard import ORCHARD, ORCHARD_PROVIDER, OrchardMachineConfig, OrchardZone
from tests.support.providers.orchard_clusters import cluster, linked, made, scope_of, see

DOMAINS = [{"name": "east"}, {"name": "west"}]


def test_extras_are_written_before_their_users() -> None:
    scope = scope_of(see(cluster("garden"), *linked(domains=DOMAINS)), "garden")
    assert [(tree["kind"], tree["metadata"]["name"]) for tree in made(scope)][:4] == [
        ("Secret", "orchard-garden"),
        ("OrchardZone", "garden-trees-east"),
        ("OrchardZone", "garden-trees-west"),
        ("OrchardMachineTemplate", "garden-control-plane-1"),
    ]
    assert "namespace" not in made(scope)[1]["metadata"]


def test_unrendered_extra_goes_and_a_changed_is_drift() -> None:
    before = scope_of(see(cluster("garden"), *linked(domains=DOMAINS)), "garden")
    there = made(before)
    now = scope_of(see(cluster("garden"), *linked(domains=DOMAINS[1:]), *there), "garden")
    assert now.render_input is not None
    assert [str(extra) for extra in plan.superfluous_extras(now.render_input, now.capi_objects)] == [
        "deleted OrchardZone garden-trees-east"
    ]
    there[0]["data"]["password"] = base64.b64encode(b"lily").decode()
    seen = scope_of(see(cluster("garden"), *linked(domains=DOMAINS), *there), "garden")
    assert seen.render_input is not None
    changes = plan.changes(plan.control_plane(seen.render_input, seen.capi_objects), seen.capi_objects)
    assert [(str(change), change.fields) for change in changes] == [
        ("changed Secret eksa-system/orchard-garden", ("data.password",))
    ]


def test_foreign_secret_with_label_is_not_deleted() -> None:
    """Who brings the authority of his cluster labels it like that."""
    metadata = {"name": "garden-ca", "namespace": "eksa-system", "uid": "ca", "labels": names.labels(_key("garden"))}
    authority: Tree = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}}
    scope = scope_of(see(cluster("garden"), *linked(), authority), "garden")
    assert scope.capi_objects.of(SECRET) == {}
    assert problem(scope) is None


def test_the_last_to_go_of_a_deleted_cluster() -> None:
    scope = scope_of(see(cluster("garden"), *linked(domains=DOMAINS)), "garden")
    seen = scope_of(see(cluster("garden"), *linked(domains=DOMAINS), *made(scope)), "garden")
    extra = ORCHARD_PROVIDER.extras.kinds
    first = plan.leftovers(seen.capi_objects, extra)
    assert {item.resource.kind for item in first} == {
        "Cluster",
        "OrchardCluster",
        "KubeadmControlPlane",
        "OrchardMachineTemplate",
        "MachineHealthCheck",
    }
    objects = {kind: seen.capi_objects.of(kind) for kind in extra}
    last = plan.leftovers(msgspec.structs.replace(seen.capi_objects, objects=objects), extra)
    assert {item.resource for item in last} == set(extra)


@pytest.mark.parametrize("place", [0, 1])
def test_one_of_its_name_that_is_not_clusters_stops_it(place: int) -> None:
    """A Secret, and an object without a namespace: unlabelled, or another Cluster's."""
    tree = made(scope_of(see(cluster("garden"), *linked(domains=DOMAINS)), "garden"))[place]
    for labels in ({}, names.labels(Key("team-b", "other"))):
        theirs = {**tree, "metadata": {**tree["metadata"], "labels": labels}}
        scope = scope_of(see(cluster("garden"), *linked(domains=DOMAINS), theirs), "garden")
        stopped = problem(scope)
        assert stopped is not None
        assert stopped.reason == "ClusterNameTaken"
        assert tree["metadata"]["name"] in stopped.message
        assert scope.capi_objects.of(SECRET if place == 0 else OrchardZone.resource) == {}


def test_shared_extra_object_is_refused() -> None:
    """Cluster `a` with datacenter `b-c`, and cluster `a-b` with datacenter `c`: both mean the zone `a-b-c-east`."""
    result = cluster("a", "team-a", datacenter="b-c")
    other = cluster("a-b", "team-b", "2026-01-02T00:00:00Z", datacenter="c")
    links = [*linked("team-a", "b-c", DOMAINS), *linked("team-b", "c", DOMAINS)[:2]]
    zones = made(scope_of(see(result, *links), "a", "team-a"))
    seen = see(result, other, *links, *zones)
    stopped = problem(scope_of(seen, "a-b", "team-b"))
    assert stopped is not None
    assert "OrchardZone.infrastructure.cluster.x-k8s.io a-b-c-east (made for Cluster team-a/a)" in stopped.message


def test_shared_names_of_clusters_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first_word(name: str, *_: object) -> list[Name]:
        return [Name(SECRET, f"orchard-{name.partition('-')[0]}")]

    extras = Extras(kinds=(SECRET,), names=first_word)
    known = {**ORCHARD, "OrchardDatacenterConfig": _with(extras)}
    later = cluster("garden-b", made="2026-01-02T00:00:00Z")
    seen = observer(cluster("garden-a"), *linked(), providers=known)
    response = Admission(seen, lambda: NOW).validate(
        AdmissionRequest("CREATE", "Cluster", NAMESPACE, "garden-b", ADMIN, as_object(later))
    )
    assert not response.allowed
    assert 'would be named "Secret orchard-garden"' in response.message
    seen = observer(cluster("garden-a"), later, *linked(), providers=known)
    stopped = problem(scope_of(seen, "garden-b"))
    assert stopped is not None
    assert f"Secret orchard-garden of cluster {NAMESPACE}/garden-a" in stopped.message


def test_undeclared_extra_object_is_not_rendered() -> None:
    extras = Extras(kinds=(SECRET,), render=ORCHARD_PROVIDER.extras.render)
    known = {**ORCHARD, "OrchardDatacenterConfig": _with(extras)}
    scope = scope_of(observer(cluster("garden"), *linked(), providers=known), "garden")
    with pytest.raises(ValueError, match="Secret orchard-garden, which is not among the names that it declares"):
        made(scope)


def test_clusters_with_an_extra_name_are_all_found() -> None:
    assert list(object_names.parts("capx-core-md")) == ["capx", "capx-core", "capx-core-md", "core", "core-md", "md"]


# Failure domains.


def grouped(*names_: str) -> list[Tree]:
    config = {"kind": OrchardMachineConfig.resource.kind, "name": "plane"}
    return [{"name": name, "count": 5, "machineGroupRef": config} for name in names_]


def test_group_spreads_over_its_failure_domains() -> None:
    domains = [{"name": name, "groups": ["md-0"]} for name in ("east", "west")]
    tree = cluster("garden")
    tree["spec"]["workerNodeGroupConfigurations"] = grouped("md-0", "md-1")
    scope = scope_of(see(tree, *linked(domains=domains)), "garden")
    assert scope.render_input is not None
    made_ = [
        group
        for group in plan.worker_groups(scope.render_input, ClusterAPIObjects())
        if isinstance(group, MachineDeployment)
    ]
    assert [(item.metadata.name, item.spec.replicas, item.spec.template.spec.failure_domain) for item in made_] == [
        ("garden-md-0-east", 3, "east"),
        ("garden-md-0-west", 2, "west"),
        ("garden-md-1", 5, ""),
    ]
    groups = [item.metadata.annotations for item in made_]
    assert groups == [{metadata_keys.GROUP_ANNOTATION: "md-0"}] * 2 + [{}]


def test_group_has_the_version_of_its_last_machine() -> None:
    """So that its machines don't skip a minor."""
    domains = [{"name": name, "groups": ["md-0"]} for name in ("east", "west")]
    scope = scope_of(see(cluster("garden"), *linked(domains=domains)), "garden")
    assert scope.render_input is not None
    deployments = [msgspec.to_builtins(group) for group in plan.worker_groups(scope.render_input, ClusterAPIObjects())]
    east = next(deployment for deployment in deployments if deployment["metadata"]["name"] == "garden-md-0-east")
    east["spec"]["template"]["spec"]["version"] = "v1.34.4-eks-1-34-1"
    stored = map(applied, (*deployments,))
    seen = scope_of(see(cluster("garden"), *linked(domains=domains), *stored), "garden")
    assert running(seen.capi_objects).groups["garden-md-0"].desired == "1.34"


def test_colliding_groups_of_domains_are_refused() -> None:
    tree = cluster("garden")
    tree["spec"]["workerNodeGroupConfigurations"] = grouped("md", "md-east")
    result = problem(scope_of(see(tree, *linked(domains=[{"name": "east", "groups": ["md"]}])), "garden"))
    assert result is not None
    assert result.reason == "ClusterInvalid"
    assert "md-east" in result.message


def test_foreign_object_in_a_domain_stops_the_cluster() -> None:
    """Cluster `garden` with group `md` in domain `a`, and cluster `garden-md` with group `a`."""
    theirs: Tree = {
        "apiVersion": MachineDeployment.resource.api_version,
        "kind": "MachineDeployment",
        "metadata": {
            "name": "garden-md-a",
            "namespace": "eksa-system",
            "uid": "theirs",
            "labels": names.labels(Key("team-b", "garden-md")),
        },
        "spec": {"clusterName": "garden-md"},
    }
    tree = cluster("garden")
    tree["spec"]["workerNodeGroupConfigurations"] = grouped("md")
    in_domain = see(tree, *linked(domains=[{"name": "a", "groups": ["md"]}]), theirs)
    stopped = problem(scope_of(in_domain, "garden"))
    assert stopped is not None
    assert "garden-md-a (made for Cluster team-b/garden-md)" in stopped.message
    assert problem(scope_of(see(tree, *linked(), theirs), "garden")) is None


def test_machines_stay_until_their_domains_are_ready() -> None:
    """And the other way round. A group that is no longer asked for goes at once."""
    domains = [{"name": name, "groups": ["md-0"]} for name in ("east", "west")]
    for before, after in (([], domains), (domains, [])):
        first = scope_of(see(cluster("garden"), *linked(domains=before)), "garden")
        then = scope_of(see(cluster("garden"), *linked(domains=after)), "garden")
        assert first.render_input is not None
        assert then.render_input is not None
        nothing = ClusterAPIObjects()
        old = stored_workers(plan.worker_groups(first.render_input, nothing), ready=True)
        for is_ready in (False, True):
            new = stored_workers(plan.worker_groups(then.render_input, nothing), ready=is_ready)
            seen = scope_of(see(cluster("garden"), *linked(domains=after), *old, *new), "garden")
            assert seen.render_input is not None
            gone = plan.superfluous_workers(seen.render_input, seen.capi_objects)
            assert bool(gone) == is_ready, (before, is_ready)
            at_once = plan.superfluous_workers(seen.render_input, seen.capi_objects, at_once=True)
            assert {item.object.name for item in at_once} == {
                tree["metadata"]["name"] for tree in old if tree["kind"].startswith("Machine")
            }


def stored_workers(objects: Sequence[KubeObject], *, ready: bool) -> list[Tree]:
    kinds = ("MachineDeployment", "MachineHealthCheck")
    trees = [applied(msgspec.to_builtins(object_)) for object_ in objects if object_.kind in kinds]
    for tree in trees:
        tree["status"] = {"readyReplicas": tree["spec"].get("replicas", 0) if ready else 0, "observedGeneration": 1}
    return trees


# What a controller of the provider finds out.


def test_cluster_waits_for_unresolved_values() -> None:
    links = linked()
    links[1]["spec"]["variety"] = "pear"
    links[1]["metadata"]["generation"] = 2
    for status in ({}, {"rootstock": "M9", "observedGeneration": 1}):
        links[1]["status"] = status
        scope = scope_of(see(cluster("garden"), *links), "garden")
        assert scope.render_input is None
        decision = steps.find_children(scope)
        assert isinstance(decision, Wait)
        assert decision.reason == "ValuesNotResolved"
        assert decision.message.startswith("OrchardMachineConfig plane: spec.variety: waiting for the provider")
    links[1]["status"] = {"rootstock": "Quince C", "observedGeneration": 2}
    scope = scope_of(see(cluster("garden"), *links), "garden")
    assert steps.find_children(scope) == Continue()
    assert made(scope)[1]["spec"]["template"]["spec"]["rootstock"] == "Quince C"


def test_resolved_values_are_content_if_there_are_any() -> None:
    hashes = []
    for status in ({"rootstock": "M9", "observedGeneration": 1}, {"rootstock": "M27", "observedGeneration": 1}):
        links = linked()
        links[1]["spec"]["variety"] = "apple"
        links[1]["metadata"]["generation"] = 1
        links[1]["status"] = status
        hashes.append(scope_of(see(cluster("garden"), *links), "garden").content_hash)
    assert len(set(hashes)) == 2
    tree = as_object(cluster("garden"))
    assert gate.content_hash(tree, [], resolved={}) == gate.content_hash(tree, [])


# Contract v1beta1.


def test_earlier_contract_reports_ready_and_failure() -> None:
    body: Tree = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "X", "metadata": {"name": "a"}}
    ready = {"ready": True, "conditions": [{"type": "Ready", "status": "True"}]}  # it may have no reason
    failed = {"ready": False, "failureReason": "Refused", "failureMessage": "no credentials"}
    assert contract.is_provisioned(as_object(body | {"status": ready}))
    assert contract.failure(as_object(body | {"status": ready})) == ""
    assert contract.control_plane_broken(as_object(body | {"status": ready})) == ""
    assert not contract.is_provisioned(as_object(body | {"status": failed}))
    assert contract.failure(as_object(body | {"status": failed})) == "Refused: no credentials"
    domains = {"b": {"controlPlane": True}, "a": {"attributes": {"rack": "1"}}}
    read = as_object(body | {"status": {"ready": True, "failureDomains": domains}}).decode(InfrastructureCluster).status
    assert [(domain.name, domain.control_plane, domain.attributes) for domain in read.domains] == [
        ("a", None, {"rack": "1"}),
        ("b", True, {}),
    ]
    assert msgspec.to_builtins(read.of("v1beta1"))["failureDomains"] == domains


def test_a_failure_of_infrastructure_is_said() -> None:
    first = scope_of(see(cluster("garden"), *linked()), "garden")
    trees = made(first)
    shared = next(tree for tree in trees if tree["kind"] == "OrchardCluster")
    shared["status"] = {"failureReason": "Refused", "failureMessage": "no credentials"}
    results = readiness.conditions(scope_of(see(cluster("garden"), *linked(), *trees), "garden"))
    assert results[0].message == "waiting for the infrastructure cluster to be provisioned: Refused: no credentials"


def _key(name: str) -> Key:
    return Key(NAMESPACE, name)


def _with(extras: Extras) -> Provider:
    result = ORCHARD_PROVIDER
    return Provider(result.links, result.infrastructure, result.render, result.rules, extras)
