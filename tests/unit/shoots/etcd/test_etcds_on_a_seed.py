"""Etcds on a seed: their pods run, programs stand in for etcd and its agent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.core import (
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    SECRET,
    SERVICE,
    STATEFUL_SET,
)
from espalier.api.gardener import images
from espalier.api.gardener.etcd import DATA_VOLUMES_READY, READY, Etcd
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object, encode_json
from espalier.runtime.clock import LoopClock
from espalier.shoots.etcd import setup
from espalier.shoots.etcd.observe import StatefulSet
from espalier.shoots.etcd.steps import wait_for_pods
from espalier.simulator.pods.runtimes.in_process import Container, InProcessProgram
from espalier.simulator.seeds import Seed
from tests.support.gardens.seed_managers import managed
from tests.support.gardens.seeds import EPOCH, SHOOT, on_a_seed, pod_of, until
from tests.support.waiting import eventually

STORE = {"provider": "S3", "container": "bucket-b", "prefix": "entry/etcd-main/2", "secretRef": {"name": "etcd-backup"}}
SOURCE = {"provider": "S3", "container": "bucket-a", "prefix": "entry/etcd-main/1", "secretRef": {"name": "source"}}


@dataclass
class Agents:
    """Stand-ins for agents and etcds: the agent's probe answers `health`."""

    health: int = 503
    arguments: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def programs(self, image: str) -> InProcessProgram | None:
        return {"etcd": self._etcd, "etcd-backup-restore": self._agent}.get(images.program(image))

    async def _etcd(self, container: Container) -> int:
        volume = container.volumes["/var/etcd/data"]
        volume["starts"] = volume.get("starts", 0) + 1
        return await self._rest(container)

    async def _agent(self, container: Container) -> int:
        self.arguments = list(container.arguments)

        async def answers(_path: str) -> int:
            return self.health

        container.listen(8080, "agent", answers=answers)
        return await self._rest(container)

    async def _rest(self, container: Container) -> int:
        try:
            await asyncio.sleep(10**6)
        finally:
            self.ended.append(container.name)
        return 0


class Story:
    """A seed whose Etcds are looked after."""

    def __init__(self, seed: Seed, agents: Agents) -> None:
        self.seed, self.agents = seed, agents
        self.client: Client = seed.client()

    async def create(self, *, copy: bool = False, epoch: int = 2) -> None:
        await self.client.create(Etcd.resource, etcd(copy=copy, epoch=epoch))

    async def change(self, patch: Tree) -> None:
        await self.client.patch(Etcd.resource, "etcd-main", SHOOT, patch=patch, type=PatchType.MERGE)

    async def delete(self) -> None:
        """Delete it with its data, as its gardenlet does."""
        await self.change({"metadata": {"annotations": {metadata_keys.CONFIRM_DELETION: "true"}}})
        await self.client.delete(Etcd.resource, "etcd-main", SHOOT)

    async def etcd(self) -> Object | None:
        try:
            return await self.client.get(Etcd.resource, "etcd-main", SHOOT)
        except NotFound:
            return None

    async def status(self) -> Tree:
        present = await self.etcd()
        return {} if present is None else dict(present.tree.get("status") or {})

    async def condition(self, type: str) -> Tree:
        conditions = (await self.status()).get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == type), {})

    async def reason(self) -> str:
        return str((await self.condition(READY)).get("reason", ""))

    async def becomes(self, holds: Callable[[], Awaitable[object]], seconds: float = 300) -> None:
        await eventually(holds, within=seconds, every=0.1)

    async def is_ready(self) -> bool:
        return bool((await self.status()).get("ready"))

    async def has_reason(self, reason: str) -> bool:
        return await self.reason() == reason

    async def has_arguments(self, *words: str) -> bool:
        return set(words) <= set(self.agents.arguments)

    async def is_gone(self) -> bool:
        return await self.etcd() is None

    async def volumes_are(self, status: str) -> bool:
        return (await self.condition(DATA_VOLUMES_READY)).get("status") == status

    async def claims(self) -> list[str]:
        return [claim.name for claim in (await self.client.list(PERSISTENT_VOLUME_CLAIM, SHOOT)).items]


