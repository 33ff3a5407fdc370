"""What is rendered for Docker, as a real API server with the CRDs of Cluster API and its provider takes it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.api.meta import Tree
from espalier.clusters.render.layered import rendered
from tests.envtest.provider_crds import accepted_strictly, refusal, with_crds
from tests.support.control_plane import ControlPlane
from tests.unit.clusters.layers.designs import EVERYTHING
from tests.unit.clusters.seen import example, scope
from tests.unit.clusters.test_story import COMPANY, CONNECTED, PASSWORD
from tests.unit.providers.vsphere.test_rendering import objects

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

CASES: dict[str, Tree] = {"example": {}, "everything": EVERYTHING, **CONNECTED}
DEPRECATED = r"Warning: infrastructure\.cluster\.x-k8s\.io/v1beta2 Docker\w+ is deprecated"
"""Cluster API 1.13 would rather have other kinds for its tests; EKS Anywhere and we keep to these."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def providers(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane with their CRDs."""
    async with with_crds(control_plane, "capd.yaml", "etcdadm.yaml") as found:
        yield found


def made(name: str) -> list[Tree]:
    design = scope(*example(**CASES[name]), COMPANY, PASSWORD).design
    assert design is not None
    return objects(rendered(design))


async def test_each_object_is_accepted_strictly(providers: ControlPlane) -> None:
    different = {json.dumps(tree): tree for name in CASES for tree in made(name)}
    await accepted_strictly(providers, [*different.values()], warning=DEPRECATED)


async def test_a_field_that_the_provider_does_not_have_is_refused(providers: ControlPlane) -> None:
    """The test above can fail."""
    tree = next(one for one in made("example") if one["kind"] == "DockerMachineTemplate")
    tree["spec"]["template"]["spec"]["memory"] = 1
    assert "spec.template.spec.memory" in await refusal(providers, tree)
