"""Previews of clusters that were read into a snapshot."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.effects import summary
from espalier.releases import Releases
from tests.support.objects.made_clusters import made, objects
from tests.support.objects.observed_clusters import GARDEN, datacenter, example
from tests.support.objects.previews import manifest, previews

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RELEASES = Releases.load()


def test_a_new_cluster_is_made_of_everything() -> None:
    preview = previews().of_change(GARDEN, manifest())
    assert [change.verb for change in preview.asked] == ["create", "create"]
    assert len(preview.objects) == 9
    assert [(group.name, group.coming) for group in preview.groups] == [("", 1), ("garden-md-0", 2)]


def test_end_of_support_is_warned_of_by_clock_of_plan() -> None:
    asked = previews(now=datetime(2026, 12, 1, tzinfo=UTC))
    told = "spec.kubernetesVersion: Kubernetes 1.34 (support ends on 2026-12-02); plan an upgrade"
    assert asked.of_change(GARDEN, manifest(kubernetesVersion="1.34")).warnings == (told,)
    assert asked.of_change(GARDEN, manifest(kubernetesVersion="1.35")).warnings == ()
    assert previews().of_change(GARDEN, manifest(kubernetesVersion="1.34")).warnings == ()


def test_refusals_are_listed_and_nothing_else_happens() -> None:
    wrong = manifest(kubernetesVersion="1.30", controlPlaneConfiguration={"count": 2})
    preview = previews().of_change(GARDEN, wrong)
    assert {refusal.field for refusal in preview.refusals} == {
        "spec.controlPlaneConfiguration.count",
        "spec.kubernetesVersion",
    }
    assert (preview.objects, preview.groups, preview.is_empty) == ((), (), False)


def test_second_cluster_of_a_name_is_refused_in_a_plan() -> None:
    asked = previews()
    assert asked.of_change(GARDEN, manifest()).refusals == ()
    other = manifest()
    for tree in other:
        tree["metadata"]["namespace"] = "team-b"
    (refusal,) = asked.of_change(Key("team-b", "garden"), other).refusals
    assert refusal.field == "metadata.name"


PAUSE: Tree = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}}
BY_SPEC: Tree = {"spec": {"paused": True}}


def with_pause(kind: str, how: Tree) -> list[Tree]:
    """The objects of a steady cluster, of which those of a kind are paused."""
    trees = objects()
    for tree in trees:
        if (tree["kind"], "spec" in tree) == (kind, True):
            for part, fields in how.items():
                tree.setdefault(part, {})
                tree[part] |= (
                    {name: tree[part].get(name, {}) | value for name, value in fields.items()}
                    if (part == "metadata")
                    else fields
                )
    return trees


@pytest.mark.parametrize(
    ("kind", "how", "command"),
    [
        ("KubeadmControlPlane", PAUSE, "`espalier rollout resume garden --control-plane -n team-a`"),
        ("MachineDeployment", PAUSE, "`espalier rollout resume garden md-0 -n team-a`"),
        ("MachineDeployment", BY_SPEC, "`espalier rollout resume garden md-0 -n team-a`"),
        ("Cluster", BY_SPEC, "Cluster.cluster.x-k8s.io eksa-system/garden is paused"),
    ],
)
def test_plan_names_a_pause_of_what_it_changes(kind: str, how: Tree, command: str) -> None:
    trees = with_pause(kind, how)
    preview = previews(*example(), *trees).of_change(GARDEN, manifest(kubernetesVersion="1.36"))
    assert preview.stops.startswith("ClusterAPIPaused: ")
    assert command in preview.stops
    told = list(summary.sentences(made(objects=trees, kubernetesVersion="1.36")))
    assert told[-1] == f"plan: then nothing more is done: {preview.stops}"


def test_pause_of_workers_leaves_the_control_plane() -> None:
    plane = example()[0]["spec"]["controlPlaneConfiguration"] | {"count": 3}
    told = list(
        summary.sentences(made(objects=with_pause("MachineDeployment", BY_SPEC), controlPlaneConfiguration=plane))
    )
    assert told[-1] == "plan: control plane: would create 2 machines"


def test_stored_invalid_cluster_is_told_without_crash() -> None:
    broken = example()[0]
    broken["spec"]["controlPlaneConfiguration"] = "three"
    preview = previews(broken, datacenter(), *objects()).as_it_is(GARDEN)
    assert preview.stops.startswith("ClusterInvalid: the stored Cluster is invalid: ")


def test_a_cluster_that_is_not_there_has_no_preview() -> None:
    with pytest.raises(LookupError, match="team-a/garden"):
        previews().as_it_is(GARDEN)


def test_plan_of_many_machines_is_short() -> None:
    groups = [{"name": f"md-{number}", "count": 100_000} for number in range(20)]
    preview = previews().of_change(GARDEN, manifest(workerNodeGroupConfigurations=groups))
    assert [group.coming for group in preview.groups[1:]] == [100_000] * 20
    assert len(msgspec.json.encode(preview)) < 20_000
