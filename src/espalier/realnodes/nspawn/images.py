"""Names of a base's images in clusters. Pure.

A base has images under kubeadm's names. A cluster uses its distribution's names for the same programs and versions.
Some are not needed here: their names get a program that only waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from espalier.realnodes.nspawn.bases import plain_version
from espalier.releases import Releases, image_at

PAUSE = "pause"
KINDNETD = "kindnetd"


class RequestedImage(NamedTuple):
    """An image that a cluster may use; without a version it is the same in all."""

    name: str
    program: str
    version: str = ""
    """The Kubernetes version, without a leading v."""


def asked_for(releases: Releases) -> list[RequestedImage]:
    """Every image of every release that a node runs."""
    requested: dict[RequestedImage, None] = {}
    for eksa_version in releases.versions:
        for bundle in releases.release(eksa_version).bundles.spec.versions_bundles:
            distro = releases.distro(bundle)
            for image in distro.images:
                requested[RequestedImage(str(image), image.name, plain_version(distro.version))] = None
            if kindnetd := image_at(bundle, "kindnetd.image"):
                requested[RequestedImage(kindnetd.uri, KINDNETD)] = None
    return list(requested)


def further_names(version: str, available: Iterable[str], asked: Iterable[RequestedImage]) -> dict[str, list[str]]:
    """Additional names in clusters, by image of a base of this version."""
    by_program = {program_of(image): image for image in sorted(available)}
    by_program |= {KINDNETD: by_program[PAUSE]} if PAUSE in by_program else {}
    further: dict[str, list[str]] = {}
    for name, program, of_version in asked:
        source = by_program.get(program)
        if source is not None and of_version in (version, "") and name != source:
            further.setdefault(source, []).append(name)
    return further


def lacking(version: str, available: Iterable[str], asked: Iterable[RequestedImage]) -> list[str]:
    """Programs that clusters of this version use and its base lacks."""
    present = set(map(program_of, available))
    return sorted({image.program for image in asked if image.version == version} - present)


def by_name(version: str, available: Mapping[str, str], asked: Iterable[RequestedImage]) -> dict[str, str]:
    """Digests of a base's images by all their names."""
    digests = dict(available)
    for source, names in further_names(version, available, asked).items():
        digests |= dict.fromkeys(names, available[source])
    return digests


def program_of(image: str) -> str:
    """The last part of an image's name: coredns of registry.k8s.io/coredns/coredns:v1.13.1."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]
