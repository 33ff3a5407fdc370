"""Demand of Clusters for Hardware, by selection. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.rollouts import ControlPlaneUpgradeRolloutStrategy, WorkerNodesUpgradeRolloutStrategy
from espalier.api.label_selectors import LabelSelector
from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.clusters.design import names
from espalier.clusters.design.render_input import group_count, group_name
from espalier.providers.tinkerbell import kinds
from espalier.providers.tinkerbell.kinds import TinkerbellMachineConfig, TinkerbellMachineConfigSpec


class Owner(NamedTuple):
    """The KubeadmControlPlane or MachineDeployment of a group, and the state of its machines."""

    machines: int
    """The number of requested machines."""
    kubernetes_version: str
    """A minor version."""
    selections: frozenset[bytes] = frozenset()
    """The selections of the existing machines."""
    is_rolling: bool = False
    """True while machines are replaced."""


class Selection(NamedTuple):
    """Hardware by its labels. Equal selections select the same."""

    text: str
    """The field and its selector, for messages."""
    terms: bytes

    def selects(self, labels: Mapping[str, str]) -> bool:
        """True if one of the terms matches."""
        return any(term.selects(labels) for term in _terms(self.terms))


_decode: Callable[[bytes], list[LabelSelector]] = json_trees.decoder(list[LabelSelector])
_terms = lru_cache(maxsize=1024)(_decode)


def selection(spec: TinkerbellMachineConfigSpec) -> Selection:
    """The Hardware that a machine config selects."""
    if spec.hardware_affinity is not None:
        terms = [term.label_selector for term in spec.hardware_affinity.required]
        return Selection("spec.hardwareAffinity.required", canonical(terms))
    labels = ", ".join(f"{name}={value}" for name, value in spec.hardware_selector.items())
    return Selection(f"spec.hardwareSelector {labels}", canonical([LabelSelector(match_labels=spec.hardware_selector)]))


def canonical(terms: Sequence[LabelSelector | kinds.LabelSelector]) -> bytes:
    """Terms in canonical form, for comparison."""
    return msgspec.json.encode(terms, order="deterministic")


class Demand(NamedTuple):
    """The Hardware of one selection that a Cluster needs."""

    selection: Selection
    machines: int = 0
    spare: int = 0
    """Machines beyond the count, while machines are replaced."""
    is_new: bool = False
    """True if Cluster API was not asked for all of it yet: only then must the Cluster wait for Hardware."""

    @property
    def total(self) -> int:
        """The number of Hardware that it needs at the same time."""
        return self.machines + self.spare


class BareMetalCluster(NamedTuple):
    """A Cluster on bare metal."""

    key: Key
    age: tuple[str, str]
    generation: int
    demands: Mapping[str, Demand]
    """By the name of the machine config; configs of equal selections share a demand."""
    machines: frozenset[str] = frozenset()
    """Its TinkerbellMachines."""
    reserved: Mapping[str, str] = {}
    """Addresses that no Hardware may have, by field."""

    @property
    def allocation_order(self) -> tuple[bool, tuple[str, str]]:
        """The order in which Clusters get Hardware: running Clusters first, then by age."""
        return not self.machines, self.age


def demands(
    cluster: eksa.Cluster, configs: Mapping[str, TinkerbellMachineConfig], owners: Mapping[str, Owner]
) -> Mapping[str, Demand]:
    """The demand of a Cluster, by machine config. `owners` are those of its machines, by name; that of the control
    plane has the Cluster's.
    """
    totals: dict[Selection, Demand] = {}
    of_config: dict[str, Selection] = {}
    for group in _groups(cluster):
        if (config := configs.get(group.config)) is None:
            continue
        chosen = of_config[group.config] = selection(config.spec)
        total = totals.get(chosen, Demand(chosen))
        additional = _demand(group, chosen, owners.get(group.owner))
        totals[chosen] = Demand(
            chosen,
            total.machines + additional.machines,
            total.spare + additional.spare,
            total.is_new or additional.is_new,
        )
    return {name: totals[chosen] for name, chosen in of_config.items()}


class _Group(NamedTuple):
    owner: str
    config: str
    machines: int
    kubernetes_version: str
    strategy: ControlPlaneUpgradeRolloutStrategy | WorkerNodesUpgradeRolloutStrategy | None


def _groups(cluster: eksa.Cluster) -> Iterator[_Group]:
    spec, name = cluster.spec, cluster.metadata.name
    version = spec.kubernetes_version
    if (plane := spec.control_plane_configuration) is not None and plane.machine_group_ref is not None:
        yield _Group(name, plane.machine_group_ref.name, plane.count, version, plane.upgrade_rollout_strategy)
    for group in spec.worker_node_group_configurations:
        if group.machine_group_ref is not None:
            owner, config = names.machine_deployment(name, group_name(group)), group.machine_group_ref.name
            own = group.kubernetes_version or version
            yield _Group(owner, config, group_count(group), own, group.upgrade_rollout_strategy)


def _demand(group: _Group, chosen: Selection, owner: Owner | None) -> Demand:
    """The demand of a group. A change of the Kubernetes version or of the selection replaces machines; rollouts for
    other reasons only count once they have begun.
    """
    if owner is None:
        return Demand(chosen, group.machines, is_new=True)
    is_moved = bool(owner.selections - {chosen.terms})
    is_upgraded = owner.kubernetes_version != group.kubernetes_version
    spare = _surge(group) if is_upgraded or is_moved or owner.is_rolling else 0
    is_new = group.machines > owner.machines or is_moved or bool(spare and is_upgraded)
    return Demand(chosen, group.machines, spare, is_new)


def _surge(group: _Group) -> int:
    """The number of additional machines while machines are replaced."""
    if group.strategy is None:
        return 1
    if group.strategy.type == "InPlace":
        return 0
    return group.strategy.rolling_update.max_surge if group.strategy.rolling_update is not None else 1
