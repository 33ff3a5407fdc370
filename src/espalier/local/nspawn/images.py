"""Which images a cluster asks its nodes for, and which images of a base they are. Pure.

A cluster names images of its distribution's repository. A base has images of the same programs and versions under the
names that kubeadm knows; they get the cluster's names as further ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from espalier.api.capi.kubeadm import ClusterConfiguration

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
KUBEADM_REPOSITORY = "registry.k8s.io"
PAUSE = "pause"


@dataclass(frozen=True)
class Names:
    """Further names by image of the base, and what is asked for but not in the base."""

    further: Mapping[str, list[str]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def wanted(configuration: ClusterConfiguration | None, version: str) -> dict[str, str]:
    """Images that a cluster's configuration asks for at a Kubernetes version: full name by program."""
    repository = (configuration and configuration.image_repository) or KUBEADM_REPOSITORY
    tag = version.replace("+", "_")
    found = {program: f"{repository}/{program}:{tag}" for program in PROGRAMS}
    if configuration is None:
        return found
    local = configuration.etcd.local if configuration.etcd else None
    if local is not None and local.image_tag:
        found["etcd"] = f"{local.image_repository or repository}/etcd:{local.image_tag}"
    if configuration.dns is not None and configuration.dns.image_tag:
        dns = configuration.dns
        found["coredns"] = f"{dns.image_repository or repository}/coredns:{dns.image_tag}"
    return found


def names(available: Iterable[str], asked: Mapping[str, str], stand_ins: Iterable[str] = ()) -> Names:
    """Match what is asked for with what a base has, by program. The `stand_ins` are names for the image that waits."""
    by_program = {program_of(image): image for image in sorted(available)}
    further: dict[str, list[str]] = {}
    missing = []
    requests = [*asked.items(), *((PAUSE, image) for image in stand_ins)]
    for program, image in requests:
        source = by_program.get(program)
        if source is None:
            missing.append(image)
        elif source != image:
            further.setdefault(source, []).append(image)
    return Names(further, tuple(missing))


def program_of(image: str) -> str:
    """The last part of an image's name: coredns of registry.k8s.io/coredns/coredns:v1.13.1."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]
