"""Writes that API servers of one shoot accepted at any seed, with their revisions: who accepted, in what order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, groupby

from espalier.api.core import CONFIG_MAP
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from tests.support.tasks import running

LABEL = "sentinel"


@dataclass(frozen=True)
class Accepted:
    """A write that was acknowledged: when it was sent and answered, and the revision at which etcd has it."""

    began: float
    ended: float
    seed: str
    revision: int
    name: str


@dataclass
class WriteHistory:
    """Two writers at each seed, who write all along. They know seeds, not the shoot's name in DNS."""

    connect: Callable[[str], Client]
    """A client of the shoot's API server in a seed. Raises `KubeError`."""
    accepted: list[Accepted] = field(default_factory=list)
    refused: int = 0

    @asynccontextmanager
    async def written(self, seeds: Sequence[str], *, writers: int = 2, every: float = 0.2) -> AsyncIterator[None]:
        """They write within the block."""
        async with running(*(self._write(seed, number, every) for seed in seeds for number in range(writers))):
            yield

    def owners(self) -> list[str]:
        """The seeds that accepted, in the order of revisions: each change is a move."""
        return [seed for seed, _ in groupby(sorted(self.accepted, key=lambda item: item.revision), _seed)]

    def check(self, owners: Sequence[str]) -> None:
        """Assert that one seed at a time accepted, these in this order, and that revisions follow the order in time."""
        assert self.owners() == list(owners)
        by_time = [seed for seed, _ in groupby(sorted(self.accepted, key=lambda item: item.ended), _seed)]
        assert by_time == list(owners), "a seed accepted a write after another one had"
        answered = iter(sorted(self.accepted, key=lambda item: item.ended))
        before, latest = next(answered, None), None
        for element in sorted(self.accepted, key=lambda item: item.began):
            while before is not None and before.ended < element.began:
                latest = before if latest is None else max(latest, before, key=lambda each: each.revision)
                before = next(answered, None)
            assert latest is None or latest.revision < element.revision, f"{element} was written after {latest}"

    async def missing(self, seed: str) -> list[Accepted]:
        """Writes that were accepted anywhere and that a seed does not have. Raises `KubeError`."""
        known = list(self.accepted)
        results = {item.name for item in (await self.connect(seed).list(CONFIG_MAP, "default", labels=LABEL)).items}
        return [item for item in known if item.name not in results]

    async def _write(self, seed: str, writer: int, every: float) -> None:
        for turn in count():
            await asyncio.sleep(every)
            name, began = f"{LABEL}-{seed}-{writer}-{turn}", time.monotonic()
            body = {"metadata": {"name": name, "namespace": "default", "labels": {LABEL: "true"}}}
            with suppress(KubeError, TimeoutError):
                async with asyncio.timeout(5):
                    made = await self.connect(seed).create(CONFIG_MAP, body)
                revision = int(made.metadata.resource_version)
                self.accepted.append(Accepted(began, time.monotonic(), seed, revision, name))
                continue
            self.refused += 1


def _seed(accepted: Accepted) -> str:
    return accepted.seed
