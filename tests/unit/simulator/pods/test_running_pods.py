"""Pods of simulated nodes that run as processes of this machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, POD, SECRET
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.simulator.pods.runtimes.program import Program, Programs
from tests.support.environments.simulated_pods import CLUSTER, PATIENCE, Environment, phase, processes, running_pods
from tests.support.sampling import sampled
from tests.support.waiting import eventually

IMAGE = "example.org/teller:1"
TELLER = """
import os, pathlib, signal, sys, time
root = pathlib.Path(os.environ["ESPALIER_CONTAINER_ROOT"])
verb, *words = sys.argv[1:]
if verb == "say":
    print(*words)
elif verb == "fail":
    print("this went wrong")
    sys.exit(int(words[0]))
elif verb == "tell":
    (root / "dev/termination-log").write_text(" ".join(words))
elif verb == "write":
    (root / words[0].lstrip("/")).write_text(words[1])
elif verb == "read":
    print((root / words[0].lstrip("/")).read_text())
elif verb == "env":
    print(os.environ[words[0]])
elif verb == "rest":
    print("resting", flush=True)
    time.sleep(600)
elif verb == "resist":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("resisting", flush=True)
    time.sleep(600)
elif verb == "once":
    mark = root / "host/been-there"
    if not mark.exists():
        mark.touch()
        sys.exit(3)
