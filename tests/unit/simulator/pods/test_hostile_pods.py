"""Whoever may make pods of a simulated cluster reaches nothing of the machine but the folder of his node.

The API server refuses most of these (tests/contracts/test_names_and_paths.py); here it lets them through.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, POD, SECRET
from espalier.api.meta import Tree
from espalier.apiserver.builtin import pod_rules
from espalier.apiserver.schema import names
from espalier.cli.local.images.upgrader_images import program
from espalier.simulator.hosts import programs
from espalier.simulator.pods.runtimes.disks import TOOLS
from espalier.simulator.pods.runtimes.process import MESSAGE
from espalier.simulator.pods.runtimes.program import Program
from tests.support.environments.simulated_pods import Environment, phase, running_pods

IMAGE, UPGRADER = "example.org/teller:1", "example.org/upgrader:v1.36.3"
CANARY = "only for the host"
TELLER = """
import os, pathlib, sys
root = pathlib.Path(os.environ["ESPALIER_CONTAINER_ROOT"])
verb, *words = sys.argv[1:]
if verb == "read":
    print((root / words[0].lstrip("/")).read_text())
elif verb == "write":
    (root / words[0].lstrip("/")).write_text("changed by a pod")
elif verb == "link":
    place = root / words[0].lstrip("/")
    place.unlink(missing_ok=True)
    place.symlink_to(words[1])
elif verb == "environment":
    print(*sorted(os.environ), sep="\\n")
elif verb == "say":
    print(*words)
