"""An environment of real nodes as users start it, for journeys on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espalier.assets import MissingAssets, find_base
from espalier.assets.cache import assets_folder
from espalier.cli.kit.connecting.home import Home
from espalier.cli.local import lock
from espalier.cli.local.environment.programs import find_cluster_api, find_control_plane
from espalier.realnodes.nspawn.system.limits import allowed_watchers
from espalier.realnodes.nspawn.system.network import BRIDGES
from tests.support.environments.environment import PROGRAM, LocalEnvironment
from tests.support.environments.footprint import Footprint
from tests.support.environments.node_versions import variables_of_row
from tests.support.providers.node_manifests import CLUSTER
from tests.support.servers.kubectl import Kubectl, find_kubectl

START_SECONDS = 300.0
READY_SECONDS = 1800
"""How long a cluster may take on a machine that does other things too: five nodes took 400 s with 60 to 90 processes
for 2 CPUs; alone they need a twentieth of it."""
ADDRESSES = "10.78.0.0/24"

Tree = dict[str, Any]


def why_not(*versions: str, watchers: int = 0, bridge: str = BRIDGES[0]) -> str:
    """The parts missing for real nodes of these Kubernetes versions; empty when nothing is.

    `watchers` is how many inotify instances the nodes of the test need.
    """
    if allowed_watchers() < watchers:
        return "needs sysctl -w fs.inotify.max_user_instances=1024"
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("systemd-nspawn") is None:
        return "needs systemd-nspawn (package systemd-container)"
    if Path("/sys/class/net", bridge).exists():
        return f"another local environment runs real nodes here (interface {bridge})"
    if find_control_plane() is None or find_cluster_api() is None:
        return "run make real-assets"
    try:
        for version in versions:
            find_base(version.removeprefix("v"))
    except MissingAssets as missing:
        return str(missing)
    return ""


@dataclass
class RealEnvironment:
    """A running environment; `management` is kubectl for its management cluster."""

    environment: LocalEnvironment
    management: Kubectl
    flags: Sequence[str] = ()
    """More of `espalier up`."""

    @property
    def home(self) -> Home:
        return Home(self.environment.home)

    async def up(self) -> None:
        """`espalier up --nodes real`, to where it serves."""
        flags = ("--nodes", "real", "--node-addresses", ADDRESSES, *self.flags)
        code, _, complaint = await self.espalier("up", "--detach", *flags)
        log = self.home.log.read_text()[-3000:] if self.home.log.exists() else ""
        assert code == 0, complaint + log

    async def kill(self) -> None:
        """`kill -9` of the environment's process; nodes go on."""
        running = lock.holder(self.home.lock)
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        assert await lock.released(self.home.lock, START_SECONDS)

    async def espalier(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """A command to its end."""
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *arguments,
            env={
                **self.environment.environment,
                **variables_of_row(),
                "ESPALIER_CACHE": str(assets_folder().parent),
            },
            cwd=self.environment.home,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, complaint = await process.communicate(stdin.encode())
        return process.returncode or 0, out.decode(), complaint.decode()

    async def apply(self, text: str) -> None:
        """`kubectl apply`."""
        await self.management("apply", "-f", "-", stdin=text)

    async def change(self, **spec: object) -> None:
        """Change fields of the spec of Cluster `garden`, as `kubectl patch` does."""
        await self.management("patch", CLUSTER, "--type=merge", "-p", json.dumps({"spec": spec}))

    async def until(self, kind: str, is_so: Callable[[Tree], bool]) -> None:
        """Wait until some object of Cluster API is so."""
        await self._until((kind, "-n", "eksa-system"), is_so, READY_SECONDS)

    async def _until(self, which: Sequence[str], is_so: Callable[[Tree], bool], within: float) -> None:
        patient = self.management.with_kubeconfig(self.management.kubeconfig)
        patient.patience = within + 60
        async with asyncio.timeout(within), patient.running("get", *which, "--watch", "-o", "json") as process:
            assert process.stdout is not None
            async for item in _documents(process.stdout):
                if is_so(item):
                    return
        raise AssertionError(f"kubectl get {shlex.join(which)} --watch ended")

    async def ready(self, name: str, *, within: float = READY_SECONDS) -> None:
        """Wait until a Cluster is ready for what was asked of it last, a release that the manager chose included."""
        resource = f"clusters.anywhere.eks.amazonaws.com/{name}"
        try:
            await self._until((resource,), _is_ready, within)
        except (AssertionError, TimeoutError) as error:
            told = "-o=jsonpath={range .status.conditions[*]}{.type} {.status} {.reason}: {.message}{'\\n'}{end}"
            error.add_note(await self.management("get", resource, told))
            error.add_note(await self.management("get", "machines,dockermachines", "-A", "-o", "wide"))
            _, nodes, _ = await self.espalier("nodes", "list")
            error.add_note(nodes)
            raise

    async def synced(self, name: str) -> None:
        """Wait until all that was made for a Cluster is seen to be as it was rendered, in the workload cluster too."""
        resource = f"clusters.anywhere.eks.amazonaws.com/{name}"
        await self.management("wait", "--for=condition=Synced", resource, "--timeout=60s")

    async def workload(self, name: str) -> Kubectl:
        """kubectl for a cluster."""
        code, content, complaint = await self.espalier("kubeconfig", name)
        assert code == 0, complaint
        file = self.environment.home / f"{name}.kubeconfig"
        file.write_text(content)
        return self.management.with_kubeconfig(file)

    async def nodes(self) -> list[Tree]:
        """`espalier nodes list`."""
        _, out, _ = await self.espalier("nodes", "list", "-o", "json")
        result: list[Tree] = json.loads(out)["nodes"]
        return result


def environment_in(folder: Path, *flags: str) -> RealEnvironment:
    """The environment in a folder, whether it runs or not."""
    kubectl = Kubectl(find_kubectl(), Home(folder).kubeconfig, folder, patience=READY_SECONDS + 60)
    return RealEnvironment(LocalEnvironment(folder), kubectl, flags)


@asynccontextmanager
async def real_environment(folder: Path, *flags: str) -> AsyncIterator[RealEnvironment]:
    """An environment in a folder of its own, with these flags; at the end nothing of it is left.

    Clusters in it may have each Kubernetes version of the row.
    """
    env = environment_in(folder, *flags)
    await env.up()
    try:
        yield env
    finally:
        await env.espalier("down", "--delete-data")


def _is_ready(cluster: Tree) -> bool:
    status = cluster.get("status", {})
    states = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
    return status.get("observedGeneration") == cluster["metadata"]["generation"] and states.get("Ready") == "True"


async def _documents(stream: asyncio.StreamReader) -> AsyncIterator[Tree]:
    """JSON objects, one after the other, each beginning and ending with a brace on a line of its own."""
    lines: list[bytes] = []
    while line := await stream.readline():
        lines.append(line)
        if line == b"}\n":
            yield json.loads(b"".join(lines))
            lines = []


def made(footprint: Footprint, home: Path) -> dict[str, object]:
    """The traces that nodes would leave: not the folder of the test itself."""
    parts = vars(footprint) | {"files": {path for path in footprint.files if not path.startswith(str(home))}}
    return {name: part for name, part in parts.items() if name != "processes"} | {
        "processes": {re.sub(r"^\d+ ", "", line) for line in footprint.processes if "systemd-nspawn" in line}
    }
