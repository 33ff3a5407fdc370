"""kube-apiserver and kube-controller-manager as containers that are processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from espalier.api.trees import yaml_text, yaml_trees
from espalier.cli.local.environment.seed_processes.mounts import Mounts
from espalier.cli.local.environment.seed_processes.network import TcpEndpoint, forwarded, status_of
from espalier.cli.local.environment.seed_processes.process import HOST, run_process
from espalier.cli.local.environment.seed_programs.command_line import CommandLine, InvalidCommandLine, with_flags
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.connection.tls import unverified_context
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request, Response, Stream, User
from espalier.realnodes.management.control_plane import held_port
from espalier.runtime.clock import Clock
from espalier.simulator.pods.runtimes.in_process import Container

API_SERVER_PORT, CONTROLLER_MANAGER_PORT = 443, 10257
AUTHORITY = "/srv/kubernetes/ca"
_KUBECONFIGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
_HTTPS = 443


@dataclass(frozen=True)
class KubernetesProcesses:
    """Creates the programs of Kubernetes' own images."""

    home: Path
    programs: Path
    """The folder with them."""
    version: str
    """The version of the programs in it, such as `v1.36.3`."""

    async def run_api_server(self, container: Container) -> int:
        """Run kube-apiserver on the etcd that its command names."""
        self._check(container)
        mounts, command_line = Mounts.of(container, self.home), CommandLine.of(container.arguments)
        etcd = urlsplit(command_line.text("etcd-servers"))
        port = await forwarded(container, etcd.hostname or "", etcd.port or _HTTPS)
        host = "localhost" if etcd.scheme == "https" else HOST  # the name in etcd's certificate
        flags = {"etcd-servers": f"{etcd.scheme}://{host}:{port}"}
        authority = container.volumes[AUTHORITY]
        endpoint = ApiServer(Authority.load(authority["ca.crt"], authority["ca.key"]), container.clock)
        try:
            return await self._serve(container, mounts, endpoint, API_SERVER_PORT, flags | {"advertise-address": HOST})
        finally:
            await endpoint.close()

    async def run_controller_manager(self, container: Container) -> int:
        """Run kube-controller-manager against the API server that its kubeconfig names."""
        self._check(container)
        mounts, command_line = Mounts.of(container, self.home), CommandLine.of(container.arguments)
        flags: dict[str, str] = {}
        for name in _KUBECONFIGS:
            if (path := command_line.flags.get(name)) is not None:
                content = await redirected(container, Path(mounts.here(path)).read_bytes())
                flags[name] = str(mounts.write(f"{name}.yaml", content))
        return await self._serve(container, mounts, TcpEndpoint(0), CONTROLLER_MANAGER_PORT, flags)

    async def _serve(
        self, container: Container, mounts: Mounts, endpoint: TcpEndpoint, port: int, flags: dict[str, str]
    ) -> int:
        """Run it on a free port of this machine."""
        program = self.programs / container.arguments[0].rpartition("/")[2]
        listens = CommandLine.of(container.arguments).port("secure-port", port)
        tls = unverified_context()  # as in kubelets' probes
        with held_port() as held:
            endpoint.port = held
            given = {**flags, "secure-port": str(held), "bind-address": HOST, "permit-port-sharing": "true"}
            container.listen(listens, endpoint, answers=lambda path: status_of(held, path, tls))
            words = with_flags([mounts.here(word) for word in container.arguments[1:]], given)
            return await run_process(container, [program, *words])

    def _check(self, container: Container) -> None:
        tag = container.image.rpartition(":")[2]
        if tag != self.version:
            raise InvalidCommandLine(f"image {container.image}: allowed is {self.version}, which was built here")


class ApiServer(TcpEndpoint):
    """The endpoint of a real kube-apiserver (`Endpoint`): users present certificates of its authority."""

    def __init__(self, authority: Authority, clock: Clock) -> None:
        super().__init__(0)
        self.authority = authority
        self._clock = clock
        self._transports: dict[User, HttpTransport] = {}

    async def serve(self, request: Request, user: User) -> Response:
        """See `Endpoint`."""
        return await self._transport(user).request(request)

    async def watch(self, request: Request, user: User) -> Stream | Response:
        """See `Endpoint`."""
        return await self._transport(user).stream(request)

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.close()

    def _transport(self, user: User) -> HttpTransport:
        transport = self._transports.get(user)
        if transport is None:
            pair = self.authority.issue_client(user.name, groups=user.groups, now=self._clock.now())
            kubeconfig = Kubeconfig.of_cluster(
                "shoot",
                server=f"https://{HOST}:{self.port}",
                certificate_authority=self.authority.certificate,
                user=user.name,
                credentials=pair,
            )
            # Its certificate moves from seed to seed, so it has names and no address.
            access = msgspec.structs.replace(kubeconfig.context(), tls_server_name="localhost")
            transport = self._transports[user] = HttpTransport(access, environment={})
        return transport


async def redirected(container: Container, content: bytes) -> str:
    """A kubeconfig for the same servers, at ports of this machine."""
    [tree] = yaml_trees.trees(content, "the program's kubeconfig")
    for cluster in tree["clusters"]:
        url = urlsplit(cluster["cluster"]["server"])
        port = await forwarded(container, url.hostname or "", url.port or _HTTPS)
        cluster["cluster"] |= {"server": f"https://{HOST}:{port}", "tls-server-name": url.hostname}
    return yaml_text.dump(tree)
