"""Questions to Snow devices, and their answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from espalier.clusters.checks import questions
from espalier.clusters.checks.questions import Server

REACHABLE = "SnowDevicesReachable"
"""Condition of what is checked: the devices answered."""


class Asked(msgspec.Struct, frozen=True):
    """All that is asked of a device in one session."""

    server: Server
    """The device, by its IP address."""
    images: bool = False
    """True if it is asked for its images."""


class Answers(msgspec.Struct, frozen=True):
    """What an unlocked device said."""

    software: str
    """The version of its software."""
    instance_types: Mapping[str, int] | None
    """Instance types that it offers, and how many virtual CPUs each has; 0: it did not say. None: nothing was told."""
    key_pairs: frozenset[str] | None
    """Names of its key pairs. None: nothing was told."""
    images: frozenset[str] | None = None
    """Identifiers of its images. None: nothing was told."""


LookUp: TypeAlias = questions.LookUp[Asked, Answers]
"""Asks a device."""
