"""A probe that writes continuously through a shoot's API, and records the acknowledged writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

from espalier.api.core import CONFIG_MAP
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock

LABEL = "written-by"


class WriteProbe:
    """Creates numbered ConfigMaps through the shoot's API, whose name is resolved again each time."""

    def __init__(self, connect: Callable[[], Client], clock: Clock, *, period: float = 0.2, name: str = "demo") -> None:
        self._connect, self._clock, self.period, self._name = connect, clock, period, name
        self.acknowledged: list[tuple[float, int]] = []
        """Time and number of each acknowledged write, by the monotonic clock."""
        self.answers: dict[int, Object] = {}
        """The API server's responses to them, by number: with UIDs and revisions."""
        self.last_error = ""
        """Why the last write failed; empty if it did not."""
        self._number = 0

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            self._number += 1
            try:
                async with asyncio.timeout(2):
                    await self._write(self._number)
                self.acknowledged.append((self._clock.monotonic(), self._number))
                self.last_error = ""
            except (KubeError, TimeoutError) as error:
                self.last_error = str(error) or "no answer in time"
            await asyncio.sleep(self.period)

    async def _write(self, number: int) -> None:
        client = self._connect()
        metadata = {"name": f"{self._name}-{number}", "namespace": "default", "labels": {LABEL: self._name}}
        try:
            body = {"metadata": metadata, "data": {"number": str(number)}}
            self.answers[number] = await client.create(CONFIG_MAP, body)
        finally:
            await client.close()

    async def lost(self, until: float) -> list[int]:
        """Numbers of writes that were acknowledged before a moment and are missing. Raises `KubeError`."""
        present = await self._present()
        return [number for at, number in self.acknowledged if at <= until and f"{self._name}-{number}" not in present]

    async def changed(self) -> list[int]:
        """Numbers of writes that are not there as they were acknowledged, revisions and UIDs included, or not at all.

        Raises `KubeError`.
        """
        answers, present = dict(self.answers), await self._present()
        return [
            number
            for number, answer in answers.items()
            if (stored := present.get(answer.name)) is None or _content(stored) != _content(answer)
        ]

    async def _present(self) -> dict[str, Object]:
        client = self._connect()
        try:
            listed = await client.list(CONFIG_MAP, "default", labels=f"{LABEL}={self._name}")
        finally:
            await client.close()
        return {item.name: item for item in listed.items}

    def gap(self, since: float, until: float) -> float:
        """The longest time between two acknowledged writes, of those after `since` and before `until`."""
        before = [at for at, _ in self.acknowledged if at <= since]
        moments = [*before[-1:], *(at for at, _ in self.acknowledged if since < at <= until)]
        return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)


def _content(written: Object) -> Tree:
    """The object without the fields that lists omit from their items."""
    return {name: value for name, value in written.tree.items() if name not in ("apiVersion", "kind")}