"""
SETTLED = ("CreateContainerConfigError",)


@dataclass
class Host:
    """A machine: what is beside the folder of the simulated environment must stay as it is."""

    root: Path
    environment: Environment

    @property
    def files(self) -> dict[str, bytes]:
        """All of it but the folders of nodes and pods."""
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else b""
            for path in self.root.rglob("*")
            if not str(path.relative_to(self.root)).startswith(("world/nodes", "world/pods"))
        }


@asynccontextmanager
async def machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    monkeypatch.setattr(pod_rules, "spec_problems", lambda *_: ())
    monkeypatch.setattr(names, "key", lambda *_: ())
    home = folder / "world"
    for made in (home, folder / "docs"):
        made.mkdir(parents=True)
    (folder / "docs/letter").write_text(CANARY)
    (folder / "secret").write_text(CANARY)
    (folder / "teller.py").write_text(TELLER)
    teller = Program({"teller": (sys.executable, "-IS", str(folder / "teller.py"))}, variables=("GREETING",))
    upgrader = program(folder / "images", "v1.36.3")
    async with running_pods(home, {IMAGE: teller, UPGRADER: upgrader}.get) as environment:
        yield Host(folder, environment)


def container(words: str = "say done", **fields: Any) -> Tree:
    return {"name": "main", "image": IMAGE, "command": ["teller", *words.split()], **fields}


def mounting(words: str, *, volume: str = "v", **fields: Any) -> Tree:
    return container(words, volumeMounts=[{"name": volume, "mountPath": "/v"}], **fields)


def reading(path: str, volume: Tree, **mount: Any) -> Tree:
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return {"containers": [container(f"read {path}", volumeMounts=mounts)], "volumes": [{"name": "v", **volume}]}


def keyed(path: str) -> Tree:
    return {"configMap": {"name": "notes", "items": [{"key": "good", "path": path}]}}


UP = "../" * 12
HOSTILE: dict[str, Tree] = {
    **{
        f"container {name}": {"containers": [container(name=name)]}
        for name in (f"{UP}HOST/docs", "HOST/docs", "..", ".", "", "a/b", "../../../../docs", "x" * 300)
    },
    **{f"init container {name}": {"initContainers": [container(name=name)]} for name in (f"{UP}HOST/docs", "..")},
    **{
        f"item {path}": reading("/v/a", keyed(path))
        for path in ("HOST/secret", f"{UP}HOST/secret", "../../../../secret", "a/../../../../../secret", "..", "")
    },
    **{
        f"key of {name}": reading("/v/a", {"configMap": {"name": name}})
        for name in ("absolute", "above", "dots")
    },
    "key of a Secret": reading("/v/a", {"secret": {"secretName": "above"}}),
    "projected key": reading("/v/a", {"projected": {"sources": [{"configMap": {"name": "above"}}]}}),
    "projected item": reading("/v/a", {"projected": {"sources": [keyed("../../../../secret")]}}),
    "projected token": reading("/v/a", {"projected": {"sources": [{"serviceAccountToken": {"path": "HOST/secret"}}]}}),
    "downward item": reading(
        "/v/a",
        {
            "projected": {
                "sources": [
                    {"downwardAPI": {"items": [{"path": "HOST/secret", "fieldRef": {"fieldPath": "metadata.name"}}]}}
                ]
            }
        },
    ),
    **{
        f"volume {name}": {"volumes": [{"name": name, "emptyDir": {}}], "containers": [mounting("say", volume=name)]}
        for name in ("../../../../docs", "HOST/docs", "..")
    },
    **{
        f"hostPath {path}": reading("/v/letter", {"hostPath": {"path": path, "type": "DirectoryOrCreate"}})
        for path in ("../../../../docs", f"/{UP}HOST/docs", "HOST/docs", "/linked", "/etc/linked", "/chain/a")
    },
    "hostPath of a file": reading("/v", {"hostPath": {"path": "/linked/letter"}}),
    "subPath": reading("/v/a", keyed("a"), subPath="../../../../secret"),
    "subPathExpr": reading("/v/a", keyed("a"), subPathExpr="../../../../secret"),
    **{
        f"mountPath {path}": reading("/v/a", keyed("a"), mountPath=path)
        for path in (f"{UP}HOST/docs/new", "/../../new", "/", ".", "/dev", f"/{MESSAGE}", f"/{MESSAGE}/a")
    },
    "mount in a mount": {
        "volumes": [{"name": "v", "hostPath": {"path": "/linked"}}, {"name": "w", "emptyDir": {}}],
        "containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v/w"}])],
    },
    "message": {
        "initContainers": [
            container("link /dev/termination-log HOST/secret", name="step-0"),
            container("say no", name="step-1", terminationMessagePolicy="FallbackToLogsOnError"),
        ]
    },
    "log": {"initContainers": [container("link /../../logs/main.log HOST/secret", name="step-0")]},
    "volume that became a link": {
        "volumes": [{"name": "v", "configMap": {"name": "notes"}}],
        "initContainers": [mounting("link /v/good HOST/secret", name="step-0")],
        "containers": [mounting("read /v/good")],
    },
    "folders of the node that became links": {
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "initContainers": [
            mounting(f"link /v/{path} HOST/secret", name=f"step-{index}")
            for index, path in enumerate(("etc/hostname", programs.STATE, programs.ACCESS, f"{TOOLS}/nsenter"))
        ],
    },
}  # fmt: skip


def placed(value: Any, host: str) -> Any:
    """With the path of this test's machine in it."""
    if isinstance(value, str):
        return value.replace(f"/{UP}HOST", f"/{UP}{host[1:]}").replace(f"{UP}HOST", UP + host[1:]).replace("HOST", host)
    if isinstance(value, list):
        return [placed(item, host) for item in value]
    return {placed(key, host): placed(item, host) for key, item in value.items()} if isinstance(value, dict) else value


