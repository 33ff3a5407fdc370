"""Extension resources and Clusters, as far as every extension reads them."""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api.meta import Condition, ObjectMeta, Observed


class LastOperation(Observed, frozen=True):
    """What was done last, or is being done."""

    type: str = ""
    state: str = ""
    progress: int = 0
    description: str = ""
    last_update_time: str = ""


class Status(Observed, frozen=True):
    """The part of a status that all kinds have. `state` is what the extension saved, undecoded."""

    last_operation: LastOperation | None = None
    observed_generation: int = 0
    state: Any = None
    conditions: tuple[Condition, ...] = ()


class Spec(Observed, frozen=True):
    """The part of a spec that all kinds have."""

    type: str = ""


class ExtensionObject(Observed, frozen=True):
    """An object of any extension kind."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Spec = Spec()
    status: Status = Status()


class _ShootStatus(Observed, frozen=True):
    last_operation: LastOperation | None = None


class _Shoot(Observed, frozen=True):
    status: _ShootStatus = _ShootStatus()


class _ClusterSpec(Observed, frozen=True):
    lease_expiration: str | None = None
    shoot: _Shoot | None = None


class ClusterObject(Observed, frozen=True):
    """A `Cluster`: until when its seed may act on the shoot, and how the shoot is."""

    spec: _ClusterSpec = _ClusterSpec()

    @property
    def is_failed(self) -> bool:
        """True if the Shoot is not retried: nor is anything of it."""
        operation = self.spec.shoot.status.last_operation if self.spec.shoot else None
        return operation is not None and operation.state == "Failed"
