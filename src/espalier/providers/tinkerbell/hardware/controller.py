"""The controller that reports the selected Hardware in the status of TinkerbellMachineConfigs.

The allocation of Hardware depends on all Clusters and all Hardware, so all configs are judged at once: at each change,
at most once a second. There are no requests to other systems, and no periodic checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from espalier.api import conditions
from espalier.api.capi.cluster import CLUSTER_NAME_LABEL
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.clusterapi.contract import CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL, up_to_date_replicas
from espalier.clusterapi.kubernetes_versions import minor_of
from espalier.clusters.design.cluster_objects.machine_groups import machine_groups
from espalier.clusters.observe import references
from espalier.clusters.observe.adoptions import Adoptions
from espalier.clusters.observe.cached.own_fields import of_share, with_our_fields
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.clusters.report.checks.conclusions import INVALID
from espalier.clusters.report.checks.controller import GENERATION, age, readable, report, unreadable
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.kube.rbac import FOLLOW, Right
from espalier.providers.tinkerbell.cluster_api import TinkerbellMachine
from espalier.providers.tinkerbell.hardware import demand
from espalier.providers.tinkerbell.hardware.demand import BareMetalCluster, Owner
from espalier.providers.tinkerbell.hardware.findings import Config, ConfigResult, judge
from espalier.providers.tinkerbell.hardware.rack import hardware_states, is_contactable
from espalier.providers.tinkerbell.hardware_kinds import BMCMachine, Hardware
from espalier.providers.tinkerbell.kinds import (
    TinkerbellDatacenterConfig,
    TinkerbellMachineConfig,
    TinkerbellMachineConfigStatus,
)
from espalier.runtime.component import Host
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait, fault_of
from espalier.runtime.controllers.predicates import change_of
from espalier.runtime.controllers.reconciler import Report, write_report
from espalier.runtime.controllers.writer import Writer

RIGHTS = tuple(Right((kind.resource,), FOLLOW) for kind in (Hardware, BMCMachine, TinkerbellMachine))
"""Kinds to read in the system's namespace, besides those that all Clusters need."""

NOT_INSTALLED = "HardwareNotInstalled"
AVAILABLE = "HardwareAvailable"
"""Condition of a machine config: each Cluster that uses it has enough."""

CONFIGS = TinkerbellMachineConfig.resource
ALL = Key("", "hardware")
SPACING = 1.0


def controller(host: Host) -> Controller:
    """The controller of TinkerbellMachineConfigs' statuses."""
    return _Checks(host).controller()


class _Observation(NamedTuple):
    """The machine configs, and the results for the readable configs."""

    configs: Sequence[tuple[Object, TinkerbellMachineConfig]]
    unreadable: Sequence[tuple[Object, msgspec.ValidationError]]
    results: Mapping[Key, ConfigResult]


class _ClusterObjects(NamedTuple):
    """Machines and machine owners that exist for a Cluster."""

    machines: set[str]
    """The TinkerbellMachines of the Cluster."""
    selections: dict[str, set[bytes]]
    """The selections of these machines, by the name of their owner."""
    owners: dict[str, Owner]