async def write_files(host: Host) -> None:
    """Prepare the node for the hostile pods: data with keys that are paths, and links on the node."""
    client, meta = host.environment.workload.client, {"namespace": "default"}
    outside = str(host.root / "secret")
    keys = {"notes": "good", "absolute": outside, "above": "../../../../secret", "dots": ".."}
    for name, key in keys.items():
        await client.create(CONFIG_MAP, {"metadata": {"name": name, **meta}, "data": {key: "changed by a pod"}})
    data = {keys["above"]: base64.b64encode(b"changed by a pod").decode()}
    await client.create(SECRET, {"metadata": {"name": "above", **meta}, "data": data})
    links = {"/linked": "HOST/docs", "/etc/linked": "../../../../../docs", "/chain": "linked/.."}
    mounts = [{"name": "v", "mountPath": "/v"}]
    inits = [
        container(f"link /v{path} {placed(target, str(host.root))}", name=f"step-{index}", volumeMounts=mounts)
        for index, (path, target) in enumerate(links.items())
    ]
    await host.environment.make("links", inits, container(), volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    assert (await host.environment.ended("links"))["phase"] == "Succeeded"


def settled(pod: Tree) -> bool:
    """True if it has ended, or waits for what will not come."""
    status = pod.get("status", {})
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    waiting = [status_.get("state", {}).get("waiting", {}).get("reason") for status_ in containers]
    return phase(pod) in ("Succeeded", "Failed") or any(reason in SETTLED for reason in waiting)


@pytest.mark.soak
async def test_nothing_of_a_pod_leads_out_of_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machine(tmp_path / "machine", monkeypatch) as host:
        await write_files(host)
        before = host.files
        for index, (what, spec) in enumerate(HOSTILE.items()):
            manifest: Tree = placed({"containers": [container()], "initContainers": [], **spec}, str(host.root))
            name = f"hostile-{index}"
            (main, *_), inits = manifest.pop("containers"), manifest.pop("initContainers")
            await host.environment.make(name, inits, main, **manifest)
            pod = await host.environment.until(name, settled)
            assert host.files == before, what
            assert CANARY not in str(pod), what
            for container_ in (*inits, main):
                assert CANARY.encode() not in await host.environment.pods.read_log(pod, container_["name"]), what
        # What is made anew at the next start, and what is taken away at the end, lies among what they left there.
        pods = host.environment.pods
        await pods.close()
        host.environment.runtime._disks._booted.clear()
        await host.environment.make("later", [], container())
        await host.environment.until("later", settled)
        assert host.files == before
        for pod_object in host.environment.workload.cache(POD).list():
            await host.environment.workload.client.delete(POD, pod_object.name, "default", grace_period_seconds=0)
        await pods.close()
    assert host.files == before


HOSTILE_VARIABLES = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONBREAKPOINT", "PYTHONWARNINGS", "PYTHONINSPECT"),
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "OPENSSL_CONF", "SSL_CERT_FILE", "GLIBC_TUNABLES"),
    *("PATH", "HOME", "TMPDIR", "IFS", "BASH_ENV", "ENV", "SIMULATED_NODE", "ESPALIER_CONTAINER_ROOT", "HOST_ROOT"),
)


async def test_program_gets_harmless_variables_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machine(tmp_path / "machine", monkeypatch) as host:
        env = [{"name": name, "value": str(host.root)} for name in (*HOSTILE_VARIABLES, "GREETING", "OTHER")]
        await host.environment.make("hostile", [container("environment", name="step-0", env=env)], container())
        assert (await host.environment.ended("hostile"))["phase"] == "Succeeded"

        variables = set((await host.environment.log("hostile", "step-0")).split())
        given = {"PATH", "SIMULATED_NODE", "ESPALIER_CONTAINER_ROOT", "HOSTNAME", "GREETING"}
        assert variables - {"LC_CTYPE"} == given | {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}


async def test_the_upgrader_runs_nothing_that_a_pod_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machine(tmp_path / "machine", monkeypatch) as host:
        proof, modules = host.root / "proof", host.root / "modules"
        for name in ("sitecustomize.py", "argparse.py", "espalier/__init__.py", "espalier/upgrades/node/main.py"):
            (modules / name).parent.mkdir(parents=True, exist_ok=True)
            (modules / name).write_text(f"open({str(proof)!r}, 'w').write('ran')")
        env = [{"name": name, "value": str(modules)} for name in HOSTILE_VARIABLES]
        main = {"name": "main", "image": UPGRADER, "command": ["upgrader", "--help"], "env": env}
        await host.environment.make("hostile", [], main)
        assert (await host.environment.ended("hostile"))["phase"] == "Succeeded"

        assert "The steps of an in-place upgrade" in await host.environment.log("hostile", "main")
        assert not proof.exists()