def etcd(*, copy: bool = False, epoch: int = 2) -> Tree:
    backup: dict[str, Any] = {"store": STORE}
    annotations = {metadata_keys.EPOCH: str(epoch), metadata_keys.SOURCE_EPOCH: "1"}
    if copy:
        backup["sourceStore"] = SOURCE
    return {
        "apiVersion": Etcd.resource.api_version,
        "kind": "Etcd",
        "metadata": {"name": "etcd-main", "namespace": SHOOT, "annotations": annotations},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"instance": "etcd-main"}},
            "etcd": {},
            "backup": backup,
        },
    }


def tell(story: Callable[[Story], Awaitable[None]], *, agents: Agents | None = None) -> None:
    told = agents or Agents()

    async def on(seed: Seed) -> None:
        for name in ("etcd-backup", "source"):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SHOOT}}
            await seed.client().create(SECRET, {**secret, "stringData": {"accessKeyID": "x"}})
        clock = LoopClock(EPOCH)
        async with managed(seed, [setup.component()], clock=clock, rng=random.Random(2)):
            await story(Story(seed, told))

    on_a_seed(told.programs, on)


def containers(tree: Mapping[str, Any]) -> list[str]:
    return [container["name"] for container in tree["spec"]["template"]["spec"]["containers"]]


@pytest.mark.demand("G56", G48="where its agent writes", G70="the agent's Service has pods that are not ready")
def test_etcd_is_ready_when_its_agent_says_so() -> None:
    async def story(here: Story) -> None:
        await here.create()
        await until(lambda: pod_of(here.seed, "etcd-main-0"))
        await asyncio.sleep(60)
        assert (await here.status())["ready"] is False
        assert await here.reason() == "PodsNotReady"

        here.agents.health = 200
        await here.becomes(here.is_ready)

        stateful_set = (await here.client.get(STATEFUL_SET, "etcd-main", SHOOT)).tree
        assert containers(stateful_set) == ["etcd", "backup-restore"]
        assert stateful_set["spec"]["template"]["spec"]["shareProcessNamespace"] is True
        services = {service.name: service.tree["spec"] for service in (await here.client.list(SERVICE, SHOOT)).items}
        assert services["etcd-main-agent"]["publishNotReadyAddresses"] is True
        assert not services["etcd-main-client"].get("publishNotReadyAddresses")
        assert await here.has_arguments("run", "s3://bucket-b/entry/etcd-main/2", "--epoch=2")
        assert await here.has_arguments("--cluster=entry/etcd-main")

    tell(story)


def test_etcd_grows_to_three_and_leaves_nothing() -> None:
    async def story(here: Story) -> None:
        here.agents.health = 200
        await here.create()
        await here.becomes(here.is_ready)
        before = pod_of(here.seed, "etcd-main-0")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "etcd-peer", "namespace": SHOOT}}
        await here.client.create(SECRET, {**secret, "stringData": {"ca.crt": "x"}})
        peers = {"peerUrlTls": {"serverTLSSecretRef": {"name": "etcd-peer"}}}
        await here.change({"spec": {"replicas": 3, "etcd": peers}})
        await until(lambda: pod_of(here.seed, "etcd-main-2"))
        first = pod_of(here.seed, "etcd-main-0")
        assert before is not None
        assert first is not None
        assert first["metadata"]["uid"] != before["metadata"]["uid"], "it got peers before the others came"
        await here.becomes(here.is_ready)
        assert await here.claims() == [f"etcd-main-etcd-main-{number}" for number in range(3)]
        [budget] = (await here.client.list(POD_DISRUPTION_BUDGET, SHOOT)).items
        await here.becomes(lambda: disruptions_allowed(here.client, budget.name))

        await here.delete()
        await here.becomes(here.is_gone)
        assert await here.claims() == []
        assert (await here.client.list(POD_DISRUPTION_BUDGET, SHOOT)).items == []
        assert (await here.client.list(NETWORK_POLICY, SHOOT)).items == []

    tell(story)


