"""The caches of all objects of clusters, with the indexes that controllers use."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.etcdadm import EtcdadmCluster, EtcdadmConfig
from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck, MachineSet
from espalier.api.core import SECRET
from espalier.api.resource import Key, Resource
from espalier.clusterapi import names
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.clusterapi.objects import cluster_key
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.mapping import by_controller
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.writer import Writer
from espalier.simulator.capi.reaching import WorkloadClusters

BY_CLUSTER = "local/cluster"
BY_CONTROLLER = "local/controller"
BY_TEMPLATE = "local/template"


@dataclass(frozen=True)
class Inventory:
    """One cache per kind; `infrastructure` has those of every provider by kind."""

    clusters: Cache
    control_planes: Cache
    deployments: Cache
    sets: Cache
    machines: Cache
    configs: Cache
    config_templates: Cache
    health_checks: Cache
    secrets: Cache
    etcds: Cache
    etcd_configs: Cache
    infrastructure: dict[str, Cache]
    hosts: dict[str, Cache]
    """Caches of the hosts that machines run on, by the kind of the infrastructure machines."""
    kinds: tuple[Infrastructure, ...]

    @classmethod
    def of(cls, caches: Caches, kinds: Sequence[Infrastructure]) -> Inventory:
        """The inventory of one management cluster."""
        indexes = {BY_CLUSTER: _by_cluster, BY_CONTROLLER: by_controller}

        def cache(resource: Resource, *, optional: bool = False) -> Cache:
            return caches.of(resource, indexes=indexes, optional=optional)

        return cls(
            clusters=caches.of(Cluster.resource),
            control_planes=cache(KubeadmControlPlane.resource),
            deployments=cache(MachineDeployment.resource),
            sets=caches.of(MachineSet.resource, indexes={**indexes, BY_TEMPLATE: _templates_of_set}),
            machines=cache(Machine.resource),
            configs=cache(KubeadmConfig.resource),
            config_templates=cache(KubeadmConfigTemplate.resource),
            health_checks=cache(MachineHealthCheck.resource),
            secrets=caches.of(SECRET, labels=names.CLUSTER, indexes={BY_CLUSTER: _by_cluster}),
            etcds=cache(EtcdadmCluster.resource, optional=True),
            etcd_configs=cache(EtcdadmConfig.resource, optional=True),
            infrastructure={
                resource.kind: cache(resource, optional=True)
                for provider in kinds
                for resource in (provider.cluster, provider.machine, provider.machine_template)
            },
            hosts={
                provider.machine.kind: cache(provider.hosts.resource, optional=True)
                for provider in kinds
                if provider.hosts
            },
            kinds=tuple(kinds),
        )

    def all(self) -> Iterator[Cache]:
        """Every cache."""
        yield from (self.clusters, self.control_planes, self.deployments, self.sets, self.machines)
        yield from (self.configs, self.config_templates, self.health_checks, self.secrets)
        yield from (self.etcds, self.etcd_configs)
        yield from self.infrastructure.values()
        yield from self.hosts.values()

    @property
    def machine_templates(self) -> list[Cache]:
        """Machine templates of every provider."""
        return [self.infrastructure[provider.machine_template.kind] for provider in self.kinds]

    @property
    def machine_parts(self) -> list[Cache]:
        """The kinds that belong to machines: bootstrap configurations, and infrastructure machines of every
        provider.
        """
        return [self.configs, *(self.infrastructure[provider.machine.kind] for provider in self.kinds)]

    def resource(self, kind: str) -> Resource | None:
        """The resource of an infrastructure kind, None for an unknown kind."""
        for provider in self.kinds:
            for resource in (provider.cluster, provider.machine, provider.machine_template):
                if resource.kind == kind:
                    return resource
        return None

    def infrastructure_object(self, kind: str, key: Key) -> Object | None:
        """An infrastructure object, None when it does not exist or its kind is unknown."""
        cache = self.infrastructure.get(kind)
        return cache.get(key) if cache is not None else None


def in_cluster(cache: Cache, cluster: Key) -> list[Object]:
    """The objects of a kind that belong to a cluster, by name."""
    return sorted(cache.by_index(BY_CLUSTER, str(cluster)), key=lambda object_: object_.name)


def owned_by(cache: Cache, uid: str) -> list[Object]:
    """The objects of a kind that an object controls, by name."""
    return sorted(cache.by_index(BY_CONTROLLER, uid), key=lambda object_: object_.name)


def sets_of_template(cache: Cache, template: Object) -> list[Object]:
    """The MachineSets that refer to a template, of infrastructure machines or of bootstrap configurations."""
    return cache.by_index(BY_TEMPLATE, f"{template.key}/{template.kind}")


def _templates_of_set(object_: Object) -> Iterable[str]:
    template = object_.decode(MachineSet).spec.template.spec
    for reference in (template.infrastructure_ref, template.bootstrap.config_ref):
        if reference is not None:
            yield f"{Key(object_.namespace, reference.name)}/{reference.kind}"


def _by_cluster(object_: Object) -> Iterable[str]:
    key = cluster_key(object_)
    return (str(key),) if key.name else ()


@dataclass(frozen=True)
class Scheme:
    """The dependencies that the controllers share. `rng` generates the names of new objects."""

    inventory: Inventory
    writer: Writer
    workload_clusters: WorkloadClusters
    clock: Clock
    rng: random.Random = field(repr=False)
    keys: random.Random | None = field(default=None, repr=False)
    """The source of private keys; None for the system's, another one only in reproducible simulations."""
