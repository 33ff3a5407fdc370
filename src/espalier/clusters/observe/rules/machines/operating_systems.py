"""Rules about the operating systems of machines, for any provider whose machine configs have `osFamily`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.fields import Ref
from espalier.api.eksa.parts.host_os import UBUNTU
from espalier.api.text.violations import Violation
from espalier.clusters.design.provider import Provider
from espalier.clusters.observe.rules.machines import bottlerocket
from espalier.kube.objects import Object

_IN_PLACE = "InPlace"


def in_place(provider: Provider | None, spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Violation]:
    """Groups of machines with in-place upgrades whose operating system the program on nodes does not support (U72)."""
    of_bottlerocket = list(bottlerocket.in_place(provider, spec, children))
    yield from of_bottlerocket
    told = {violation.field for violation in of_bottlerocket}
    families = {(child.kind, child.name): _family(child) for child in children}
    for place, strategy, reference in _groups(spec):
        field = f"{place}.upgradeRolloutStrategy.type"
        family = families.get((reference.kind, reference.name), "") if reference is not None else ""
        if strategy == _IN_PLACE and family not in ("", UBUNTU) and field not in told:
            value, allowed = f"{_IN_PLACE}, with {family}", f"RollingUpdate, or osFamily {UBUNTU}"
            yield Violation(field, value, allowed, "in-place upgrades support only Ubuntu")


def _family(machine_config: Object) -> str:
    """The operating system that a machine config names. What one without a name gets is the provider's: Ubuntu, or
    Bottlerocket, whose groups it names itself."""
    spec = machine_config.tree.get("spec")
    family = spec.get("osFamily") if isinstance(spec, dict) else None
    return family if isinstance(family, str) else ""


def _groups(spec: eksa.ClusterSpec) -> Iterator[tuple[str, str | None, Ref | None]]:
    """For each group: its field, its upgrade strategy and its machine config."""
    if (plane := spec.control_plane_configuration) is not None:
        own = plane.upgrade_rollout_strategy
        yield "spec.controlPlaneConfiguration", own.type if own else None, plane.machine_group_ref
    for index, group in enumerate(spec.worker_node_group_configurations):
        of_group = group.upgrade_rollout_strategy
        field = f"spec.workerNodeGroupConfigurations[{index}]"
        yield field, of_group.type if of_group else None, group.machine_group_ref
