"""Results for machine configs: their Hardware's problems, and Clusters for which there is not enough. Pure.

Messages name only Hardware that is free or the tenant's own; other Hardware is only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.clusters.design import addresses
from espalier.clusters.design.provider import not_checked
from espalier.clusters.report.checks.problems import address_taken
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.hardware.demand import BareMetalCluster, Demand, Selection
from espalier.providers.tinkerbell.hardware.rack import NAMESPACES, HardwareState
from espalier.providers.tinkerbell.kinds import HardwareOfCluster, TinkerbellMachineConfig
from espalier.runtime.controllers.outcome import Wait

MOST_SHOWN = 5


class _Selected(NamedTuple):
    """The Hardware of a selection, computed once for all Clusters."""

    states: Sequence[HardwareState]
    free: Sequence[HardwareState]
    held: Mapping[str, HardwareState]
    """Hardware in use, by the name of its TinkerbellMachine."""
    reserved: Sequence[HardwareState]
    """Hardware for some namespaces only."""
    flawed: Sequence[HardwareState]


Matches = Callable[[Selection], _Selected]
_StatesByAddress = Mapping[addresses.Address, HardwareState]


class Config(NamedTuple):
    """A machine config, and the Clusters of its namespace that use it."""

    key: Key
    selection: Selection
    clusters: tuple[BareMetalCluster, ...]


class ConfigResult(NamedTuple):
    """The result for a machine config."""

    problems: tuple[str, ...]
    """Problems with the selected Hardware."""
    clusters: tuple[HardwareOfCluster, ...]
    """For each Cluster that uses it: its demand, and why it must wait."""


def judge(
    states: Sequence[HardwareState], clusters: Iterable[BareMetalCluster], configs: Iterable[Config]
) -> Mapping[Key, ConfigResult]:
    """The result for each machine config, by its key."""
    selected: dict[Selection, _Selected] = {}

    def matches(selection: Selection) -> _Selected:
        if selection not in selected:
            matching = [state for state in states if selection.selects(state.labels)]
            selected[selection] = _Selected(
                matching,
                free=[state for state in matching if not state.holder],
                held={state.holder: state for state in matching if state.holder},
                reserved=[state for state in matching if state.namespaces is not None],
                flawed=[state for state in matching if state.problems],
            )
        return selected[selection]

    lacking = _allocate(clusters, matches)
    by_address = {address: state for state in states for address in state.addresses}
    return {
        config.key: ConfigResult(
            tuple(_problems_of_config(config, matches(config.selection))),
            tuple(
                _of_cluster(config, cluster, by_address, matches, lacking)
                for cluster in sorted(config.clusters, key=lambda cluster: cluster.key.name)
            ),
        )
        for config in configs
    }


# Allocation.


class _Lack(NamedTuple):
    """A lack of Hardware of a selection."""

    own: int
    free: int
    promised: int
    """Free Hardware allocated to Clusters that come earlier."""
    held: int


_Lacking = Mapping[tuple[Key, Selection], _Lack]


def _allocate(clusters: Iterable[BareMetalCluster], matches: Matches) -> _Lacking:
    """Selections with too little Hardware. Clusters take free Hardware in their order, all that they need or nothing: a
    request that can't be met does not block other requests.
    """
    promised: set[str] = set()
    lacking: dict[tuple[Key, Selection], _Lack] = {}
    for cluster in sorted(clusters, key=lambda cluster: cluster.allocation_order):
        allocated: set[str] = set()
        is_served = True
        for demand in dict.fromkeys(cluster.demands.values()):
            selected, namespace = matches(demand.selection), cluster.key.namespace
            own = sum(name in selected.held for name in cluster.machines)
            missing = max(0, demand.total - own)
            available = (
                state.name
                for state in selected.free
                if state.name not in promised and state.name not in allocated and state.permits(namespace)
            )
            hardware = list(islice(available, missing))
            if demand.is_new and missing > len(hardware):
                is_served = False
                promised_to_others = sum(state.permits(namespace) for state in selected.free) - len(hardware)
                held_by_others = sum(state.permits(namespace) for state in selected.held.values()) - own
                lacking[cluster.key, demand.selection] = _Lack(own, len(hardware), promised_to_others, held_by_others)
            allocated.update(hardware)
        if is_served:
            promised |= allocated
    return lacking


# Messages.


def _problems_of_config(config: Config, selected: _Selected) -> Iterator[str]:
    """Problems with Hardware that machines of this config have or may get."""
    namespace = config.key.namespace
    if reserved := sum(not state.permits(namespace) for state in selected.reserved):
        yield (
            f"{config.selection.text}: selects {reserved} Hardware that namespace {namespace} is not permitted to use "
            f"(annotation {NAMESPACES}); use labels that no other namespace's Hardware has"
        )
    problems_of_hardware = [
        f"Hardware {state.name}: {problem}"
        for state in selected.flawed
        if _is_visible(state, config.clusters, namespace)
        for problem in state.problems
    ]
    yield from problems_of_hardware[:MOST_SHOWN]
    if len(problems_of_hardware) > MOST_SHOWN:
        yield f"and {first(problems_of_hardware[MOST_SHOWN:], 0, of='problems with Hardware')}"


def _is_visible(state: HardwareState, clusters: Iterable[BareMetalCluster], namespace: str) -> bool:
    """True if tenants of a namespace may see the name: it is free for them, or one of their machines."""
    if state.holder:
        return any(state.holder in cluster.machines for cluster in clusters)
    return state.permits(namespace)


def _of_cluster(
    config: Config, cluster: BareMetalCluster, by_address: _StatesByAddress, matches: Matches, lacking: _Lacking
) -> HardwareOfCluster:
    demand = cluster.demands[config.key.name]
    reason, message = "", ""
    if obstacle := next(_obstacles(cluster, demand, by_address, matches, lacking), None):
        reason, message = obstacle
    return HardwareOfCluster(
        name=cluster.key.name,
        generation=cluster.generation,
        machines=demand.machines,
        spare=demand.spare,
        reason=reason,
        message=message,
    )


def _obstacles(
    cluster: BareMetalCluster, demand: Demand, by_address: _StatesByAddress, matches: Matches, lacking: _Lacking
) -> Iterator[tuple[str, str]]:
    """Obstacles for a Cluster: reason and message of each."""
    for field, address in cluster.reserved.items():
        parsed = addresses.parsed(address)
        if parsed is not None and (holder := by_address.get(parsed)) is not None:
            name = f" {holder.name}" if _is_visible(holder, (cluster,), cluster.key.namespace) else ""
            yield Reason.CONTROL_PLANE_ADDRESS_TAKEN, address_taken(field, address, f"Hardware{name}")
    for name, other in cluster.demands.items():
        if other.selection != demand.selection:
            selected = {state.name for state in matches(demand.selection).states}
            if ambiguous := [state for state in matches(other.selection).states if state.name in selected]:
                yield Reason.MACHINE_CONFIG_INVALID, _ambiguous(demand, name, ambiguous, cluster)
    if lack := lacking.get((cluster.key, demand.selection)):
        yield Reason.NOT_ENOUGH_HARDWARE, _shortage(demand, lack)


def _ambiguous(demand: Demand, other: str, ambiguous: Sequence[HardwareState], cluster: BareMetalCluster) -> str:
    shown = [state.name for state in ambiguous if _is_visible(state, (cluster,), cluster.key.namespace)]
    listed = f" ({first(shown, MOST_SHOWN)})" if shown else ""
    return (
        f"{demand.selection.text}: selects {len(ambiguous)} Hardware{listed} that TinkerbellMachineConfig {other} "
        "selects, too, so that machines of either could get it; use different labels"
    )


def _shortage(demand: Demand, lack: _Lack) -> str:
    spare = f", {demand.spare} of it while machines are replaced" if demand.spare else ""
    promised = f", {lack.promised} more needed by other clusters" if lack.promised else ""
    remedies = "add Hardware with these labels, release some, or request fewer machines"
    if demand.spare:
        remedies += ", or upgrade in place"
    return (
        f"{demand.selection.text}: {demand.total} Hardware is needed{spare}; found {lack.own} used by this cluster, "
        f"{lack.free} free{promised}, {lack.held} used by others; {remedies}"
    )


# Reasons of Clusters to wait.


def problems(cluster: eksa.Cluster, children: Sequence[Object], _is_new: bool) -> Iterator[Wait]:
    """Reasons for a Cluster to wait: a machine config was not checked for its current spec, or Hardware is lacking."""
    for child in children:
        if child.kind != TinkerbellMachineConfig.resource.kind:
            continue
        status, name = child.decode(TinkerbellMachineConfig).status, f"{child.kind} {child.name}"
        cluster_status = next((status for status in status.clusters if status.name == cluster.metadata.name), None)
        is_judged = cluster_status is not None and cluster_status.generation == cluster.metadata.generation
        if status.spec_valid is False and status.observed_generation == child.metadata.generation:
            yield Wait(Reason.MACHINE_CONFIG_INVALID, f"{name}: {status.failure_message}")
        elif cluster_status is None or not is_judged or status.observed_generation != child.metadata.generation:
            yield not_checked(f"waiting for {name} to be checked against the Hardware that it selects")
        elif cluster_status.reason:
            yield Wait(cluster_status.reason, f"{name}: {cluster_status.message}")
