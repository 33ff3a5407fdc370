"""The effect of check results on a Cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from espalier.api import conditions
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.checked import Checked, CheckedDatacenter, CheckedMachines
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Resource
from espalier.clusters.design.cluster_objects.machine_groups import kubernetes_versions
from espalier.clusters.design.provider import not_checked
from espalier.clusters.observe.rules.control_planes.endpoint import FIELD
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait


def address_taken(field: str, value: str, holder: str) -> str:
    """The message. The fields with such addresses are immutable."""
    return (
        f"{field}: found {value}, which {holder} uses; choose a free address: a cluster that exists already must be "
        "deleted and created again with it, because its address can't be changed"
    )


class _Datacenter(msgspec.Struct):
    status: CheckedDatacenter = CheckedDatacenter()


class _Machines(msgspec.Struct):
    status: CheckedMachines = CheckedMachines()


def problems_of(
    datacenter: Resource,
    machines: Resource,
    *,
    server: str,
    reachable: str,
    is_of: Callable[[Object, Object], bool] = lambda _machines, _datacenter: True,
) -> Callable[[eksa.Cluster, Sequence[Object], bool], Iterable[Wait]]:
    """`Links.problems` of a provider whose configs of these kinds are checked.

    `server` names the server in messages; `reachable` is the condition for its reachability. `is_of` says whether a
    valid machine config was checked for all of a datacenter.
    """

    def problems(cluster: eksa.Cluster, children: Sequence[Object], is_new: bool) -> Iterator[Wait]:
        """The reasons why a Cluster must wait, the datacenter's first: machines can't be judged while it is invalid."""
        addresses: dict[str, str] = {}
        results: list[tuple[str, Object, Checked]] = []
        for child in children:
            if child.kind == datacenter.kind:
                datacenter_status = child.decode(_Datacenter).status
                addresses |= datacenter_status.addresses
                results.insert(0, (Reason.DATACENTER_CONFIG_INVALID, child, datacenter_status))
            elif child.kind == machines.kind:
                results.append((Reason.MACHINE_CONFIG_INVALID, child, child.decode(_Machines).status))
        for reason, config, status in results:
            name = f"{config.kind} {config.name}"
            is_checked = _is_checked(cluster, config, status)
            if is_checked and status.spec_valid and config.kind == machines.kind:
                is_checked = all(is_of(config, other) for other in children if other.kind == datacenter.kind)
            if not is_checked:
                away = conditions.get(status.conditions, reachable)
                if config.metadata.deletion_timestamp is not None:
                    because = ", but it is being deleted: create it again once it is gone"
                elif away is not None and away.status == "False":
                    because = f": {away.message}"
                else:
                    because = ""
                pending = not_checked(f"waiting for {name} to be checked against {server}{because}")
                # Nothing checks an object that is being deleted, until somebody creates it again.
                yield replace(pending, ends_by_itself=config.metadata.deletion_timestamp is None)
            elif not status.spec_valid:
                yield Wait(reason, f"{name}: {status.failure_message}")
        endpoint = cluster.spec.endpoint_host
        if is_new and claim(cluster) not in addresses:
            yield not_checked(f"{FIELD}: waiting for {server} to report whether {endpoint} is free")
        elif is_new and (holder := addresses[claim(cluster)]):
            yield Wait(Reason.CONTROL_PLANE_ADDRESS_TAKEN, address_taken(FIELD, endpoint, holder))

    return problems


def claim(cluster: eksa.Cluster) -> str:
    """The key of a Cluster's endpoint in the status of its datacenter."""
    return f"{cluster.metadata.name}/{cluster.spec.endpoint_host}"


def _is_checked(cluster: eksa.Cluster, config: Object, status: Checked) -> bool:
    """True if the present spec was checked, machine configs for the Kubernetes versions of this Cluster."""
    if status.spec_valid is None or status.observed_generation != config.metadata.generation:
        return False
    if isinstance(status, CheckedMachines) and status.spec_valid:
        return set(kubernetes_versions(cluster.spec, config.name)) <= set(status.kubernetes_versions)
    return True
