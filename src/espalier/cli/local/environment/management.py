"""The management side of the local environment: what must be there before the first manifest is applied.

Objects only, written through a client by server-side apply, so that it may run at every start and on any API server.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, ConfigMap, Namespace
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster, ClusterSpec, ManagementCluster
from espalier.api.eksa.parts import network
from espalier.api.eksa.parts.control_plane import ControlPlaneConfiguration
from espalier.api.eksa.parts.fields import Ref
from espalier.api.eksa.vocabulary.group import (
    INFRASTRUCTURE_ANNOTATION,
    MANAGEMENT_CLUSTER,
    PAUSED_ANNOTATION,
    SYSTEM_NAMESPACE,
)
from espalier.api.kinds import KubeObject
from espalier.api.meta import ObjectMeta
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ApiError, Invalid, NotFound
from espalier.providers.kinds import LOCAL_DATACENTER
from espalier.releases import Releases, install
from espalier.runtime.definitions import until_established

FIELD_MANAGER = "espalier-laptop"

_log = structlog.get_logger("espalier.environment")

MANAGEMENT_CLUSTER_NAME = "laptop"
"""Name of the management Cluster of `espalier up`, in the namespace `default`."""


async def prepare_kinds(
    client: Client, releases: Releases, kinds: Sequence[type[KubeObject]], name: str = MANAGEMENT_CLUSTER_NAME
) -> None:
    """Prepare the system namespace, CRDs, releases, and the ConfigMap that names the management cluster's record."""
    await _namespace(client)
    await install_definitions(kinds, client)
    await install(client, releases.objects())
    named = ConfigMap(
        metadata=ObjectMeta(name=MANAGEMENT_CLUSTER, namespace=SYSTEM_NAMESPACE),
        data={"namespace": "default", "name": name},
    )
    await client.apply(CONFIG_MAP, named, field_manager=FIELD_MANAGER)


async def make_record(client: Client, releases: Releases, name: str = MANAGEMENT_CLUSTER_NAME) -> None:
    """The record of the management cluster and its datacenter, where they are not there: at first, or again.

    Admission may have to answer. It gets the newest release in which it leaves none of its clusters behind.
    """
    versions = list(reversed(releases.versions))
    while versions:
        try:
            with client.warning(lambda _text: None):  # it is paused on purpose
                for object_ in management_cluster(releases, versions.pop(), name):
                    await _unless_there(client, object_)
        except Invalid:
            if not versions:
                raise
        else:
            return


async def _unless_there(client: Client, object_: KubeObject) -> None:
    try:
        await client.get(object_.resource, object_.metadata.name, object_.metadata.namespace)
    except NotFound:
        await client.apply(object_.resource, object_, field_manager=FIELD_MANAGER)


async def follow_newest(client: Client, releases: Releases, name: str = MANAGEMENT_CLUSTER_NAME) -> None:
    """Move the management Cluster to the newest release, as an upgrade of it that admission judges.

    A refusal is logged and leaves it where it is: workload clusters that are too far behind are upgraded first, and
    the next start tries again.
    """
    newest = releases.newest()
    cluster = (await client.get(Cluster.resource, name, "default")).decode(Cluster)
    wanted = {"eksaVersion": newest.version, "kubernetesVersion": newest.kubernetes_versions[-1]}
    if (cluster.spec.eksa_version, cluster.spec.kubernetes_version) == tuple(wanted.values()):
        return
    try:
        await client.patch(Cluster.resource, name, "default", patch={"spec": wanted}, type=PatchType.MERGE)
    except ApiError as error:
        _log.warning("the management cluster keeps its release", release=cluster.spec.eksa_version, reason=str(error))


async def record_infrastructure(client: Client, identity: str) -> None:
    """Have the management cluster say which machines it reaches; idempotent."""
    namespace = await client.get(NAMESPACE, SYSTEM_NAMESPACE)
    if namespace.metadata.annotations.get(INFRASTRUCTURE_ANNOTATION) != identity:
        patch = {"metadata": {"annotations": {INFRASTRUCTURE_ANNOTATION: identity}}}
        await client.patch(NAMESPACE, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


async def _namespace(client: Client) -> None:
    try:
        await client.get(NAMESPACE, SYSTEM_NAMESPACE)
    except NotFound:
        await client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))


def management_cluster(releases: Releases, version: str = "", name: str = MANAGEMENT_CLUSTER_NAME) -> list[KubeObject]:
    """The Cluster that workload clusters name as their manager: self-managed, and paused because nothing is to be done.

    It and its datacenter describe this machine as well as the kind can: there are no machines behind it. Its release is
    the newest one, unless another is given.
    """
    release = releases.release(version) if version else releases.newest()
    metadata = ObjectMeta(name=name, namespace="default")
    spec = ClusterSpec(
        kubernetes_version=release.kubernetes_versions[-1],
        control_plane_configuration=ControlPlaneConfiguration(count=1),
        datacenter_ref=Ref(kind=LOCAL_DATACENTER.resource.kind, name=name),
        cluster_network=network.ClusterNetwork(
            pods=network.Ranges(cidr_blocks=["192.168.0.0/16"]),
            services=network.Ranges(cidr_blocks=["10.96.0.0/12"]),
            cni_config=network.CNIConfig(kindnetd=network.KindnetdConfig()),
        ),
        management_cluster=ManagementCluster(name=name),
        eksa_version=release.version,
    )
    paused = ObjectMeta(name=name, namespace="default", annotations={PAUSED_ANNOTATION: "true"})
    return [LOCAL_DATACENTER(metadata=metadata), Cluster(metadata=paused, spec=spec)]


async def install_definitions(kinds: Sequence[type[KubeObject]], client: Client) -> None:
    """Apply CRDs, and wait until the server serves all of them."""
    for kind in kinds:
        await client.apply(CUSTOM_RESOURCE_DEFINITION, crd_of(kind), field_manager=FIELD_MANAGER)
    await until_established(client, {kind.resource.group_resource for kind in kinds})
