"""Which Cluster is the management cluster, and that the controller judges whatever admission does."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import CLUSTER_FINALIZER, PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE as SYSTEM
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.kinds import KubeObject
from espalier.api.manifests.schema import violations
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.act.deletion_steps import guard, wait_for_managed_clusters
from espalier.clusters.admission.admission import Admission
from espalier.clusters.design.release_objects import release_content
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.report.validity import missing_objects, problem
from espalier.kube.client import Client
from espalier.kube.transports.wire import ADMIN
from espalier.providers.registry import PROVIDERS
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from tests.support.objects.eksa_versions import hub, release, under_hub
from tests.support.objects.observed_clusters import (
    NAMESPACE,
    NOW,
    RELEASES,
    NoServer,
    as_object,
    datacenter,
    fill,
    laptop,
    naming,
    observer,
)
from tests.support.objects.reconciles import step
from tests.support.objects.refused_clusters import WRONG
from tests.support.objects.shared_objects import MANAGER, SHARED, delete, release_of_bundles
from tests.support.providers.git_repositories import flux
from tests.support.servers.admission_reviews import SPEC, ask, edited, garden, paused

GIT_OPS = SPEC + "gitOpsRef"
FLEET = {"kind": "FluxConfig", "name": "fleet"}


def record(version: str = "v0.26.0", edits: dict[str, Any] | None = None) -> Tree:
    return edited({SPEC + "eksaVersion": version, "metadata.resourceVersion": "2"} | (edits or {}), laptop())


RELATIONS: list[tuple[Tree, tuple[Tree, ...], bool]] = [
    (garden(), (record(),), True),
    (garden(), (record("v0.25.1"),), False),
    (edited({SPEC + "eksaVersion": "v0.24.2", SPEC + "kubernetesVersion": "1.34"}), (record("v0.27.0"),), False),
    (edited({SPEC + "eksaVersion": "v0.24.2", SPEC + "kubernetesVersion": "1.34"}), (record("v0.26.0"),), True),
    (edited({SPEC + "eksaVersion": "v0.26.0"}), (record("v1.0.0"),), False),
    (edited({SPEC + "eksaVersion": "v0.99.0"}), (record(),), False),
    (edited({MANAGER: "nobody"}), (record(),), False),
    (edited({MANAGER: "hub"}), (hub(), naming(laptop())), False),
    (edited({GIT_OPS: FLEET}), (record(),), False),
    (
        edited({GIT_OPS: FLEET}),
        (record(edits={GIT_OPS: FLEET | {"name": "other"}}), flux("fleet", NAMESPACE), flux("other", "default")),
        True,
    ),
    (
        edited({GIT_OPS: FLEET}),
        (
            record(edits={GIT_OPS: FLEET | {"name": "other"}}),
            flux("fleet", NAMESPACE),
            flux("other", "default", branch="x"),
        ),
        False,
    ),
    (edited({SPEC + "datacenterRef": SHARED}), (record(edits={SPEC + "datacenterRef": SHARED}),), True),
    (
        edited({SPEC + "datacenterRef": SHARED}),
        (record(edits={SPEC + "datacenterRef": SHARED, "metadata.namespace": "team-a"}),),
        False,
    ),
]
"""New Clusters beside others, and whether they can be had."""


@pytest.mark.parametrize(("new", "others", "valid"), RELATIONS)
def test_admission_and_controller_agree(new: Tree, others: tuple[Tree, ...], valid: bool) -> None:
    assert ask(new, None, *others).allowed is valid
    result = problem_of(new, *others)
    assert (result is None) is valid, result


@pytest.mark.parametrize(("edits", "field", "sentence"), WRONG)
def test_controller_refuses_what_admission_refuses(edits: dict[str, Any], field: str, sentence: str) -> None:
    wrong = edited(edits)
    try:
        result = problem_of(wrong)
    except ValueError:
        return  # no Cluster at all: the reconcile says so
    assert result is not None, (field, sentence)


def problem_of(new: Tree, *others: Tree) -> Wait | None:
    key = Key(new["metadata"]["namespace"], new["metadata"]["name"])
    seen = observer(new, datacenter(), datacenter("shared"), *others).scope(key)
    assert seen is not None
    awaited = tuple(item for item in seen.missing if item.field != GIT_OPS)
    return missing_objects(awaited) or problem(seen)


def of(*trees: Tree) -> ClusterObserver:
    return observer(*trees)


def named(**data: str) -> Tree:
    return naming(laptop()) | {"data": data}


NAMED: list[tuple[tuple[Tree, ...], Key | None]] = [
    ((naming(laptop()),), Key("default", "laptop")),
    ((hub(creationTimestamp="2020-01-01T00:00:00Z"), naming(laptop())), Key("default", "laptop")),
    ((named(namespace="team-a", name="coming"),), Key("team-a", "coming")),
    ((named(name="laptop"),), None),
    ((named(),), None),
]


@pytest.mark.parametrize(("trees", "key"), NAMED)
def test_configmap_of_system_says_which_cluster_it_is(trees: tuple[Tree, ...], key: Key | None) -> None:
    result = of(*trees).management_cluster
    assert result.key == key
    assert bool(result.trouble) is (key != Key("default", "laptop"))


def test_oldest_record_is_the_management_cluster() -> None:
    nothing = naming(laptop())
    nothing["metadata"]["name"] = "something-else"
    first = record(edits={"metadata.creationTimestamp": "2026-01-01T00:00:00Z"})
    later = hub(creationTimestamp="2026-02-01T00:00:00Z")
    for trees in ((first, later), (later, first)):
        result = of(*trees, nothing).management_cluster
        assert result.key == Key("default", "laptop")
        assert "Cluster default/laptop, the oldest record, is used" in result.trouble


def test_second_record_is_refused() -> None:
    second = paused(edited({MANAGER: "garden"}))
    for old in (None, garden(), paused(garden())):
        message = ask(second, old).message
        assert "the management cluster is Cluster default/laptop" in message
        assert "`espalier manifests --management-cluster NAMESPACE/NAME`" in message
    assert ask(second, None, naming(second)).allowed


def test_workload_cluster_becomes_record_if_paused() -> None:
    becomes = paused(edited({MANAGER: "garden"}))
    refused = ask(becomes, garden(), naming(becomes))
    assert not refused.allowed
    assert "spec.managementCluster.name: it can't be changed in an existing cluster" in refused.message
    assert "found garden; allowed: laptop" in refused.message
    assert ask(becomes, paused(garden()), naming(becomes)).allowed


def test_record_is_not_created_beyond_its_clusters() -> None:
    others = (under_hub("v0.25.1", "first"), release("v0.28.0"), naming(hub()))
    for version, sentence in (
        ("v0.24.2", "newer than their management cluster: team-a/first (v0.25.1)"),
        ("v0.28.0", "more than 2 minor versions behind: team-a/first (v0.25.1)"),
    ):
        assert sentence in ask(hub(version), None, *others).message
    assert ask(hub("v0.26.0"), None, *others).allowed


def test_record_may_come_nearer_to_its_clusters() -> None:
    """It was written while nobody judged; each of its steps is one minor version."""
    others = (under_hub("v0.26.0", "ahead"), release("v0.27.0"), release("v0.28.0"), naming(hub()))
    assert ask(hub("v0.25.0"), hub("v0.24.2"), *others).allowed
    behind = (under_hub("v0.24.2", "behind"), release("v0.27.0"), release("v0.28.0"), naming(hub()))
    assert "more than 2 minor versions behind" in ask(hub("v0.28.0"), hub("v0.27.0"), *behind).message


def test_record_takes_no_object_of_its_clusters() -> None:
    workload = edited({SPEC + "datacenterRef": SHARED, "metadata.namespace": "default"})
    taking = record(edits={SPEC + "datacenterRef": SHARED})
    assert "belongs to workload clusters: default/garden" in ask(taking, record(), workload).message
    assert ask(taking, taking, workload).allowed, "what stays is not judged again"


def test_only_new_parts_of_a_record_are_judged() -> None:
    """A reference that stays does not keep its Cluster from any other change."""
    workload = edited({SPEC + "datacenterRef": SHARED, "metadata.namespace": "default"})
    apart = edited({"metadata.name": "apart", "metadata.uid": "apart", "metadata.namespace": "default"})
    there, count = record(edits={SPEC + "datacenterRef": SHARED}), SPEC + "controlPlaneConfiguration.count"
    assert ask(edited({count: 3}, there), there, workload).allowed
    refused = ask(there, record(), workload, apart).message
    assert "workload clusters: default/garden;" in refused
    assert ask(there, record(), apart).allowed
    assert ask(there, record(), edited({SPEC + "datacenterRef": SHARED})).allowed, "of another namespace"

    scaled = edited({SPEC + "workerNodeGroupConfigurations[0].count": 3}, workload)
    assert ask(scaled, workload, there).allowed
    assert "belongs to the management cluster (default/laptop)" in ask(workload, None, there).message
    moved = edited({SPEC + "datacenterRef": SHARED | {"name": "own"}}, workload)
    assert "belongs to the management cluster" in ask(workload, paused(moved), there).message


def test_record_is_not_created_without_the_configmap() -> None:
    """It may be gone by now: then this one would be the youngest."""
    nothing = naming(laptop())
    nothing["metadata"]["name"] = "something-else"
    assert "there is no record" not in ask(record(), None, record(), nothing).message
    assert not ask(record(), None, record(), nothing).allowed
    assert ask(record(), None, record()).allowed


def without_records() -> ClusterObserver:
    caches = Caches(Client(NoServer()))
    made = ClusterObserver(caches, providers=PROVIDERS)
    fill(caches, [garden()])
    return made


def test_nobody_manages_without_a_record() -> None:
    seen = without_records()
    known, cluster = seen.management_cluster, msgspec.convert(garden(), Cluster)
    assert (known.key, known.record, known.of(cluster), known.managed()) == (None, None, None, [])
    assert "there is no record either" in known.trouble


@pytest.mark.parametrize(
    ("data", "trouble"),
    [
        ({"namespace": "default", "name": "gone"}, "Cluster default/gone .* does not exist"),
        ({"namespace": "team-a", "name": "garden"}, "Cluster team-a/garden .* is not self-managed"),
        ({"namespace": "default"}, "must have namespace and name"),
        ({"name": "laptop"}, "must have namespace and name"),
        ({"namespace": "default", "name": 5}, "must have namespace and name"),
    ],
)
def test_configmap_without_its_record_is_reported(data: Tree, trouble: str) -> None:
    marker = naming(laptop()) | {"data": data}
    result = of(garden(), marker).management_cluster
    assert re.search(trouble, result.trouble)
    assert result.of(msgspec.convert(garden(), Cluster)) is None


def test_record_that_manages_clusters_stays() -> None:
    refused = delete(laptop(), laptop(), garden("a"), garden("b"))
    assert not refused.allowed
    assert refused.message.startswith("Cluster default/laptop can't be deleted: this is the record of the management")
    assert "which manages clusters: team-a/a, team-a/b; delete those first" in refused.message
    assert delete(laptop(), laptop()).allowed
    assert delete(garden(), laptop(), garden()).allowed
    assert delete(hub(), hub(), under_hub("v0.26.0"), naming(laptop())).allowed, "it is nobody's"


def bundles() -> Tree:
    first = next(
        object_
        for object_ in RELEASES.objects()
        if isinstance(object_, Bundles) and object_.metadata.name == "bundles-1"
    )
    tree: Tree = msgspec.to_builtins(first)
    return tree


def with_record_of(digest: str) -> Tree:
    return edited({"metadata.annotations": {metadata_keys.RELEASE_ANNOTATION: f"Bundles/bundles-1={digest}"}})


def test_replacement_can_be_deleted_the_original_not() -> None:
    present = release_content.digest(as_object(bundles()))
    assert not delete(bundles(), with_record_of(present), kind="Bundles").allowed
    assert not delete(bundles(), garden(), kind="Bundles").allowed, "an earlier manager noted nothing"
    assert delete(bundles(), with_record_of("0" * 20), kind="Bundles").allowed
    unused = edited({SPEC + "eksaVersion": "v0.24.2"})
    assert delete(bundles(), unused, record("v0.24.2"), kind="Bundles").allowed


def test_release_is_deleted_after_clusters_are_read() -> None:
    """It has a finalizer."""
    admission = Admission(ClusterObserver(Caches(Client(NoServer())), providers=PROVIDERS), lambda: NOW)
    handlers = {"Bundles": admission.protected(lambda _request: AdmissionResponse()), "Cluster": admission.validate}
    answers = {}
    for old in (bundles(), laptop()):
        where = (old["kind"], old["metadata"]["namespace"], old["metadata"]["name"])
        answers[old["kind"]] = handlers[old["kind"]](AdmissionRequest("DELETE", *where, ADMIN, None, as_object(old)))
    assert (answers["Bundles"].allowed, answers["Bundles"].code) == (False, 503)
    assert answers["Cluster"].allowed


def test_unread_configmap_refuses_no_deletion() -> None:
    caches = Caches(Client(NoServer()))
    admission = Admission(ClusterObserver(caches, providers=PROVIDERS), lambda: NOW)
    objects = [as_object(tree) for tree in (hub(), under_hub("v0.26.0"))]
    for cache in caches.all:
        if cache.source.resource.kind == "Cluster" and cache.source.resource.api_version.startswith("anywhere"):
            cache.begin_list()
            cache.listed(objects)
            cache.end_list("1000")
    request = AdmissionRequest("DELETE", "Cluster", "default", "hub", ADMIN, None, objects[0])
    assert admission.validate(request).allowed


def test_cluster_named_as_the_record_can_be_deleted() -> None:
    workload = edited({"metadata.name": "middle", MANAGER: "laptop"})
    below = edited({MANAGER: "middle"})
    assert delete(workload, workload, below, naming(workload)).allowed


def test_workload_cluster_manages_nobody() -> None:
    workload = edited({"metadata.name": "middle", MANAGER: "laptop"})
    result = problem_of(edited({MANAGER: "middle"}), workload, naming(workload))
    assert result is not None
    assert result.reason == Reason.MANAGEMENT_CLUSTER_REF_INVALID
    assert 'Cluster "middle" is not self-managed, so it can\'t manage others' in result.message


def test_only_the_record_that_manages_clusters_is_held() -> None:
    workload = edited({"metadata.name": "middle", MANAGER: "laptop"})
    for trees, key, holds in (
        ((laptop(), garden()), Key("default", "laptop"), True),
        ((laptop(),), Key("default", "laptop"), False),
        ((hub(), under_hub("v0.26.0"), naming(laptop())), Key("default", "hub"), False),
        ((workload, edited({MANAGER: "middle"}), naming(workload)), Key("team-a", "middle"), False),
    ):
        scope = observer(*trees).scope(key)
        assert scope is not None
        assert isinstance(wait_for_managed_clusters(scope), Wait) is holds, key


GUARD, OURS, THEIRS = metadata_keys.MANAGEMENT_FINALIZER, CLUSTER_FINALIZER, "example.com/backup"
BEING_DELETED = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("edits", "others", "there", "expected"),
    [
        ({}, (garden(),), [], [GUARD]),
        ({}, (garden(),), [THEIRS], [THEIRS, GUARD]),
        ({}, (garden(),), [GUARD], None),
        ({}, (), [THEIRS], None),
        ({}, (), [GUARD, THEIRS], [THEIRS]),
        (BEING_DELETED, (garden(),), [THEIRS], None),
        (BEING_DELETED, (garden(),), [GUARD], None),
        (BEING_DELETED, (), [GUARD, THEIRS], [THEIRS]),
        ({}, (garden(), naming(hub())), [THEIRS], None),
        ({}, (garden(), naming(hub())), [GUARD, THEIRS], [THEIRS]),
    ],
)
def test_record_has_its_finalizer_while_it_manages(
    edits: Tree, others: tuple[Tree, ...], there: list[str], expected: list[str] | None
) -> None:
    """API servers take none for what is being deleted: then nothing would be said of the record."""
    cluster = record(edits=edits | {"metadata.finalizers": there})
    _, written, _ = step(guard, (cluster, *others), Key("default", "laptop"))
    assert [patch["metadata"]["finalizers"] for patch in written] == ([] if expected is None else [expected])


def test_workload_cluster_loses_a_record_finalizer() -> None:
    """Manifests are copied with their finalizers."""
    copied = edited({"metadata.finalizers": [GUARD, OURS]})
    _, written, _ = step(guard, (copied,))
    assert [patch["metadata"]["finalizers"] for patch in written] == [[OURS]]


def digest_of(tree: Tree) -> str:
    return release_content.digest(as_object(tree))


def evil(digest: str, version: str = "v0.26.0", kind: str = "Bundles", name: str = "bundles-1") -> Tree:
    noted = {PAUSED_ANNOTATION: "true", metadata_keys.RELEASE_ANNOTATION: f"{kind}/{name}={digest}"}
    edits = {"metadata.name": "evil", "metadata.namespace": "tenant", "metadata.annotations": noted}
    return edited({**edits, SPEC + "eksaVersion": version, SPEC + "kubernetesVersion": "1.35"})


def test_note_about_a_release_decides_for_its_cluster() -> None:
    for other in (garden(), with_record_of(digest_of(bundles()))):
        refused = delete(bundles(), evil("0" * 20), other, kind="Bundles")
        assert "team-a/garden" in refused.message
        assert "tenant/evil" not in refused.message
    unused = record("v0.24.2")
    assert not delete(bundles(), evil(digest_of(bundles())), unused, kind="Bundles").allowed
    nobodys = evil(digest_of(bundles()), "v0.24.2")
    assert delete(bundles(), nobodys, unused, kind="Bundles").allowed, "its spec leads elsewhere"


def of_release(kind: type[KubeObject], name: str = "") -> Tree:
    first = next(
        object_ for object_ in RELEASES.objects() if isinstance(object_, kind) and name in ("", object_.metadata.name)
    )
    tree: Tree = msgspec.to_builtins(first)
    return tree


def by_bundles(name: str = "bundles-1") -> Tree:
    """A Cluster that names Bundles, and no release."""
    reference = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Bundles"}
    return edited({SPEC + "eksaVersion": None, SPEC + "bundlesRef": reference | {"name": name, "namespace": SYSTEM}})


def distro_of_bundles(kubernetes: str) -> Tree:
    versions = bundles()["spec"]["versionsBundles"]
    return of_release(
        DistroRelease, next(version["eksD"]["name"] for version in versions if version["kubeVersion"] == kubernetes)
    )


def test_all_that_the_spec_of_a_cluster_leads_to_stays() -> None:
    elsewhere = record("v0.24.2")
    for there in (release_of_bundles(), bundles(), distro_of_bundles("1.35")):
        for user in (garden(), by_bundles()):
            assert "team-a/garden" in delete(there, user, elsewhere, kind=there["kind"]).message, there["kind"]
        unused = delete(there, edited({SPEC + "eksaVersion": "v0.24.2"}), elsewhere, kind=there["kind"])
        assert unused.allowed, there["kind"]
    for version in ("v0.25.1", "v0.24.2"):  # they share EKS Distro Releases
        user = edited({SPEC + "eksaVersion": version})
        shared = of_release(DistroRelease, "kubernetes-1-35-eks-1")
        assert not delete(shared, user, elsewhere, kind="Release").allowed


def test_a_cluster_without_a_release_uses_none() -> None:
    odd = release("None")
    assert delete(odd, edited({SPEC + "eksaVersion": None}), kind="EKSARelease").allowed


def test_release_stays_for_clusters_with_its_bundles() -> None:
    """Clusters with Bundles of their own can do what these allow, so they note nothing, and speak for it."""
    there = release_of_bundles()
    replaced = evil("0" * 20, kind="EKSARelease", name=there["metadata"]["name"])
    assert delete(there, replaced, kind="EKSARelease").allowed
    assert "team-a/garden" in delete(there, replaced, by_bundles(), kind="EKSARelease").message


def test_replaced_distro_can_be_deleted() -> None:
    there = distro_of_bundles("1.35")
    result = evil("0" * 20, kind="Release", name=there["metadata"]["name"])
    other = edited({SPEC + "kubernetesVersion": "1.34"})
    assert delete(there, result, other, kind="Release").allowed
    assert not delete(there, result, garden(), kind="Release").allowed
    assert not delete(there, other, kind="Release").allowed


def test_order_of_keys_and_nulls_are_no_content() -> None:
    tree = bundles()
    other = copy.deepcopy(tree)
    other["spec"] = dict(reversed(other["spec"].items())) | {"nothing": None}
    other["metadata"]["labels"] = {"a": "b"}
    assert release_content.digest(as_object(tree)) == release_content.digest(as_object(other))
    order = copy.deepcopy(tree)
    order["spec"]["versionsBundles"][0] |= {"nothing": None}
    assert release_content.digest(as_object(tree)) == release_content.digest(as_object(order))
    other["spec"]["number"] = 99
    assert release_content.digest(as_object(tree)) != release_content.digest(as_object(other))


@pytest.mark.parametrize("text", ["", ",", "=", "a=,=b", "no digests at all"])
def test_a_record_that_somebody_wrote_is_no_trouble(text: str) -> None:
    assert release_content.recorded({metadata_keys.RELEASE_ANNOTATION: text}) == {}


def test_the_record_on_the_page_is_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "management-cluster.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    tree = yaml.safe_load(text)
    assert violations(Cluster, tree) == []
    answer = ask(tree, None, naming(tree))
    assert answer.allowed, answer.message
