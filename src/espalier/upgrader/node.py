"""The node that a step works on: its files and commands, the image, the API server, and a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .api import Api
from .contents import COMPONENTS, Contents
from .files import Files
from .host import Clock, Commands, StepFailed


@dataclass(frozen=True)
class Node:
    """A node, and what a step needs to change it."""

    name: str
    files: Files
    commands: Commands
    api: Api
    image: Path
    """The directory of the image with `contents.json`."""
    contents: Contents
    clock: Clock = field(default_factory=Clock)
    say: Callable[[str], None] = print

    def image_file(self, name: str) -> Path:
        """Path of a file in the image."""
        return self.image / COMPONENTS / name

    @property
    def control_plane(self) -> bool:
        """True if the node has a static pod of the API server."""
        return self.files.is_file("/etc/kubernetes/manifests/kube-apiserver.yaml")

    def until(self, check: Callable[[], str], *, timeout: float, every: float = 1.0) -> str:
        """Call `check` until it returns an empty string, or until the timeout; returns its last result."""
        end = self.clock.now() + timeout
        while (problem := check()) and self.clock.now() < end:
            self.clock.wait(every)
        return problem


def disk_failure(error: OSError, message: str) -> StepFailed:
    """The failure of a step because of a disk error."""
    return StepFailed(f"{message}: {error}; check the node's disk, then delete the pod to retry")