async def disruptions_allowed(client: Client, budget: str) -> bool:
    """True if one pod may be evicted now."""
    status = (await client.get(POD_DISRUPTION_BUDGET, budget, SHOOT)).tree.get("status") or {}
    return bool(status.get("disruptionsAllowed") == 1)


@pytest.mark.demand("G49", "G50", "G60")
def test_copy_version_makes_way_for_the_real() -> None:
    async def story(here: Story) -> None:
        await here.create(copy=True)
        await until(lambda: pod_of(here.seed, "etcd-main-0"))
        copying = (await here.client.get(STATEFUL_SET, "etcd-main", SHOOT)).tree
        assert containers(copying) == ["backup-restore"]
        await here.becomes(lambda: here.has_arguments("copy", "s3://bucket-a/entry/etcd-main/1", "--source-epoch=1"))
        assert not await here.is_ready()
        assert await here.claims() == []

        here.agents.health = 200
        await here.becomes(here.is_ready)
        assert await here.reason() == "BackupsCopied"

        await here.client.delete(Etcd.resource, "etcd-main", SHOOT)
        await here.becomes(here.is_gone)
        assert pod_of(here.seed, "etcd-main-0") is None, "the copy has ended before its Etcd is gone"
        assert here.agents.ended == ["backup-restore"]
        await here.create()
        await here.becomes(here.is_ready)
        real = (await here.client.get(STATEFUL_SET, "etcd-main", SHOOT)).tree
        assert real["metadata"]["uid"] != copying["metadata"]["uid"]
        assert containers(real) == ["etcd", "backup-restore"]

    tell(story)


def test_sleeping_etcd_keeps_its_data() -> None:
    async def story(here: Story) -> None:
        await here.create()
        await here.becomes(here.is_ready)
        await here.change({"spec": {"replicas": 0}})
        await here.becomes(lambda: here.has_reason("ScaledToZero"))
        assert pod_of(here.seed, "etcd-main-0") is None
        assert not await here.is_ready()
        assert await here.claims() == ["etcd-main-etcd-main-0"]

        await here.change({"spec": {"replicas": 1}})
        await here.becomes(here.is_ready)
        await here.delete()
        await here.becomes(here.is_gone)
        assert pod_of(here.seed, "etcd-main-0") is None
        assert await here.claims() == []

    tell(story, agents=Agents(health=200))


def test_blocked_etcd_says_why_and_runs_later() -> None:
    async def story(here: Story) -> None:
        await here.create(epoch=0)
        await here.becomes(lambda: here.has_reason("InvalidSpec"))
        [error] = (await here.status())["lastErrors"]
        assert error["description"] == (
            f"annotation {metadata_keys.EPOCH}: found '0', allowed is the number of an ownership epoch"
        )
        await here.change({"metadata": {"annotations": {metadata_keys.EPOCH: "2"}}})
        await here.becomes(here.is_ready)
        assert "lastErrors" not in await here.status()

    tell(story, agents=Agents(health=200))


@pytest.mark.parametrize("value", ["4", "1", "x", None])
def test_an_etcd_keeps_the_epoch_of_its_pods(value: str | None) -> None:
    """With another one, its agent would ask the bucket for what is another seed's. A new epoch has a new Etcd."""

    async def story(here: Story) -> None:
        await here.create(epoch=2)
        await here.becomes(here.is_ready)
        await here.change({"metadata": {"annotations": {metadata_keys.EPOCH: value}}})
        await here.becomes(lambda: here.has_reason("InvalidSpec"))
        assert "allowed is 2, for which its pods run; set it again" in str(await here.status())
        assert here.agents.ended == []
        await here.change({"metadata": {"annotations": {metadata_keys.EPOCH: "2"}}})
        await here.becomes(here.is_ready)
        assert here.agents.ended == []

    tell(story, agents=Agents(health=200))


