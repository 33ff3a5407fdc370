"""The manager's own account in workload clusters: a user with declared rights, in place of Cluster API's administrator.

Cluster API gives the manager an administrator's kubeconfig. It is used to write a ClusterRole and its binding and to
obtain a certificate for the account (`kube/client_certificates.py`); everything else is asked for as that user, so that
audit logs of workload clusters tell the manager from people, and mistakes of the manager have an end. The certificate
is held in memory alone. Where none is issued (kube-controller-manager is down, or has no signing key), the manager goes
on as administrator, since what it has to do may be the repair, and tries again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import structlog

from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import KubeError, NotFound, NotIssued, Unreachable
from espalier.kube.rbac import Right
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.runtime.clock import Clock
from espalier.runtime.leadership.fencing import Fenced

NAME = "espalier:manager"
"""The user, its ClusterRole and the binding."""
VALID_SECONDS = 86400.0
RENEWED_AFTER = 2 / 3
"""The part of the validity after which another certificate is obtained."""
RETRY_SECONDS = 300.0
"""Seconds for which the administrator's rights are used after no certificate was issued, and between comparisons
of the role when something was forbidden."""
PATIENCE = 10.0
"""Seconds within which a certificate must be issued."""
FIELD_MANAGER = "espalier-account"

_log = structlog.get_logger("espalier.workload-account")


@dataclass(frozen=True)
class WorkloadAccount:
    """The account, with the rights that the components of a manager declare."""

    clock: Clock
    rights: list[Right] = field(default_factory=list)

    def objects(self) -> Sequence[tuple[Resource, Tree]]:
        """The ClusterRole and its binding."""
        group = CLUSTER_ROLE.group
        role = {"apiGroup": group, "kind": CLUSTER_ROLE.kind, "name": NAME}
        user = {"apiGroup": group, "kind": "User", "name": NAME}
        rules = [right.tree for right in dict.fromkeys(self.rights)]
        return (
            (CLUSTER_ROLE, {"metadata": {"name": NAME}, "rules": rules}),
            (CLUSTER_ROLE_BINDING, {"metadata": {"name": NAME}, "roleRef": role, "subjects": [user]}),
        )


@dataclass
class AccountState:
    """The account in one cluster, for as long as its kubeconfig stays: times are those of the monotonic clock."""

    kubeconfig: bytes | None = field(default=None, repr=False)
    """The account's; None before the first certificate."""
    expires: float = -math.inf
    renew: float = -math.inf
    retry: float = -math.inf
    """No other certificate is requested before."""
    checked: float = -math.inf
    """When the role was compared because something was forbidden."""


class AccountTransport:
    """Sends requests as the manager's account, which is prepared with the first one and renewed in time.

    `administrator` sends as the user of `kubeconfig`, and `connect` makes a transport of a kubeconfig. `state` outlives
    this transport, so that another one to the same cluster needs no other certificate. A request that is forbidden has
    the rights written again, if that was not done in the last minutes, and is repeated once: somebody may have removed
    them. So is one that is not authenticated, with another certificate or as administrator.
    """

    def __init__(
        self,
        account: WorkloadAccount,
        kubeconfig: bytes,
        administrator: Transport,
        connect: Callable[[bytes], Transport],
        state: AccountState | None = None,
    ) -> None:
        self._account = account
        self._kubeconfig = kubeconfig
        self._administrator = administrator
        self._connect = connect
        self._lock = asyncio.Lock()
        self._own: Transport | None = None
        self._replaced: Transport | None = None
        """The transport before `_own`, which watches may still use until the next renewal."""
        self._used: bytes | None = None
        """The kubeconfig of `_own`."""
        self._state = state or AccountState()

    async def request(self, request: Request) -> Response:
        """Send one request."""
        transport = await self._transport()
        response = await transport.request(request)
        if not await self._is_mended(transport, response.status):
            return response
        return await (await self._transport()).request(request)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        transport = await self._transport()
        stream = await transport.stream(request)
        if not isinstance(stream, Response) or not await self._is_mended(transport, stream.status):
            return stream
        return await (await self._transport()).stream(request)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        for transport in (self._administrator, self._replaced, self._own):
            if transport is not None:
                await transport.close()

    async def _transport(self) -> Transport:
        state = self._state
        if self._now >= state.renew or self._used is not state.kubeconfig:
            async with self._lock:
                if self._now >= state.renew and self._now >= state.retry:
                    await self._prepare()
                await self._connect_own()
        return self._own if self._own is not None and self._now < state.expires else self._administrator

    async def _connect_own(self) -> None:
        """Use the account's present certificate, which another transport to the cluster may have obtained."""
        if self._used is self._state.kubeconfig or self._state.kubeconfig is None:
            return
        if self._replaced is not None:
            await self._replaced.close()
        self._replaced, self._used = self._own, self._state.kubeconfig
        self._own = self._connect(self._used)

    async def _prepare(self) -> None:
        """Write the rights, and obtain a certificate. Raises `Unreachable`."""
        from espalier.kube import client_certificates  # noqa: PLC0415  commands that never connect here start faster

        client, state = Client(self._administrator, field_manager=FIELD_MANAGER), self._state
        try:
            await self._write_rights(client)
            pair = await client_certificates.issue(client, NAME, seconds=VALID_SECONDS, patience=PATIENCE)
        except Fenced:
            return  # whoever leads now does this
        except Unreachable:
            if self._now >= state.expires:
                raise
            state.retry = self._now + RETRY_SECONDS
            return
        except (NotIssued, KubeError) as error:
            state.retry = self._now + RETRY_SECONDS
            _log.warning("the manager's own account can't be used in a workload cluster", error=str(error))
            return
        state.kubeconfig = Kubeconfig.parse(self._kubeconfig).as_user(NAME, pair).to_bytes()
        seconds = pair.not_after.timestamp() - self._account.clock.now().timestamp()
        state.expires = self._now + seconds
        state.renew = self._now + seconds * RENEWED_AFTER
        state.retry = self._now + RETRY_SECONDS  # clocks may differ so much that it has expired already

    async def _is_mended(self, transport: Transport, status: int) -> bool:
        """True if a request of the account that was answered with this status is worth another one."""
        if transport is self._administrator:
            return False
        if status == HTTPStatus.UNAUTHORIZED:  # the authority was replaced, or clocks differ
            self._state.expires = self._state.renew = -math.inf
            return True
        return status == HTTPStatus.FORBIDDEN and await self._restored()

    async def _restored(self) -> bool:
        """Write the rights again where they differ; False if they do not, or were compared in the last minutes."""
        async with self._lock:
            if self._now < self._state.checked + RETRY_SECONDS:
                return False
            self._state.checked = self._now
            return await self._write_rights(Client(self._administrator, field_manager=FIELD_MANAGER))

    async def _write_rights(self, client: Client) -> bool:
        """Write the role and its binding, where they differ. Returns whether anything was written."""
        written = False
        for resource, wanted in self._account.objects():
            try:
                present = (await client.get(resource, NAME)).tree
            except NotFound:
                present = {}
            if any(present.get(name) != part for name, part in wanted.items() if name != "metadata"):
                await client.apply(resource, wanted)
                written = True
        return written

    @property
    def _now(self) -> float:
        return self._account.clock.monotonic()