class _Checks:
    def __init__(self, host: Host) -> None:
        self._host = host
        caches = host.caches
        self._clusters = caches.of(eksa.Cluster.resource)  # of other managers as well: they take Hardware, too
        self._configs = caches.of(CONFIGS)
        self._datacenters = caches.of(TinkerbellDatacenterConfig.resource)
        self._hardware = caches.of(Hardware.resource, SYSTEM_NAMESPACE, optional=True)
        self._bmcs = caches.of(BMCMachine.resource, SYSTEM_NAMESPACE, optional=True)
        self._machines = caches.of(TinkerbellMachine.resource, SYSTEM_NAMESPACE, optional=True)
        self._secrets = caches.of(
            SECRET, SYSTEM_NAMESPACE, labels=references.OF_OTHERS, transform=references.without_keys_of_others
        )
        ours = of_share(with_our_fields, host.manager.options)
        self._planes = caches.of(KubeadmControlPlane.resource, SYSTEM_NAMESPACE, transform=ours)
        self._deployments = caches.of(MachineDeployment.resource, SYSTEM_NAMESPACE, transform=ours)
        self._adoptions = Adoptions(caches)
        self._writer = Writer(host.client, {CONFIGS: self._configs})

    def controller(self) -> Controller:
        manager = self._host.manager
        hardware_controller = Controller(
            "tinkerbell-hardware", self.reconcile, workers=1, spacing=SPACING, rng=manager.rng
        )

        def all_(_object: Object) -> Sequence[Key]:
            return (ALL,)

        hardware_controller.watch(self._configs, all_)
        hardware_controller.watch(self._adoptions.cache, all_)
        hardware_controller.watch(self._hardware, all_, predicate=change_of(_all_but_status))
        hardware_controller.watch(
            self._bmcs, all_, predicate=change_of(lambda bmc: (*_all_but_status(bmc), is_contactable(bmc)))
        )
        hardware_controller.watch(self._machines, all_, predicate=change_of(lambda machine: machine.metadata.labels))
        hardware_controller.watch(
            self._secrets, self._accounts, predicate=change_of(lambda secret: secret.metadata.resource_version)
        )
        for cache in (self._clusters, self._datacenters):
            hardware_controller.watch(cache, all_, predicate=GENERATION)
        for cache in (self._planes, self._deployments):
            hardware_controller.watch(cache, all_, predicate=change_of(_owner))
        return hardware_controller

    def _accounts(self, secret: Object) -> Sequence[Key]:
        return (ALL,) if self._bmcs.list() else ()

    async def reconcile(self, _all: Key) -> Outcome:
        """Write statuses that differ. A failed write does not stop other writes."""
        if not len(self._configs):
            return Done()
        failed: Fault | None = None
        for config, status_report in self._reports():
            try:
                await write_report(CONFIGS, config, status_report, self._writer, self._host.manager.recorder)
            except KubeError as error:
                failed = fault_of(error)
        if failed is not None:
            return failed
        if self._hardware.is_absent:
            return Wait(NOT_INSTALLED, _not_installed(), after=references.RECHECK_INTERVAL)
        return Done()

    def _reports(self) -> Iterator[tuple[Object, Report]]:
        """The report on each config."""
        observation = self._observe()
        yield from (
            (config_object, Report(unreadable(config_object, error))) for config_object, error in observation.unreadable
        )
        for config, decoded in observation.configs:
            if self._hardware.is_absent:
                result, reason = ConfigResult((_not_installed(),), ()), NOT_INSTALLED
            else:
                result, reason = observation.results[config.key], INVALID
            yield config, report(config, self._status(decoded, result, reason))

    def _status(
        self, config: TinkerbellMachineConfig, result: ConfigResult, reason: str
    ) -> TinkerbellMachineConfigStatus:
        waiting = [cluster for cluster in result.clusters if cluster.reason]
        obstacles = [f"Cluster {cluster.name}: {cluster.message}" for cluster in waiting] or list(result.problems)
        reasons = [cluster.reason for cluster in waiting] + [reason] * bool(result.problems)
        available = Condition(
            type=AVAILABLE,
            status="False" if obstacles else "True",
            reason=next(iter(reasons), AVAILABLE),
            message="; ".join(obstacles),
        )
        return TinkerbellMachineConfigStatus(
            spec_valid=not result.problems,
            failure_reason=reason if result.problems else "",
            failure_message="; ".join(result.problems),
            observed_generation=config.metadata.generation,
            conditions=conditions.set(config.status.conditions, available, self._host.manager.clock.now()),
            clusters=list(result.clusters),
        )

    def _observe(self) -> _Observation:
        configs: list[tuple[Object, TinkerbellMachineConfig]] = []
        unreadable_configs = []
        for config_object in self._configs.list():
            try:
                configs.append((config_object, config_object.decode(TinkerbellMachineConfig)))
            except msgspec.ValidationError as error:
                unreadable_configs.append((config_object, error))
        clusters = self._bare_metal_clusters({config_object.key: config for config_object, config in configs})
        states = hardware_states(self._hardware.list(), self._bmcs.list(), self._secret)
        users: dict[Key, list[BareMetalCluster]] = {}
        for cluster in clusters:
            for name in cluster.demands:
                users.setdefault(Key(cluster.key.namespace, name), []).append(cluster)
        requested = [
            Config(config_object.key, demand.selection(config.spec), tuple(users.get(config_object.key, ())))
            for config_object, config in configs
        ]
        return _Observation(configs, unreadable_configs, judge(states, clusters, requested))

    def _secret(self, name: str) -> Object | None:
        return self._secrets.get(Key(SYSTEM_NAMESPACE, name))

    def _bare_metal_clusters(self, configs: Mapping[Key, TinkerbellMachineConfig]) -> list[BareMetalCluster]:
        """The Clusters on bare metal."""
        objects_of_clusters = self._cluster_objects()
        empty = _ClusterObjects(set(), {}, {})
        clusters = []
        for cluster in readable(self._clusters.list()):
            reference, metadata = cluster.spec.datacenter_ref, cluster.metadata
            is_on_bare_metal = reference is not None and reference.kind == TinkerbellDatacenterConfig.resource.kind
            if not is_on_bare_metal or metadata.deletion_timestamp is not None:
                continue
            key = Key(metadata.namespace, metadata.name)
            named = {group.reference.name for group in machine_groups(cluster.spec) if group.reference is not None}
            own = {name: configs[Key(key.namespace, name)] for name in named if Key(key.namespace, name) in configs}
            existing = objects_of_clusters.get(key, empty)
            clusters.append(
                BareMetalCluster(
                    key,
                    age(cluster),
                    metadata.generation,
                    demand.demands(cluster, own, existing.owners),
                    frozenset(existing.machines),
                    dict(self._reserved(cluster)),
                )
            )
        return clusters

    def _cluster_objects(self) -> Mapping[Key, _ClusterObjects]:
        """The existing objects of each Cluster. Of Clusters with one name, the owner of the control plane has all."""
        objects_of_clusters: dict[Key, _ClusterObjects] = {}
        clusters: dict[str, Key] = {}
        for plane in self._planes.list():
            if (key := self._adoptions.owner_of(KubeadmControlPlane.resource, plane)) is not None:
                objects_of_clusters[key], clusters[plane.name] = _ClusterObjects(set(), {}, {}), key
        for machine in self._machines.list():
            labels = machine.metadata.labels
            if (key := clusters.get(labels.get(CLUSTER_NAME_LABEL, ""))) is not None:
                objects_of_clusters[key].machines.add(machine.name)
                owner = key.name if CONTROL_PLANE_LABEL in labels else labels.get(DEPLOYMENT_NAME_LABEL, "")
                objects_of_clusters[key].selections.setdefault(owner, set()).update(_selection(machine))
        for resource, cache in (
            (KubeadmControlPlane.resource, self._planes),
            (MachineDeployment.resource, self._deployments),
        ):
            for owner_object in cache.list():
                key = self._adoptions.owner_of(resource, owner_object)
                objects_of_cluster = objects_of_clusters.get(key) if key is not None else None
                if objects_of_cluster is not None:
                    objects_of_cluster.owners[owner_object.name] = _owner(
                        owner_object, frozenset(objects_of_cluster.selections.get(owner_object.name, ()))
                    )
        return objects_of_clusters

    def _reserved(self, cluster: eksa.Cluster) -> Iterator[tuple[str, str]]:
        """Addresses that no machine may have, by field."""
        if host := cluster.spec.endpoint_host:
            yield endpoint.FIELD, host
        name = cluster.spec.datacenter_ref.name if cluster.spec.datacenter_ref is not None else ""
        datacenter_object = self._datacenters.get(Key(cluster.metadata.namespace, name))
        try:
            datacenter = datacenter_object.decode(TinkerbellDatacenterConfig) if datacenter_object is not None else None
        except msgspec.ValidationError:
            return
        if datacenter is not None:
            yield f"{datacenter.kind} {name}: spec.tinkerbellIP", datacenter.spec.tinkerbell_ip


