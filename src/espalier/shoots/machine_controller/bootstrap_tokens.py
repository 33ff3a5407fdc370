"""Tokens with which new machines join their shoot: one for each, in its user data and as a Secret of the shoot."""

from __future__ import annotations

import secrets
from datetime import timedelta

from espalier.api.conditions import timestamp
from espalier.api.core import KUBE_SYSTEM, SECRET
from espalier.api.gardener.extensions.operating_system_config import BOOTSTRAP_TOKEN
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.runtime.clock import Clock

VALIDITY = timedelta(minutes=20)
"""The longest time in which a machine joins; then the shoot's controllers delete the token."""


class BootstrapTokens:
    """Creates tokens in one shoot."""

    def __init__(self, shoot: Client, clock: Clock) -> None:
        self._shoot = shoot
        self._clock = clock

    async def inject(self, user_data: bytes, machine: str) -> bytes:
        """The user data of a machine with a new token in its place. Raises `KubeError`."""
        placeholder = BOOTSTRAP_TOKEN.encode()
        if placeholder not in user_data:
            return user_data
        id_, secret = secrets.token_hex(3), secrets.token_hex(8)
        expires = timestamp(self._clock.now() + VALIDITY)
        await self._shoot.create(SECRET, _token(id_, secret, machine, expires))
        return user_data.replace(placeholder, f"{id_}.{secret}".encode())


def _token(id_: str, secret: str, machine: str, expires: str) -> Tree:
    return {
        "metadata": {"name": f"bootstrap-token-{id_}", "namespace": KUBE_SYSTEM},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": id_,
            "token-secret": secret,
            "expiration": expires,
            "description": f"for machine {machine}",
            "usage-bootstrap-authentication": "true",
        },
    }
