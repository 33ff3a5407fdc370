"""A real garden: gardener-apiserver, aggregated by a real API server, with an etcd of its own.

Found, never fetched: `make real-assets REAL=gardener` builds it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from espalier.api.core import NAMESPACE, SERVICE
from espalier.api.gardener import names
from espalier.api.resource import Resource
from espalier.api.trees import json_trees
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import GARDENER
from espalier.kube.client import Client
from espalier.kube.transports.wire import Request
from espalier.realnodes.management.control_plane import ETCD, HOST, answers, stored_authority, write_pair, write_private
from espalier.realnodes.management.processes import Program
from espalier.runtime.clock import SystemClock
from tests.support.environments.control_plane import PATIENCE, ControlPlane, real_control_plane
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
API_SERVICE = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
GROUPS = (
    ("core.gardener.cloud", "v1"),
    ("core.gardener.cloud", "v1beta1"),
    ("operations.gardener.cloud", "v1alpha1"),
    ("security.gardener.cloud", "v1alpha1"),
    ("seedmanagement.gardener.cloud", "v1alpha1"),
)
AGGREGATION = {
    "requestheader-client-ca-file": "authority.crt",
    "requestheader-allowed-names": "front-proxy",
    "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    "requestheader-group-headers": "X-Remote-Group",
    "requestheader-username-headers": "X-Remote-User",
    "proxy-client-cert-file": "front-proxy.crt",
    "proxy-client-key-file": "front-proxy.key",
}
"""Flags of kube-apiserver: gardener-apiserver believes what it says of users."""
SERVER, CONTROLLERS = GARDENER.contents


def why_no_gardener() -> str:
    """Advice when Gardener's programs are not built; empty when they are."""
    if is_finished(GARDENER.home(assets_folder())):
        return ""
    return f"{GARDENER.label} not built: run make real-assets REAL=gardener"


@dataclass(frozen=True)
class RealGarden:
    """A garden while it runs: its API server has Gardener's kinds beside those of Kubernetes."""

    control_plane: ControlPlane
    client: Client
    """Of an administrator."""


@asynccontextmanager
async def real_garden(folder: Path, binaries: Path) -> AsyncIterator[RealGarden]:
    """A garden without controllers of Gardener, which keeps everything in `folder` (empty, ours alone)."""
    clock = SystemClock()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = stored_authority(folder / "authority", "espalier", clock)
    write_pair(folder / "front-proxy", authority.issue_client("front-proxy", now=clock.now()))
    async with real_control_plane(folder, binaries, AGGREGATION) as control_plane, control_plane.connected() as client:
        await start_api_server(control_plane, client)
        yield RealGarden(control_plane, client)


async def start_api_server(control_plane: ControlPlane, client: Client) -> None:
    """Start gardener-apiserver, and have the API server pass requests of its kinds on."""
    folder = control_plane.folder / "gardener"
    folder.mkdir(mode=0o700)
    addresses = (HOST, "localhost", f"{SERVER}.{names.GARDEN_NAMESPACE}.svc")
    issued = control_plane.authority.issue_server("gardener", names=addresses, now=SystemClock().now())
    write_pair(folder / "server", issued)
    port = free_port()
    access = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    flags = {
        "etcd-servers": "unix://etcd.sock:0",
        "bind-address": HOST,
        "secure-port": str(port),
        "tls-cert-file": "server.crt",
        "tls-private-key-file": "server.key",
        "cluster-identity": "garden",
        **dict.fromkeys(access, str(control_plane.kubeconfig)),
        "log-level": "info",
        "log-format": "text",
    }
    direct = folder / "direct.kubeconfig"
    address = f"https://{HOST}:{port}".encode()
    write_private(direct, control_plane.kubeconfig.read_bytes().replace(control_plane.url.encode(), address))
    for name in (names.GARDEN_NAMESPACE, names.STATE_NAMESPACE):
        await client.apply(NAMESPACE, {"metadata": {"name": name}})
    binaries = control_plane.kubectl.parent
    await control_plane.supervisor.start(
        _program("gardener-etcd", binaries / "etcd", ETCD | {"unsafe-no-fsync": "true"}, folder),
        _program(SERVER, GARDENER.home(assets_folder()) / SERVER, flags, folder, answers(direct, "/readyz")),
    )
    await _aggregate(client, control_plane.ca, port)


async def start_controllers(control_plane: ControlPlane) -> None:
    """Start gardener-controller-manager."""
    folder = control_plane.folder / "gardener"
    health, metrics = free_port(), free_port()
    config = {
        "apiVersion": "controllermanager.config.gardener.cloud/v1alpha1",
        "kind": "ControllerManagerConfiguration",
        "gardenClientConnection": {"kubeconfig": str(control_plane.kubeconfig), "qps": 100, "burst": 130},
        "controllers": {
            "seed": {"syncPeriod": "1s", "monitorPeriod": "6s"},
            "seedExtensionsCheck": {"syncPeriod": "1s"},
        },
        "leaderElection": {"leaderElect": False},
        "server": {
            "healthProbes": {"bindAddress": HOST, "port": health},
            "metrics": {"bindAddress": HOST, "port": metrics},
        },
        "logLevel": "info",
        "logFormat": "text",
    }
    (folder / "controllers.yaml").write_bytes(msgspec.json.encode(config))
    program = GARDENER.home(assets_folder()) / CONTROLLERS
    ready = _answers(f"http://{HOST}:{health}/readyz")
    await control_plane.supervisor.start(_program(CONTROLLERS, program, {"config": "controllers.yaml"}, folder, ready))


def _answers(url: str) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        limit = aiohttp.ClientTimeout(total=5)
        try:
            async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    return ask


async def _aggregate(client: Client, ca: bytes, port: int) -> None:
    """Register Gardener's groups, and wait until the API server serves their kinds."""
    reference = {"name": SERVER, "namespace": names.GARDEN_NAMESPACE}
    await client.apply(SERVICE, {"metadata": reference, "spec": {"type": "ExternalName", "externalName": "localhost"}})
    for group, version in GROUPS:
        spec = {
            "group": group,
            "version": version,
            "service": {**reference, "port": port},
            "caBundle": b64encode(ca).decode(),
            "groupPriorityMinimum": 10000,
            "versionPriority": 20,
        }
        await client.apply(API_SERVICE, {"metadata": {"name": f"{version}.{group}"}, "spec": spec})

    asked = Request("GET", "/apis", headers={"accept": DISCOVERY})

    async def discovered() -> set[tuple[str, str]]:
        groups = json_trees.decode((await client.raw(asked)).body)["items"]
        return {
            (group["metadata"]["name"], version["version"])
            for group in groups
            for version in group["versions"]
            if version.get("resources") and version["freshness"] == "Current"
        }

    await eventually(discovered, lambda value: value >= set(GROUPS), within=PATIENCE, every=0.2)


def _program(
    name: str,
    program: Path,
    flags: Mapping[str, str],
    folder: Path,
    is_ready: Callable[[], Awaitable[bool]] | None = None,
) -> Program:
    return Program(name, [program, *(f"--{flag}={value}" for flag, value in flags.items())], folder, is_ready)
