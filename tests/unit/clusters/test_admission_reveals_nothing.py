"""Answers of webhooks name no object that the request does not: whoever asks may not read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from espalier.api.meta import Tree
from espalier.runtime.servers.admission import AdmissionResponse
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import datacenter, example, laptop, naming
from tests.support.objects.shared_objects import MANAGER, SHARED, delete, release_of_bundles
from tests.support.providers.git_repositories import HUB, flux
from tests.support.servers.admission_reviews import GROUP, SPEC, ask, edited, garden, paused

SECRET = "undisclosed"
"""In the names of what somebody else has, and nobody told him who asks."""

OTHER = SECRET + "-ns"
Ask = Callable[..., AdmissionResponse]


def others(name: str = "garden", **edits: Any) -> Tree:
    """A Cluster of another namespace."""
    return edited({"metadata.namespace": OTHER, "metadata.name": name, "metadata.uid": "theirs", **edits})


def manager(version: str = "v0.26.0", **edits: Any) -> Tree:
    """The record of the management cluster, in a namespace that few may read."""
    results = {"metadata.name": SECRET, "metadata.namespace": OTHER, MANAGER: SECRET, SPEC + "eksaVersion": version}
    return edited(results | edits, laptop())


def managed(version: str) -> Tree:
    return others(SECRET + "-workload", **{MANAGER: SECRET, SPEC + "eksaVersion": version})


def of_record(version: str) -> Callable[[bool], AdmissionResponse]:
    def tell(names_others: bool) -> AdmissionResponse:
        record = edited({"metadata.namespace": "default", "metadata.name": "hub", MANAGER: "hub"}, manager(version))
        workload = edited({MANAGER: "hub"}, managed("v0.26.0"))
        return ask(record, None, workload, naming(record), names_others=names_others)

    return tell


def of_what_the_record_links(names_others: bool) -> AdmissionResponse:
    record = edited({SPEC + "datacenterRef": SHARED}, laptop())
    workload = edited({SPEC + "datacenterRef": SHARED, "metadata.namespace": "default", "metadata.name": SECRET})
    return ask(record, laptop(), workload, names_others=names_others)


def of_a_series(names_others: bool) -> AdmissionResponse:
    ours = edited({"metadata.name": f"{SECRET}-web", SPEC + "workerNodeGroupConfigurations[0].name": "md-0"})
    groups = [{"name": "web-md-0", "count": 1}]
    theirs = others(SECRET, **{SPEC + "workerNodeGroupConfigurations": groups})
    return ask(ours, None, theirs, names_others=names_others)


def of_a_workload_cluster(names_others: bool) -> AdmissionResponse:
    """The ConfigMap names one that is managed itself."""
    hub = manager(**{"metadata.name": "hub"})
    return ask(edited({MANAGER: "hub"}), None, hub, laptop(), naming(hub), names_others=names_others)


def of_git_ops(names_others: bool) -> AdmissionResponse:
    record = edited(
        {SPEC + "gitOpsRef": {"kind": "FluxConfig", "name": SECRET}, "metadata.resourceVersion": "2"}, laptop()
    )
    ours = edited({SPEC + "gitOpsRef": {"kind": "FluxConfig", "name": "own"}})
    theirs = flux(SECRET, "default", github=HUB | {"repository": f"{SECRET}-repository"})
    return ask(ours, None, record, theirs, flux("own", "team-a"), flux("own", "default"), names_others=names_others)


def in_a_dry_run(names_others: bool) -> AdmissionResponse:
    """Of a Cluster that was stored while nobody judged."""
    ours = edited({"metadata.creationTimestamp": "2026-02-01T00:00:00Z"})
    theirs = others(**{"metadata.creationTimestamp": "2025-01-01T00:00:00Z"})
    response = ask(ours, ours, ours, theirs, datacenter(), names_others=names_others, dry_run=True)
    assert any("ClusterNameTaken" in warning for warning in response.warnings)
    return response


ANSWERS: dict[str, Callable[[bool], AdmissionResponse]] = {
    "the name is another's": lambda tells: ask(garden(), None, others(), names_others=tells),
    "another management cluster": lambda tells: ask(garden(), None, naming(manager()), manager(), names_others=tells),
    "a record of his own": lambda tells: ask(
        paused(edited({MANAGER: "garden"})), None, naming(manager()), manager(), names_others=tells
    ),
    "a management cluster that is none": of_a_workload_cluster,
    "names of objects": of_a_series,
    "a record below its clusters": of_record("v0.25.1"),
    "a record beyond its clusters": of_record("v0.29.0"),
    "what a record links": of_what_the_record_links,
    "GitOps": of_git_ops,
    "deletion of a record": lambda tells: delete(laptop(), laptop(), others(SECRET), names_others=tells),
    "deletion of a release": lambda tells: delete(
        release_of_bundles(), others(SECRET), kind="EKSARelease", names_others=tells
    ),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_refusal_names_nothing_of_others(answer: Callable[[bool], AdmissionResponse]) -> None:
    result, discreet = answer(True), answer(False)
    assert SECRET in result.message, "there is something that could be named"
    assert f"{SECRET}-repository" not in result.message
    assert not discreet.allowed
    assert (discreet.code, len(discreet.causes)) == (result.code, len(result.causes))
    unwritten = discreet.message.replace(f"{SECRET}-web", "")  # a name that he wrote himself
    assert SECRET not in unwritten
    assert not any(SECRET in cause.message.replace(f"{SECRET}-web", "") for cause in discreet.causes)
    assert SECRET not in str(discreet.warnings)


def test_a_dry_run_does_not_either() -> None:
    assert SECRET not in str(in_a_dry_run(False).warnings)


def test_dry_run_reveals_no_name_of_system_namespace() -> None:
    results = objects()
    for tree in results:
        if tree["kind"] == "KubeadmControlPlane":
            tree["metadata"]["labels"]["cluster.anywhere.eks.amazonaws.com/cluster-namespace"] = OTHER
    ours = example()[0]
    response = ask(ours, ours, ours, datacenter(), *results, names_others=False, dry_run=True)
    assert any("ClusterNameTaken" in warning for warning in response.warnings)
    assert SECRET not in str(response.warnings)


def test_review_without_the_uid_is_told_no_effects() -> None:
    """Whoever reaches the port may send one; the uid is known to API servers and to readers of the Cluster."""
    stored = edited({GROUP + "count": 1})
    asked = edited({GROUP + "count": 3}, stored)
    guessed = edited({"metadata.uid": "guessed"}, asked)
    told = set(ask(asked, stored, stored, dry_run=True).warnings)
    assert told - set(ask(guessed, stored, stored, dry_run=True).warnings) == told != set()
