"""Bases of real nodes, and their location.

A base is one folder per Kubernetes version, `node-base-<version>-<recipe>/`, beside a folder that all of them share:

    node-root-bookworm-<recipe>/rootfs/   Debian with systemd, runc, iptables, cloud-init
    node-base-1.35.4-<recipe>/
      system/                             lies over it: containerd, CNI plugins, kubelet, kubeadm, kubectl, units
      containerd/                         a /var/lib/containerd in which all images are, unpacked
      base.json                           Kubernetes version, image repository, images by name, the shared folder's name

A node is an overlay mount, `lowerdir=<system>:<rootfs>` (`Base.lower`) with an upper folder of its own, and a
`/var/lib/containerd` of its own (`Base.clone_store`), bound in: containerd mounts overlays there, which overlayfs can't
carry itself. Nothing of a base may ever be written to: nodes share it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.component import numbers

NAME = "node-base"
ROOT = "node-root"
FACTS = "base.json"
DEFAULT_REPOSITORY = "registry.k8s.io"
FICLONE = 0x40049409
DATABASES = (".db",)
"""Suffixes of files that containerd changes in place; all others are written once."""


class MissingAssets(Exception):
    """An asset for real nodes is missing. The message names it and the command that builds it."""


@dataclass(frozen=True)
class Base:
    """Base of nodes of one Kubernetes version."""

    version: str
    """Kubernetes, without a leading v."""
    home: Path
    root: Path
    """The Debian file system that all versions share."""
    images: Mapping[str, str]
    """Digest of the manifest by full image name; all of them are in the store."""
    repository: str
    """Repository in the images' names."""

    @property
    def system(self) -> Path:
        """The layer over `root`: programs, units and settings of nodes of this version."""
        return self.home / "system"

    @property
    def store(self) -> Path:
        """The image store, to be cloned."""
        return self.home / "containerd"

    @property
    def lower(self) -> str:
        """The option `lowerdir` of an overlay mount."""
        return f"{self.system}:{self.root}"

    @property
    def kubectl(self) -> Path:
        """kubectl of this version; it runs on this machine as well."""
        return self.system / "usr/local/bin/kubectl"

    @property
    def kubeadm(self) -> Path:
        """kubeadm of this version; it runs on this machine as well."""
        return self.system / "usr/local/bin/kubeadm"

    def clone_store(self, target: Path) -> None:
        """Create `target`, which must not exist: a /var/lib/containerd with all images that takes hardly any disk
        space. Databases are copied; blobs and unpacked layers, which are never written to, are shared: by the file
        system's copy-on-write, else by hard links, else (on another file system) copied. Raises `OSError`."""
        share = _sharing(self.store, target.parent)
        shutil.copytree(
            self.store,
            target,
            symlinks=True,
            copy_function=lambda source, copy: _copy(source, copy, share),
        )


def find_base(version: str, *, repository: str = DEFAULT_REPOSITORY, assets: Path | None = None) -> Base:
    """The base for a Kubernetes version (`1.35.4` or `v1.35.4`) whose images have names below `repository`.

    Raises `MissingAssets`, which says what is missing, what there is, and how to build it.
    """
    wanted = version.removeprefix("v")
    bases = find_bases(assets=assets)
    for base in bases:
        if base.version == wanted and base.repository == repository:
            return base
    option = "" if repository == DEFAULT_REPOSITORY else f" --image-repository {repository}"
    available = ", ".join(sorted({base.version for base in bases if base.repository == repository}, key=numbers))
    raise MissingAssets(
        f"there is no base for nodes of Kubernetes {wanted} with images of {repository} (there is "
        f"{available or 'none'}): run `espalier assets build {NAME}-{wanted}{option}`"
    )


def find_bases(*, assets: Path | None = None) -> list[Base]:
    """All finished bases, of each Kubernetes version and repository the one built last, oldest version first."""
    folder = assets or assets_folder()
    homes = [home for home in folder.glob(f"{NAME}-*") if is_finished(home)]
    bases: dict[tuple[str, str], Base] = {}
    for home in sorted(homes, key=lambda home: home.stat().st_mtime):
        with contextlib.suppress(FileNotFoundError):  # the shared folder was removed
            base = _read(home)
            bases[base.version, base.repository] = base
    return sorted(bases.values(), key=lambda base: (numbers(base.version), base.repository))


def _read(home: Path) -> Base:
    facts = json.loads((home / FACTS).read_text())
    root = home.parent / facts["root"]
    if not is_finished(root):
        raise FileNotFoundError(root)
    return Base(facts["version"], home, root / "rootfs", facts["images"], facts["repository"])


def _sharing(source: Path, folder: Path) -> str:
    """How files of `source` can be shared with `folder`: `reflink`, `link` or `copy`."""
    probe = next(path for path in source.rglob("*") if path.is_file() and not path.is_symlink())
    target = folder / f".share-{os.getpid()}"
    try:
        _clone(str(probe), str(target))
        return "reflink"
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY):
            raise
    finally:
        target.unlink(missing_ok=True)
    return "link" if source.stat().st_dev == folder.stat().st_dev else "copy"


def _copy(source: str, target: str, share: str) -> str:
    if source.endswith(DATABASES) or share == "copy":
        return shutil.copy2(source, target)
    if share == "link":
        os.link(source, target, follow_symlinks=False)
        return target
    _clone(source, target)
    shutil.copystat(source, target)
    os.chown(target, os.stat(source).st_uid, os.stat(source).st_gid)
    return target


def _clone(source: str, target: str) -> None:
    with open(source, "rb") as original, open(target, "wb") as copy:
        fcntl.ioctl(copy, FICLONE, original.fileno())
