"""Nodes on which kubeadm's contract is held: a simulated one with the stand-in, and a real one with kubeadm.

Both are reached as the program on a node reaches its host (`upgrader/node.py`), so that what is read here is what it
reads.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from espalier.realnodes.nspawn import container
from espalier.realnodes.nspawn.container import Running
from espalier.realnodes.nspawn.node_files import PATCHES, PREFLIGHT
from espalier.realnodes.nspawn.system.state import State
from espalier.upgrader.api import Api, Response
from espalier.upgrader.contents import Contents
from espalier.upgrader.files import Files
from espalier.upgrader.host import Clock, Commands, Result
from espalier.upgrader.node import Node
from espalier.upgrader.services import tool_program
from espalier.upgrader.steps import IGNORED, SKIP_COREDNS
from tests.support.environments.real_environment import RealEnvironment, real_environment
from tests.support.environments.simulated_node import CONFIGURATION, OLD, Cluster, simulated
from tests.support.providers.node_manifests import manifest
from tests.support.servers.kubectl import Kubectl

Tree = dict[str, Any]
CONFIG_MAP = ("configmap", "kubeadm-config", "-n", "kube-system")
DISTRIBUTED_VERSION = f"{OLD}-eks-1-35-1"
"""The version in kubeadm-config: not the one that kubeadm itself is of."""
NOWHERE = "127.0.0.1:1/none"
"""A repository of images at which nobody answers."""


@dataclass
class Subject:
    """A node, and kubeadm-config of its cluster."""

    node: Node
    configuration: Callable[[], Tree]
    """ClusterConfiguration in kubeadm-config."""
    write: Callable[[Tree | None], None]
    """Replaces it; None takes kubeadm-config away."""
    patches: str = ""
    """Folder of the patches that the node was made with."""

    def kubeadm(self, *arguments: str) -> Result:
        """kubeadm with the flags that the program on the node gives it; without checks of a host that nodes share."""
        program = next(iter(tool_program(self.node, "kubeadm")))
        flags = []
        if arguments[0] == "upgrade":
            flags += [f"--ignore-preflight-errors={','.join((*IGNORED, *PREFLIGHT))}"]
            flags += [SKIP_COREDNS] if self.node.control_plane else []
            flags += [f"--patches={self.patches}"] if self.patches else []
        return self.node.commands.run(program, *arguments, *flags, timeout=1800)

    @contextmanager
    def configured(self, configuration: Tree | None) -> Iterator[None]:
        """Another kubeadm-config while the block runs."""
        before = self.configuration()
        self.write(configuration)
        try:
            yield
        finally:
            self.write(before)

    @contextmanager
    def without(self, path: str) -> Iterator[None]:
        """A file is away while the block runs."""
        place = self.node.files.place(path)
        away = place.with_name(f"{place.name}.away")
        place.rename(away)
        try:
            yield
        finally:
            away.rename(place)


@contextmanager
def simulated_nodes(folder: Path) -> Iterator[tuple[Subject, Subject]]:
    """A control plane node and a worker with stand-ins."""
    with simulated(folder / "plane") as plane, simulated(folder / "worker", control_plane=False) as worker:
        made = [Subject(item.node, *_stored(item.cluster)) for item in (plane, worker)]
        made[0].write(CONFIGURATION | {"kubernetesVersion": DISTRIBUTED_VERSION})
        assert made[0].kubeadm("upgrade", "node").code == 0
        yield made[0], made[1]


def _stored(cluster: Cluster) -> tuple[Callable[[], Tree], Callable[[Tree | None], None]]:
    """kubeadm-config in an embedded API server: how it is read and written."""
    path = "/api/v1/namespaces/kube-system/configmaps"

    def configuration() -> Tree:
        _, result = cluster.ask("GET", f"{path}/kubeadm-config")
        tree: Tree = json.loads(result["data"]["ClusterConfiguration"])
        return tree

    def write(configuration: Tree | None) -> None:
        cluster.ask("DELETE", f"{path}/kubeadm-config")
        if configuration is not None:
            cluster.make(path, **_config_map(configuration))

    return configuration, write


def _config_map(configuration: Tree) -> Tree:
    data = {"ClusterConfiguration": json.dumps(configuration)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubeadm-config"}, "data": data}


@contextmanager
def real_nodes(folder: Path) -> Iterator[tuple[Subject, Subject]]:
    """A control plane node and a worker of a cluster of real nodes."""
    with asyncio.Runner() as runner:
        context = real_environment(folder)
        env = runner.run(context.__aenter__())
        try:
            runner.run(env.apply(manifest(1, kubernetes="1.35")))
            runner.run(env.ready("garden"))
            workload = runner.run(env.workload("garden"))
            nodes = sorted(runner.run(env.nodes()), key=lambda item: str(item["role"]) != "control-plane")
            plane, worker = (_real_subject(runner, env, workload, str(node["name"])) for node in nodes)
            yield plane, worker
        finally:
            runner.run(context.__aexit__(None, None, None))


def _real_subject(runner: asyncio.Runner, env: RealEnvironment, workload: Kubectl, name: str) -> Subject:
    state = State(env.home.nodes)
    record = next(record for record in state.nodes() if record.name == name)
    running = container.find(state.folder(record.id))
    assert running is not None, f"node {name} is off"
    root = Path(f"/proc/{running.init.pid}/root")
    api = _KubectlApi(runner, workload)
    carried = Contents(OLD, "", {}, {})
    node = Node(name, Files(root), _RealCommands(running), api, Path(), carried, Clock())

    def configuration() -> Tree:
        result = runner.run(workload.tree(*CONFIG_MAP))
        tree: Tree = yaml.safe_load(result["data"]["ClusterConfiguration"])
        return tree

    def write(configuration: Tree | None) -> None:
        if configuration is None:
            runner.run(workload("delete", *CONFIG_MAP))
            return
        how = ("apply", "--server-side", "--force-conflicts", "-n", "kube-system", "-f", "-")
        runner.run(workload(*how, stdin=json.dumps(_config_map(configuration))))

    return Subject(node, configuration, write, PATCHES)


class _RealCommands(Commands):
    """Runs programs of a real node."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        self._running = running

    def _run(self, command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[bytes]:
        words = command[list(command).index("--") + 1 :]
        return subprocess.run(
            container.inside(self._running, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )


class _KubectlApi(Api):
    """Reads by kubectl, from outside of the node."""

    def __init__(self, runner: asyncio.Runner, workload: Kubectl) -> None:
        super().__init__({}, Path())
        self._runner = runner
        self._workload = workload

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Response:
        assert (method, body) == ("GET", None)
        code, text, complaint = self._runner.run(self._workload.finish("get", "--raw", path))
        return Response(503 if code else 200, complaint if code else text)
