"""Somebody deletes what a running cluster can't do without, under the real Cluster API."""

from __future__ import annotations

from espalier.api.capi.cluster import Cluster as CapiCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.kube.client import PatchType
from espalier.providers.docker.cluster_api import DockerCluster
from tests.support.environments.cluster_api import RealClusterApi
from tests.support.environments.managed_clusters import NAMESPACE


def reason(cluster: Cluster) -> str:
    return next(condition.reason for condition in cluster.status.conditions if condition.type == names.READY)


async def endpoint(env: RealClusterApi, key: Key) -> object:
    capi_cluster = await env.client.get(CapiCluster.resource, key.name, SYSTEM_NAMESPACE)
    return capi_cluster.tree["spec"]["controlPlaneEndpoint"]


async def infrastructure_and_control_plane_are_lost(real: RealClusterApi) -> None:
    """First the one, which comes back with its endpoint, then the other, which is told."""
    key = Key(NAMESPACE, "alder")
    await real.provide_etcd(key.name)  # and no head start: that has a kubeconfig with another address
    await real.apply(name=key.name, kubernetesVersion="1.35", controlPlaneConfiguration={"count": 1})
    await real.until_ready(key)
    await real.without_pods_to_drain(key.name)
    before, nodes = await endpoint(real, key), await real.versions(key)
    await real.client.delete(DockerCluster.resource, key.name, SYSTEM_NAMESPACE)
    await real.until(lambda cluster: reason(cluster) == Reason.CLUSTER_API_OBJECT_DELETED, key)
    correct = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
    await real.client.patch(Cluster.resource, key.name, key.namespace, patch=correct, type=PatchType.MERGE)
    await real.until_ready(key)
    again = await real.client.get(DockerCluster.resource, key.name, SYSTEM_NAMESPACE)
    assert again.tree["spec"]["controlPlaneEndpoint"] == before == await endpoint(real, key)
    assert await real.versions(key) == nodes

    await real.client.delete(KubeadmControlPlane.resource, key.name, SYSTEM_NAMESPACE)
    lost = await real.until(lambda cluster: reason(cluster) == Reason.CONTROL_PLANE_LOST, key)
    assert not lost.status.ready
    await real.client.delete(Cluster.resource, key.name, key.namespace)
    await real.until_gone(key)
