"""The cloud's service: authenticates, injects faults, executes, and logs requests."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from espalier.api.cloud import AnyCall, AnyItem, CallCloud, CloudError, CloudRequest, Delete, ListItems, Refusal
from espalier.runtime.clock import Clock
from espalier.simulator.cloud.inventory import Inventory
from espalier.simulator.cloud.journal import Journal
from espalier.simulator.cloud.request_log import Entry, RequestLog


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault: the request takes `seconds` longer, is `refused`, or is executed but `unanswered`."""

    seconds: float = 0.0
    refused: CloudError | None = None
    unanswered: bool = False


Faults: TypeAlias = Callable[[CloudRequest], Fault | None]
"""Returns the fault of each request, or None."""

CloudObserver: TypeAlias = Callable[[AnyItem, bool], None]
"""Called with each created or changed item, and, with False, each deleted one."""


class Cloud:
    """The simulated cloud. `accounts` are tokens by account. The requests in the `journal` restore its state.

    The log has every authenticated request, with the time at which it was executed or refused.
    """

    def __init__(
        self,
        clock: Clock,
        accounts: Mapping[str, str],
        *,
        boot_seconds: float = 30.0,
        first_address: str = "10.250.0.0",
        journal: Journal | None = None,
    ) -> None:
        self._clock = clock
        self._accounts = accounts
        self._journal = journal
        self._lock = asyncio.Lock()
        self._observers: list[CloudObserver] = []
        self.inventory = Inventory(boot_seconds, first_address)
        self.log = RequestLog()
        self.faults: Faults = lambda _request: None
        for entry in journal.read() if journal else ():
            self.log.add(entry)
            if entry.refusal is None and not isinstance(entry.call, ListItems):
                self.inventory.apply(entry.account, entry.call, entry.at)

    def observe(self, observer: CloudObserver) -> None:
        """Report the existing virtual machines and records, and each change of any item from now on."""
        self._observers.append(observer)
        for item in (*self.inventory.all("VirtualMachine"), *self.inventory.all("Record")):
            observer(item, True)

    async def call(self, request: CloudRequest) -> list[AnyItem]:
        """Answer a request. Raises `CloudError`."""
        fault = self.faults(request) or Fault()
        if fault.seconds:
            await asyncio.sleep(fault.seconds)
        self._authenticate(request)
        async with self._lock:
            items = await self._execute(request, fault.refused)
        self._notify_observers(request.call, items)
        if fault.unanswered:
            raise CloudError(Refusal.UNAVAILABLE, "the connection was lost before the answer")
        return items

    async def _execute(self, request: CloudRequest, refused: CloudError | None) -> list[AnyItem]:
        try:
            if refused is not None:
                raise refused
            items = self.inventory.apply(request.credentials.account, request.call, self._clock.now())
        except CloudError as error:
            await self._log_request(request, error.refusal)
            raise
        await self._log_request(request, None)
        return items

    def called_by(self, caller: str) -> CallCloud:
        """A function that sends requests on behalf of `caller`: the log has its name before the name in the request."""

        async def call(request: CloudRequest) -> list[AnyItem]:
            name = f"{caller}/{request.caller}" if request.caller else caller
            return await self.call(CloudRequest(request.credentials, request.call, name))

        return call

    def _authenticate(self, request: CloudRequest) -> None:
        credentials = request.credentials
        token = self._accounts.get(credentials.account, "")
        if not token or not hmac.compare_digest(token.encode(), credentials.token.encode()):
            raise CloudError(Refusal.UNAUTHENTICATED, f"account {credentials.account}: unknown account or wrong token")

    async def _log_request(self, request: CloudRequest, refusal: Refusal | None) -> None:
        entry = Entry(self._clock.now(), request.credentials.account, request.caller, request.call, refusal)
        if self._journal is not None:
            await asyncio.to_thread(self._journal.add, entry)
        self.log.add(entry)

    def _notify_observers(self, call: AnyCall, items: list[AnyItem]) -> None:
        if isinstance(call, ListItems):
            return
        for item in items:
            for observer in self._observers:
                observer(item, not isinstance(call, Delete))
