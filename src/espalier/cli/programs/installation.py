"""Installation of releases when a manager starts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from espalier.api.kinds import KubeObject
from espalier.cli.kit.hints import hint
from espalier.kube.client import Client
from espalier.kube.errors import BadRequest, Conflict, Forbidden, Invalid, KubeError, NotFound
from espalier.releases import Releases, Uninstalled, install
from espalier.runtime.caches.cache import Caches

PATIENCE = 60.0
"""Seconds for which controllers wait for what may still come by itself: webhooks that judge releases are those of this
manager, and its server may trust them, or find them, only now."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0

_REFUSALS = (BadRequest, Conflict, Forbidden, Invalid, NotFound)
"""Errors that somebody has to fix. Nothing waits for it, but the installation is retried."""

_log = structlog.get_logger("espalier.releases")


@dataclass(frozen=True)
class InstallReleases:
    """Creates what this build (or its folder) brings of releases and is not there yet; nothing is ever overwritten.

    A cluster that is there already may be made of what comes only now, so controllers begin once each was tried; what
    is refused then keeps nobody else from being managed. `uninstalled` says what and why, and to clusters that miss it.
    """

    client: Client
    caches: Caches
    releases: Releases
    uninstalled: Uninstalled = field(default_factory=Uninstalled)
    prepared: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Continue until all exist in the caches."""
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + PATIENCE, FIRST_PAUSE
        left: list[KubeObject] = self.releases.objects()
        while True:
            failures = [(object_, failure) for object_ in left if (failure := await self._install(object_)) is not None]
            if loop.time() >= end or all(isinstance(failure, _REFUSALS) for _, failure in failures):
                self.prepared.set()
            if not failures:
                return
            left = [object_ for object_, _ in failures]
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _install(self, object_: KubeObject) -> KubeError | None:
        """Error of the installation; None if it succeeded."""
        try:
            created = await install(self.client, [object_])
        except KubeError as failure:
            reason = "; ".join(filter(None, (str(failure).strip(), hint(object_.resource, failure))))
            if self.uninstalled.refused(object_, reason):
                name = object_.metadata.name
                _log.warning("not installed, will be retried", kind=object_.kind, name=name, reason=reason)
            return failure
        for stored in created:
            for cache in self.caches.all:
                if cache.source.resource == object_.resource:
                    cache.wrote(stored)
            _log.info("installed", kind=stored.kind, name=stored.name)
        self.uninstalled.installed(object_)
        return None
