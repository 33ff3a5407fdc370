"""Kubernetes versions of real nodes: those of the row of versions that runs, and a build whose releases name them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

import espalier
from espalier.api.meta import Tree
from espalier.api.version_matrix import KUBERNETES
from espalier.assets.recipes import ROW
from espalier.releases import Releases

OLDEST, OLDER, NEWER = ROW.nodes
"""Minor versions, one upgrade apart."""
FIRST, OLD, NEW = (f"v{KUBERNETES[minor].patch}" for minor in ROW.nodes)
"""Their patch versions, as kubelets say them."""
DATA = Path("releases", "data")
"""The releases of a build, in its package."""


def distribution(minor: str) -> str:
    """The end of image tags of a minor version: `eks-1-36-1`."""
    return f"eks-{minor.replace('.', '-')}-1"


def image_tags(minor: str) -> dict[str, str]:
    """Tags of the images that the system's containers of a Kubernetes minor version run, by container."""
    known = KUBERNETES[minor]
    programs = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
    result = dict.fromkeys(programs, known.patch) | {"etcd": etcd_version(minor), "coredns": known.coredns}
    return {name: f"v{version}-{distribution(minor)}" for name, version in result.items()}


def etcd_version(minor: str) -> str:
    """The etcd that kubeadm of a minor version starts: `3.6.8`."""
    return KUBERNETES[minor].etcd_image.partition("-")[0]


@cache
def variables_of_row() -> Mapping[str, str]:
    """Variables of the environment of an espalier whose releases name every version of the row.

    The newest release of this build may not name the newest Kubernetes of the row: then these lead to a copy of the
    build in which it does, with the versions of the matrix. That includes what the copy builds, as images.
    """
    newest = Releases.load().newest()
    missing = [minor for minor in ROW.nodes if minor not in newest.kubernetes_versions]
    if not missing:
        return {}
    package = Path(espalier.__file__).parent
    copy = Path(_folder().name, package.name)
    shutil.copytree(package, copy)
    for minor in missing:
        _add(copy / DATA, newest.kubernetes_versions[-1], minor, newest.eksa_release.spec.bundle_manifest_url)
    return {"PYTHONPATH": str(copy.parent)}


@cache
def _folder() -> TemporaryDirectory[str]:
    """A folder that goes with this process."""
    return TemporaryDirectory(prefix="espalier-build-")


def _add(folder: Path, before: str, minor: str, url: str) -> None:
    """Add a minor version to Bundles: the entry of an earlier one, with other versions."""
    bundles = folder / url.rpartition("/")[2]
    tree: Tree = yaml.safe_load(bundles.read_text())
    entries: list[Tree] = tree["spec"]["versionsBundles"]
    entry = next(entry for entry in entries if entry["kubeVersion"] == before)
    entries.append(yaml.safe_load(_renewed(yaml.safe_dump(entry), before, minor)))
    bundles.write_text(yaml.safe_dump(tree))
    distro = folder / entry["eksD"]["manifestUrl"].removeprefix("embed:///")
    distro.with_name(_renewed(distro.name, before, minor)).write_text(_renewed(distro.read_text(), before, minor))


def _renewed(text: str, before: str, minor: str) -> str:
    old, new = KUBERNETES[before], KUBERNETES[minor]
    changes = {
        old.patch: new.patch,
        f"v{etcd_version(before)}": f"v{etcd_version(minor)}",
        f"v{old.coredns}": f"v{new.coredns}",
        f"pause:{old.pause}": f"pause:{new.pause}",
        before.replace(".", "-"): minor.replace(".", "-"),
        before: minor,
    }
    for item, wanted in changes.items():
        text = text.replace(item, wanted)
    return text
