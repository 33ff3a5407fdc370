"""Sizes of machines. As in EKS Anywhere and CAPV, numbers that are too small are raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from espalier.providers.vsphere.kinds import LEAST_DISK, VSphereMachineConfigSpec

_LEAST_MEMORY, USUAL_MEMORY, _ETCD_MEMORY = 2048, 8192, 8192
LEAST_CPUS = 2


class Sizes(NamedTuple):
    """The sizes of a machine."""

    cpus: int
    memory: int
    disk: int | None


def sizes(spec: VSphereMachineConfigSpec, *, of_etcd: bool = False) -> Sizes:
    """The sizes that machines get."""
    return Sizes(
        cpus=max(spec.num_cpus or 0, LEAST_CPUS),
        memory=max(spec.memory_mi_b or USUAL_MEMORY, _ETCD_MEMORY if of_etcd else _LEAST_MEMORY),
        disk=max(spec.disk_gi_b, LEAST_DISK) if spec.disk_gi_b else None,
    )


def raised(spec: VSphereMachineConfigSpec, *, of_etcd: bool = False) -> Iterator[tuple[str, int, int]]:
    """Each field whose number is raised: its name, the number in the spec, and the number that machines get."""
    actual = sizes(spec, of_etcd=of_etcd)
    if spec.num_cpus is not None and spec.num_cpus < actual.cpus:
        yield "numCPUs", spec.num_cpus, actual.cpus
    if 0 < spec.memory_mi_b < actual.memory:  # 0 means the default
        yield "memoryMiB", spec.memory_mi_b, actual.memory
    if spec.disk_gi_b and actual.disk is not None and spec.disk_gi_b < actual.disk:
        yield "diskGiB", spec.disk_gi_b, actual.disk