"""


def teller(home: Path) -> Programs:
    file = home / "teller.py"
    file.write_text(TELLER)
    program = Program({"teller": (sys.executable, "-IS", str(file))}, variables=("NODE_NAME", "GREETING"))
    return lambda image: program if image == IMAGE else None


@asynccontextmanager
async def environment(home: Path) -> AsyncIterator[Environment]:
    async with running_pods(home, teller(home)) as made:
        yield made


async def run(here: Environment, name: str, *commands: str, then: str = "say done", **spec: Any) -> None:
    """Make a pod whose init containers run the commands, before `then`."""
    volumes = [{"name": "host", "hostPath": {"path": "/"}}, *spec.pop("volumes", [])]
    mounts = [{"name": "host", "mountPath": "/host"}, *spec.pop("mounts", [])]
    env = spec.pop("env", [])

    def container(name: str, words: str) -> Tree:
        return {
            "name": name,
            "image": IMAGE,
            "command": ["teller", *words.split()],
            "volumeMounts": mounts,
            "env": env,
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }

    inits = [container(f"step-{index}", words) for index, words in enumerate(commands)]
    await here.make(name, inits, container("main", then), volumes=volumes, **spec)


async def test_init_containers_run_in_order_first(tmp_path: Path) -> None:
    async with environment(tmp_path) as here:
        await run(here, "story", "write /host/tmp-note first", "read /host/tmp-note", then="tell the end")
        status = await here.ended("story")

        assert status["phase"] == "Succeeded"
        assert await here.log("story", "step-1") == "first\n"
        assert status["containerStatuses"][0]["state"]["terminated"]["message"] == "the end"
        assert {condition["type"]: condition["status"] for condition in status["conditions"]}["Initialized"] == "True"


@pytest.mark.demand("U66")
async def test_failed_container_shows_its_last_lines(tmp_path: Path) -> None:
    async with environment(tmp_path) as here:
        await run(here, "story", "fail 4", "write /host/never never")
        status = await here.ended("story")

        assert status["phase"] == "Failed"
        failed = status["initContainerStatuses"][0]["state"]["terminated"]
        assert (failed["exitCode"], failed["reason"], failed["message"]) == (4, "Error", "this went wrong")
        assert "waiting" in status["initContainerStatuses"][1]["state"]
        assert not list(tmp_path.glob("nodes/*/*/never"))


async def test_missing_command_ends_as_in_a_shell(tmp_path: Path) -> None:
    async with environment(tmp_path) as here:
        await here.make("shell", [], {"name": "sh", "image": IMAGE, "command": ["sh"]})
        status = await here.ended("shell")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 127


async def test_image_without_a_program_can_not_be_pulled(tmp_path: Path) -> None:
    """Of pods that run to completion; all others are taken to run."""
    async with environment(tmp_path) as here:
        init, main = ({"name": name, "image": "example.org/taller:1", "command": ["teller"]} for name in ("a", "b"))
        await here.make("mistyped", [init], main)
        pod = await here.until("mistyped", lambda pod: bool(pod.get("status", {}).get("initContainerStatuses")))
        first, last = pod["status"]["initContainerStatuses"][0], pod["status"]["containerStatuses"][0]
        assert phase(pod) == "Pending"
        assert first["state"]["waiting"]["reason"] == "ErrImagePull"
        assert "example.org/taller:1" in first["state"]["waiting"]["message"]
        assert last["state"] == {"waiting": {"reason": "PodInitializing"}}


@pytest.mark.soak
async def test_volumes_and_fields_reach_the_containers(tmp_path: Path) -> None:
    async with environment(tmp_path) as here:
        meta = {"namespace": "default"}
        body: Tree = {"apiVersion": "v1", "metadata": {"name": "notes", **meta}}
        await here.workload.client.create(CONFIG_MAP, {**body, "kind": "ConfigMap", "data": {"a": "from the map"}})
        await here.workload.client.create(SECRET, {**body, "kind": "Secret", "stringData": {"s": "from the secret"}})
        await run(
            here,
            "story",
            "read /notes/a",
            "read /secrets/s",
            "read /var/run/secrets/kubernetes.io/serviceaccount/namespace",
            "env NODE_NAME",
            "env GREETING",
            volumes=[
                {"name": "notes", "configMap": {"name": "notes"}},
                {"name": "secrets", "secret": {"secretName": "notes"}},
            ],
            mounts=[{"name": "notes", "mountPath": "/notes"}, {"name": "secrets", "mountPath": "/secrets"}],
            env=[
                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "GREETING", "value": "hello"},
            ],
        )
        assert (await here.ended("story"))["phase"] == "Succeeded"

        logs = [(await here.log("story", f"step-{index}")).strip() for index in range(5)]
        assert logs == ["from the map", "from the secret", "default", "node-1", "hello"]


@pytest.mark.soak
async def test_a_missing_object_is_named_and_awaited(tmp_path: Path) -> None:
    async with environment(tmp_path) as here:
        await run(
            here,
            "story",
            "read /notes/a",
            volumes=[{"name": "notes", "configMap": {"name": "notes"}}],
            mounts=[{"name": "notes", "mountPath": "/notes"}],
        )

        def lacks(pod: Tree) -> bool:
            statuses = pod.get("status", {}).get("initContainerStatuses") or [{}]
            waiting = statuses[0].get("state", {}).get("waiting", {})
            return bool(waiting.get("message") == 'configmap "notes" not found')

        await here.until("story", lacks)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "default"}}
        await here.workload.client.create(CONFIG_MAP, {**body, "data": {"a": "late"}})

        assert (await here.ended("story"))["phase"] == "Succeeded"


async def test_pod_waits_for_an_api_server_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with environment(tmp_path) as here:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "default"}}
        await here.workload.client.create(CONFIG_MAP, {**body, "data": {"a": "there"}})
        get, failures = here.workload.client.get, [Unreachable("connection refused", sent=False)]

        async def refused_once(*arguments: Any) -> Object:
            if failures:
                raise failures.pop()
            return await get(*arguments)

        monkeypatch.setattr(here.workload.client, "get", refused_once)
        volumes = [{"name": "notes", "configMap": {"name": "notes"}}]
        await run(here, "story", "read /notes/a", volumes=volumes, mounts=[{"name": "notes", "mountPath": "/notes"}])
        assert (await here.ended("story"))["phase"] == "Succeeded"
        assert not failures


@pytest.mark.parametrize("verb", sampled(["rest", "resist"], 0))
async def test_deleted_pod_takes_its_processes(tmp_path: Path, verb: str) -> None:
    async with environment(tmp_path) as here:
        await run(here, "story", verb, terminationGracePeriodSeconds=1)
        pod = await here.until(
            "story", lambda pod: "running" in str(pod.get("status", {}).get("initContainerStatuses"))
        )
        await eventually(lambda: here.log("story", "step-0"))  # written by another process
        process = processes(tmp_path, pod["metadata"]["uid"])
        assert process

        await here.workload.client.delete(POD, "story", "default", grace_period_seconds=1)
        async with asyncio.timeout(PATIENCE):
            while here.workload.object(POD, Key("default", "story")) is not None:
                here.changed.clear()
                await here.changed.wait()

        assert not processes(tmp_path, pod["metadata"]["uid"])
        with pytest.raises(NotFound):
            await here.workload.client.get(POD, "story", "default")


async def test_lost_containers_ended_as_on_a_down_node(tmp_path: Path) -> None:
    async with environment(tmp_path) as here:
        await run(here, "story", "say one", "rest", "say three")
        await here.until(
            "story", lambda pod: "running" in str((pod.get("status", {}).get("initContainerStatuses") or [0, 0])[1])
        )
        await here.pods.close()
        await here.pods.reconcile(CLUSTER)
        status = await here.ended("story")

        assert status["phase"] == "Failed"
        lost = status["initContainerStatuses"][1]["state"]["terminated"]
        assert (lost["exitCode"], lost["reason"]) == (137, "ContainerStatusUnknown")
        assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


async def test_pod_without_a_program_stays_simulated(tmp_path: Path) -> None:
    async with environment(tmp_path) as here:
        body: Tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"nodeName": "node-1", "hostNetwork": True, "containers": [{"name": "web", "image": "nginx"}]},
        }
        await here.workload.client.create(POD, body)
        pod = await here.until("web", lambda pod: phase(pod) == "Running")

        assert pod["status"]["containerStatuses"][0]["containerID"].startswith("containerd://")
        assert await here.log("web") == ""


async def test_logs_are_asked_for_as_kubectl_does(tmp_path: Path) -> None:
    async with environment(tmp_path) as here:
        await run(here, "story", "say one two three")
        await here.ended("story")

        assert await here.log("story", "step-0", tailLines="0") == ""
        assert await here.log("story", "step-0", limitBytes="3") == "one"
        assert "a container name must be specified for pod story, choose one of: [main]" in await here.log("story")
        assert "container nobody is not valid for pod story" in await here.log("story", "nobody")


async def test_probes_run_commands_and_restart_containers(tmp_path: Path) -> None:
    def container(probe: str, words: str) -> Tree:
        action = {"exec": {"command": ["teller", *words.split()]}, "failureThreshold": 1, "timeoutSeconds": 30}
        return {"name": "main", "image": IMAGE, "command": ["teller", "rest"], probe: action}

    def restarts(pod: Tree) -> int:
        return int((pod.get("status", {}).get("containerStatuses") or [{}])[0].get("restartCount", 0))

    def ready(pod: Tree) -> bool:
        return bool((pod.get("status", {}).get("containerStatuses") or [{}])[0].get("ready"))

    async with environment(tmp_path) as here:
        await here.make("well", [], container("readinessProbe", "say fine"))
        await here.until("well", ready)
        await here.make("ill", [], container("livenessProbe", "fail 1"), restartPolicy="Always")
        ill = await here.until("ill", lambda pod: restarts(pod) > 0)
        assert ill["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 143


async def test_probe_reaches_no_other_port_of_the_machine(tmp_path: Path) -> None:
    reached = asyncio.Event()
    server = await asyncio.start_server(lambda *_: reached.set(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, environment(tmp_path) as here:
        probe = {"tcpSocket": {"port": port}, "failureThreshold": 1}
        main = {"name": "main", "image": IMAGE, "command": ["teller", "rest"], "livenessProbe": probe}
        await here.make("nosy", [], main, restartPolicy="Never")
        assert (await here.ended("nosy"))["phase"] == "Failed"
        assert not reached.is_set()
