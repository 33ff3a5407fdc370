"""Questions to Snow devices, and their answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from espalier.clusters.report.checks import questions
from espalier.clusters.report.checks.questions import Server

REACHABLE = "SnowDevicesReachable"
"""Condition of what is checked: the devices answered."""


class Query(msgspec.Struct, frozen=True):
    """All questions to a device in one session."""

    server: Server
    """The device, by its IP address."""
    images: bool = False
    """True to ask for its images."""


class Answers(msgspec.Struct, frozen=True):
    """Answers of an unlocked device."""

    software: str
    """Software version."""
    instance_types: Mapping[str, int] | None
    """Virtual CPUs by offered instance type, 0 if unknown; None if the types are unknown."""
    key_pairs: frozenset[str] | None
    """Names of its key pairs; None if unknown."""
    images: frozenset[str] | None = None
    """IDs of its images; None if unknown."""


LookUp: TypeAlias = questions.LookUp[Query, Answers]
"""Asks a device."""
