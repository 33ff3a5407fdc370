"""Clusters that are their own management cluster: only their own data say how their API servers are served."""

from __future__ import annotations

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import SECRET, Secret
from espalier.api.resource import Key
from espalier.clusterapi.machines.network import network_of
from espalier.simulator.capi.certificates import authority_of, secret_name
from espalier.simulator.workload_clusters.stores import Stores
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads


async def reopen(workloads: Workloads, stores: Stores, cluster: Key) -> WorkloadCluster | None:
    """Run the API server of a cluster that has its own Cluster among its data; None for any other cluster.

    Its machines run on while this process does not, as those of a management cluster do; nobody else starts it.
    Raises as `Workloads.open`.
    """
    store = stores.open(cluster)
    await store.start()
    try:
        stored = store.table(Cluster.resource.group_resource).objects.get(cluster)
        key = Key(cluster.namespace, secret_name(cluster.name, "ca"))
        secret = store.table(SECRET.group_resource).objects.get(key)
        planes = store.table(KubeadmControlPlane.resource.group_resource).objects
        plane = next((candidate for candidate in planes.values() if candidate.namespace == cluster.namespace), None)
    finally:
        await store.close()
    if stored is None or secret is None or plane is None:
        return None
    typed = stored.decode(Cluster)
    if typed.spec.control_plane_endpoint is None:
        return None
    return await workloads.open(
        cluster,
        typed.spec.control_plane_endpoint,
        authority=authority_of(secret.decode(Secret)),
        version=plane.decode(KubeadmControlPlane).spec.version,
        network=network_of(typed),
        is_new=False,
    )
