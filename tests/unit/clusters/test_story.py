"""The objects that the examples become, whole: what an operator will see, and what a change of ours would change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
import yaml

from espalier.api.kinds import KubeObject
from espalier.clusters import cni, plan
from espalier.clusters.scope import ClusterAPIObjects
from tests.unit.clusters.layers.designs import EVERYTHING
from tests.unit.clusters.seen import EXAMPLES, GARDEN, example, scope

STORIES = Path(__file__).parents[2] / "stories"


def text_of(objects: Iterable[object]) -> str:
    """YAML, for people."""
    return yaml.safe_dump_all(objects, sort_keys=True, width=120)


def told(name: str, text: str) -> None:
    """Compare with the story told before; ESPALIER_TELL_STORIES=1 writes it anew."""
    path = STORIES / f"{name}.golden"
    if os.environ.get("ESPALIER_TELL_STORIES"):
        path.write_text(text)
    assert text == path.read_text()


def rendered(manifest: str, **spec: object) -> list[KubeObject]:
    key = GARDEN if manifest == "docker.yaml" else GARDEN._replace(name="orchard")
    design = scope(*example(manifest, **spec), key=key).design
    assert design is not None
    return [*plan.control_plane(design, ClusterAPIObjects()), *plan.worker_groups(design, ClusterAPIObjects())]


def test_the_example_becomes_these_objects_of_cluster_api() -> None:
    told("docker", text_of(msgspec.to_builtins(object_) for object_ in rendered("docker.yaml")))


def test_everything_that_can_be_asked_for_of_docker_becomes_these() -> None:
    objects = rendered("docker.yaml", **EVERYTHING)
    told("docker-everything", text_of(msgspec.to_builtins(object_) for object_ in objects))


@pytest.mark.parametrize("name", ["docker", "docker-cilium"])
def test_the_cni_of_an_example_is_made_of_these_objects(name: str) -> None:
    documents = example(f"{name}.yaml")
    key = GARDEN._replace(name=documents[0]["metadata"]["name"])
    design = scope(*documents, key=key).design
    assert design is not None
    told(f"{name}-cni", text_of(manifest.body for manifest in cni.objects(design)))


def test_every_example_has_a_story() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} - {"roles"} == {"docker", "docker-cilium"}


def test_rendering_twice_gives_the_same_bytes() -> None:
    first, second = (msgspec.json.encode(rendered("docker.yaml")) for _ in range(2))
    assert first == second
