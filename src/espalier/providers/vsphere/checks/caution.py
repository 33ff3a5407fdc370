"""Caution with vCenters: one that was away, or refused an account, is left alone for a while.

Many objects name the same vCenter. vSphere locks an account after a few refused logins, and one that is away would be
asked for each of them.
"""

from __future__ import annotations

import hashlib

from espalier.providers.vsphere.checks.questions import Answers, Asked, Credentials, LookUp, VCenterError
from espalier.runtime.clock import Clock

AWAY = 30.0
"""Seconds for which a vCenter that was away is not asked again."""
REFUSED = 300.0
"""Seconds for which a refused account does not log in again: vSphere counts refusals within three minutes."""


class Caution:
    """Asks through `look_up`, unless the answer would be the same error."""

    def __init__(self, look_up: LookUp, clock: Clock) -> None:
        self._look_up = look_up
        self._clock = clock
        self._errors: dict[tuple[object, ...], tuple[float, VCenterError]] = {}

    async def __call__(self, asked: Asked, credentials: Credentials, /) -> Answers:
        """All answers. Raises `VCenterError`, again for a while."""
        account = hashlib.sha256("\0".join(credentials).encode()).digest()
        now = self._clock.monotonic()
        self._errors = {key: error for key, error in self._errors.items() if now < error[0]}
        for key in ((asked.server,), (asked.server, account)):
            if key in self._errors:
                _, earlier = self._errors[key]
                raise VCenterError(earlier.reason, str(earlier), refused=earlier.refused)
        try:
            return await self._look_up(asked, credentials)
        except VCenterError as error:
            now = self._clock.monotonic()
            if error.refused:
                self._errors[asked.server, account] = (now + REFUSED, error)
            else:
                self._errors[asked.server,] = (now + AWAY, error)
            raise