def test_a_steady_etcd_is_not_written_to() -> None:
    async def story(here: Story) -> None:
        await here.create()
        await here.becomes(here.is_ready)
        await asyncio.sleep(30)
        before = writes(here.seed)
        await here.change({"metadata": {"annotations": {"somebody": "looked at it"}}})
        await asyncio.sleep(600)
        assert writes(here.seed) - before == 1, "what was written is the annotation alone"

    tell(story, agents=Agents(health=200))


def writes(seed: Seed) -> int:
    counted = seed.workload.server.requests
    return sum(number for (verb, *_), number in counted.items() if verb in ("create", "patch", "update", "delete"))


@pytest.mark.parametrize("patch", [None, {"spec": {"replicas": 0}}, {"metadata": {"labels": None}}])
def test_edited_stateful_set_is_repaired_with_its_data(patch: Tree | None) -> None:
    async def story(here: Story) -> None:
        await here.create()
        await here.becomes(here.is_ready)
        [claim] = (await here.client.list(PERSISTENT_VOLUME_CLAIM, SHOOT)).items
        before = (await here.client.get(STATEFUL_SET, "etcd-main", SHOOT)).tree
        if patch is None:
            await here.client.delete(STATEFUL_SET, "etcd-main", SHOOT)
        else:
            await here.client.patch(STATEFUL_SET, "etcd-main", SHOOT, patch=patch, type=PatchType.MERGE)
        await asyncio.sleep(120)
        await here.becomes(here.is_ready)
        after = (await here.client.get(STATEFUL_SET, "etcd-main", SHOOT)).tree
        assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
        assert [item.metadata.uid for item in (await here.client.list(PERSISTENT_VOLUME_CLAIM, SHOOT)).items] == [
            claim.metadata.uid
        ]
        await here.client.delete(Etcd.resource, "etcd-main", SHOOT)
        if patch is not None:  # and one that is edited just when its Etcd is deleted is not forgotten
            await here.client.patch(STATEFUL_SET, "etcd-main", SHOOT, patch=patch, type=PatchType.MERGE)
        await here.becomes(here.is_gone)
        assert pod_of(here.seed, "etcd-main-0") is None
        assert (await here.client.list(STATEFUL_SET, SHOOT)).items == []

    tell(story, agents=Agents(health=200))


@pytest.mark.parametrize("labels", [{"name": "etcd"}, {}])
def test_object_of_others_is_left_until_it_is_gone(labels: dict[str, str]) -> None:
    async def story(here: Story) -> None:
        theirs: Tree = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "etcd-main-client", "namespace": SHOOT, "labels": labels},
            "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 1}]},
        }
        made = await here.client.create(SERVICE, theirs)
        await here.create()
        await here.becomes(lambda: here.has_reason("NameTaken"))
        condition = await here.condition(READY)
        assert "Service.core shoot--team--garden/etcd-main-client (of nobody)" in condition["message"]
        assert (await here.client.get(SERVICE, made.name, SHOOT)).resource_version == made.resource_version

        await here.client.delete(SERVICE, made.name, SHOOT)
        await here.becomes(here.is_ready)

    tell(story, agents=Agents(health=200))


def test_etcd_deleted_by_hand_keeps_its_data() -> None:
    async def story(here: Story) -> None:
        await here.create()
        await here.becomes(here.is_ready)
        [before] = (await here.client.list(PERSISTENT_VOLUME_CLAIM, SHOOT)).items
        await here.client.delete(Etcd.resource, "etcd-main", SHOOT)
        await here.becomes(here.is_gone)
        assert pod_of(here.seed, "etcd-main-0") is None
        await here.create()
        await here.becomes(here.is_ready)
        [after] = (await here.client.list(PERSISTENT_VOLUME_CLAIM, SHOOT)).items
        assert after.metadata.uid == before.metadata.uid

    tell(story, agents=Agents(health=200))


