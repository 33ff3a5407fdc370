"""In-place upgrades are for Ubuntu alone, with any provider (U72)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from espalier.api.capi import cluster as capi
from espalier.api.meta import Tree
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.report.validity import linked_violations, problem
from espalier.providers.registry import PROVIDERS
from tests.support.objects.observed_clusters import as_object
from tests.support.objects.rendered_manifests import FORK
from tests.support.providers import nutanix, vsphere
from tests.support.providers.examples import stored
from tests.support.servers.admission_reviews import ask

PLANE, GROUP = "controlPlaneConfiguration", "workerNodeGroupConfigurations"
SENTENCE = (
    "in-place upgrades support only Ubuntu; found InPlace, with redhat; allowed: RollingUpdate, or osFamily ubuntu"
)

MANIFESTS: dict[str, Callable[[], list[Tree]]] = {"vsphere": vsphere.manifest, "nutanix": nutanix.manifest}
SEEN: dict[str, Callable[[list[Tree]], Scope]] = {"vsphere": vsphere.seen, "nutanix": nutanix.seen}
SECRETS: dict[str, Callable[[], Tree]] = {"vsphere": vsphere.credentials, "nutanix": nutanix.credentials}


def asked(provider: str, family: str, *, in_place: bool = True) -> list[Tree]:
    trees = MANIFESTS[provider]()
    for tree in trees:
        if "MachineConfig" in tree["kind"]:
            tree["spec"]["osFamily"] = family
    spec: Any = trees[0]["spec"]
    if in_place:
        for group in (spec[PLANE], spec[GROUP][0]):
            group["upgradeRolloutStrategy"] = {"type": "InPlace"}
    return trees


@pytest.mark.demand(U72="the Cluster is refused")
@pytest.mark.parametrize("provider", MANIFESTS)
def test_other_systems_are_not_upgraded_in_place(provider: str) -> None:
    assert problem(SEEN[provider](asked(provider, "ubuntu"))) is None
    assert problem(SEEN[provider](asked(provider, "redhat", in_place=False))) is None
    stopped = problem(SEEN[provider](asked(provider, "redhat")))
    assert stopped is not None
    assert stopped.reason == "ClusterInvalid"
    for group in (PLANE, f"{GROUP}[0]"):
        assert f"spec.{group}.upgradeRolloutStrategy.type: {SENTENCE}" in stopped.message


@pytest.mark.parametrize("provider", MANIFESTS)
def test_what_an_earlier_release_accepted_goes_on(provider: str) -> None:
    scope = SEEN[provider](asked(provider, "redhat"))
    children = [child for _, child in scope.children]
    assert [violation.found for violation in linked_violations(scope.cluster, PROVIDERS, children)] == [
        "InPlace, with redhat"
    ] * 2
    assert list(linked_violations(scope.cluster, PROVIDERS, children, is_made=True)) == []
    cluster = as_object({"apiVersion": "v1", "kind": "Cluster", "metadata": {"name": scope.cluster.metadata.name}})
    made = ClusterAPIObjects({capi.Cluster.resource: {cluster.name: cluster}})
    assert problem(msgspec.structs.replace(scope, capi_objects=made)) is None


@pytest.mark.parametrize("provider", MANIFESTS)
def test_change_to_in_place_is_refused(provider: str) -> None:
    before, after = asked(provider, "redhat", in_place=False), asked(provider, "redhat")
    others = [*stored(asked(provider, "redhat")), SECRETS[provider](), FORK]
    assert SENTENCE in ask(after[0], before[0], *others).message
    more = asked(provider, "redhat")
    more[0]["spec"][GROUP][0]["count"] = 3
    response = ask(more[0], after[0], *others)
    assert response.allowed, response.message
