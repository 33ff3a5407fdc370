"""Gardener's kinds in an embedded API server: what real objects have comes back as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from espalier.api import gardener
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.kube.client import Client
from tests.support.servers.embedded_server import client_of, condition, new_server

INFRASTRUCTURE = Infrastructure.resource

STATE = {
    "nested": {"nothing": None, "list": [None, {"deep": None}, []], "empty": {}},
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "fraction": 0.1,
    "text": 'quotes " and \\ and \u2028 and \x00',
}


@asynccontextmanager
async def server_with(*kinds: type[KubeObject]) -> AsyncIterator[Client]:
    server = new_server()
    await server.start()
    client = client_of(server)
    for cls in kinds:
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(cls))
    for namespace in ("garden-core", "shoot--foo--bar"):
        await client.create(NAMESPACE, {"metadata": {"name": namespace}})
    yield client
    await server.close()


def infrastructure(**status: Any) -> Tree:
    return {
        "apiVersion": "extensions.gardener.cloud/v1alpha1",
        "kind": "Infrastructure",
        "metadata": {"name": "infrastructure", "namespace": "shoot--foo--bar"},
        "spec": {
            "type": "azure",
            "region": "eu-west-1",
            "secretRef": {"name": "cloudprovider", "namespace": "shoot--foo--bar"},
            "providerConfig": {
                "apiVersion": "azure.provider.extensions.gardener.cloud/v1alpha1",
                "kind": "InfrastructureConfig",
                "networks": {"vnet": {"cidr": "10.250.0.0/16"}, "workers": "10.250.0.0/19"},
            },
        },
        **({"status": status} if status else {}),
    }


@pytest.mark.demand("G12")
@pytest.mark.parametrize("kinds", [gardener.GARDEN_KINDS, gardener.SEED_KINDS], ids=["garden", "seed"])
async def test_all_kinds_can_be_installed_together(kinds: tuple[type[KubeObject], ...]) -> None:
    async with server_with(*kinds) as client:
        for cls in kinds:
            definition = (await client.get(CUSTOM_RESOURCE_DEFINITION, cls.resource.group_resource)).tree
            assert condition(definition, "Established")["status"] == "True"
            assert condition(definition, "NamesAccepted")["status"] == "True", cls
            assert (await client.list(cls.resource)).items == []


@pytest.mark.demand("G16", "G25")
@pytest.mark.parametrize(
    "state",
    [STATE, '{\n  "version": 3\n}\n', 9007199254740993, [None, [None]], False, ""],
    ids=["object", "string", "integer", "list", "boolean", "empty string"],
)
async def test_state_of_an_extension_is_any_json(state: Any) -> None:
    """G16, G25: a RawExtension, also the proposal's multi-line string."""
    async with server_with(Infrastructure) as client:
        made = await client.create(INFRASTRUCTURE, infrastructure())
        await client.replace(INFRASTRUCTURE, {**made.tree, "status": {"state": state}}, subresource="status")
        read = await client.get(INFRASTRUCTURE, "infrastructure", "shoot--foo--bar")
        assert read.tree["status"]["state"] == state
        typed = read.decode(Infrastructure)
        assert msgspec.json.decode(typed.status.state) == state
        assert msgspec.json.decode(msgspec.json.encode(typed))["status"]["state"] == state


@pytest.mark.demand("G25")
async def test_infrastructure_of_the_proposal_is_accepted() -> None:
    async with server_with(Infrastructure) as client:
        made = await client.create(INFRASTRUCTURE, infrastructure())
        assert made.tree["spec"] == infrastructure()["spec"]
        assert made.decode(Infrastructure).status.state is None


@pytest.mark.demand("G14", "G15")
async def test_shoot_state_of_the_proposal_is_accepted() -> None:
    """G14, G15."""
    async with server_with(ShootState) as client:
        sections = {
            "gardenlet": {
                "secrets": [{"name": "ca", "data": {"ca.crt": "Yw==", "ca.key": "aw=="}}, {"name": "ssh-keypair"}],
            },
            "extensions": [
                {"kind": "Infrastructure", "state": "terraform"},
                {"kind": "ControlPlane", "purpose": "normal", "state": STATE},
                {"kind": "Worker", "state": {"machines": []}},
            ],
        }
        metadata = {"name": "my-shoot", "namespace": "garden-core", "finalizers": ["gardener"]}
        made = await client.create(ShootState.resource, {"metadata": metadata, **sections})
        assert {name: made.tree[name] for name in sections} == sections


async def test_unknown_fields_of_a_shoot_survive_our_writes() -> None:
    async with server_with(Shoot) as client:
        foreign = {
            "maintenance": {"timeWindow": {"begin": "220000+0100"}},
            "provider": {"type": "aws", "workersSettings": {"sshAccess": {"enabled": True}}},
            "kubernetes": {"version": "1.33.1", "kubeAPIServer": {"oidcConfig": {"clientID": "x"}}},
        }
        await client.create(Shoot.resource, {"metadata": {"name": "a", "namespace": "garden-core"}, "spec": foreign})
        ours = {"metadata": {"name": "a", "namespace": "garden-core"}, "spec": {"seedName": "one"}}
        applied = await client.apply(
            Shoot.resource,
            {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", **ours},
            field_manager="garden",
        )
        assert applied.tree["spec"] == {**foreign, "seedName": "one"}
        assert applied.decode(Shoot).spec.seed_name == "one"


def test_garden_and_extensions_have_separate_backups() -> None:
    names = [cls.resource.group_resource for cls in (*gardener.GARDEN_KINDS, *gardener.SEED_KINDS)]
    assert len(set(names)) == len(names)
    assert {"backupentries.core.gardener.cloud", "backupentries.extensions.gardener.cloud"} < set(names)
