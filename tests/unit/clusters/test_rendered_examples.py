"""The objects that the examples become, whole: what an operator will see, and what a change of ours would change."""

from __future__ import annotations

import difflib
import re

import msgspec
import pytest

from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.design import cni
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import plan
from tests.support.histories.golden_stories import compare_with_golden, text_of
from tests.support.objects.observed_clusters import EXAMPLES, GARDEN, example, scope
from tests.support.objects.render_inputs import EVERYTHING
from tests.support.providers.connected_examples import COMPANY, CONNECTED, PASSWORD


def rendered(manifest: str, *more: Tree, **spec: object) -> list[KubeObject]:
    key = GARDEN if manifest == "docker.yaml" else GARDEN._replace(name="orchard")
    render_input = scope(*example(manifest, **spec), *more, key=key).render_input
    assert render_input is not None
    return [
        *plan.control_plane(render_input, ClusterAPIObjects()),
        *plan.worker_groups(render_input, ClusterAPIObjects()),
    ]


@pytest.mark.demand(L20="what it makes")
def test_example_becomes_these_objects_of_cluster_api() -> None:
    compare_with_golden("docker", text_of(msgspec.to_builtins(object_) for object_ in rendered("docker.yaml")))


def test_options_of_docker_render_to_these_objects() -> None:
    objects = rendered("docker.yaml", **EVERYTHING)
    compare_with_golden("docker-everything", text_of(msgspec.to_builtins(object_) for object_ in objects))


@pytest.mark.demand(L20="what it makes")
@pytest.mark.parametrize("name", CONNECTED)
def test_a_field_changes_the_example_as_stored(name: str) -> None:
    """Line by line, of the objects that it changes; the rest is as in the story of the example."""
    before = {_place(item): item for item in map(msgspec.to_builtins, rendered("docker.yaml"))}
    results = []
    for tree in map(msgspec.to_builtins, rendered("docker.yaml", COMPANY, PASSWORD, **CONNECTED[name])):
        old = text_of([before[_place(tree)]]) if _place(tree) in before else ""
        lines = difflib.unified_diff(old.splitlines(), text_of([tree]).splitlines(), n=2, lineterm="")
        changed = [re.sub("^@@.*", "@@", line) for line in lines if not line.startswith(("---", "+++"))]
        if changed:
            results += [f"## {' '.join(_place(tree))}", *changed, ""]
    compare_with_golden(f"docker-{name}", "\n".join(results))


def _place(tree: Tree) -> tuple[str, str]:
    return tree["kind"], tree["metadata"]["name"]


@pytest.mark.parametrize("name", ["docker", "docker-cilium", "docker-external-etcd"])
def test_cni_of_example_is_made_of_these_objects(name: str) -> None:
    documents = example(f"{name}.yaml")
    key = GARDEN._replace(name=documents[0]["metadata"]["name"])
    render_input = scope(*documents, key=key).render_input
    assert render_input is not None
    compare_with_golden(f"{name}-cni", text_of(manifest.body for manifest in cni.objects(render_input)))


def test_every_example_has_a_golden_story() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} - {"roles", "management"} == {
        "cloudstack",
        "docker",
        "docker-cilium",
        "docker-external-etcd",
        "nutanix",
        "snow",
        "vsphere",
        "tinkerbell",
    }


def test_rendering_twice_gives_the_same_bytes() -> None:
    first, second = (msgspec.json.encode(rendered("docker.yaml")) for _ in range(2))
    assert first == second
