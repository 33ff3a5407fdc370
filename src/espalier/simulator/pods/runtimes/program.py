"""The registry of programs for images."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

ROOT = "ESPALIER_CONTAINER_ROOT"
"""The environment variable with the folder that stands for the `/` of the container."""


@dataclass(frozen=True)
class Program:
    """The program that runs in place of an image."""

    commands: Mapping[str, Sequence[str]]
    """First word of a container's command -> the words that start it on this machine."""
    content: Mapping[str, Path] = field(default_factory=dict)
    """Path in the container, without leading slash -> the file."""
    variables: Collection[str] = ()
    """The variables of the pod that it reads; it gets no others. Whoever creates a pod sets them, so none that make an
    interpreter, a loader or a library run code (PYTHONPATH, LD_PRELOAD, OPENSSL_CONF) may be included."""

    ports: Collection[int] = ()
    """The ports of this machine that it listens on: probes of whoever creates a pod reach no others."""


Programs: TypeAlias = Callable[[str], Program | None]
"""The program of an image, None if there is none."""
