"""The predicted writes of reconciles: none for settled objects, missing ones first, drift only as far as requested."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.meta import Tree
from espalier.clusters import Isolation
from espalier.clusters.effects.diff import FieldChange
from espalier.clusters.effects.simulate import Simulated, simulate
from espalier.clusters.effects.summary import NOTHING, sentences
from espalier.clusters.observe.scope import Scope
from tests.support.objects.made_clusters import made, objects
from tests.support.objects.observed_clusters import example

MORE = [{"name": "md-0", "count": 4}]


def settled(scale: int | None = None, **annotations: str) -> Scope:
    """A cluster of which nothing is asked, and whose workers somebody scaled by hand."""
    there = objects()
    for tree in there:
        if tree["kind"] == "MachineDeployment" and scale is not None:
            tree["spec"]["replicas"] = scale
    scope = made(objects=there)
    marks = {metadata_keys.GATE_ANNOTATION: scope.content_hash, **annotations}
    return made(annotations=marks, objects=there)


def messages(simulated: Simulated) -> list[tuple[str, str]]:
    return [(change.verb, f"{change.kind} {change.name}") for change in simulated.objects]


def test_nothing_is_written_for_a_settled_cluster() -> None:
    simulated = simulate(settled())
    assert (simulated.settled, simulated.objects, simulated.drift) == (True, (), ())
    assert list(sentences(settled())) == [NOTHING]


def test_drift_is_reverted_only_by_annotation() -> None:
    left = simulate(settled(scale=9))
    assert (left.objects, left.drift) == ((), ("MachineDeployment eksa-system/garden-md-0: spec.replicas",))
    (drifted,) = left.drifted
    assert str(drifted) == "MachineDeployment eksa-system/garden-md-0"
    assert [field.field for field in drifted.fields] == ["spec.replicas"]
    assert drifted.fields[0].old != drifted.fields[0].new
    back = simulate(settled(scale=9, **{metadata_keys.DRIFT_ANNOTATION: "correct"}))
    assert (back.drift, back.drifted) == ((), ())
    (change,) = back.objects
    assert change.fields == (FieldChange("spec.replicas", 9, 2),)


def test_without_layers_drift_is_not_compared() -> None:
    scope = replace(settled(scale=9), isolation=Isolation.GATE)
    assert simulate(scope).drift == ()


def test_a_change_shows_the_values_before_and_after() -> None:
    simulated = simulate(made(objects=objects(), workerNodeGroupConfigurations=MORE))
    assert messages(simulated) == [("change", "MachineDeployment garden-md-0")]
    assert simulated.objects[0].fields == (FieldChange("spec.replicas", 2, 4),)


def test_new_template_names_the_one_that_it_replaces() -> None:
    simulated = simulate(made(objects=objects(), kubernetesVersion="1.36"))
    created = {change.name: change for change in simulated.objects if change.verb == "create"}
    assert {name: change.instead_of for name, change in created.items()} == {
        "garden-control-plane-2": "garden-control-plane-1",
        "garden-md-0-2": "garden-md-0-1",
    }
    assert [field.field for field in created["garden-md-0-2"].fields] == ["spec.template.spec.customImage"]
    assert {name for verb, name in messages(simulated) if verb == "delete"} == {
        "DockerMachineTemplate garden-control-plane-1",
        "DockerMachineTemplate garden-md-0-1",
    }


def test_everything_is_made_for_a_new_cluster() -> None:
    simulated = simulate(made(objects=[]))
    assert {verb for verb, _ in messages(simulated)} == {"create"}
    assert simulated.cni is not None
    assert (simulated.cni.is_exact, {object_.verb for object_ in simulated.cni.objects}) == (True, {"create"})


def test_pod_network_is_compared_with_what_was_applied() -> None:
    before = made(objects=objects())
    after = made(objects=objects(), eksaVersion="v0.25.0")
    exact, vague = simulate(after, before.render_input).cni, simulate(after).cni
    assert exact is not None
    assert vague is not None
    assert exact.is_exact
    assert "kindnetd:" in str(exact.objects)
    assert not vague.is_exact


MANAGEMENT = "ManagementClusterRefInvalid: spec.managementCluster.name: "


@pytest.mark.demand(L9="reported, where nobody could refuse it")
@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        ({"annotations": {PAUSED_ANNOTATION: "true"}}, "Paused: "),
        ({"eksaVersion": "v0.99.0"}, "EksaVersionInvalid: "),
        (
            {"managementCluster": {"name": "nobody"}},
            MANAGEMENT + '"nobody" is not the management cluster, which is Cluster default/laptop',
        ),
        ({"managementCluster": {"name": "orchard"}}, MANAGEMENT + '"orchard" is not the management cluster'),
        ({"datacenterRef": {"kind": "DockerDatacenterConfig", "name": "nobody"}}, "MissingDependentObjects: "),
    ],
)
def test_an_obstacle_for_the_manager_is_reported(cluster: dict[str, Any], why: str) -> None:
    orchard = example()[0]
    orchard["metadata"] |= {"name": "orchard", "uid": "orchard"}
    scope = made(objects=[*objects(), orchard], **cluster)
    simulated = simulate(scope)
    assert simulated.stops.startswith(why), simulated.stops
    assert simulated.objects == ()


def test_a_plan_changes_nothing_of_what_was_seen() -> None:
    there: list[Tree] = objects()
    before = copy.deepcopy(there)
    scope = made(objects=there, kubernetesVersion="1.36")
    assert messages(simulate(scope)) == messages(simulate(scope))
    assert there == before


def test_dry_run_tells_what_happens_to_machines() -> None:
    told = list(sentences(made(objects=objects(), kubernetesVersion="1.36", workerNodeGroupConfigurations=MORE)))
    assert told[0] == "plan: objects of Cluster API: 2 created, 2 changed, 2 deleted"
    assert any(text.startswith("plan: control plane: would replace 1 machine because of version, ") for text in told)
    workers = "plan: garden-md-0: would replace 2 machines because of version, infrastructure.customImage; "
    assert f"{workers}would create 2 machines" in told
    assert all(len(text) < 256 for text in told)


def test_dry_run_of_a_manifest_counts_all_of_it() -> None:
    missing = {"kind": "DockerDatacenterConfig", "name": "comes-with-it"}
    told = list(sentences(made(objects=[], datacenterRef=missing)))
    assert "plan: control plane: would create 1 machine" in told
    assert told[0].startswith("plan: waiting for DockerDatacenterConfig comes-with-it in namespace ")
    assert told[0].endswith(", which does not exist, unless this manifest contains it; then:")
