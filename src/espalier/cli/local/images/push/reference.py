"""Names of images in registries."""

from __future__ import annotations

import re
from dataclasses import dataclass

from espalier.api.text.printable import quoted
from espalier.cli.kit.connecting.registry_credentials import HUB, HUBS

HOST = re.compile(r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")
REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")
ALLOWED = "allowed: REGISTRY/REPOSITORY:TAG, such as registry.example.com/espalier:v1"


def _port(registry: str) -> int:
    port = registry.rpartition("]")[2].partition(":")[2]
    return int(port) if port else 443


@dataclass(frozen=True)
class Reference:
    """The name of an image with a tag."""

    registry: str
    """As it was written: `registry.example.com:5000`."""
    repository: str
    tag: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Raises `ValueError`, which says what is allowed: a name without a registry is Docker's to complete."""
        if not text:
            raise ValueError(f"found nothing; {ALLOWED}")
        registry, slash, rest = text.partition("/")
        if "@" in text:
            raise ValueError(f"found {quoted(text, 300)}, a digest: what is pushed has its own; {ALLOWED}")
        if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
            raise ValueError(f"found {quoted(text, 300)}, without a registry; {ALLOWED}")
        repository, colon, tag = rest.rpartition(":")
        if not colon:
            raise ValueError(f"found {quoted(text, 300)}, without a tag; {ALLOWED}")
        for part, form, what in (
            (registry, HOST, "registry"),
            (repository, REPOSITORY, "repository"),
            (tag, TAG, "tag"),
        ):
            if not form.fullmatch(part) or (what == "registry" and not 0 < _port(part) < 65536):
                raise ValueError(
                    f"found {quoted(text, 300)}, whose {what} {quoted(part, 300)} is not a valid one; {ALLOWED}"
                )
        return cls(registry, repository, tag)

    @property
    def host(self) -> str:
        """The registry's address."""
        return HUB if self.registry in HUBS else self.registry

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}"