def _not_installed() -> str:
    kind = Hardware.resource
    return (
        f"CustomResourceDefinition {kind.plural}.{kind.group} does not exist: Tinkerbell is not installed in the "
        "management cluster; install it"
    )


def _all_but_status(object_: Object) -> tuple[object, ...]:
    """Identity, generation, labels and annotations, which change with everything but the status."""
    metadata = object_.metadata
    return metadata.uid, metadata.generation, metadata.labels, metadata.annotations


def _selection(machine: Object) -> Iterator[bytes]:
    try:
        affinity = machine.decode(TinkerbellMachine).spec.hardware_affinity
    except msgspec.ValidationError:
        return
    if affinity is not None:
        yield demand.canonical([term.label_selector for term in affinity.required])


def _owner(owner: Object, selections: frozenset[bytes] = frozenset()) -> Owner:
    """The requested and the current state of a KubeadmControlPlane or a MachineDeployment."""
    typed: KubeadmControlPlane | MachineDeployment
    if owner.kind == KubeadmControlPlane.resource.kind:
        typed = owner.decode(KubeadmControlPlane)
        version = typed.spec.version
    else:
        typed = owner.decode(MachineDeployment)
        version = typed.spec.template.spec.version
    count = typed.spec.replicas
    is_rolling = up_to_date_replicas(typed) < (typed.status.replicas or 0)
    return Owner(1 if count is None else count, minor_of(version), selections, is_rolling)
