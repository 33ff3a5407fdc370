"""Bounds of an exploration: how many epochs, what may fail, how long times are, and which closures hold."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import force_setattr

from espalier.api.etcd.timing import Timing
from tests.support.etcd.election.closures import ALL, Closure


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """An explored system. Times are ticks; polls come every tick."""

    epochs: int = 2
    agents: int = 1
    """How many epochs have an agent. One without serves from its start on, and is never asked to end."""
    writes: int = 1
    """How many writes an epoch acknowledges at most."""
    validity: int = 2
    grace: int = 1
    staleness: int = 0
    """0 or 1."""
    drift: int = 0
    """Ticks by which the destination's clock may run ahead while it waits."""
    patience: int = 1
    """The destination's timeout without progress: the smaller, the harder it is to be safe."""
    snapshot: int = 1
    """Ticks that a final snapshot may take where nothing is disturbed."""
    progress: int = 0
    """How often its progress may be told."""
    writes_done: bool = False
    """A copy that has ended goes on until it has read `Done`. If not, it stands still from then on."""
    conditional: bool = False
    """The store has conditional puts; without, the last put wins."""
    late_puts: int = 0
    """How many puts may be under way beyond those whose origin waits for them: late, or for a second time."""
    slow: bool = False
    """Every party may take any time over everything: also frozen and thawed."""
    crashes: bool = False
    store_fails: bool = False
    astray: bool = False
    """A read may go to a container that is empty; an object may be there and not be understood."""
    disks: bool = False
    """The data directory may be lost once the epoch has ended."""
    initiates: bool = False
    """The source flow calls `copyop/initiate`; a call of an earlier migration may come late."""
    api_servers: bool = False
    """API servers connect, lose their connection, end, and are started again. Without, one is always connected."""
    passed_over: bool = False
    """The garden may count on before an epoch has started."""
    moved_once: bool = False
    """A first move has just ended: epoch 2 owns, agent and puts of epoch 1 are still about."""
    containers: int = 2
    """Of how many seeds in turn the epochs are; with 1, or by chance, they share a container."""
    compares_epochs: bool = True
    """An object of an earlier epoch is taken for none. It can be met only without keys of an epoch's own."""
    shortfall: float = 0
    """Seconds by which the destination takes the marker's promise to be shorter than it is."""
    closures: frozenset[Closure] = ALL

    def holds(self, closure: Closure) -> bool:
        """True unless the system goes without this rule."""
        return closure in self.closures

    @property
    def agent_timing(self) -> Timing:
        """Times of agents."""
        return self._timing(
            serving_grace=self.grace if self.holds(Closure.GRACE) else 0,
            store_staleness=self.staleness if self.holds(Closure.START_WAIT) else 0,
        )

    @property
    def copier_timing(self) -> Timing:
        """Times of destinations. Only as impatient as asked for: what is safe must not come from patience."""
        fence = self.holds(Closure.FENCE)
        return self._timing(
            serving_grace=self.grace,
            store_staleness=self.staleness if fence else 0,
            clock_drift=self.drift / self.release if fence else 0,
            progress_timeout=self.patience,
            copy_timeout=self.patience + self.snapshot + 4 if self.judges_loss else self.patience,
        )

    @property
    def judges_loss(self) -> bool:
        """True if the destination is patient enough that nothing may be lost where nothing fails."""
        return self.patience > self.release + self.staleness

    @property
    def release(self) -> int:
        """The time that a marker promises."""
        return self.validity + self.grace

    @property
    def long_idle(self) -> int:
        """Ticks without a connection, of which more are of no matter."""
        return self.grace + 1

    def _timing(self, **times: float) -> Timing:
        timing = Timing()
        times = {"poll_period": 1, "store_timeout": 1, "validity": self.validity, "progress_period": 1} | times
        for field, value in times.items():
            force_setattr(timing, field, value)  # past the inequalities: some are what is explored
        return timing
