"""What is rendered for Snow, as a real API server with the CRDs of Cluster API and its providers takes it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.api.meta import Tree
from tests.envtest.provider_crds import accepted_strictly, refusal, with_crds
from tests.envtest.test_crds import kubectl, must
from tests.support.control_plane import ControlPlane
from tests.support.snow import everything, manifest
from tests.unit.providers.snow.test_rendering import made
from tests.unit.providers.vsphere.test_rendering import objects

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def providers(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane with their CRDs."""
    async with with_crds(control_plane, "capas.yaml", "etcdadm.yaml") as found:
        yield found


@pytest.mark.parametrize("name", ["example", "everything"])
async def test_each_object_is_accepted_strictly(providers: ControlPlane, name: str) -> None:
    await accepted_strictly(providers, objects(made(manifest() if name == "example" else everything())))


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_what_is_written_is_read_back_in_each_version(providers: ControlPlane, version: str) -> None:
    """It is written as v1beta1 and stored as v1beta2; fields that the latter lacks would vanish."""
    written = [one for one in objects(made(everything())) if one["kind"].startswith("AWSSnow")]
    assert {one["apiVersion"] for one in written} == {"infrastructure.cluster.x-k8s.io/v1beta1"}
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
    found: Tree = json.loads(await must(control_plane, "get", kind, name, "--namespace", "eksa-system", "-o", "json"))
    spec: Tree = found["spec"]
    return spec


async def test_a_field_that_the_provider_does_not_have_is_refused(providers: ControlPlane) -> None:
    """The tests above can fail."""
    tree = next(one for one in objects(made(manifest())) if one["kind"] == "AWSSnowMachineTemplate")
    tree["spec"]["template"]["spec"]["memory"] = 1
    assert "spec.template.spec.memory" in await refusal(providers, tree)
