"""A random walk of what users do in a garden, and of what breaks in it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.responsibility import migrating
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE, OPERATION
from espalier.api.gardener.vocabulary.operations import OperationState
from espalier.kube.client import PatchType
from espalier.kube.errors import KubeError
from tests.support.gardens.fast_seeds import FastSeed
from tests.support.gardens.garden_users import NAMESPACE, is_whole
from tests.support.gardens.gardens import World


@dataclass(frozen=True)
class Size:
    """How large a walk is, and how often something happens in it; times in seconds."""

    seeds: int
    shoots: int
    hours: float
    between_actions: float
    """On average, of all users together."""
    between_faults: float
    longest_fault: float = 2400.0
    quiet: float = 6 * 3600.0
    """The longest time until all is healthy, once users and faults have ended."""


@dataclass
class Walk:
    """One walk through a garden. All that happens follows from `rng`."""

    world: World
    rng: random.Random
    size: Size
    done: Counter[str] = field(default_factory=Counter)
    """The actions of users, their refusals, and the breakages."""
    story: list[str] = field(default_factory=list)
    _broken: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """The current breakages, by the seed, or `garden`."""

    @property
    def _names(self) -> list[str]:
        return [f"shoot-{number}" for number in range(self.size.shoots)]

    async def run(self) -> None:
        """Walk, then repair all, and wait until all is whole. Raises `TimeoutError` with what is not."""
        for name in self._names:
            await self.world.create_shoot(name, self._seed())
        users = asyncio.create_task(self._often(self.size.between_actions, self._act))
        faults = asyncio.create_task(self._often(self.size.between_faults, self._break))
        await asyncio.sleep(self.size.hours * 3600)
        for task in (users, faults):
            task.cancel()
        await asyncio.gather(users, faults, return_exceptions=True)
        self._tell("all is repaired")
        await asyncio.gather(*self._broken.values())
        await self._settled()

    async def _often(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / seconds))
            await act()

    def _tell(self, what: str) -> None:
        self.story.append(f"{self.world.now():%d %H:%M:%S} {what}")

    def _seed(self, *, but: str | None = None) -> str:
        return self.rng.choice([name for name in self.world.seeds if name != but])

    # What users do.

    async def _act(self) -> None:
        name = self.rng.choice(self._names)
        what = "garden"
        try:
            results = {item.name: item.decode(Shoot) for item in (await self.world.client.list(Shoot.resource)).items}
            shoot = results.get(name)
            if shoot is None:
                what = "create"
                await self.world.create_shoot(name, self.rng.choice([self._seed(), None]))
            elif shoot.metadata.deletion_timestamp is None:
                what = await self._change(name, shoot)
        except KubeError as error:
            self.done[f"refused: {what}"] += 1
            self._tell(f"{what} {name} is refused: {error}"[:200])
        else:
            self.done[what] += 1
            self._tell(f"{what} {name}")

    async def _change(self, name: str, shoot: Shoot) -> str:
        world = self.world
        choices: dict[str, float] = {"move": 6, "sleep or wake": 2, "delete": 1, "evacuate": 0.3}
        if migrating(shoot):
            choices |= {"take back": 3, "give up the source": 3 if shoot.status.seed_name in self._broken else 0.2}
        what = self.rng.choices([*choices], [*choices.values()])[0]
        match what:
            case "move":
                await world.move(self._seed(but=shoot.spec.seed_name), name)
            case "take back":
                await world.move(shoot.status.seed_name or "", name)
            case "give up the source":
                await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}}, name)
            case "sleep or wake":
                enabled = not (shoot.spec.hibernation is not None and shoot.spec.hibernation.enabled)
                await world.patch({"spec": {"hibernation": {"enabled": enabled}}}, name)
            case "delete":
                await world.client.delete(Shoot.resource, name, NAMESPACE)
            case "evacuate":
                await self._evacuate(shoot.spec.seed_name or "")
        return what

    async def _evacuate(self, seed: str) -> None:
        for shoot in (await self.world.client.list(Shoot.resource)).items:
            if shoot.decode(Shoot).spec.seed_name == seed:
                try:
                    await self.world.move(self._seed(but=seed), shoot.name)
                except KubeError:
                    self.done["refused: evacuate one"] += 1

    # What breaks.

    async def _break(self) -> None:
        where = self.rng.choice([*self.world.seeds, *self.world.seeds, "garden"])
        if where in self._broken or len(self._broken) > len(self.world.seeds) // 2:
            return
        what = "controllers" if where == "garden" else self.rng.choice(list(FAULTS))
        seconds = self.rng.uniform(5, self.size.longest_fault)
        self.done[f"fault: {what}"] += 1
        self._tell(f"{what} of {where} for {seconds:.0f} s")
        self._broken[where] = asyncio.create_task(self._broken_for(where, what, seconds))

    async def _broken_for(self, where: str, what: str, seconds: float) -> None:
        if where == "garden":
            await self.world.garden.kill("garden")
            await asyncio.sleep(seconds)
            self.world.garden.run_garden()
        else:
            seed = self.world.seeds[where]
            await FAULTS[what](self, seed, seconds)
        self._tell(f"{what} of {where} is repaired")
        del self._broken[where]

    async def power(self, seed: FastSeed, seconds: float) -> None:
        """A seed has no power."""
        await seed.power_off()
        await asyncio.sleep(seconds)
        await seed.power_on()

    async def gardenlet(self, seed: FastSeed, _seconds: float) -> None:
        """A gardenlet is killed, and started again."""
        await self.world.garden.kill(f"gardenlet {seed.name}")
        await asyncio.sleep(self.rng.uniform(1, 60))
        seed.run_gardenlet()

    async def extensions(self, seed: FastSeed, seconds: float) -> None:
        """Extensions are down."""
        await self.world.garden.kill(f"extensions {seed.name}")
        await asyncio.sleep(seconds)
        seed.run_extensions()

    # The end.

    async def _settled(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.size.quiet
        while left := await self._unsettled():
            if loop.time() > end:
                raise TimeoutError("\n".join(left))
            await asyncio.sleep(30)

    async def _unsettled(self) -> list[str]:
        """The problems left. Users ask for a retry where a shoot says so."""
        left = []
        for item in (await self.world.client.list(Shoot.resource)).items:
            shoot = item.decode(Shoot)
            last = shoot.status.last_operation
            if last is not None and last.state == OperationState.FAILED and OPERATION not in item.metadata.annotations:
                retry = {"metadata": {"annotations": {OPERATION: "retry"}}}
                await self.world.client.patch(
                    Shoot.resource, item.name, item.namespace, patch=retry, type=PatchType.MERGE
                )
            hibernates = shoot.spec.hibernation is not None and shoot.spec.hibernation.enabled
            if not is_whole(shoot, shoot.spec.seed_name or "") or shoot.status.hibernated != hibernates:
                message = last.description if last is not None else "nothing"
                errors = [error.description for error in shoot.status.last_errors]
                left.append(f"{item.name} on {shoot.status.seed_name} -> {shoot.spec.seed_name}: {message} {errors}")
        return left


Fault = Callable[[Walk, FastSeed, float], Awaitable[None]]


def cut(name: str) -> Fault:
    """A network of a seed is cut."""

    async def cut_for(_walk: Walk, seed: FastSeed, seconds: float) -> None:
        link = getattr(seed.links, name)
        link.cut()
        await asyncio.sleep(seconds)
        link.restore()

    return cut_for


FAULTS: dict[str, Fault] = {
    "power": Walk.power,
    "gardenlet": Walk.gardenlet,
    "extensions": Walk.extensions,
    **{f"network to {name}": cut(name) for name in ("garden", "seed", "extensions", "bucket", "cloud")},
}
