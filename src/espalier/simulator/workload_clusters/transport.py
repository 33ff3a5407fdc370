"""The transport to the workload cluster of a kubeconfig: in-process when the cluster runs in this process."""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Unreachable
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Stream, Transport, User
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster

Find = Callable[[str], WorkloadCluster | None]
"""The running workload cluster at an address (`https://host:port`), None if this process runs none there."""


def user_of(certificate: bytes, authority: x509.Certificate) -> User | None:
    """The user of a client certificate, None when the CA did not issue it."""
    client = x509.load_pem_x509_certificate(certificate)
    try:
        client.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return None
    names = client.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = client.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return User(str(names[0].value), (*(str(group.value) for group in groups), "system:authenticated"))


class WorkloadTransport:
    """Chooses between in-process and HTTP for each request: a cluster may stop and start again during a client's life.

    Without `network`, a cluster of another process is `Unreachable`. Raises `KubeconfigError` for an invalid
    kubeconfig.
    """

    def __init__(self, find: Find, kubeconfig: bytes, *, network: bool) -> None:
        self._find = find
        self._access = Kubeconfig.parse(kubeconfig).context()
        self._network = network
        self._in_process: tuple[WorkloadCluster, Transport] | None = None
        self._over_network: Transport | None = None

    async def request(self, request: Request) -> Response:
        """Send one request."""
        return await self._transport().request(request)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        return await self._transport().stream(request)

    async def close(self) -> None:
        """Close both transports; idempotent."""
        if self._in_process is not None:
            await self._in_process[1].close()
        if self._over_network is not None:
            await self._over_network.close()

    def _transport(self) -> Transport:
        workload = self._find(self._access.server)
        if workload is not None:
            if self._in_process is not None and self._in_process[0] is workload:
                return self._in_process[1]
            certificate = self._access.client_certificate
            user = user_of(certificate, workload.authority.x509) if certificate else None
            if user is not None:
                self._in_process = (workload, InProcessTransport(workload.server, user))
                return self._in_process[1]
        if not self._network:
            raise Unreachable(f"no API server of this process listens at {self._access.server}", sent=False)
        if self._over_network is None:
            self._over_network = HttpTransport(self._access)
        return self._over_network
