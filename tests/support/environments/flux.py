"""Flux's own controllers as processes beside a real API server.

Found, never fetched: `make real-assets REAL=flux` builds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from espalier.api.core import CLUSTER_ROLE_BINDING, CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.meta import Tree
from espalier.api.trees import yaml_trees
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import KUSTOMIZE_CONTROLLER, SOURCE_CONTROLLER
from espalier.gitops.layout import FLUX_NAMESPACE
from espalier.kube.client import Client
from espalier.realnodes.management.control_plane import HOST, write_private
from espalier.realnodes.management.processes import Program, Supervisor, supervised
from espalier.runtime.clock import SystemClock
from espalier.runtime.definitions import until_established
from tests.support.environments.control_plane import ControlPlane
from tests.support.servers.ports import free_ports

CONTROLLERS = (SOURCE_CONTROLLER, KUSTOMIZE_CONTROLLER)


def why_no_flux() -> str:
    """Advice when the controllers are not built; empty when they are."""
    missing = [controller.label for controller in CONTROLLERS if not is_finished(controller.home(assets_folder()))]
    return f"{' and '.join(missing)} not built: run make real-assets REAL=flux" if missing else ""


@asynccontextmanager
async def real_flux(control_plane: ControlPlane, client: Client, folder: Path) -> AsyncIterator[None]:
    """Flux on a management cluster: its kinds, and both controllers, which end with the block."""
    await client.apply(NAMESPACE, {"metadata": {"name": FLUX_NAMESPACE}})
    results = list(definitions())
    await asyncio.gather(*(client.apply(CUSTOM_RESOURCE_DEFINITION, item) for item in results))
    await until_established(client, {item["metadata"]["name"] for item in results})
    async with supervised(folder, SystemClock()) as supervisor:
        await asyncio.gather(
            *(_start(controller.name, control_plane, client, supervisor) for controller in CONTROLLERS)
        )
        yield


def definitions() -> Iterator[Tree]:
    """The CRDs of both controllers."""
    for controller in CONTROLLERS:
        for path in sorted((controller.home(assets_folder()) / "config/crd/bases").glob("*.yaml")):
            yield from (tree for tree in yaml_trees.trees(path.read_bytes(), path.name) if tree)


async def _start(name: str, control_plane: ControlPlane, client: Client, supervisor: Supervisor) -> None:
    folder = supervisor.folder / name
    (folder / "data").mkdir(parents=True)
    (folder / "tmp").mkdir()
    account = f"system:serviceaccount:{FLUX_NAMESPACE}:{name}"
    kubeconfig = folder / "kubeconfig"
    write_private(kubeconfig, control_plane.kubeconfig_of(account, SystemClock()).to_bytes())
    # Both have this role where Flux is installed: kustomize-controller applies whatever is in Git.
    group = CLUSTER_ROLE_BINDING.group
    binding: Tree = {
        "metadata": {"name": f"{FLUX_NAMESPACE}-{name}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": account}],
    }
    await client.apply(CLUSTER_ROLE_BINDING, binding)
    health, files = free_ports(2)
    options = {"health-addr": f"{HOST}:{health}", "metrics-addr": "0", "min-retry-delay": "250ms"}
    options |= {"max-retry-delay": "2s", "watch-all-namespaces": "true", "log-level": "debug"}
    if name == SOURCE_CONTROLLER.name:
        options |= {"storage-path": str(folder / "data"), "storage-addr": f"{HOST}:{files}"}
        options |= {"storage-adv-addr": f"{HOST}:{files}"}
    else:
        options |= {"http-retry": "1"}
    program = next(controller.home(assets_folder()) / name for controller in CONTROLLERS if controller.name == name)
    environment = {"KUBECONFIG": str(kubeconfig), "RUNTIME_NAMESPACE": FLUX_NAMESPACE, "TMPDIR": str(folder / "tmp")}
    arguments: list[str | Path] = [program, *(f"--{option}={value}" for option, value in options.items())]

    async def is_ready() -> bool:
        limit = aiohttp.ClientTimeout(total=5)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.get(f"http://{HOST}:{health}/readyz") as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    await supervisor.start(Program(name, arguments, folder, is_ready, environment))
