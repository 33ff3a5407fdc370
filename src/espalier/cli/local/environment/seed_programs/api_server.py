"""kube-apiserver as a container in this process: the embedded API server with its shoot's etcd."""

from __future__ import annotations

from urllib.parse import urlsplit

from espalier.apiserver.builtin import builtin
from espalier.apiserver.server import Server
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore, StoreLost
from espalier.cli.local.environment.seed_programs.client_tls import Files
from espalier.cli.local.environment.seed_programs.command_line import CommandLine
from espalier.etcd.client import Client
from espalier.simulator.etcd.guarded import MemoryGuard
from espalier.simulator.etcd.reaching import ContainerTransport, EtcdEndpoint
from espalier.simulator.pods.runtimes.in_process import Container
from espalier.simulator.pods.runtimes.life import Life
from espalier.simulator.pods.runtimes.pod_network import ConnectionRefused

LOST = 3
"""Exit code when its etcd is gone, as in `apiserver/__main__.py`."""
UNSTARTED = 1


async def kube_apiserver(container: Container) -> int:
    """Serve until etcd has been gone for 10 seconds (decision 0005)."""
    command_line = CommandLine.of(container.arguments)
    url = urlsplit(command_line.text("etcd-servers"))
    host, port = url.hostname or "", url.port or 0
    files = _files(container, command_line) if url.scheme == "https" else None

    def find() -> tuple[EtcdEndpoint, Life]:
        listener = container.find(host, port)
        endpoint = listener.endpoint
        if not isinstance(endpoint, MemoryGuard):
            raise ConnectionRefused(f"no etcd listens on {host}:{port}")
        if refusal := endpoint.refusal(files):
            raise ConnectionRefused(f"{host}:{port}: {refusal}")
        return endpoint, listener.life

    client = Client(ContainerTransport(find, container.life), rng=container.random)
    version = container.image.rpartition(":")[2]
    store = EtcdStore(client, Keys(builtin.KINDS))
    server = Server(store, now=container.clock.now, random=container.random, version=version)
    ready = False

    async def answers(path: str) -> int:
        return 200 if ready or path.partition("?")[0] == "/livez" else 503

    try:
        await server.start()
        container.listen(command_line.port("secure-port", 443), server, answers=answers)
        ready = True
        container.message = f"the API server stops, because it lost its etcd: {await server.lost()}"
        return LOST
    except StoreLost as lost:
        container.message = str(lost)
        return UNSTARTED
    finally:
        ready = False
        await server.close()


def _files(container: Container, command_line: CommandLine) -> Files:
    """The files with which it reaches etcd."""

    def content(flag: str) -> bytes:
        folder, _, name = command_line.text(flag).rpartition("/")
        return bytes(container.volumes[folder][name])

    content("etcd-keyfile")
    return Files(content("etcd-certfile"), content("etcd-cafile"))
