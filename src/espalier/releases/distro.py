"""Repositories and tags of an EKS Distro release for kubeadm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, VersionsBundle
from espalier.api.eksa.vocabulary import sentences
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.text.printable import LONGEST_OBJECT_NAME, quoted
from espalier.api.text.versions import numbers_of, parsed
from espalier.api.text.violations import Violation
from espalier.api.version_matrix import etcd_range, minor_of
from espalier.releases.contents import reference


class Image(NamedTuple):
    """A container image in three parts: `repository/name:tag`."""

    repository: str
    name: str
    tag: str

    @classmethod
    def parse(cls, uri: str) -> Image:
        """The parts of `repository/name:tag`. Raises `ValueError` when one is missing, or there is a digest."""
        parts = reference(uri)
        path, _, tag = uri.rpartition(":")
        repository, _, name = path.rpartition("/")
        if parts is None or not (repository and parts["tag"]) or parts["digest"]:
            raise ValueError(f"{uri} is not an image with a tag")
        return cls(repository, name, tag)

    def __str__(self) -> str:
        return f"{self.repository}/{self.name}:{self.tag}"


class Distro(msgspec.Struct, frozen=True):
    """The images of a Kubernetes release. `version` is the one in Cluster API objects: `v1.35.4-eks-1-35-1`."""

    name: str
    version: str
    kube_apiserver: Image
    kube_controller_manager: Image
    kube_scheduler: Image
    kube_proxy: Image
    pause: Image
    etcd: Image
    coredns: Image
    authenticator: str = ""
    """Image of AWS IAM Authenticator; empty when the release has no valid one."""
    etcd_archive: str = ""
    """The URL of etcd's programs; empty when the release has none."""

    @property
    def etcd_version(self) -> str:
        """The version of etcd, like `3.6.6`."""
        return numbers_of(self.etcd.tag)

    @property
    def kubernetes_version(self) -> str:
        """The Kubernetes minor version, like `1.35`; the whole version if it can't be parsed."""
        version = parsed(self.version)
        return f"{version.major}.{version.minor}" if version else self.version

    @property
    def repository(self) -> str:
        """Repository from which kubeadm pulls the images of Kubernetes."""
        return self.kube_apiserver.repository

    @property
    def images(self) -> tuple[Image, ...]:
        """The images."""
        return tuple(getattr(self, field) for field, _ in _IMAGES)


_IMAGES = (
    ("kube_apiserver", "kube-apiserver-image"),
    ("kube_controller_manager", "kube-controller-manager-image"),
    ("kube_scheduler", "kube-scheduler-image"),
    ("kube_proxy", "kube-proxy-image"),
    ("pause", "pause-image"),
    ("etcd", "etcd-image"),
    ("coredns", "coredns-image"),
)


_VERSIONED: Mapping[str, Callable[[str], object]] = {"kube_apiserver": parsed, "etcd": minor_of}
"""Images whose tag has the version of what they run, and how it is read."""
_VERSION_TAG = "a tag that begins with vMAJOR.MINOR.PATCH"
_AUTHENTICATOR = "aws-iam-authenticator-image"


class IncompleteDistro(Exception):
    """An EKS Distro release lacks images, or has an etcd that its Kubernetes can't use; `violations` names them."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__("; ".join(str(violation) for violation in violations))
        self.violations = violations


def distro_of(release: DistroRelease) -> Distro:
    """The images of a release. Raises `IncompleteDistro` naming each image that is missing, invalid or unsupported."""
    uris = {
        asset.name: asset.image.uri
        for component in release.status.components
        for asset in component.assets
        if asset.image is not None
    }
    images: dict[str, Image] = {}
    violations: list[Violation] = []
    for field, asset in _IMAGES:
        uri = uris.get(asset, "")
        try:
            images[field] = Image.parse(uri)
        except ValueError:
            image = uri or "nothing"
            violations.append(Violation("status.components", image, "repository/name:tag", f"no image for {asset}"))
            continue
        if field in _VERSIONED and not _VERSIONED[field](images[field].tag):
            violations.append(Violation("status.components", uri, _VERSION_TAG, f"no version in the tag of {asset}"))
    if not violations and (range_ := etcd_range(images["kube_apiserver"].tag, images["etcd"].tag)):
        message = f"Kubernetes {minor_of(images['kube_apiserver'].tag)} can't use this etcd"
        violations.append(Violation("status.components", str(images["etcd"]), f"etcd {range_}", message))
    if violations:
        raise IncompleteDistro(violations)
    archives = (
        asset.archive.uri
        for component in release.status.components
        for asset in component.assets
        if component.name == "etcd" and asset.archive is not None and "amd64" in asset.arch
    )
    authenticator = uris.get(_AUTHENTICATOR, "")
    return Distro(
        release.metadata.name,
        images["kube_apiserver"].tag,
        authenticator=authenticator if reference(authenticator) else "",
        etcd_archive=next(archives, ""),
        **images,
    )


def of_other_versions(distro: Distro) -> Iterator[Violation]:
    """Images of Kubernetes with another tag than kube-apiserver's, by which kubeadm pulls all of them."""
    for image in (distro.kube_controller_manager, distro.kube_scheduler, distro.kube_proxy):
        if image.tag != distro.version:
            message = f"kubeadm pulls {image.name} with the tag of kube-apiserver"
            yield Violation("status.components", str(image), f"tag {distro.version}", message)


class UnusableDistro(LookupError):
    """The EKS Distro Release that Bundles reference can't be used. The message gives the reason and the remedy."""


class MissingDistro(UnusableDistro):
    """The EKS Distro Release does not exist."""


def usable(bundles: Bundles, entry: VersionsBundle, distro_release: DistroRelease | None) -> Distro:
    """The images of an entry of Bundles, from the release under its name; None: it does not exist.

    Raises `UnusableDistro`, of which `MissingDistro` is one.
    """
    which = f"Bundles {bundles.metadata.name}, Kubernetes {entry.kube_version}:"
    name = quoted(entry.eks_d.name, LONGEST_OBJECT_NAME)
    release = f"the EKS Distro Release {SYSTEM_NAMESPACE}/{name} that they reference"
    if distro_release is None:
        raise MissingDistro(f"{which} {release} does not exist; {sentences.BRING_DISTRO}")
    try:
        distro = distro_of(distro_release)
    except IncompleteDistro as error:
        raise UnusableDistro(f"{which} {release} can't be used: {error}; {sentences.BRING_BUNDLES}") from None
    if problem := mismatch("kubeVersion", entry.kube_version, distro):
        raise UnusableDistro(f"{which} {problem.message}; {sentences.BRING_BUNDLES}")
    return distro


def mismatch(field: str, kubernetes_version: str, distro: Distro) -> Violation | None:
    """The mismatch between an entry of Bundles and the Kubernetes version of its release; None if there is none.

    `field` is the path of the entry's version.
    """
    if distro.kubernetes_version == kubernetes_version:
        return None
    message = sentences.OTHER_KUBERNETES.format(release=distro.name, version=distro.version)
    return Violation(field, kubernetes_version, distro.kubernetes_version, message)
