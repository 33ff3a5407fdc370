"""A manifest goes in, a sentence comes out: releases and Kubernetes versions of Clusters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import SKIP_EKSA_VERSION_SKEW_CHECK_ANNOTATION
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE
from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.clusters.admission.release_admission import validate_release
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.rules import releases
from espalier.kube.client import Client
from espalier.kube.transports.wire import ADMIN
from espalier.providers.registry import PROVIDERS
from espalier.runtime.caches.cache import Caches
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from tests.support.objects import made_clusters as made
from tests.support.objects.eksa_versions import (
    BUNDLES,
    KUBERNETES,
    REFERENCE,
    STEPS,
    VERSION,
    VERSIONS,
    hub,
    refused,
    release,
    under_hub,
)
from tests.support.objects.observed_clusters import NOW, NoServer, as_object, laptop, naming, observer
from tests.support.servers.admission_reviews import GROUP, ask, edited, garden, paused


def test_a_new_cluster_names_a_release_and_no_bundles() -> None:
    old_way = edited({VERSION: None, BUNDLES: REFERENCE})
    assert refused(ask(old_way)) == {
        "spec.bundlesRef": "a new cluster uses the Bundles of its release; remove spec.bundlesRef, which is "
        "deprecated, and set spec.eksaVersion, or omit both to use the release of the management "
        "cluster; found bundles-1; allowed: nothing"
    }
    assert "remove spec.bundlesRef" in refused(ask(edited({BUNDLES: REFERENCE})))["spec.bundlesRef"]


def test_existing_cluster_keeps_its_bundles() -> None:
    old = edited({VERSION: None, BUNDLES: REFERENCE})
    response = ask(edited({GROUP + "count": 5}, old), old)
    assert response.allowed, response.message
    assert response.warnings == ("spec.bundlesRef: deprecated; use spec.eksaVersion",)


@pytest.mark.demand("V8", "V9")
@pytest.mark.parametrize(
    ("before", "edits", "field", "sentence"),
    [
        ("bundles", {BUNDLES: None}, "spec.bundlesRef", "set spec.eksaVersion in the same update"),
        ("bundles", {BUNDLES + ".name": "bundles-2"}, "spec.bundlesRef", "found bundles-2; allowed: bundles-1"),
        ("bundles", {BUNDLES + ".namespace": "other"}, "spec.bundlesRef", "can't be changed"),
        ("bundles", {BUNDLES + ".apiVersion": "v2"}, "spec.bundlesRef", "can't be changed"),
        ("bundles", {VERSION: "v0.26.0"}, "spec.bundlesRef", "already selects the Bundles"),
        ("version", {BUNDLES: REFERENCE}, "spec.bundlesRef", "already selects"),
        ("version", {VERSION: None, BUNDLES: REFERENCE}, "spec.eksaVersion", "set it in the manifest in Git"),
        ("version", {VERSION: None}, "spec.eksaVersion", "if GitOps (Flux, Argo CD) applies a manifest without"),
        ("version", {VERSION: ""}, "spec.eksaVersion", "found nothing; allowed: v0.26.0"),
    ],
)
def test_fields_of_the_release_change_in_one_way_only(
    before: str, edits: dict[str, Any], field: str, sentence: str
) -> None:
    old = edited({VERSION: None, BUNDLES: REFERENCE}) if before == "bundles" else garden()
    blamed = refused(ask(edited(edits, old), old))
    assert sentence in blamed.get(field, ""), blamed


def test_bundles_are_replaced_by_a_release_at_once() -> None:
    old = edited({VERSION: None, BUNDLES: REFERENCE})
    response = ask(edited({VERSION: "v0.26.0", BUNDLES: None}, old), old)
    assert response.allowed, response.message
    assert response.warnings == ()


@pytest.mark.demand("V12")
@pytest.mark.parametrize(("version", "sentence"), VERSIONS)
def test_the_version_of_a_new_cluster_exists(version: str, sentence: str) -> None:
    blamed = refused(ask(edited({VERSION: version})))
    assert sentence in blamed["spec.eksaVersion"] if sentence else blamed == {}


def test_a_release_of_ones_own_can_be_used() -> None:
    own = "v0.26.0+custom.1"
    assert ask(edited({VERSION: own}), None, release(own)).allowed


@pytest.mark.demand("V13")
@pytest.mark.parametrize(
    ("management", "version", "refusal", "warning"),
    [
        ("v0.26.0", "v0.26.0", "", ""),
        ("v0.26.0", "v0.25.1", "", "v0.25.1 is one minor version behind the management cluster hub (v0.26.0)"),
        ("v0.26.0", "v0.24.2", "", "v0.24.2 is 2 minor versions behind"),
        ("v0.27.0", "v0.24.2", "more than 2 minor versions behind the management cluster hub (v0.27.0)", ""),
        ("v1.0.0", "v0.26.0", "more than 2 minor versions behind", ""),
        ("v0.25.1", "v0.26.0", "can't be newer than its management cluster hub (v0.25.1)", ""),
        ("v0.25.0", "v0.25.1", "allowed: releases of v0.23 up to v0.25.0", ""),
        (None, "v0.24.2", "", ""),
    ],
)
def test_cluster_is_two_minors_behind_at_most(management: str | None, version: str, refusal: str, warning: str) -> None:
    response = ask(under_hub(version), None, hub(management))
    assert response.allowed == (not refusal)
    assert refusal in response.message
    assert any(warning in text for text in response.warnings) if warning else not response.warnings


@pytest.mark.demand("V32")
@pytest.mark.parametrize(("before", "after", "sentence"), STEPS)
def test_releases_are_upgraded_one_minor_at_a_time(before: str, after: str, sentence: str) -> None:
    old = edited({VERSION: before})
    blamed = refused(ask(edited({VERSION: after}, old), old)).get("spec.eksaVersion", "")
    assert sentence in blamed
    assert bool(blamed) == bool(sentence), blamed


def test_cluster_can_leave_an_unusable_release() -> None:
    old = edited({VERSION: "v0.26.0", "status": {"failureReason": "EksaVersionInvalid"}})
    assert ask(edited({VERSION: "v0.25.1"}, old), old).allowed


def test_a_minor_may_be_skipped_on_request() -> None:
    old = edited({VERSION: "v0.24.2", "metadata.annotations": {SKIP_EKSA_VERSION_SKEW_CHECK_ANNOTATION: "true"}})
    assert ask(edited({VERSION: "v0.26.0"}, old), old).allowed


def test_versions_are_judged_in_paused_clusters_too() -> None:
    old = paused(edited({VERSION: "v0.24.2"}))
    assert not ask(edited({VERSION: "v0.26.0"}, old), old).allowed


def test_a_version_that_stays_is_not_judged_again() -> None:
    old = under_hub("v0.23.9")
    assert ask(edited({GROUP + "count": 4, KUBERNETES: "1.35"}, old), old, hub()).allowed


def test_management_cluster_leaves_none_behind() -> None:
    others = (
        hub(),
        under_hub("v0.24.2", "late"),
        under_hub("v0.25.1", "soon"),
        under_hub(None, "silent", **{BUNDLES: REFERENCE}),
        release("v0.27.0"),
        release("v0.26.3"),
    )
    blamed = refused(ask(hub("v0.27.0"), hub(), *others))
    assert blamed == {
        "spec.eksaVersion": "this would leave clusters more than 2 minor versions behind: team-a/late (v0.24.2); "
        "upgrade them first; found v0.27.0"
    }
    assert ask(hub("v0.26.3"), hub(), *others).allowed
    back = refused(ask(hub("v0.25.0"), hub("v0.25.1"), *others))
    assert (
        "newer than their management cluster: team-a/silent (v0.26.0), team-a/soon (v0.25.1)"
        in back["spec.eksaVersion"]
    )


def test_many_clusters_left_behind_are_counted() -> None:
    late = [under_hub("v0.24.2", f"late-{number}") for number in range(8)]
    sentence = ask(hub("v0.27.0"), hub(), hub(), *late, release("v0.27.0")).message
    assert "team-a/late-4 (v0.24.2) and 3 more; upgrade" in sentence


def default(new: Tree, *others: Tree, operation: Any = "CREATE") -> str | None:
    request = AdmissionRequest(operation, "Cluster", "team-a", "garden", ADMIN, as_object(new), as_object(new))
    changed = Admission(observer(*others), lambda: NOW).default(request).changed
    assert changed is not None
    version: str | None = changed["spec"].get("eksaVersion")
    return version


@pytest.mark.demand("V10", "V16")
def test_new_cluster_alone_gets_the_managers_release() -> None:
    bare = under_hub(None)
    assert default(bare, hub("v0.25.1")) == "v0.25.1"
    assert default(bare, hub("v0.25.1"), operation="UPDATE") is None
    assert default(edited({BUNDLES: REFERENCE}, bare), hub("v0.25.1")) is None


@pytest.mark.demand("V9")
def test_manager_without_a_release_has_none_to_give() -> None:
    assert "set one" in refused(ask(under_hub(None), None, hub(None)))["spec.eksaVersion"]
    assert ask(under_hub(None), None, naming(hub())).allowed  # it waits for its management cluster


def test_a_release_brings_its_own_kubernetes_versions() -> None:
    blamed = refused(ask(edited({VERSION: "v0.25.1", KUBERNETES: "1.36"})))
    assert blamed == {
        "spec.kubernetesVersion": "release v0.25.1 does not have this Kubernetes version; found 1.36; "
        "allowed: 1.34, 1.35"
    }


def test_versions_outside_the_release_are_not_allowed() -> None:
    newest = edited({KUBERNETES: "1.36"})
    for wanted in ("1.34", "1.38"):
        message = refused(ask(edited({KUBERNETES: wanted}), newest))["spec.kubernetesVersion"]
        assert f"found {wanted}; allowed: 1.36" in message
        assert "1.37" not in message
    step = refused(ask(edited({KUBERNETES: "1.36"}), edited({KUBERNETES: "1.34"})))["spec.kubernetesVersion"]
    assert step.endswith("; allowed: 1.34 or 1.35")


V35, V36 = "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"


def machine(name: str, version: str, kubelet: str = "") -> Tree:
    """A machine of the control plane, which is a node if it has a kubelet."""
    node = {"nodeRef": {"name": name}, "nodeInfo": {"kubeletVersion": kubelet}}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": name,
            "namespace": "eksa-system",
            "uid": name,
            "resourceVersion": "9",
            "labels": {"cluster.x-k8s.io/cluster-name": "garden", "cluster.x-k8s.io/control-plane": ""},
        },
        "spec": {
            "clusterName": "garden",
            "version": version,
            "bootstrap": {},
            "infrastructureRef": {"apiGroup": "i", "kind": "DockerMachine", "name": name},
        },
        "status": node if kubelet else {},
    }


def upgrading(*machines: Tree, told: str = "1.36", held: bool = False) -> tuple[Tree, Tree, list[Tree]]:
    """A cluster on its way from 1.35 to 1.36, the one it was before, and what was made for it."""
    old = edited({KUBERNETES: "1.36", GROUP + "kubernetesVersion": "1.36"})
    new = edited({KUBERNETES: "1.35", GROUP + "kubernetesVersion": "1.35"}, old)
    # A control plane counts a machine as up to date before it has come up.
    status = {"version": V35, "replicas": len(machines), "upToDateReplicas": 1}
    workers = [tree for tree in made.objects(version="1.35") if tree["kind"] == "MachineDeployment"]
    planes = [
        tree for tree in made.objects(version=told, control_plane=status) if tree["kind"] == "KubeadmControlPlane"
    ]
    if held:
        planes[0]["metadata"]["annotations"] = {IN_PLACE_CONTROL_PLANE: "true"}
    return old, new, [*workers, *planes, *machines]


def test_upgrade_can_be_reverted_until_machine_has_it() -> None:
    old_one = machine("old", V35, V35)
    assert goes_back(old_one)
    assert goes_back(old_one, machine("hangs", V36))
    assert goes_back(old_one, machine("other", V35, V35), machine("hangs", V36))
    assert goes_back(told="1.35")  # it was written, and nobody acted on it yet


def test_upgrade_is_final_once_a_machine_has_it() -> None:
    old_one = machine("old", V35, V35)
    assert not goes_back(old_one, machine("new", V36, V36))
    assert not goes_back(machine("new", V36, V36))
    assert not goes_back(machine("hangs", V36)), "nobody runs the one before"
    assert not goes_back()


def test_machine_in_place_may_run_the_newer_version() -> None:
    old_one = machine("old", V35, V35)
    assert goes_back(old_one, held=True), "it waits for its turn"
    assert not goes_back(old_one, node_upgrade("old", "CNIPluginsUpgraded"), held=True), "kubeadm is next"
    assert not goes_back(old_one, machine("in-place", V36, V35)), "runtime hooks: Cluster API told the machine"


def node_upgrade(machine: str, *done: str) -> Tree:
    return {
        "apiVersion": NodeUpgrade.resource.api_version,
        "kind": NodeUpgrade.resource.kind,
        "metadata": {
            "name": f"{machine}-node-upgrader",
            "namespace": "eksa-system",
            "uid": f"upgrade of {machine}",
            "resourceVersion": "1",
            "labels": {"cluster.x-k8s.io/cluster-name": "garden"},
        },
        "spec": {"machine": {"name": machine}, "kubernetesVersion": V36, "nodeType": "ControlPlane"},
        "status": {"conditions": [{"type": step, "status": "True", "reason": "Done"} for step in done]},
    }


def goes_back(*machines: Tree, **more: Any) -> bool:
    """True if 1.35 is accepted; never is 1.34."""
    old, new, objects = upgrading(*machines, **more)
    further = edited({KUBERNETES: "1.34", GROUP + "kubernetesVersion": "1.34"}, old)
    assert not ask(further, old, *objects).allowed
    response = ask(new, old, *objects)
    if not response.allowed:
        assert refused(response)["spec.kubernetesVersion"].startswith("Kubernetes can't be downgraded from 1.36")
    return response.allowed


def admit(new: Tree, old: Tree | None = None) -> AdmissionResponse:
    before = as_object(old) if old else None
    request = AdmissionRequest("UPDATE" if old else "CREATE", "EKSARelease", "", "x", ADMIN, as_object(new), before)
    return validate_release(request)


@pytest.mark.demand("V23")
def test_a_release_has_the_name_of_its_version() -> None:
    assert admit(release("v0.27.0-dev+build.1", "eksa-v0-27-0-dev-plus-build-1")).allowed
    assert refused(admit(release("v0.27.0", "mine"))) == {
        "metadata.name": "an EKSARelease is named after its version, so that each version exists once; use "
        "this name; found mine; allowed: eksa-v0-27-0"
    }
    assert "not a semantic version" in refused(admit(release("next", "eksa-next")))["spec.version"]


@pytest.mark.demand("V22")
def test_an_edited_release_is_refused_field_by_field() -> None:
    old = release("v0.26.0")
    new = edited({"spec.gitCommit": "other", "spec.bundlesRef.name": "bundles-2"}, old)
    blamed = refused(admit(new, old))
    assert set(blamed) == {"spec.gitCommit", "spec.bundlesRef.name"}
    assert blamed["spec.gitCommit"].endswith('found "other"; allowed: "c"')
    assert admit(edited({"metadata.labels": {"a": "b"}}, old), old).allowed


def test_unread_manager_refuses_with_the_reason() -> None:
    unread = ClusterObserver(Caches(Client(NoServer())), providers=PROVIDERS)
    request = AdmissionRequest("CREATE", "Cluster", "team-a", "garden", ADMIN, as_object(garden()))
    response = Admission(unread, lambda: NOW).validate(request)
    assert (response.allowed, response.code) == (False, 503)
    assert "try again" in response.message


def test_missing_release_is_answered_with_others() -> None:
    """Not with those that are newer than the management cluster, or too far behind it."""
    manager, cluster = (msgspec.convert(item, Cluster) for item in (laptop(), garden()))
    manager.spec.eksa_version, cluster.spec.eksa_version = "v0.25.1", "v0.25.9"
    known = ("v0.26.0", "v0.25.1", "v0.23.0", "v0.22.0")
    results = list(releases.version(None, cluster, known=known, management=manager))
    assert results[0].allowed == "v0.25.1, v0.23.0"
