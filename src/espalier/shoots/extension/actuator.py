"""The interface that the author of an extension implements, and the arguments of its methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.extension.guard import Guard
from espalier.shoots.extension.views import ClusterObject

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class Progress(Protocol):
    """Writes the progress of an operation into its object."""

    async def save(self, state: Any) -> None:
        """Save a state at once."""

    async def report(self, progress: int, description: str) -> None:
        """Report the progress."""


@dataclass(frozen=True)
class Request(Generic[S]):
    """One attempt at an operation on one extension resource. It may end and be repeated at any time."""

    object: Object
    """The resource, as it was when the operation began."""
    operation: OperationType
    state: S | None
    """The saved state; never None in `restore` of an extension that declares one."""
    cluster: Object | None
    """The Cluster of the shoot; None for a resource that belongs to no shoot."""
    writer: Writer
    """A client of the seed, whose writes pass as long as the operation may continue."""
    guard: Guard
    progress: Progress

    @property
    def is_of_deleted_shoot(self) -> bool:
        """True if the shoot is being deleted. A seed that was lost may have deleted a part of it before: `restore` then
        goes on with what is left."""
        return self.cluster is not None and self.cluster.decode(ClusterObject).is_deleted

    async def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the provider. All calls must go through here. Raises `Stopped` if the seed may have lost the shoot
        meanwhile."""
        return await self.guard.call(function, *args, **kwargs)

    async def save(self, state: S) -> None:
        """Save the state now, so that what was created at the provider is not lost with this process."""
        await self.progress.save(state)

    async def report(self, progress: int, description: str) -> None:
        """Report the progress of the operation, in percent and in words."""
        await self.progress.report(progress, description)

    async def read(self, resource: Resource, key: Key) -> Object | None:
        """An object of the seed, such as the Secret with credentials; None if it does not exist."""
        return await self.writer.read(resource, key)


@dataclass(frozen=True)
class Result(Generic[S]):
    """The result of an operation that succeeded."""

    state: S | None = None
    """The state to save; None keeps the saved one."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the status, as in JSON: `providerStatus`, `nodesCIDR`, `resources`."""


class Actuator(Protocol[S]):
    """The work of an extension. Every method may be called again after it failed, was cancelled, or was done.

    A method raises `OperationFailed` for errors on which users should act. It returns a `Wait` if something is not
    ready yet: it is called again after so many seconds, or when an object that the extension watches changes.
    """

    async def reconcile(self, request: Request[S]) -> Result[S] | Wait:
        """Create at the provider what the spec asks for, or update it. Finds again what a lost attempt created."""

    async def restore(self, request: Request[S]) -> Result[S] | Wait:
        """Adopt what the state names, and reconcile it; nothing is created in place of what is missing, which is an
        error unless the shoot is being deleted.

        An extension without state reconciles.
        """

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """Remove from the seed what would act on the shoot, and leave everything at the provider as it is.

        The provider can't be called here: the seed may have lost the shoot already.
        """

    async def delete(self, request: Request[S]) -> Wait | None:
        """Delete everything at the provider. What does not exist counts as deleted."""


class StatelessActuator(Generic[S]):
    """Base of actuators that have nothing to migrate: restoring is reconciling, and migrating does nothing."""

    async def reconcile(self, request: Request[S]) -> Result[S] | Wait:
        """To be implemented."""
        raise NotImplementedError

    async def restore(self, request: Request[S]) -> Result[S] | Wait:
        """Reconcile."""
        return await self.reconcile(request)

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """Nothing to do."""

    async def delete(self, request: Request[S]) -> Wait | None:
        """To be implemented."""
        raise NotImplementedError
