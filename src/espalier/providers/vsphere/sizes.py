"""Sizes of machines. As in EKS Anywhere and CAPV, numbers that are too small are raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from espalier.providers.vsphere.kinds import LEAST_DISK, VSphereMachineConfigSpec

_LEAST_MEMORY, _USUAL_MEMORY, _ETCD_MEMORY = 2048, 8192, 8192
_LEAST_CPUS = 2


class Sizes(NamedTuple):
    """The sizes of a machine."""

    cpus: int
    memory: int
    disk: int | None


def sizes(asked: VSphereMachineConfigSpec, *, of_etcd: bool = False) -> Sizes:
    """The sizes that machines get."""
    return Sizes(
        cpus=max(asked.num_cpus, _LEAST_CPUS),
        memory=max(asked.memory_mi_b or _USUAL_MEMORY, _ETCD_MEMORY if of_etcd else _LEAST_MEMORY),
        disk=max(asked.disk_gi_b, LEAST_DISK) if asked.disk_gi_b else None,
    )


def raised(asked: VSphereMachineConfigSpec, *, of_etcd: bool = False) -> Iterator[tuple[str, int, int]]:
    """Each field that machines get more of than it says: its name, what it says, and what they get."""
    made = sizes(asked, of_etcd=of_etcd)
    if asked.num_cpus < made.cpus:
        yield "numCPUs", asked.num_cpus, made.cpus
    if 0 < asked.memory_mi_b < made.memory:  # 0 means the default
        yield "memoryMiB", asked.memory_mi_b, made.memory
    if asked.disk_gi_b and made.disk is not None and asked.disk_gi_b < made.disk:
        yield "diskGiB", asked.disk_gi_b, made.disk
