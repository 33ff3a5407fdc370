"""Commands know the objects of a cluster that was taken over: these have no labels of ours before the first change."""

from __future__ import annotations

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.clusters.access import kubeconfig
from espalier.cli.clusters.reports import top
from espalier.cli.clusters.rollouts import rollouts
from espalier.cli.kit.failures import Failure
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.preview import reading
from espalier.kube.client import Client
from espalier.providers.registry import PROVIDERS
from espalier.runtime.caches.snapshot import Snapshot
from tests.support.environments.managed_environment import GARDEN
from tests.support.environments.of_eks_anywhere import adopter, on_site

pytestmark = pytest.mark.embedded


async def without_copy(client: Client) -> None:
    await client.delete(SECRET, f"{GARDEN.name}-kubeconfig", GARDEN.namespace)


def test_rollouts_find_machines_of_adopted_cluster() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        owner = await client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)
        with pytest.raises(Failure, match="has no control plane"):
            await rollouts.targets(client, owner, ["md-0"], control_plane=True)
        await adopter(client, stops=True).apply(None)
        chosen = await rollouts.targets(client, owner, ["md-0"], control_plane=True)
        assert [target.object.kind for target in chosen] == [
            KubeadmControlPlane.resource.kind,
            MachineDeployment.resource.kind,
        ]

    on_site(story)


def test_kubeconfig_of_adopted_cluster_is_read() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        await without_copy(client)
        await adopter(client, stops=True).apply(None)
        secret = await client.get(SECRET, f"{GARDEN.name}-kubeconfig", SYSTEM_NAMESPACE)
        assert await kubeconfig.read(client, GARDEN) == secret.decode(Secret).data["value"]
        with pytest.raises(Failure):
            await kubeconfig.read(client, Key("elsewhere", GARDEN.name))

    on_site(story)


def test_top_counts_machines_of_adopted_cluster() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        await adopter(client, stops=True).apply(None)
        machines = await top._machines(client)
        assert machines is not None
        assert machines[GARDEN].ready == machines[GARDEN].wanted > 1

    on_site(story)


def test_plan_reads_objects_of_adopted_cluster() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        await adopter(client, stops=True).apply(None)
        observed = await reading.read(client, [GARDEN], providers=PROVIDERS)
        snapshot = Snapshot()
        observer = ClusterObserver(snapshot, providers=PROVIDERS)
        snapshot.fill(observed.objects)
        scope = observer.scope(GARDEN)
        assert scope is not None
        assert scope.capi_objects.adoption is not None
        assert scope.is_settled
        assert set(scope.capi_objects.unlabelled) == scope.capi_objects.adoption.claims

    on_site(story)
