"""The result for machine configs: whether there is enough valid Hardware for their Clusters. Pure.

Messages name only Hardware that is free or the tenant's own; other Hardware is only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from espalier.api.eksa import cluster as eksa
from espalier.api.resource import Key
from espalier.clusters import addresses
from espalier.clusters.checks.problems import ADDRESS_TAKEN, MACHINES_INVALID, address_taken
from espalier.clusters.provider import NOT_CHECKED
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.hardware.demand import Customer, Demand, Selection
from espalier.providers.tinkerbell.hardware.rack import NAMESPACES, Slot
from espalier.providers.tinkerbell.kinds import HardwareOfCluster, TinkerbellMachineConfig
from espalier.runtime.outcome import Wait

NOT_ENOUGH = "NotEnoughHardware"
MOST_SHOWN = 5


class _Selected(NamedTuple):
    """The Hardware of a selection, computed once for all Clusters."""

    slots: Sequence[Slot]
    free: Sequence[Slot]
    held: Mapping[str, Slot]
    """By the TinkerbellMachine."""
    reserved: Sequence[Slot]
    """Those for some namespaces."""
    flawed: Sequence[Slot]


Matches = Callable[[Selection], _Selected]
_SlotsByAddress = Mapping[addresses.Address, Slot]


class Config(NamedTuple):
    """A machine config, and the Clusters of its namespace that use it."""

    key: Key
    selection: Selection
    customers: tuple[Customer, ...]


class Verdict(NamedTuple):
    """The result for a machine config."""

    wrong: tuple[str, ...]
    """Problems with the selected Hardware."""
    clusters: tuple[HardwareOfCluster, ...]
    """For each Cluster that uses it: its demand, and why it must wait."""


def judge(rack: Sequence[Slot], customers: Iterable[Customer], configs: Iterable[Config]) -> Mapping[Key, Verdict]:
    """The verdict on each machine config."""
    selected: dict[Selection, _Selected] = {}

    def matches(selection: Selection) -> _Selected:
        if selection not in selected:
            slots = [slot for slot in rack if selection.selects(slot.labels)]
            selected[selection] = _Selected(
                slots,
                free=[slot for slot in slots if not slot.holder],
                held={slot.holder: slot for slot in slots if slot.holder},
                reserved=[slot for slot in slots if slot.namespaces is not None],
                flawed=[slot for slot in slots if slot.wrong],
            )
        return selected[selection]

    lacking = _allocate(customers, matches)
    by_address = {address: slot for slot in rack for address in slot.addresses}
    return {
        one.key: Verdict(
            tuple(_wrong(one, matches(one.selection))),
            tuple(
                _of_cluster(one, customer, by_address, matches, lacking)
                for customer in sorted(one.customers, key=lambda customer: customer.key.name)
            ),
        )
        for one in configs
    }


# Who gets what.


class _Lack(NamedTuple):
    """A lack of Hardware of a selection."""

    own: int
    free: int
    promised: int
    """Free Hardware for Clusters with an earlier turn."""
    held: int


_Lacking = Mapping[tuple[Key, Selection], _Lack]


def _allocate(customers: Iterable[Customer], matches: Matches) -> _Lacking:
    """Selections with too little Hardware. Clusters take free Hardware in turn, all that they need or nothing: a
    request that can't be met does not block others.
    """
    promised: set[str] = set()
    lacking: dict[tuple[Key, Selection], _Lack] = {}
    for customer in sorted(customers, key=lambda one: one.turn):
        allocated: set[str] = set()
        is_served = True
        for demand in dict.fromkeys(customer.demands.values()):
            selected, namespace = matches(demand.selection), customer.key.namespace
            own = sum(name in selected.held for name in customer.machines)
            missing = max(0, demand.whole - own)
            available = (
                one.name
                for one in selected.free
                if one.name not in promised and one.name not in allocated and one.permits(namespace)
            )
            found = list(islice(available, missing))
            if demand.is_new and missing > len(found):
                is_served = False
                promised_to_others = sum(one.permits(namespace) for one in selected.free) - len(found)
                held_by_others = sum(one.permits(namespace) for one in selected.held.values()) - own
                lacking[customer.key, demand.selection] = _Lack(own, len(found), promised_to_others, held_by_others)
            allocated.update(found)
        if is_served:
            promised |= allocated
    return lacking


# Messages.


def _wrong(config: Config, selected: _Selected) -> Iterator[str]:
    """Problems with Hardware that machines of this config have or may get."""
    namespace = config.key.namespace
    if reserved := sum(not slot.permits(namespace) for slot in selected.reserved):
        yield (
            f"{config.selection.text}: selects {reserved} Hardware that namespace {namespace} is not permitted to use "
            f"(annotation {NAMESPACES}); use labels that no other namespace's Hardware has"
        )
    found = [
        f"Hardware {slot.name}: {problem}"
        for slot in selected.flawed
        if _is_visible(slot, config.customers, namespace)
        for problem in slot.wrong
    ]
    yield from found[:MOST_SHOWN]
    if len(found) > MOST_SHOWN:
        yield f"and {len(found) - MOST_SHOWN} more problems with Hardware"


def _is_visible(slot: Slot, customers: Iterable[Customer], namespace: str) -> bool:
    """True if tenants of a namespace may see the name: it is free for them, or one of their machines."""
    if slot.holder:
        return any(slot.holder in customer.machines for customer in customers)
    return slot.permits(namespace)


def _of_cluster(
    config: Config, customer: Customer, by_address: _SlotsByAddress, matches: Matches, lacking: _Lacking
) -> HardwareOfCluster:
    demand = customer.demands[config.key.name]
    reason, message = "", ""
    if found := next(_obstacles(customer, demand, by_address, matches, lacking), None):
        reason, message = found
    return HardwareOfCluster(
        name=customer.key.name,
        generation=customer.generation,
        machines=demand.machines,
        spare=demand.spare,
        reason=reason,
        message=message,
    )


def _obstacles(
    customer: Customer, demand: Demand, by_address: _SlotsByAddress, matches: Matches, lacking: _Lacking
) -> Iterator[tuple[str, str]]:
    """Obstacles for a Cluster: reason and message of each."""
    for field, address in customer.reserved.items():
        parsed = addresses.parsed(address)
        if parsed is not None and (holder := by_address.get(parsed)) is not None:
            name = f" {holder.name}" if _is_visible(holder, (customer,), customer.key.namespace) else ""
            yield ADDRESS_TAKEN, address_taken(field, address, f"Hardware{name}")
    for name, other in customer.demands.items():
        if other.selection != demand.selection:
            mine = {slot.name for slot in matches(demand.selection).slots}
            if both := [slot for slot in matches(other.selection).slots if slot.name in mine]:
                yield MACHINES_INVALID, _ambiguous(demand, name, both, customer)
    if lack := lacking.get((customer.key, demand.selection)):
        yield NOT_ENOUGH, _shortage(demand, lack)


def _ambiguous(demand: Demand, other: str, both: Sequence[Slot], customer: Customer) -> str:
    shown = [one.name for one in both if _is_visible(one, (customer,), customer.key.namespace)]
    listed = f" ({', '.join(shown[:MOST_SHOWN])}{', ...' if len(shown) > MOST_SHOWN else ''})" if shown else ""
    return (
        f"{demand.selection.text}: selects {len(both)} Hardware{listed} that TinkerbellMachineConfig {other} selects, "
        "too, so that machines of either could get it; use different labels"
    )


def _shortage(demand: Demand, lack: _Lack) -> str:
    spare = f", {demand.spare} of it while machines are replaced" if demand.spare else ""
    promised = f", {lack.promised} more needed by other clusters" if lack.promised else ""
    remedies = "add Hardware with these labels, release some, or request fewer machines"
    if demand.spare:
        remedies += ", or upgrade in place"
    return (
        f"{demand.selection.text}: {demand.whole} Hardware is needed{spare}; found {lack.own} used by this cluster, "
        f"{lack.free} free{promised}, {lack.held} used by others; {remedies}"
    )


# What a Cluster waits for.


def problems(cluster: eksa.Cluster, children: Sequence[Object], _is_new: bool) -> Iterator[Wait]:
    """Why a Cluster must wait: its current spec was not judged yet with a machine config, or Hardware is lacking."""
    for child in children:
        if child.kind != TinkerbellMachineConfig.resource.kind:
            continue
        status, name = child.decode(TinkerbellMachineConfig).status, f"{child.kind} {child.name}"
        found = next((one for one in status.clusters if one.name == cluster.metadata.name), None)
        is_judged = found is not None and found.generation == cluster.metadata.generation
        if status.spec_valid is False and status.observed_generation == child.metadata.generation:
            yield Wait(MACHINES_INVALID, f"{name}: {status.failure_message}")
        elif found is None or not is_judged or status.observed_generation != child.metadata.generation:
            yield Wait(NOT_CHECKED, f"waiting for {name} to be checked against the Hardware that it selects")
        elif found.reason:
            yield Wait(found.reason, f"{name}: {found.message}")
