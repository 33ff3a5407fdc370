"""A management cluster with the objects of one cluster of Cluster API, on which no controller acts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.cli.clusters.rollouts import rollouts
from espalier.cli.clusters.rollouts.rollouts import Target
from espalier.cli.kit.failures import Failure
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from tests.support.objects import flux_kinds
from tests.support.servers.embedded_server import client_of, new_server

EXAMPLE = Path(__file__).parents[3] / "examples" / "docker.yaml"
GARDEN = Key("default", "garden")
LABELS = ClusterIdentity.of(GARDEN).labels
KINDS = (Cluster, capi.Cluster, KubeadmControlPlane, MachineDeployment, MachineSet, Machine)
TEMPLATE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachineTemplate", "name": "garden"}
CONTROL_PLANE = {"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": "garden"}
WORKERS = {"cluster.x-k8s.io/deployment-name": "garden-md-0"}
IN_PLACE = {"upgradeRolloutStrategy": {"type": "InPlace"}}


class Site:
    """A management cluster with the objects of cluster `garden`: a control plane of one machine, two workers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @classmethod
    async def made(cls, *, in_place: bool = False, labels: dict[str, str] | None = None) -> Site:
        server = new_server()
        await server.start()
        site = cls(client_of(server))
        await site.client.create(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
        for kind in KINDS:
            await site.client.create(CUSTOM_RESOURCE_DEFINITION, msgspec.to_builtins(crd_of(kind)))
        await site.client.create(CUSTOM_RESOURCE_DEFINITION, flux_kinds.DEFINITION)
        cluster = next(yaml.safe_load_all(EXAMPLE.read_text()))
        cluster["metadata"] |= {"namespace": "default", "labels": labels or {}}
        if in_place:
            cluster["spec"]["controlPlaneConfiguration"] |= IN_PLACE
            cluster["spec"]["workerNodeGroupConfigurations"][0] |= IN_PLACE
        await site.client.create(Cluster.resource, cluster)
        reference = TEMPLATE | {"kind": "DockerCluster"}
        await site.add(capi.Cluster.resource, "garden", {}, {"infrastructureRef": reference})
        template = {"spec": {"infrastructureRef": TEMPLATE}}
        spec: Tree = {"version": "v1.35.1", "machineTemplate": template, "kubeadmConfigSpec": {}, "replicas": 1}
        await site.add(KubeadmControlPlane.resource, "garden", {}, spec)
        machine = {"clusterName": "garden", "bootstrap": {"dataSecretName": "x"}, "infrastructureRef": TEMPLATE}
        selector = {"matchLabels": WORKERS}
        spec = {"clusterName": "garden", "template": {"spec": machine, "metadata": {"labels": WORKERS}}}
        await site.add(MachineDeployment.resource, "garden-md-0", {}, spec | {"selector": selector, "replicas": 2})
        for name, labels_ in (("cp-1", CONTROL_PLANE), ("md-1", WORKERS), ("md-2", WORKERS)):
            await site.add(Machine.resource, name, labels_, machine)
        return site

    async def add(self, resource: Resource, name: str, labels: Tree, spec: Tree) -> Object:
        metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": LABELS | labels}
        tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        return await self.client.create(resource, tree)

    async def change(self, resource: Resource, name: str, **change: Any) -> None:
        await self.client.patch(resource, name, SYSTEM_NAMESPACE, patch=change, type=PatchType.MERGE)

    async def owner(self) -> Object:
        return await rollouts.cluster(self.client, GARDEN)

    async def target(self, group: str = "") -> Target:
        groups = [group] if group else []
        (target,) = await rollouts.targets(self.client, await self.owner(), groups, control_plane=not group)
        return target

    async def refusal(self, group: str = "") -> str:
        with pytest.raises(Failure) as refused:
            await rollouts.check_restart(self.client, [await self.target(group)], replaces_in_place=False)
        return str(refused.value)
