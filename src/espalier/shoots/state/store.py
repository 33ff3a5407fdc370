"""ShootStates in the garden: created, filled and claimed by the gardenlet that has the shoot, and deleted with it.

Every write names the version that was read, so it can't overwrite another gardenlet's write: it gets a `Conflict`. A
gardenlet whose epoch is over gets `EpochOver`: the shoot has moved on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from espalier.api.core import ROLE, SECRET
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import FINALIZER, PersistedSecret, ShootState
from espalier.api.gardener.numbers import LARGEST
from espalier.api.gardener.responsibility import is_deletion_confirmed
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.concurrency import together
from espalier.runtime.controllers.writer import Writer, found_by_owner
from espalier.shoots.state import pieces
from espalier.shoots.state.document import Document, epoch_of, revision_of
from espalier.shoots.state.rbac import ROLE_OF_GARDENLET, named_secrets
from espalier.shoots.state.stored import StaleState, StoredState

_ATTEMPTS = 5


class EpochOver(Exception):
    """A newer epoch has the ShootState: this seed no longer writes to it."""


def later_epoch_problem(state: Object, epoch: int) -> str:
    """The reason why a seed in this epoch may not write a ShootState, and no seed can restore it before a later one;
    empty if it may."""
    if epoch_of(state) <= epoch:
        return ""
    return (
        f"ShootState {state.key} belongs to epoch {epoch_of(state)}; this is epoch {epoch}. If nobody has moved the "
        f"shoot on, metadata.annotations[{metadata_keys.OWNERSHIP}] of the Shoot, or "
        f"metadata.annotations[{metadata_keys.EPOCH}] of the ShootState, was changed: restore it from a backup of the "
        "garden"
    )


def _next_revision(present: int, least: int = 0) -> str:
    """The revision of a write. The largest one stays: a larger one could not be read, and would count as none."""
    return str(min(max(present + 1, least), LARGEST))


class ShootStates:
    """ShootStates of a garden, for the gardenlet of one seed. `cache` receives what was written, `saw` what was
    read."""

    def __init__(
        self,
        client: Client,
        seed: str,
        cache: Cache | None = None,
        saw: Callable[[Key, Object | None], None] = lambda _key, _object: None,
    ) -> None:
        self._client = client
        self._seed = seed
        self._saw = saw
        self._writer = Writer(client, {ShootState.resource: cache} if cache is not None else {})

    async def read(self, shoot: Object) -> Object | None:
        """The ShootState of a Shoot, from the API server. Raises `StaleState` for one of another Shoot of the name."""
        try:
            state = await self._client.get(ShootState.resource, shoot.name, shoot.namespace)
        except NotFound:
            self._saw(shoot.key, None)
            return None
        self._saw(shoot.key, state)
        owners = [owner.uid for owner in state.metadata.owner_references if owner.kind == Shoot.resource.kind]
        if owners and shoot.metadata.uid not in owners:
            raise StaleState(
                f"ShootState {state.key} belongs to an earlier Shoot of this name; wait until it is deleted"
            )
        return state

    async def ensure(self, shoot: Object, epoch: int = 0) -> Object:
        """The ShootState of a Shoot, created if missing: before the first secret appears in the seed."""
        state = await self.read(shoot)
        if state is None:
            annotations, labels = self._annotations_and_labels(epoch)
            annotations[metadata_keys.STATE_REVISION] = _next_revision(revision_of(shoot))
            created = await self._writer.create(ShootState.resource, _new(shoot, (annotations, labels)))
            state = created if created is not None else await self.read(shoot)
        if state is None:
            raise Conflict.of(f"ShootState {shoot.key} was deleted while it was being created")
        return state

    async def persist(
        self, shoot: Object, secrets: Sequence[PersistedSecret], epoch: int = 0, replaced: Collection[str] = ()
    ) -> Object:
        """Store generated secrets, and return the ShootState with all that are stored: existing ones are kept, except
        those that are `replaced`.

        Deploy those, not the generated secrets: a gardenlet that crashed may have stored others before.
        """
        return await self.change(shoot, epoch, lambda document: document.add_secrets(secrets, replaced))

    async def claim(self, shoot: Object, epoch: int, read: Object | None = None) -> StoredState:
        """The stored state, claimed for the gardenlet of a new epoch: from now on, earlier epochs can't write.

        `read` is the ShootState as the caller has just read it, because it may be large. Raises `EpochOver`, and
        `StaleState` if there is no ShootState.
        """
        read = read or await self.read(shoot)
        if read is None:
            raise StaleState(
                f"there is no ShootState {shoot.key}, so the state of the shoot's control plane is unknown"
            )
        state = await self.change(shoot, epoch, lambda _document: None, read=read)
        return await StoredState.read(self._client, state)

    async def stored(self, state: Object) -> StoredState:
        """The state in a ShootState as it was read. Raises `UnreadableShootState`."""
        return await StoredState.read(self._client, state)

    async def release(self, shoot: Object) -> None:
        """Delete the ShootState, and all Secrets that it references: the control plane of the Shoot is gone."""
        state = await self.read(shoot)
        pieces_left: Collection[str] = ()
        if state is not None:
            pieces_left = Document(state.raw).references
            if state.metadata.deletion_timestamp is None and not is_deletion_confirmed(state.metadata):
                confirmed = {"metadata": {"annotations": {metadata_keys.CONFIRM_DELETION: "true"}}}  # Gardener asks
                state = await self._writer.merge(ShootState.resource, state, confirmed)
            await self._writer.delete(ShootState.resource, state, found_by_owner)
            live = await self.read(shoot)
            if live is not None:
                await self._writer.remove_finalizer(ShootState.resource, live, FINALIZER)
        await self.sweep(shoot, (), sys.maxsize, pieces_left)

    async def change(
        self,
        shoot: Object,
        epoch: int,
        edit: Callable[[Document], None],
        secrets: Callable[[], Iterable[Tree]] = tuple,
        read: Object | None = None,
        revision: int = 0,
    ) -> Object:
        """Change a ShootState; retried up to four times after conflicts. `secrets` are created before it.

        `read` is the ShootState as the caller has just read it; without it, it is read. Its revision grows with each
        write, to at least `revision`.
        """
        for attempt in range(_ATTEMPTS):
            state, read = read or await self.ensure(shoot, epoch), None
            if problem := later_epoch_problem(state, epoch):
                raise EpochOver(problem)
            document = Document(state.raw)
            before = document.body
            edit(document)
            for secret in secrets():
                await self._create_piece(secret)
            document.annotate(*self._annotations_and_labels(epoch))
            present = revision_of(state)
            if document.body == before and present >= revision:
                return state
            document.annotate({metadata_keys.STATE_REVISION: _next_revision(present, revision)}, {})
            try:
                return await self._writer.replace(ShootState.resource, document.body)
            except Conflict:
                if attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _annotations_and_labels(self, epoch: int) -> tuple[dict[str, str], dict[str, str]]:
        annotations = {metadata_keys.EPOCH: str(epoch)} if epoch else {}
        return annotations, {metadata_keys.SEED: self._seed}

    async def _create_piece(self, secret: Tree) -> None:
        try:
            await self._client.create(SECRET, secret)
        except AlreadyExists:
            return  # its name follows from its content, which is verified when it is read

    async def sweep(self, shoot: Object, used: Collection[str], epoch: int, unused: Iterable[str] = ()) -> None:
        """Delete Secrets with state of a shoot that no reference names: `unused`, and those that a crash left.

        Secrets of newer epochs stay. Call it only for the seed that writes references: another one may have created
        Secrets for its next write.
        """
        origins = {name: pieces.origin_of(name) for name in (*unused, *await self._granted())}
        orphans = [
            name
            for name, origin in origins.items()
            if name not in used
            and origin is not None
            and origin.shoot_uid == shoot.metadata.uid
            and origin.epoch <= epoch
        ]
        await together(map(self._delete_piece, orphans))

    async def _granted(self) -> list[str]:
        """The Secrets with state of this seed's shoots, by the Role that grants them: the seed may not list Secrets."""
        role = ROLE_OF_GARDENLET.format(seed=self._seed)
        try:
            return named_secrets(await self._client.get(ROLE, role, names.STATE_NAMESPACE))
        except NotFound:
            return []

    async def _delete_piece(self, name: str) -> None:
        with suppress(NotFound, Forbidden):  # it is gone, or will be found by a later sweep
            await self._client.delete(SECRET, name, names.STATE_NAMESPACE)


def _new(shoot: Object, annotations_and_labels: tuple[Mapping[str, str], Mapping[str, str]]) -> Tree:
    annotations, labels = annotations_and_labels
    owner = {
        "apiVersion": Shoot.resource.api_version,
        "kind": Shoot.resource.kind,
        "name": shoot.name,
        "uid": shoot.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": shoot.name,
        "namespace": shoot.namespace,
        "annotations": dict(annotations),
        "labels": dict(labels),
        "finalizers": [FINALIZER],
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": ShootState.resource.api_version,
        "kind": ShootState.resource.kind,
        "metadata": metadata,
        "gardenlet": {"secrets": []},
        "extensions": [],
    }