def test_pod_with_a_deleted_claim_is_not_ended() -> None:
    async def story(here: Story) -> None:
        await here.create()
        await here.becomes(here.is_ready)
        assert await here.volumes_are("True")
        await here.client.delete(PERSISTENT_VOLUME_CLAIM, "etcd-main-etcd-main-0", SHOOT)
        await here.becomes(lambda: here.volumes_are("False"))
        assert await here.is_ready()
        condition = await here.condition(DATA_VOLUMES_READY)
        assert condition["reason"] == "ClaimDeleting"
        assert "PersistentVolumeClaim etcd-main-etcd-main-0 is being deleted" in condition["message"]
        assert "Move the shoot to another seed, which loses nothing" in condition["message"]
        assert f"kubectl delete pod etcd-main-0 -n {SHOOT}" in condition["message"]

        await here.change({"spec": {"replicas": 0}})
        await here.becomes(lambda: here.has_reason("ClaimDeleting"))
        await asyncio.sleep(60)
        assert pod_of(here.seed, "etcd-main-0")

        await here.client.delete(POD, "etcd-main-0", SHOOT)
        await here.becomes(lambda: here.has_reason("ScaledToZero"))
        assert await here.volumes_are("True")

    tell(story, agents=Agents(health=200))


def test_member_with_a_deleted_claim_is_replaced() -> None:
    """Two others have its data, so its pod may end at any time."""

    async def story(here: Story) -> None:
        await here.create()
        await here.becomes(here.is_ready)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "etcd-peer", "namespace": SHOOT}}
        await here.client.create(SECRET, {**secret, "stringData": {"ca.crt": "x"}})
        peers = {"peerUrlTls": {"serverTLSSecretRef": {"name": "etcd-peer"}}}
        await here.change({"spec": {"replicas": 3, "etcd": peers}})
        await until(lambda: pod_of(here.seed, "etcd-main-2"))
        await here.becomes(here.is_ready)
        await here.client.delete(PERSISTENT_VOLUME_CLAIM, "etcd-main-etcd-main-1", SHOOT)
        await here.becomes(lambda: here.volumes_are("False"))
        message = (await here.condition(DATA_VOLUMES_READY))["message"]
        assert "The other members have them as well" in message
        assert f"kubectl delete pod etcd-main-1 -n {SHOOT}" in message
        await here.client.delete(POD, "etcd-main-1", SHOOT)
        await here.becomes(lambda: here.volumes_are("True"))
        await here.becomes(here.is_ready)
        assert len(await here.claims()) == 3

    tell(story, agents=Agents(health=200))


def test_copy_version_made_real_gets_etcd_and_data() -> None:
    async def story(here: Story) -> None:
        await here.create(copy=True)
        await here.becomes(here.is_ready)
        await here.change({"spec": {"backup": {"sourceStore": None}}})
        await here.becomes(lambda: here.has_arguments("run", "--epoch=2"))
        await here.becomes(here.is_ready)
        assert await here.claims() == ["etcd-main-etcd-main-0"]
        assert containers((await here.client.get(STATEFUL_SET, "etcd-main", SHOOT)).tree) == ["etcd", "backup-restore"]

    tell(story, agents=Agents(health=200))


@pytest.mark.parametrize(("seen", "reason"), [(1, "PodsPending"), (2, "PodsNotReady")])
async def test_counts_of_an_older_stateful_set_say_nothing(seen: int, reason: str) -> None:
    """A pod that was ready before a change is not ready by it."""
    live = Object(
        encode_json(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": "etcd-main", "generation": 2},
                "spec": {"replicas": 1},
                "status": {"observedGeneration": seen, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 0},
            }
        )
    )
    made = Object(encode_json(etcd())).decode(Etcd)
    counted: Any = SimpleNamespace(etcd=made, stateful_set=live.decode(StatefulSet), stateful_set_object=live)
    outcome = await wait_for_pods(cast(Any, SimpleNamespace(scope=counted)))
    assert getattr(outcome, "reason", "") == reason
