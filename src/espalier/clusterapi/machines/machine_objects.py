"""A machine, and the objects that it was created from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import Machine
from espalier.api.meta import ObjectMeta
from espalier.clusterapi.changes import machine_change
from espalier.clusterapi.changes.machine_change import MachineParts
from espalier.kube.objects import Object


@dataclass(frozen=True)
class MachineObjects:
    """A Machine with its KubeadmConfig and its infrastructure object, as far as they exist."""

    object: Object
    config: Object | None
    infrastructure: Object | None

    @cached_property
    def machine(self) -> Machine:
        """The Machine, decoded."""
        return self.object.decode(Machine)

    @property
    def name(self) -> str:
        """Name of the Machine."""
        return self.object.name

    @property
    def is_deleted(self) -> bool:
        """True if the Machine is being deleted."""
        return self.object.metadata.deletion_timestamp is not None

    @property
    def infrastructure_metadata(self) -> ObjectMeta | None:
        """The metadata of the machine's infrastructure object."""
        return self.infrastructure.metadata if self.infrastructure else None

    @property
    def lost_config(self) -> str:
        """The problem if the KubeadmConfig is gone, without which changes to the node are unknown; else empty."""
        return machine_change.lost_config(self.machine, self.config)

    @property
    def parts(self) -> MachineParts:
        """The parts that Cluster API compares, as of a control plane machine."""
        return machine_change.of_control_plane_machine(
            self.machine,
            self.config.decode(KubeadmConfig) if self.config else None,
            self.infrastructure_metadata,
        )
