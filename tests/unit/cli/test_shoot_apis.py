"""A gardenlet's requests to the API servers of shoots."""

from __future__ import annotations

import pytest

from espalier.api.core import CLUSTER_ROLE_BINDING, DEPLOYMENT, LEASE, NODE
from espalier.api.meta import Tree
from espalier.cli.shoots.shoot_apis import ConnectedShootAPIs
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Unreachable
from espalier.shoots.control_plane.accounts import GROUPS_BY_ROLE, IN_SHOOT
from espalier.shoots.control_plane.programs import ControlPlane
from tests.support.servers.embedded_server import client_of, new_server

HELD = {"holderIdentity": "source_1", "leaseDurationSeconds": 15, "renewTime": "2026-03-01T12:00:00.000000Z"}


class Shoot:
    """The API server of a shoot, and what asks it."""

    def __init__(self) -> None:
        self.server = new_server()
        self.client = client_of(self.server)
        self.apis = ConnectedShootAPIs(self._connect)

    async def _connect(self, _namespace: str) -> Client:
        return client_of(self.server)

    async def node(self, name: str, ready: str) -> None:
        await self.client.create(NODE, {"metadata": {"name": name}})
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        await self.client.patch(NODE, name, patch={"status": status}, type=PatchType.MERGE, subresource="status")

    async def deployment(self, name: str, available: int, **spec: int) -> None:
        labels = {"app": name}
        pod: Tree = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        metadata = {"name": name, "namespace": "kube-system"}
        wanted: Tree = {**spec, "selector": {"matchLabels": labels}, "template": pod}
        await self.client.create(DEPLOYMENT, {"metadata": metadata, "spec": wanted})
        patch = {"status": {"availableReplicas": available}}
        await self.client.patch(
            DEPLOYMENT, name, "kube-system", patch=patch, type=PatchType.MERGE, subresource="status"
        )


@pytest.fixture
async def shoot() -> Shoot:
    shoot_ = Shoot()
    await shoot_.server.start()
    return shoot_


async def test_rights_of_machine_controller_are_restored(shoot: Shoot) -> None:
    """Somebody deletes one of the bindings; and what is there already is no error."""
    roles = ControlPlane().roles_in_shoot()
    await shoot.apis.apply("shoot--dev--apple", roles)
    bindings = {body["metadata"]["name"] for resource, body in roles if resource == CLUSTER_ROLE_BINDING}
    await shoot.client.delete(CLUSTER_ROLE_BINDING, IN_SHOOT)
    await shoot.apis.apply("shoot--dev--apple", roles)
    assert {item.name for item in (await shoot.client.list(CLUSTER_ROLE_BINDING)).items} >= bindings
    assert len(bindings) == 1 + len(GROUPS_BY_ROLE)


async def test_unreleased_lease_is_held_by_nobody(shoot: Shoot) -> None:
    metadata = {"name": "kube-controller-manager", "namespace": "kube-system"}
    await shoot.client.create(LEASE, {"metadata": metadata, "spec": HELD})
    await shoot.apis.release_leases("shoot--dev--apple", ["kube-controller-manager", "kube-scheduler"])
    lease = await shoot.client.get(LEASE, "kube-controller-manager", "kube-system")
    assert not lease.tree["spec"]["holderIdentity"]
    version = lease.metadata.resource_version
    await shoot.apis.release_leases("shoot--dev--apple", ["kube-controller-manager"])
    again = await shoot.client.get(LEASE, "kube-controller-manager", "kube-system")
    assert again.metadata.resource_version == version, "there was nothing to release"


async def test_unready_nodes_and_system_components_are_named(shoot: Shoot) -> None:
    for name, ready in (("b", "False"), ("a", "Unknown"), ("c", "True")):
        await shoot.node(name, ready)
    await shoot.deployment("coredns", 1, replicas=2)
    await shoot.deployment("metrics-server", 1)
    health = await shoot.apis.health("shoot--dev--apple")
    assert (health.nodes, health.unready_nodes) == (3, ("a", "b"))
    assert health.unready_components == ("Deployment coredns",)


async def test_silent_api_server_tells_nothing_of_nodes() -> None:
    async def nowhere(_namespace: str) -> Client:
        raise Unreachable("connection refused", sent=False)

    health = await ConnectedShootAPIs(nowhere).health("shoot--dev--apple")
    assert "connection refused" in health.unreachable
    assert (health.nodes, health.unready_nodes) == (0, ())
