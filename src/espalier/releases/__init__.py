"""Releases: the versions and images of an eksaVersion. The data of this build are files of the package."""

from espalier.releases.catalog import MalformedRelease, Release, Releases, UnknownRelease, release_name
from espalier.releases.contents import (
    UnknownKubernetesVersion,
    UnusableBundles,
    check_images,
    image_at,
    images,
    invalid_images,
    kubernetes_versions,
    resolve,
)
from espalier.releases.distro import (
    Distro,
    Image,
    IncompleteDistro,
    MissingDistro,
    UnusableDistro,
    distro_of,
    usable,
)
from espalier.releases.installing import Uninstalled, install

__all__ = [
    "Distro",
    "Image",
    "IncompleteDistro",
    "MalformedRelease",
    "MissingDistro",
    "Release",
    "Releases",
    "Uninstalled",
    "UnknownKubernetesVersion",
    "UnknownRelease",
    "UnusableBundles",
    "UnusableDistro",
    "check_images",
    "distro_of",
    "image_at",
    "images",
    "install",
    "invalid_images",
    "kubernetes_versions",
    "release_name",
    "resolve",
    "usable",
]
