"""The Secrets of an etcd's members as their gardenlet writes them, and those that pods have."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime

from espalier.shoots.secrets import names, peers
from espalier.shoots.secrets.persisted import Data

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = "shoot--dev--apple"
HOSTS = tuple(f"etcd-main-{member}.etcd-main-peer" for member in range(3))


@dataclass
class PeerSecrets:
    """The Secrets of one namespace, and its three pods. What a pod has stays until it is replaced."""

    rng: random.Random | None = field(default_factory=lambda: random.Random(1))
    now: datetime = NOW
    secrets: dict[str, Data] = field(default_factory=dict)
    wanted: str = ""
    """The Secret that the Etcd names."""
    of_pods: list[str] = field(default_factory=list)
    """The Secret of each pod."""
    replaced: int = 0

    def use(self) -> peers.Use:
        """Its view by the gardenlet."""
        return peers.Use(self.wanted, all(name == self.wanted for name in self.of_pods))

    def reconcile(self, crash: int = 99) -> bool:
        """Write what is due, of which a crash leaves so many writes; then name the Secret. False if nothing is due."""
        before = self.wanted
        due = peers.changes(self.secrets, self.use(), namespace=SPACE, hosts=HOSTS, now=self.now, rng=self.rng)
        for name, data in list(due.write.items())[:crash]:
            self.secrets[name] = data
        for name in due.delete if crash > len(due.write) else ():
            del self.secrets[name]
        self.wanted = peers.secret_of(self.secrets, self.use(), self.now)
        return bool(due) or before != self.wanted

    def start(self) -> None:
        """All three begin."""
        self.reconcile()
        self.of_pods = [self.wanted] * 3

    def replace(self, member: int) -> Data:
        """A pod is replaced by one of the newest template; what it has then."""
        self.of_pods[member] = self.wanted
        self.replaced += 1
        return self.secrets[self.wanted]

    def outdated(self) -> list[int]:
        """The members with an older template, in the order of a StatefulSet."""
        return [member for member, name in reversed(list(enumerate(self.of_pods))) if name != self.wanted]

    def authority(self) -> bytes:
        """The present one."""
        return self.secrets[names.CA_ETCD_PEER]["ca.crt"]
