"""The rendered objects of each provider on a real API server with the CRDs of Cluster API and of all providers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from espalier.api.meta import Tree
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.rendered import Rendered
from tests.support.environments.control_plane import ControlPlane
from tests.support.objects.observed_clusters import example, scope
from tests.support.objects.render_inputs import EVERYTHING
from tests.support.objects.rendered_manifests import objects
from tests.support.providers import cloudstack, hardware, nutanix, snow, tinkerbell, vsphere
from tests.support.providers.connected_examples import COMPANY, CONNECTED, PASSWORD
from tests.support.providers.provider_crds import FILES, accepted_strictly, kubectl, lacks, must, refusal, with_crds

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

DEPRECATED = r"Warning: infrastructure\.cluster\.x-k8s\.io/v1beta2 Docker\w+ is deprecated"
"""Cluster API 1.13 would rather have other kinds for its tests; EKS Anywhere and we keep to these."""


def on_docker() -> list[Tree]:
    """Of a plain cluster, one with everything, and those with each connection: objects that differ, once each."""
    stories: list[Tree] = [{}, EVERYTHING, *CONNECTED.values()]
    render_inputs = [scope(*example(**story), COMPANY, PASSWORD).render_input for story in stories]
    trees = [
        tree for render_input in render_inputs if render_input is not None for tree in objects(rendered(render_input))
    ]
    assert None not in render_inputs
    return [*{json.dumps(tree): tree for tree in trees}.values()]


class Provider(NamedTuple):
    """How to render for it: an example, and a cluster with everything that can be set."""

    machine_template: str
    stories: dict[str, Callable[[], list[Tree]]]
    unknown: str = "memory"
    """A field of machines that it does not have."""


def stories(
    manifests: Any, trees_of: Callable[[Rendered], list[Tree]] = objects
) -> dict[str, Callable[[], list[Tree]]]:
    """Both, given the module with the manifests of a provider."""
    return {
        "example": lambda: trees_of(manifests.made(manifests.manifest())),
        "everything": lambda: trees_of(manifests.made(manifests.everything())),
    }


PROVIDERS = {
    "docker": Provider("DockerMachineTemplate", {"all": on_docker}),
    "vsphere": Provider("VSphereMachineTemplate", stories(vsphere)),
    "cloudstack": Provider("CloudStackMachineTemplate", stories(cloudstack)),
    "nutanix": Provider("NutanixMachineTemplate", stories(nutanix)),
    "snow": Provider("AWSSnowMachineTemplate", stories(snow)),
    "tinkerbell": Provider(
        "TinkerbellMachineTemplate",
        stories(tinkerbell, tinkerbell.objects),
        unknown="template",
    ),
}
STORIES = [(provider, story) for provider, tested in PROVIDERS.items() for story in tested.stories]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def providers(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane with the CRDs of all of them."""
    async with with_crds(control_plane, *FILES) as opened:
        yield opened


def skip_without(*names: str) -> None:
    """Skip a test that needs CRDs of these which can't be had."""
    for name in names:
        if reason := lacks(name):
            pytest.skip(reason)


@pytest.mark.parametrize(("provider", "story"), STORIES)
async def test_each_object_is_accepted_strictly(providers: ControlPlane, provider: str, story: str) -> None:
    skip_without(provider)
    warning = DEPRECATED if provider == "docker" else None
    await accepted_strictly(providers, PROVIDERS[provider].stories[story](), warning=warning)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_field_that_provider_does_not_have_is_refused(providers: ControlPlane, provider: str) -> None:
    """The test above can fail."""
    skip_without(provider)
    result = PROVIDERS[provider]
    trees = next(iter(result.stories.values()))()
    tree = next(tree for tree in trees if tree["kind"] == result.machine_template)
    tree["spec"]["template"]["spec"][result.unknown] = 1
    assert f"spec.template.spec.{result.unknown}" in await refusal(providers, tree)


async def test_generated_hardware_is_accepted_strictly(providers: ControlPlane) -> None:
    skip_without("tinkerbell-stack")
    await accepted_strictly(providers, [item for item in hardware.rack(1, 2) if item["kind"] != "Secret"])


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_objects_for_snow_are_readable_in_each_version(providers: ControlPlane, version: str) -> None:
    """It is written as v1beta1 and stored as v1beta2; fields that the latter lacks would vanish."""
    skip_without("snow")
    written = [item for item in PROVIDERS["snow"].stories["everything"]() if item["kind"].startswith("AWSSnow")]
    assert {item["apiVersion"] for item in written} == {"infrastructure.cluster.x-k8s.io/v1beta1"}
    text = "\n---\n".join(map(json.dumps, written))
    await must(providers, "apply", "--server-side", "--validate=strict", "-f", "-", text=text)
    try:
        for tree in written:
            kind = f"{tree['kind'].lower()}s.{version}.infrastructure.cluster.x-k8s.io"
            assert await read(providers, kind, tree["metadata"]["name"]) == tree["spec"]
    finally:
        await kubectl(providers, "delete", "-f", "-", text=text)


async def read(control_plane: ControlPlane, kind: str, name: str) -> Tree:
    """The spec of an object."""
    document: Tree = json.loads(
        await must(control_plane, "get", kind, name, "--namespace", "eksa-system", "-o", "json")
    )
    spec: Tree = document["spec"]
    return spec
