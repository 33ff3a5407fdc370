"""What is rendered for vSphere, as a real API server with the CRDs of Cluster API and its providers takes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.cli.environment import programs
from espalier.realnodes.management.cluster_api import MANAGERS, documents_of
from tests.envtest.test_crds import kubectl, must
from tests.support.control_plane import ControlPlane
from tests.support.vsphere import everything, manifest
from tests.unit.providers.vsphere.test_rendering import made, objects

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

CRDS = Path(__file__).parents[3] / "shared" / "crds"
OF_PROVIDERS = ("capv.yaml", "etcdadm.yaml")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def providers(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane with the CRDs of Cluster API and of the providers; they go afterwards."""
    if not CRDS.is_dir():
        pytest.skip(f"the CRDs of providers are not at {CRDS}")
    assets = programs.find_cluster_api()
    if assets is None:
        pytest.skip("Cluster API is not built: run make real-assets")
    trees = [tree for one in MANAGERS for tree in documents_of(assets, one)]
    crds = [tree for tree in trees if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind]
    for tree in crds:  # no controller runs that could convert
        tree["spec"].pop("conversion", None)
    names = [f"crd/{tree['metadata']['name']}" for tree in crds]
    await must(control_plane, "apply", "--server-side", "-f", "-", text="\n---\n".join(map(json.dumps, crds)))
    files = [argument for name in OF_PROVIDERS for argument in ("-f", str(CRDS / name))]
    await must(control_plane, "apply", "--server-side", *files)
    await must(control_plane, "wait", "--for=condition=Established", "--all", "crd")
    await kubectl(control_plane, "create", "namespace", "eksa-system")
    yield control_plane
    await must(control_plane, "delete", *files)
    await must(control_plane, "delete", *names)


@pytest.mark.parametrize("name", ["example", "everything"])
async def test_each_object_is_accepted_strictly(providers: ControlPlane, name: str) -> None:
    trees = objects(made(manifest() if name == "example" else everything()))
    for tree in trees:
        if tree["kind"] == "Cluster":  # a field of EKS Anywhere's build
            tree["spec"].pop("managedExternalEtcdRef", None)
    text = "\n---\n".join(map(json.dumps, trees))
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    printed = await asyncio.wait_for(must(providers, *arguments, text=text), 120)
    assert "Warning" not in printed
    assert printed.count("serverside-applied") == len(trees)


async def test_a_field_that_the_provider_does_not_have_is_refused(providers: ControlPlane) -> None:
    """The test above can fail."""
    tree = next(one for one in objects(made(manifest())) if one["kind"] == "VSphereMachineTemplate")
    tree["spec"]["template"]["spec"]["memory"] = 1
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    succeeded, printed = await kubectl(providers, *arguments, text=json.dumps(tree))
    assert not succeeded
    assert "spec.template.spec.memory" in printed
