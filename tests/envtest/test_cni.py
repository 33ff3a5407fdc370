"""The rendered CNI of a cluster is what a real API server keeps: no drift is reported that nobody made."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from espalier.clusters.design import cni, names
from espalier.clusters.plan.drift import of_manifests
from espalier.kube.client import Client
from tests.support.environments.control_plane import ControlPlane
from tests.support.objects.observed_clusters import RELEASES
from tests.support.objects.render_inputs import render_input

pytestmark = pytest.mark.envtest


@pytest.fixture
async def workload(control_plane: ControlPlane) -> AsyncIterator[Client]:
    client = control_plane.client()
    yield client
    await client.close()


@pytest.mark.parametrize("case", ["docker", "cilium"])
@pytest.mark.parametrize("version", RELEASES.versions)
async def test_a_new_installation_has_not_drifted(workload: Client, case: str, version: str) -> None:
    manifests = cni.objects(render_input(case, version=version))
    live = [
        await workload.apply(manifest.resource, manifest.body, field_manager=names.FIELD_MANAGER)
        for manifest in manifests
    ]
    assert manifests
    assert [str(item) for item in of_manifests(manifests, live)] == []
