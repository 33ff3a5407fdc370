"""The two kinds of a provider's configs, datacenters and machines, and the controllers that check them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.checked import Checked
from espalier.api.resource import Key, Resource
from espalier.clusters.design import addresses
from espalier.clusters.design.cluster_objects.machine_groups import kubernetes_versions
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.clusters.report.checks.conclusions import A, CheckPlan, Q
from espalier.clusters.report.checks.controller import GENERATION, Api, Check, Checks, is_new
from espalier.clusters.report.checks.problems import claim, problems_of
from espalier.kube.objects import Object
from espalier.kube.rbac import Right
from espalier.runtime.component import Host
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Wait

SEVERAL_DATACENTERS = "SeveralDatacenters"


class Config(Protocol):
    """A kind that is checked."""

    resource: ClassVar[Resource]

    @property
    def status(self) -> Checked:
        """The findings."""


D = TypeVar("D", bound=Config)
M = TypeVar("M", bound=Config)


class NewEndpoint(NamedTuple):
    """The endpoint of a Cluster whose control plane does not exist yet."""

    key: str
    """Its key in the status of the datacenter."""
    place: addresses.Place
    holder: str
    """Another Cluster that names it; empty for none."""


class Use(NamedTuple, Generic[D]):
    """A Cluster that references a machine config, and its datacenter."""

    cluster: eksa.Cluster
    datacenter: D


OfMachines: TypeAlias = Callable[[M, Sequence[Use[D]]], CheckPlan[Q, A]]
"""The questions about a machine config in use."""


@dataclass(frozen=True)
class Configs(Generic[D, M, Q, A]):
    """The configs of a provider: the questions about them, and the accounts to use."""

    name: str
    """Of the provider: names of its controllers begin with it."""
    datacenter: type[D]
    machines: type[M]
    api: Api[Q, A]
    accounts: Callable[[D], Collection[Key]]
    """The Secrets with the accounts of a datacenter."""
    place: Callable[[D], object]
    """The location of a datacenter's machines: Clusters may only share a machine config if it is equal."""
    of_datacenter: Callable[[D, Sequence[NewEndpoint]], CheckPlan[Q, A]]
    of_machines: Callable[[Host], OfMachines[M, D, Q, A]]
    """Called once per manager."""

    @property
    def controllers(self) -> tuple[Callable[[Host], Controller], Callable[[Host], Controller]]:
        """The controllers of datacenters and of machine configs."""
        return self._datacenters, self._machines

    @property
    def rights(self) -> tuple[Right, ...]:
        """The rights of the controllers beside reading the configs."""
        return (Right((self.datacenter.resource, self.machines.resource), ("patch",), "status"),)

    def problems(
        self, server: str, is_of: Callable[[Object, Object], bool] = lambda _machines, _datacenter: True
    ) -> Callable[[eksa.Cluster, Sequence[Object], bool], Iterable[Wait]]:
        """`Links.problems` of the provider, whose server has this name in messages (see `problems_of`)."""
        kinds = self.datacenter.resource, self.machines.resource
        return problems_of(*kinds, server=server, reachable=self.api.reachable, is_of=is_of)

    def _datacenters(self, host: Host) -> Controller:
        checks = Checks(host, self.api)
        resource = self.datacenter.resource

        def observe(object_: Object) -> Check[Q, A]:
            config = object_.decode(self.datacenter)
            users = checks.users(object_.key.namespace, resource, object_.name)
            new = [
                NewEndpoint(claim(user), place, checks.holder(user))
                for user in users
                if is_new(user) and (place := endpoint.place(user.spec)) is not None
            ]
            return Check(object_, config.status, self.of_datacenter(config, new))

        return checks.controller(f"{self.name}-datacenter", resource, observe, self._uses)

    def _machines(self, host: Host) -> Controller:
        checks = Checks(host, self.api)
        resource = self.machines.resource
        datacenters, configs = host.caches.of(self.datacenter.resource), host.caches.of(resource)
        of_machines = self.of_machines(host)

        def datacenter_of(cluster: eksa.Cluster) -> D | None:
            reference = cluster.spec.datacenter_ref
            if reference is None or reference.kind != self.datacenter.resource.kind:
                return None
            datacenter = datacenters.get(Key(cluster.metadata.namespace, reference.name))
            return self._readable(datacenter) if datacenter is not None else None

        def observe(object_: Object) -> Check[Q, A]:
            config = object_.decode(self.machines)
            users = checks.users(object_.key.namespace, resource, object_.name)
            uses = [Use(user, datacenter) for user in users if (datacenter := datacenter_of(user)) is not None]
            if not uses:
                return Check(object_, config.status)
            if any(self.place(use.datacenter) != self.place(uses[0].datacenter) for use in uses):
                listed = ", ".join(
                    sorted({use.cluster.spec.datacenter_ref.name for use in uses if use.cluster.spec.datacenter_ref})
                )
                message = f"Clusters of several datacenters reference it ({listed}); create a {resource.kind} for each"
                return Check(object_, config.status, problem=(SEVERAL_DATACENTERS, message))
            return Check(object_, config.status, of_machines(config, uses))

        def uses_account(config: Object, secret: Key) -> bool:
            return any(self._uses(datacenter, secret) for datacenter in datacenters.list(config.key.namespace))

        controller = checks.controller(f"{self.name}-machines", resource, observe, uses_account)
        controller.watch(
            datacenters,
            lambda datacenter: [config.key for config in configs.list(datacenter.key.namespace)],
            predicate=GENERATION,
        )
        return controller

    def _readable(self, datacenter: Object) -> D | None:
        try:
            return datacenter.decode(self.datacenter)
        except msgspec.ValidationError:
            return None  # its own status says so

    def _uses(self, datacenter: Object, secret: Key) -> bool:
        config = self._readable(datacenter)
        return config is not None and secret in self.accounts(config)


def versions_of(config: str, uses: Sequence[Use[D]]) -> list[str]:
    """The Kubernetes versions of the machines that Clusters make by a machine config, sorted."""
    return sorted({version for use in uses for version in kubernetes_versions(use.cluster.spec, config) if version})
