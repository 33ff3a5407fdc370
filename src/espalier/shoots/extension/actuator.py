"""What the author of an extension writes, and what he is given for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from espalier.api.gardener.operations import OperationType
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object
from espalier.runtime.outcome import Wait
from espalier.runtime.writer import Writer
from espalier.shoots.extension.guard import Guard

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class Progress(Protocol):
    """Writes how far an operation is, into its object."""

    async def save(self, state: Any) -> None:
        """Save a state at once."""

    async def tell(self, progress: int, description: str) -> None:
        """Tell how far it is."""


@dataclass(frozen=True)
class Request(Generic[S]):
    """One attempt at an operation on one extension resource. It ends, and is made again, at any time."""

    object: Object
    """The resource, as it was when the operation began."""
    operation: OperationType
    state: S | None
    """The saved state; never None in `restore` of an extension that declares one."""
    cluster: Object | None
    """The Cluster of the shoot; None for what belongs to no shoot."""
    writer: Writer
    """Writes to the seed, as long as the operation may go on."""
    guard: Guard
    progress: Progress

    async def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the provider: the only way to it. Raises `Stopped` if the seed may have lost the shoot meanwhile."""
        return await self.guard.call(function, *args, **kwargs)

    async def save(self, state: S) -> None:
        """Save the state now: what was made at the provider is not lost with this process."""
        await self.progress.save(state)

    async def tell(self, progress: int, description: str) -> None:
        """Tell how far the operation is, in percent and in words."""
        await self.progress.tell(progress, description)

    async def read(self, resource: Resource, key: Key) -> Object | None:
        """An object of the seed, such as the Secret with credentials; None when it is not there."""
        return await self.writer.read(resource, key)


@dataclass(frozen=True)
class Result(Generic[S]):
    """The end of an operation that succeeded."""

    state: S | None = None
    """The state to save; None leaves what was saved as it is."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the status, as on the wire: `providerStatus`, `nodesCIDR`, `resources`."""


class Actuator(Protocol[S]):
    """What an extension does. Every method may be called again after it failed, was cancelled, or was done.

    A method raises `OperationFailed` for what its users should read and act on. It returns a `Wait` while something is
    still to come: it is called again after so many seconds, or when something that the extension watches changes.
    """

    async def reconcile(self, request: Request[S]) -> Result[S] | Wait:
        """Make at the provider what the spec asks for, or bring it there. What a lost attempt made is found again."""

    async def restore(self, request: Request[S]) -> Result[S] | Wait:
        """Take over what the state names, and reconcile it; nothing is made in place of what is missing.

        An extension without state reconciles.
        """

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """Clear up in the seed what would act on the shoot, and leave everything at the provider as it is.

        There is no way to the provider here. The seed may have lost the shoot already.
        """

    async def delete(self, request: Request[S]) -> Wait | None:
        """Delete everything at the provider. What is not there is deleted already."""


class StatelessActuator(Generic[S]):
    """Base of actuators that have nothing to migrate: restoring is reconciling, and migrating does nothing."""

    async def reconcile(self, request: Request[S]) -> Result[S] | Wait:
        """To be written."""
        raise NotImplementedError

    async def restore(self, request: Request[S]) -> Result[S] | Wait:
        """Reconcile."""
        return await self.reconcile(request)

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """Nothing to do."""

    async def delete(self, request: Request[S]) -> Wait | None:
        """To be written."""
        raise NotImplementedError
