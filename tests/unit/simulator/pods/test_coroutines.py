"""Pods whose containers are coroutines of this process, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from signal import Signals
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD, SERVICE, STATEFUL_SET
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.simulator.pods.runtimes.in_process import Container, InProcessProgram
from espalier.simulator.pods.runtimes.life import ContainerEnded
from espalier.simulator.pods.runtimes.pod_network import ConnectionRefused
from espalier.simulator.seeds import Seed
from tests.support.gardens.seeds import SHOOT, is_ready, on_a_seed, pod_of, until

FOREVER = 10**6


@dataclass
class Told:
    """The events reported by programs, with their times."""

    words: list[tuple[float, str]] = field(default_factory=list)

    def __call__(self, container: Container, word: str) -> None:
        self.words.append((round(container.clock.monotonic(), 2), word))

    @property
    def messages(self) -> list[str]:
        return [word for _, word in self.words]

    def times(self, word: str) -> list[float]:
        return [at for at, entry in self.words if entry == word]


def tell(story: Callable[[Seed], Awaitable[None]], **programs: InProcessProgram) -> None:
    on_a_seed(programs.get, story)


async def made(seed: Seed, *containers: Tree, name: str = "p", labels: Tree | None = None, **spec: Any) -> None:
    body: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SHOOT, "labels": labels or {"app": name}},
        "spec": {"containers": list(containers), **spec},
    }
    await seed.workload.client.create(POD, body)


def container(name: str, image: str, **more: Any) -> Tree:
    return {"name": name, "image": image, **more}


def status_of(seed: Seed, name: str = "p", index: int = 0) -> Tree:
    statuses = ((pod_of(seed, name) or {}).get("status") or {}).get("containerStatuses") or [{}]
    return dict(statuses[index])


async def rest(_container: Container) -> int:
    await asyncio.sleep(FOREVER)
    return 0


def test_program_gets_arguments_and_volumes() -> None:
    seen: dict[str, Any] = {}

    async def program(container: Container) -> int:
        seen["arguments"] = list(container.arguments)
        seen["greeting"] = container.environment["GREETING"]
        seen["config"] = container.volumes["/etc/config"]["a"]
        with pytest.raises(PermissionError):
            container.volumes["/etc/config"]["a"] = b"mine"
        container.message = "all said"
        return 3

    async def story(seed: Seed) -> None:
        config: Tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": SHOOT}}
        await seed.workload.client.create(CONFIG_MAP, {**config, "data": {"a": "text"}})
        await made(
            seed,
            container(
                "main",
                "program",
                args=["--greet=$(GREETING)", "$$5", "$(NOBODY)"],
                env=[{"name": "GREETING", "value": "hello"}],
                volumeMounts=[{"name": "config", "mountPath": "/etc/config"}],
            ),
            restartPolicy="Never",
            volumes=[{"name": "config", "configMap": {"name": "c"}}],
        )
        await until(lambda: "terminated" in status_of(seed).get("state", {}))
        ended = status_of(seed)["state"]["terminated"]
        assert (ended["exitCode"], ended["message"]) == (3, "all said")

    tell(story, program=program)
    assert seen == {"arguments": ["--greet=hello", "$5", "$(NOBODY)"], "greeting": "hello", "config": b"text"}


def test_ended_container_restarts_with_longer_pauses() -> None:
    told = Told()

    async def crash(container: Container) -> int:
        told(container, "start")
        raise RuntimeError("it broke")

    async def story(seed: Seed) -> None:
        await made(seed, container("main", "crash"))
        await until(lambda: status_of(seed).get("restartCount") == 4)
        assert status_of(seed)["lastState"]["terminated"]["message"] == "RuntimeError: it broke"

    tell(story, crash=crash)
    starts = told.times("start")
    assert [round(after - before) for before, after in pairwise(starts)] == [0, 10, 20, 40]


def test_sigterm_leaves_a_grace_period_to_clean_up() -> None:
    told = Told()

    async def tidy(container: Container) -> int:
        try:
            return await rest(container)
        except asyncio.CancelledError:
            await asyncio.sleep(5)
            told(container, "tidied up")
            raise

    async def story(seed: Seed) -> None:
        await made(seed, container("main", "tidy"), terminationGracePeriodSeconds=30)
        await until(lambda: is_ready(seed, "p"))
        await seed.workload.client.delete(POD, "p", SHOOT)
        await until(lambda: pod_of(seed, "p") is None)

    tell(story, tidy=tidy)
    assert told.messages == ["tidied up"]


def test_container_is_killed_after_its_grace_period() -> None:
    async def resist(container: Container) -> int:
        while True:
            try:
                await asyncio.sleep(FOREVER)
            except asyncio.CancelledError:
                if container.life.over:
                    raise

    async def story(seed: Seed) -> None:
        await made(seed, container("main", "resist"), terminationGracePeriodSeconds=7)
        await until(lambda: is_ready(seed, "p"))
        began = asyncio.get_running_loop().time()
        await seed.workload.client.delete(POD, "p", SHOOT)
        await until(lambda: pod_of(seed, "p") is None)
        assert 7 <= asyncio.get_running_loop().time() - began < 8

    tell(story, resist=resist)


def test_killed_container_keeps_its_volume() -> None:
    told = Told()

    async def keep(container: Container) -> int:
        volume = container.volumes["/data"]
        told(container, f"found {volume.get('count', 0)}")
        volume["count"] = volume.get("count", 0) + 1
        try:
            return await rest(container)
        finally:
            with pytest.raises(ContainerEnded):
                volume["count"] = 1000
            told(container, "reached nothing")

    async def story(seed: Seed) -> None:
        claim: Tree = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": SHOOT},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await seed.workload.client.create(PERSISTENT_VOLUME_CLAIM, claim)
        main = container("main", "keep", volumeMounts=[{"name": "data", "mountPath": "/data"}])
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await made(seed, main, volumes=volumes)
        await until(lambda: is_ready(seed, "p"))
        seed.kill(Key(SHOOT, "p"), "main")
        await until(lambda: status_of(seed)["restartCount"] == 1 and is_ready(seed, "p"))
        assert status_of(seed)["lastState"]["terminated"]["exitCode"] == 137

        await seed.destroy()
        await seed.start()
        await until(lambda: status_of(seed)["restartCount"] == 2 and is_ready(seed, "p"))

    tell(story, keep=keep)
    assert told.messages == ["found 0", "reached nothing", "found 1", "reached nothing", "found 2", "reached nothing"]


def test_probe_decides_readiness_at_kubelet_times() -> None:
    told = Told()
    answer = {"status": 503}

    async def serve(container: Container) -> int:
        async def answers(path: str) -> int:
            told(container, path)
            return answer["status"]

        told(container, "start")
        container.listen(8080, "endpoint", answers=answers)
        return await rest(container)

    probe = {"httpGet": {"path": "/ready", "port": "http"}, "initialDelaySeconds": 12, "periodSeconds": 5}

    async def story(seed: Seed) -> None:
        ports = [{"name": "http", "containerPort": 8080}]
        await made(seed, container("main", "serve", ports=ports, readinessProbe=probe))
        await until(lambda: len(told.words) >= 3)
        assert not is_ready(seed, "p")
        answer["status"] = 200
        await until(lambda: is_ready(seed, "p"))
        answer["status"] = 503
        failing = asyncio.get_running_loop().time()
        await until(lambda: not is_ready(seed, "p"))
        assert 10 < asyncio.get_running_loop().time() - failing <= 15
        assert status_of(seed)["restartCount"] == 0

    tell(story, serve=serve)
    start, *probes = (at for at, _ in told.words)
    assert [round(at - start) for at in probes][:3] == [15, 20, 25]


@pytest.mark.parametrize("action", [{"exec": {"command": ["check", "it"]}}, {"tcpSocket": {"port": 5}}])
def test_probes_run_commands_and_open_ports(action: Tree) -> None:
    opened = asyncio.Event()

    async def slow(container: Container) -> int:
        async def check(words: Sequence[str]) -> int:
            return 0 if opened.is_set() and list(words) == ["it"] else 1

        container.commands["check"] = check
        await opened.wait()
        container.listen(5, "endpoint")
        return await rest(container)

    async def story(seed: Seed) -> None:
        await made(seed, container("main", "slow", readinessProbe={**action, "periodSeconds": 1}))
        await asyncio.sleep(30)
        assert not is_ready(seed, "p")
        opened.set()
        await until(lambda: is_ready(seed, "p"), seconds=3)

    tell(story, slow=slow)


def test_dead_container_restarts_after_startup_probe() -> None:
    told = Told()

    async def hang(container: Container) -> int:
        began = container.clock.monotonic()

        async def answers(path: str) -> int:
            age = container.clock.monotonic() - began
            if path == "/alive":
                told(container, f"alive at {age:.0f}")
            return 200 if (age > 25 if path == "/started" else age < 45) else 500

        told(container, "start")
        container.listen(80, "endpoint", answers=answers)
        return await rest(container)

    async def story(seed: Seed) -> None:
        await made(
            seed,
            container(
                "main",
                "hang",
                startupProbe={"httpGet": {"path": "/started", "port": 80}, "failureThreshold": 10},
                livenessProbe={"httpGet": {"path": "/alive", "port": 80}, "failureThreshold": 2},
            ),
        )
        await until(lambda: told.messages.count("start") == 2)

    tell(story, hang=hang)
    assert told.messages == ["start", "alive at 30", "alive at 40", "alive at 50", "alive at 60", "start"]


@pytest.mark.parametrize("turns", range(8))
def test_container_that_ends_in_a_probe_restarts(turns: int) -> None:
    told = Told()

    async def short(container: Container) -> int:
        told(container, "start")
        for _ in range(turns):  # of the loop: probes begin meanwhile
            await asyncio.sleep(0)
        return 1

    probe = {"httpGet": {"path": "/", "port": 80}}

    async def story(seed: Seed) -> None:
        await made(seed, container("main", "short", readinessProbe=probe, livenessProbe=probe))
        await until(lambda: told.messages.count("start") == 3)

    tell(story, short=short)


@pytest.mark.demand("G56")
def test_containers_see_processes_of_shared_namespaces() -> None:
    told = Told()

    async def agent(container: Container) -> int:
        try:
            container.send_signal("etcd", Signals.SIGTERM)
            told(container, "sent")
        except ProcessLookupError:
            told(container, "no such process")
        return await rest(container)

    async def story(seed: Seed) -> None:
        for name, shares in (("apart", False), ("together", True)):
            containers = [container("etcd", "rest"), container("agent", "agent")]
            await made(seed, *containers, name=name, shareProcessNamespace=shares)
        await until(lambda: status_of(seed, "together").get("restartCount") == 1 and len(told.words) == 2)
        assert status_of(seed, "together")["lastState"]["terminated"]["exitCode"] == 143
        assert status_of(seed, "apart")["restartCount"] == 0

    tell(story, agent=agent, rest=rest)
    assert sorted(told.messages) == ["no such process", "sent"]


@pytest.mark.demand("G70")
def test_services_lead_to_ready_pods_or_to_all() -> None:
    async def serve(container: Container) -> int:
        async def answers(_path: str) -> int:
            return 503

        container.listen(8080, f"endpoint of {container.pod.name}", answers=answers)
        return await rest(container)

    def service(name: str, **spec: Any) -> Tree:
        ports = [{"port": 80, "targetPort": 8080}]
        metadata = {"name": name, "namespace": SHOOT}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports, **spec}}

    async def story(seed: Seed) -> None:
        client = seed.workload.client
        await client.create(SERVICE, service("ready", selector={"app": "p"}))
        await client.create(SERVICE, service("all", selector={"app": "p"}, publishNotReadyAddresses=True))
        await made(seed, container("main", "serve", readinessProbe={"httpGet": {"path": "/", "port": 8080}}))
        await until(lambda: "running" in status_of(seed).get("state", {}))
        await asyncio.sleep(1)

        assert seed.connect(Key(SHOOT, "all"), 80, str) == "endpoint of p"
        with pytest.raises(ConnectionRefused, match=r"Service shoot--team--garden/ready:80: p is not ready"):
            seed.connect(Key(SHOOT, "ready"), 80, str)
        with pytest.raises(ConnectionRefused, match="no such host"):
            seed.connect(Key(SHOOT, "nobody"), 80, str)

        seed.kill(Key(SHOOT, "p"), "main")
        with pytest.raises(ConnectionRefused, match="listens on no port 8080"):
            seed.connect(Key(SHOOT, "all"), 80, str)

    tell(story, serve=serve)


@pytest.mark.parametrize("grace", [None, 0])
def test_pod_of_the_same_name_waits_for_the_first(grace: int | None) -> None:
    told = Told()

    async def slow(container: Container) -> int:
        told(container, "start")
        try:
            return await rest(container)
        except asyncio.CancelledError:
            if not container.life.over:
                await asyncio.sleep(20)
            told(container, "end")
            raise

    async def story(seed: Seed) -> None:
        stateful: Tree = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": SHOOT},
            "spec": {
                "replicas": 1,
                "serviceName": "db",
                "selector": {"matchLabels": {"app": "db"}},
                "template": {
                    "metadata": {"labels": {"app": "db"}},
                    "spec": {"containers": [container("main", "slow")]},
                },
            },
        }
        await seed.workload.client.create(STATEFUL_SET, stateful)
        await until(lambda: is_ready(seed, "db-0"))
        await seed.workload.client.delete(POD, "db-0", SHOOT, grace_period_seconds=grace)
        await until(lambda: told.messages.count("start") == 2)

    tell(story, slow=slow)
    assert told.messages[:3] == ["start", "end", "start"]
