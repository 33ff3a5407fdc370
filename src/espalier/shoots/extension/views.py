"""Extension resources and Clusters, with the fields that every extension reads."""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api.gardener.vocabulary.operations import Condition, LastOperation, OperationState
from espalier.api.meta import ObjectMeta, Observed


class Status(Observed, frozen=True):
    """The common part of a status. `state` is what the extension saved, undecoded."""

    last_operation: LastOperation | None = None
    state: Any = None
    conditions: list[Condition] = msgspec.field(default_factory=list)


class Spec(Observed, frozen=True):
    """The common part of a spec."""

    type: str = ""


class ExtensionObject(Observed, frozen=True):
    """An object of any extension kind."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Spec = Spec()
    status: Status = msgspec.field(default_factory=Status)


class _ShootSpec(Observed, frozen=True):
    seed_name: str | None = None


class _ShootStatus(Observed, frozen=True):
    last_operation: LastOperation | None = None
    seed_name: str | None = None


class _Shoot(Observed, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: _ShootSpec = _ShootSpec()
    status: _ShootStatus = _ShootStatus()


class _ClusterSpec(Observed, frozen=True):
    lease_expiration: str = ""
    shoot: _Shoot | None = None


class ClusterObject(Observed, frozen=True):
    """A `Cluster`: until when its seed may act on the shoot, and the state of the shoot."""

    spec: _ClusterSpec = _ClusterSpec()

    @property
    def is_failed(self) -> bool:
        """True if the Shoot is Failed: nothing of it is retried."""
        operation = self.spec.shoot.status.last_operation if self.spec.shoot else None
        return operation is not None and operation.state == OperationState.FAILED

    @property
    def is_leaving(self) -> bool:
        """True if the shoot is to leave the seed that has it."""
        shoot = self.spec.shoot
        seeds = {shoot.spec.seed_name, shoot.status.seed_name} if shoot is not None else set()
        return len(seeds) == 2 and None not in seeds and "" not in seeds

    @property
    def is_deleted(self) -> bool:
        """True if the Shoot is being deleted."""
        return self.spec.shoot is not None and self.spec.shoot.metadata.deletion_timestamp is not None
