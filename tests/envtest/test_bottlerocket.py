"""Machines with Bottlerocket, as a real API server with the CRDs of EKS Anywhere's build of Cluster API takes them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.api.meta import Tree
from tests.support.environments.control_plane import ControlPlane
from tests.support.objects.rendered_manifests import objects
from tests.support.providers import snow, vsphere
from tests.support.providers.provider_crds import accepted_strictly, lacks, refusal, with_crds
from tests.support.servers.fork_crds import widened

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

STORIES = {
    "vsphere": lambda: vsphere.made(vsphere.with_bottlerocket()),
    "vsphere-everything": lambda: vsphere.made(vsphere.everything_with_bottlerocket()),
    "snow": lambda: snow.made(snow.with_bottlerocket()),
    "snow-everything": lambda: snow.made(snow.everything_with_bottlerocket()),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def providers(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane with the CRDs of that build, and of the providers."""
    async with with_crds(control_plane, "vsphere", "snow", "etcdadm", change=widened) as opened:
        yield opened


@pytest.mark.parametrize("name", STORIES)
async def test_each_object_is_accepted_strictly(providers: ControlPlane, name: str) -> None:
    trees = objects(STORIES[name]())
    if lacks("snow"):  # what counts here is what bootstraps its nodes
        trees = [tree for tree in trees if not tree["kind"].startswith("AWSSnow")]
    await accepted_strictly(providers, trees, is_stock=False)


def template() -> Tree:
    """A KubeadmConfigTemplate of workers."""
    trees = objects(STORIES["vsphere"]())
    return next(tree for tree in trees if tree["kind"] == "KubeadmConfigTemplate")


@pytest.mark.parametrize("name", ["bottlerocketBootstrap", "format"])
async def test_fields_that_the_build_lacks_are_refused(providers: ControlPlane, name: str) -> None:
    """The test above can fail."""
    tree = template()
    spec = tree["spec"]["template"]["spec"]
    if name == "format":
        spec["format"] = "toml"
        assert "spec.template.spec.format" in await refusal(providers, tree)
    else:
        spec["joinConfiguration"]["bottlerocketBootstrap"]["image"] = "bottlerocket"
        assert "spec.template.spec.joinConfiguration.bottlerocketBootstrap.image" in await refusal(providers, tree)


async def test_stock_cluster_api_has_none_of_it(control_plane: ControlPlane) -> None:
    async with with_crds(control_plane) as stock:
        message = await refusal(stock, template())
    assert "not declared in schema" in message or "unknown field" in message
