"""The images that a release needs, and where a registry mirror has them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from espalier.api.eksa.parts.network import RegistryMirrorConfiguration
from espalier.api.eksa.releases.components import Image
from espalier.clusters.design import registry_mirror
from espalier.releases import Release, images
from espalier.releases.contents import image_at, reference


@dataclass(frozen=True)
class Reference:
    """An image in a registry."""

    registry: str
    """Host, with a port if it has one."""
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Raises `ValueError` for anything but `registry/name:tag` or `registry/name@sha256:...`."""
        parts = reference(text)
        registry, _, rest = text.partition("/")
        if parts is None or not rest or not ("." in registry or ":" in registry or registry == "localhost"):
            raise ValueError(f"found {text}, allowed is registry/name:tag or registry/name@sha256:...")
        tag, digest = (parts["tag"] or "").removeprefix(":"), (parts["digest"] or "").removeprefix("@")
        if not tag and not digest:
            raise ValueError(f"found {text} without a tag or a digest")
        suffix = len(parts["tag"] or "") + len(parts["digest"] or "")
        return cls(registry, rest[: len(rest) - suffix], tag, digest)

    @property
    def name(self) -> str:
        """The digest if it has one, else the tag: what a registry is asked for."""
        return self.digest or self.tag

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"


@dataclass(frozen=True)
class WantedImage:
    """An image that a release needs."""

    reference: Reference
    used_by: tuple[str, ...]
    """Fields of the Bundles, or components of EKS Distro, for each Kubernetes version that needs it."""
    digests: frozenset[str] = frozenset()
    """The digests that the release states; none if it states none."""


def of_release(release: Release, kubernetes: Sequence[str] = ()) -> list[WantedImage]:
    """The images of a release for these Kubernetes versions (for all, without any), in order of their names.

    Raises `UnknownKubernetesVersion`.
    """
    entries = [release.resolve(version) for version in kubernetes] or release.bundles.spec.versions_bundles
    used: dict[str, list[str]] = {}
    digests: dict[str, set[str]] = {}
    distros = {distro.metadata.name: distro for distro in release.distros}
    for entry in entries:
        for path, uri in images(entry).items():
            used.setdefault(uri, []).append(f"{entry.kube_version} {path}")
            _note(digests, uri, image_at(entry, path))
        distro = distros.get(entry.eks_d.name)
        for component in distro.status.components if distro is not None else ():
            for asset in component.assets:
                if asset.image is not None and asset.image.uri:
                    used.setdefault(asset.image.uri, []).append(f"{entry.kube_version} {asset.name}")
                    _note(digests, asset.image.uri, asset.image)
    return [
        WantedImage(Reference.parse(uri), tuple(paths), frozenset(digests.get(uri, ())))
        for uri, paths in sorted(used.items())
    ]


def _note(digests: dict[str, set[str]], uri: str, image: Image | msgspec.Struct | None) -> None:
    if digest := getattr(image, "image_digest", ""):
        digests.setdefault(uri, set()).add(digest)


@dataclass(frozen=True)
class Mirror:
    """Where images go: a registry, and the path in it for each registry that it mirrors."""

    host: str
    prefixes: tuple[tuple[str, str], ...] = ()
    """Registry, and the path below which the mirror has its images. Without any: all, by their own path."""

    @classmethod
    def at(cls, text: str) -> Mirror:
        """From `HOST[:PORT][/PATH]`: all images below the path."""
        host, _, path = text.partition("/")
        return cls(host, (("*", path.strip("/")),))

    @classmethod
    def of_cluster(cls, mirror: RegistryMirrorConfiguration) -> Mirror:
        """The mirror of a cluster, as its nodes use it."""
        own = registry_mirror.base(mirror)
        prefixes = tuple(
            (host.registry, host.images.partition("/")[2])
            for host in registry_mirror.hosts(mirror)
            if host.registry != own
        )
        return cls(own, prefixes)

    def place(self, image: Reference) -> Reference | None:
        """Where the mirror has an image; None for one of a registry that it does not mirror."""
        for registry, path in self.prefixes:
            if registry in ("*", image.registry):
                repository = f"{path}/{image.repository}" if path else image.repository
                return Reference(self.host, repository, image.tag, image.digest)
        return None
