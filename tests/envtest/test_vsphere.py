"""What is rendered for vSphere, as a real API server with the CRDs of Cluster API and its providers takes it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.envtest.provider_crds import accepted_strictly, refusal, with_crds
from tests.support.control_plane import ControlPlane
from tests.support.vsphere import everything, manifest
from tests.unit.providers.vsphere.test_rendering import made, objects

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def providers(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane with their CRDs."""
    async with with_crds(control_plane, "capv.yaml", "etcdadm.yaml") as found:
        yield found


@pytest.mark.parametrize("name", ["example", "everything"])
async def test_each_object_is_accepted_strictly(providers: ControlPlane, name: str) -> None:
    await accepted_strictly(providers, objects(made(manifest() if name == "example" else everything())))


async def test_a_field_that_the_provider_does_not_have_is_refused(providers: ControlPlane) -> None:
    """The test above can fail."""
    tree = next(one for one in objects(made(manifest())) if one["kind"] == "VSphereMachineTemplate")
    tree["spec"]["template"]["spec"]["memory"] = 1
    assert "spec.template.spec.memory" in await refusal(providers, tree)
