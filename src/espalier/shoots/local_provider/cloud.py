"""The cloud as an operation may use it: with its shoot's account and tags, and while the operation may continue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from espalier.api.cloud import (
    AnyCall,
    AnyItem,
    CallCloud,
    CloudError,
    CloudRequest,
    Create,
    Credentials,
    Delete,
    ItemKind,
    ListItems,
    Network,
    Record,
    Refusal,
    SetRecord,
    VirtualMachine,
)
from espalier.api.core import SECRET, Secret
from espalier.api.gardener.vocabulary.operations import ErrorCode, SecretReference
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first
from espalier.api.text.printable import quoted
from espalier.kube.objects import Object
from espalier.shoots.extension import OperationFailed, Request

Created = TypeVar("Created", Network, VirtualMachine)
I = TypeVar("I", Network, VirtualMachine)  # noqa: E741

TYPE = "local"

SHOOT_TAG = "espalier.gardener.cloud/shoot"
"""The tag with a shoot's technical ID. Resources without it are never adopted nor deleted."""

_CODES: Mapping[Refusal, ErrorCode] = {
    Refusal.UNAUTHENTICATED: ErrorCode.UNAUTHENTICATED,
    Refusal.IN_USE: ErrorCode.DEPENDENCIES,
    Refusal.INVALID: ErrorCode.CONFIGURATION,
    Refusal.NAME_TAKEN: ErrorCode.CONFIGURATION,
    Refusal.NOT_FOUND: ErrorCode.DEPENDENCIES,
    Refusal.QUOTA_EXCEEDED: ErrorCode.QUOTA_EXCEEDED,
    Refusal.RATE_LIMITED: ErrorCode.RATE_LIMITS_EXCEEDED,
    Refusal.UNAVAILABLE: ErrorCode.RETRYABLE_DEPENDENCIES,
}


class Guarded(Protocol):
    """Passes calls or stops them: a `Request`, or a `Guard`."""

    async def call(
        self, function: Callable[[CloudRequest], Awaitable[list[AnyItem]]], request: CloudRequest, /
    ) -> list[AnyItem]:
        """Call the provider."""


class Cloud:
    """The cloud as one shoot's operation may use it. All methods raise `OperationFailed` if the cloud refuses."""

    def __init__(
        self, guarded: Guarded, call: CallCloud, credentials: Credentials, technical_id: str, caller: str
    ) -> None:
        self._guarded = guarded
        self._call = call
        self._credentials = credentials
        self._caller = caller
        self.tags = {SHOOT_TAG: technical_id}

    async def networks(self) -> list[Network]:
        """The shoot's networks."""
        return await self._list(Network)

    async def machines(self) -> list[VirtualMachine]:
        """The shoot's virtual machines."""
        return await self._list(VirtualMachine)

    async def create(self, item: Created) -> Created:
        """Create a resource, which must have the shoot's tags."""
        return next(created for created in await self._request(Create(item)) if isinstance(created, type(item)))

    async def delete(self, item: Network | VirtualMachine) -> None:
        """Delete a resource of the shoot. A missing one is no error."""
        kinds: dict[type, ItemKind] = {Network: "Network", VirtualMachine: "VirtualMachine"}
        await self._delete(Delete(kinds[type(item)], item.id))

    async def records(self) -> list[Record]:
        """The DNS records of the account: others may have taken a name."""
        items = await self._request(ListItems("Record"))
        return [item for item in items if isinstance(item, Record)]

    async def set_record(self, record: Record) -> None:
        """Create or replace the record of its name."""
        await self._request(SetRecord(record))

    async def delete_record(self, record: Record) -> None:
        """Delete a record. A missing one is no error."""
        await self._delete(Delete("Record", record.id))

    async def _list(self, kind: type[I]) -> list[I]:
        name = kind.__name__
        items = await self._request(ListItems(name, self.tags))  # type: ignore[arg-type]
        return [item for item in items if isinstance(item, kind)]

    async def _delete(self, call: Delete) -> None:
        try:
            await self._request(call, expected=(Refusal.NOT_FOUND,))
        except CloudError:
            return

    async def _request(self, call: AnyCall, expected: Sequence[Refusal] = ()) -> list[AnyItem]:
        try:
            return await self._guarded.call(self._call, CloudRequest(self._credentials, call, self._caller))
        except CloudError as error:
            if error.refusal in expected:
                raise
            message = f"the cloud refused: {quoted(str(error), 500)}"
            raise OperationFailed(message, _CODES[error.refusal], reason=str(error.refusal)) from error


def credentials_of(secret: Object | None, name: str) -> Credentials:
    """The credentials in a Secret. Raises `OperationFailed`; no message has any part of them."""
    data = secret.decode(Secret).data if secret is not None else {}
    account, token = (data.get(field, b"").decode(errors="replace") for field in ("account", "token"))
    if not account or not token:
        problem = "found no such Secret" if secret is None else f"found {first(sorted(data), 10) or 'nothing'}"
        message = f"Secret {name}: {problem}; allowed: data with account and token of the cloud; correct it"
        raise OperationFailed(message, ErrorCode.UNAUTHENTICATED, reason=ExtensionReason.CREDENTIALS_MISSING)
    return Credentials(account, token)


async def cloud_of(
    request: Request[Any], call: CallCloud, reference: SecretReference | None, resource: Resource
) -> Cloud:
    """The cloud for an operation, with the Secret that its resource names in its own namespace."""
    namespace = request.object.namespace
    if reference is None or not reference.name or (reference.namespace or namespace) != namespace:
        message = "spec.secretRef: found none, or one of another namespace; allowed: a Secret of the shoot's namespace"
        raise OperationFailed(message, ErrorCode.CONFIGURATION, reason=ExtensionReason.CREDENTIALS_MISSING)
    secret = await request.read(SECRET, Key(namespace, reference.name))
    credentials = credentials_of(secret, f"{namespace}/{reference.name}")
    return Cloud(request, call, credentials, namespace, resource.kind)
