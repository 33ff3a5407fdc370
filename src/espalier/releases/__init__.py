"""Releases: which versions and images belong to an eksaVersion. The data of this build are files of the package."""

from espalier.releases.catalog import MalformedRelease, Release, Releases, UnknownRelease
from espalier.releases.contents import UnknownKubernetesVersion, images, kubernetes_versions, resolve
from espalier.releases.distro import Distro, Image, IncompleteDistro, UnusableDistro, distro_of, usable
from espalier.releases.installing import Uninstalled, install
from espalier.releases.names import release_name

__all__ = [
    "Distro",
    "Image",
    "IncompleteDistro",
    "MalformedRelease",
    "Release",
    "Releases",
    "Uninstalled",
    "UnknownKubernetesVersion",
    "UnknownRelease",
    "UnusableDistro",
    "distro_of",
    "images",
    "install",
    "kubernetes_versions",
    "release_name",
    "resolve",
    "usable",
]
