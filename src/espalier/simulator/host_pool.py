"""A fixed pool of hosts for simulated machines: each machine takes a free one that fits."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.resource import Key
from espalier.clusterapi.infrastructures.infrastructure import Hosts, Infrastructure, InfrastructureMachine
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.caches.mapping import ToKeys
from espalier.runtime.controllers.outcome import Wait
from espalier.simulator.capi.inventory import Scheme


class HostPool:
    """The hosts of one provider's machines. For a provider without hosts, `take` and `release` do nothing."""

    def __init__(self, scheme: Scheme, kinds: Infrastructure) -> None:
        self._scheme = scheme
        self._hosts = kinds.hosts
        self._machine = kinds.machine.kind

    async def take(self, machine: Object) -> Wait | None:
        """Label the first free host that fits, by name, with its machine. Return a `Wait` if none is free.

        A machine that has a host keeps it.
        """
        hosts = self._hosts
        if hosts is None or self._hosts_of(hosts, machine.key):
            return None
        for host in self._all_hosts():
            if hosts.owner_name not in host.metadata.labels and hosts.fits(machine, host.metadata.labels):
                labels = {hosts.owner_name: machine.name, hosts.owner_namespace: machine.namespace}
                await self._scheme.writer.merge(hosts.resource, host, {"metadata": {"labels": labels}})
                return None
        return Wait("NoFreeHost", f"waiting for a free {hosts.resource.kind} for the machine")

    async def release(self, machine: Key) -> None:
        """Release the hosts of a deleted machine."""
        hosts = self._hosts
        if hosts is None:
            return
        for host in self._hosts_of(hosts, machine):
            labels = {hosts.owner_name: None, hosts.owner_namespace: None}
            await self._scheme.writer.merge(hosts.resource, host, {"metadata": {"labels": labels}})

    def _hosts_of(self, hosts: Hosts, machine: Key) -> list[Object]:
        return [host for host in self._all_hosts() if _owner(hosts, host) == machine]

    def _all_hosts(self) -> list[Object]:
        return sorted(self._scheme.inventory.hosts[self._machine].list(), key=lambda host: host.key)


def machines_of_host(hosts: Hosts, machines: Cache) -> ToKeys:
    """Maps a host to its machine; a free one to machines that have not booted."""

    def to_keys(host: Object) -> Iterable[Key]:
        if (owner := _owner(hosts, host)) is not None:
            return (owner,)
        return [
            machine.key for machine in machines.list() if not machine.decode(InfrastructureMachine).status.provisioned
        ]

    return to_keys


def _owner(hosts: Hosts, host: Object) -> Key | None:
    labels = host.metadata.labels
    name = labels.get(hosts.owner_name)
    return Key(labels.get(hosts.owner_namespace, ""), name) if name is not None else None
