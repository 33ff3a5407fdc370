"""Attacks of a tenant on another: none succeeds. On the embedded and on a real API server."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime

import msgspec
import pytest
import yaml

from espalier.api.core import CLUSTER_ROLE_BINDING, ROLE_BINDING, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.kube.client import Client
from espalier.kube.connection.access import Impersonation
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Forbidden
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.managed_clusters import EXAMPLES
from tests.support.environments.managed_environment import managed_environment
from tests.support.environments.real_api_server import managed_on
from tests.support.histories.tenant_stories import ALICE, BOB, all_of_it, manifest, tenants
from tests.support.sampling import sampled

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = 900.0


def embedded(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, seed=seed, copies_to=(ALICE, BOB)) as env:

            def connect(user: str, group: str) -> Client:
                return Client(InProcessTransport(env.server, User(user, (group, "system:authenticated"))))

            await all_of_it(env, connect, seed)

    run(main, epoch=EPOCH, seed=seed)


@pytest.mark.demand(L58="names of objects of different clusters")
@pytest.mark.soak
@pytest.mark.embedded
@pytest.mark.parametrize("seed", sampled([1, 2], 0))
def test_a_tenant_harms_no_other_whatever_he_tries(seed: int) -> None:
    embedded(seed)


@pytest.mark.soak
@pytest.mark.embedded
def test_a_tenant_harms_no_other_in_many_orders() -> None:
    clock = asyncio.new_event_loop().time
    end, seed = clock() + float(os.environ.get("ESPALIER_SOAK_SECONDS", "60")), 100
    while clock() < end:
        embedded(seed)
        seed += 1


@pytest.mark.envtest
@pytest.mark.asyncio(loop_scope="session")
async def test_a_tenant_harms_no_other_on_a_real_api_server(control_plane: ControlPlane) -> None:
    access = Kubeconfig.load([control_plane.kubeconfig]).context()
    clients: list[Client] = []

    def connect(user: str, group: str) -> Client:
        as_user = Impersonation(user, groups=(group, "system:authenticated"))
        client = Client(HttpTransport(msgspec.structs.replace(access, impersonation=as_user), environment={}))
        clients.append(client)
        return client

    try:
        async with asyncio.timeout(PATIENCE), managed_on(control_plane, MemoryStores()) as env:
            await all_of_it(env, connect, 1)
    finally:
        for client in clients:
            await client.close()


@pytest.mark.demand(L65="the example Roles")
@pytest.mark.embedded
def test_example_roles_give_what_they_say() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, copies_to=(ALICE, BOB)) as env:

            def connect(user: str, *groups: str) -> Client:
                return Client(InProcessTransport(env.server, User(user, (*groups, "system:authenticated"))))

            alice, _ = await tenants(env, connect)
            nobody, viewer, admin = connect("nobody"), connect("victor"), connect("ada")
            for role, user, namespace in (("espalier-viewer", "victor", ALICE), ("espalier-admin", "ada", "")):
                await bind(env.client, role, user, namespace)
            await alice.cluster("garden")
            await env.until_ready(alice.key("garden"))
            assert (await alice.env.client.get(SECRET, "garden-kubeconfig", ALICE)).tree["data"]["value"]
            assert [item.name for item in (await viewer.list(Cluster.resource, ALICE)).items] == ["garden"]
            assert (await admin.list(Cluster.resource)).items
            for client, namespace in ((viewer, ALICE), (nobody, ALICE), (viewer, BOB), (alice.env.client, BOB)):
                with pytest.raises(Forbidden):
                    await client.create(Cluster.resource, manifest(alice.key("other")._replace(namespace=namespace)))
            for client in (viewer, nobody, admin):
                for namespace in (ALICE, SYSTEM_NAMESPACE):
                    with pytest.raises(Forbidden):
                        await client.get(SECRET, "garden-kubeconfig", namespace)
            with pytest.raises(Forbidden):
                await nobody.list(Cluster.resource, ALICE)

    run(main, epoch=EPOCH, seed=1)


async def bind(client: Client, role: str, user: str, namespace: str) -> None:
    metadata = {"name": f"{role}-{user}"} | ({"namespace": namespace} if namespace else {})
    subject = {"kind": "User", "apiGroup": ROLE_BINDING.group, "name": user}
    reference = {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": role}
    body = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
    await client.create(ROLE_BINDING if namespace else CLUSTER_ROLE_BINDING, body)


@pytest.mark.demand("L65")
def test_example_roles_reach_secrets_by_name_only() -> None:
    for tree in yaml.safe_load_all((EXAMPLES / "roles.yaml").read_text()):
        for rule in tree.get("rules", ()):
            if "secrets" in rule["resources"] or "*" in rule["apiGroups"] or rule["verbs"] == ["*"]:
                assert (rule["resourceNames"], rule["verbs"]) == (["garden-kubeconfig"], ["get"])
