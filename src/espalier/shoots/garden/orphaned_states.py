"""Secrets with state of Shoots that are gone: a gardenlet that crashed after their deletion has left some.

Its right to delete them is by name, and ends with the Shoot.
"""

from __future__ import annotations

from datetime import datetime

from espalier.api import core
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.reasons import StateReason
from espalier.api.resource import Key
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Caches
from espalier.runtime.caches.transforms import metadata_only
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import Precondition, Writer, found_by_owner
from espalier.shoots.state import pieces

GRACE = 3600.0
"""Seconds after which a Secret without a Shoot is deleted: a restore of the garden may restore Secrets first."""


class OrphanedStates:
    """Deletes these Secrets after `GRACE`."""

    def __init__(self, caches: Caches, writer: Writer, clock: Clock) -> None:
        self._shoots = caches.of(Shoot.resource, indexes={pieces.BY_SHOOT_UID: pieces.shoot_uids})
        self._pieces = caches.of(core.SECRET, names.STATE_NAMESPACE, transform=metadata_only)
        self._writer, self._clock = writer, clock

    def controller(self) -> Controller:
        """The controller, by Secret."""
        orphans = Controller("left-states", self._reconcile, workers=1)
        orphans.watch(self._pieces)
        orphans.watch(self._shoots, self._pieces_of, predicate=lambda _old, new: new is None)
        return orphans

    def _pieces_of(self, shoot: Object) -> list[Key]:
        return [piece.key for piece in self._pieces.list() if _shoot_of(piece) == shoot.metadata.uid]

    async def _reconcile(self, key: Key) -> Outcome:
        known = self._pieces.get(key)
        uid = _shoot_of(known) if known is not None else ""
        if known is None or not uid or self._shoots.by_index(pieces.BY_SHOOT_UID, uid):
            return Done()
        created = datetime.fromisoformat(known.metadata.creation_timestamp or "")
        if (remaining := GRACE - (self._clock.now() - created).total_seconds()) > 0:
            return Wait(
                StateReason.SHOOT_MISSING,
                f"no Shoot has the UID {uid}: it will be deleted unless one appears",
                after=remaining,
            )
        client = self._writer.client
        if any(shoot.metadata.uid == uid for shoot in (await client.list(Shoot.resource)).items):
            return Wait(StateReason.SHOOT_NOT_OBSERVED, "its Shoot exists but is not in the cache yet", after=60)
        try:
            live = await client.get(core.SECRET, key.name, key.namespace)
        except NotFound:
            return Done()
        if _shoot_of(live) == uid and live.tree.get("type") == pieces.STATE_TYPE:
            await self._writer.delete(core.SECRET, live, found_by_owner, Precondition.VERSION)
        return Done()


def _shoot_of(secret: Object) -> str:
    """The UID of the Shoot to which a Secret with state belongs, by its name and its label; empty if they differ."""
    origin = pieces.origin_of(secret.name)
    labelled = secret.metadata.labels.get(metadata_keys.SHOOT_UID)
    return origin.shoot_uid if origin is not None and origin.shoot_uid == labelled else ""
