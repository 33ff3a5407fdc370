"""Which images have a program here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

ROOT = "ESPALIER_CONTAINER_ROOT"
"""Environment variable by which a program finds the folder that stands for the `/` of its container."""


@dataclass(frozen=True)
class Program:
    """What runs in place of an image."""

    commands: Mapping[str, Sequence[str]]
    """First word of a container's command -> the words that start it on this machine."""
    content: Mapping[str, Path] = field(default_factory=dict)
    """Path in the container, without leading slash -> what lies there."""
    variables: Collection[str] = ()
    """Which variables of the pod it reads; it gets no others. Whoever makes a pod chooses them, so none of those that
    tell an interpreter, a loader or a library what to run (PYTHONPATH, LD_PRELOAD, OPENSSL_CONF) may be among them."""


Programs: TypeAlias = Callable[[str], Program | None]
"""The program of an image, None for an image that has none."""


def none(_image: str) -> Program | None:
    """No image has a program: every pod is simulated."""
    return None
