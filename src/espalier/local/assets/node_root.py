"""The file system that every node has: Debian with systemd, runc, containerd, CNI plugins and cloud-init.

Below `rootfs/` of the finished folder. What depends on the Kubernetes version is a layer of its own (`node_base.py`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from espalier.local.assets import debian
from espalier.local.assets.component import HERE, Component, platform
from espalier.local.assets.processes import Progress, follow, run

FILES = HERE / "node"
"""Our own files, laid over what Debian brings."""

PACKAGES = (
    *(
        "systemd",
        "systemd-sysv",
        "systemd-timesyncd",
        "dbus",
        "kmod",
        "procps",
        "util-linux",
        "sudo",
        "ca-certificates",
    ),
    *("iproute2", "iputils-ping", "ifupdown", "ethtool", "socat", "conntrack", "iptables", "nftables", "ebtables"),
    *("runc", "cloud-init", "python3-cffi-backend"),  # the last by name: debootstrap can't resolve what is virtual
)
ENABLED = ("containerd", "kubelet")
MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
    *("e2scrub_reap.service", "systemd-pstore.service", "console-getty.service", "getty@tty1.service"),
    *("cloud-init-hotplugd.socket", "systemd-firstboot.service"),
)
"""Work for a machine of its own, not for a container that shares its disks and consoles."""
DROPPED = (
    *("debootstrap", "var/cache/apt", "var/lib/apt/lists", "var/cache/debconf", "var/log", "etc/resolv.conf"),
    *("etc/hostname", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/info"),
)
KEPT_FOLDERS = ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial", "var/log")


@dataclass(frozen=True)
class NodeRoot(Component):
    """Debian by debootstrap, with programs of other components copied in."""

    programs: Sequence[tuple[Component, str]] = field(default_factory=tuple)
    """Component -> the folder of the node that its programs go to."""

    @property
    def version(self) -> str:
        """Debian's suite: packages are those of the day on which it is built."""
        return debian.SUITE

    @property
    def contents(self) -> Sequence[str]:
        """The folder."""
        return ("rootfs",)

    @property
    def needs(self) -> Sequence[Component]:
        """What is copied in."""
        return [component for component, _ in self.programs]

    @property
    def tools(self) -> Sequence[str]:
        """debootstrap makes the file system."""
        return ("debootstrap",)

    @property
    def as_root(self) -> bool:
        """Files belong to root and to others."""
        return True

    @property
    def ingredients(self) -> Iterable[bytes]:
        """Packages, units, our files."""
        yield repr((PACKAGES, ENABLED, MASKED, DROPPED, KEPT_FOLDERS, platform())).encode()
        yield repr([target for _, target in self.programs]).encode()
        yield from described(FILES)

    def make(self, workshop: Path, assets: Path, progress: Progress) -> None:
        """Install Debian, copy, enable, and take away what a node does not need."""
        root = workshop / "rootfs"
        mirror = debian.mirror()
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", debian.SUITE, str(root)]
        steps = 0

        def tell(line: str | None) -> bool:
            nonlocal steps
            steps += line is not None and line.startswith("I: ")
            progress.show(f"debootstrap, {steps} steps")
            return True

        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        follow(
            [*command, *([mirror] if mirror else [])], workshop, environment=environment, label=self.label, tell=tell
        )
        for path in DROPPED:
            remove(root / path)
        for folder in KEPT_FOLDERS:
            (root / folder).mkdir(parents=True)
        lay_over(FILES, root)
        for component, target in self.programs:
            (root / target).mkdir(parents=True, exist_ok=True)
            for program in component.contents:
                shutil.copy2(component.home(assets) / program, root / target / program)
        for folder in ("etc/cni/net.d", "etc/kubernetes/manifests", "etc/containerd/conf.d", "var/lib/containerd"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "etc/machine-id").write_text("")  # each node makes its own
        units = root / "etc/systemd/system"
        for unit in MASKED:
            remove(units / unit)
            (units / unit).symlink_to("/dev/null")
        run(["chroot", root, "systemctl", "enable", "--quiet", *ENABLED], self.label)


def described(folder: Path) -> Iterable[bytes]:
    """Names and contents of all files of a folder, sorted."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield f"{path.relative_to(folder)}\n".encode()
        yield path.read_bytes()


def lay_over(files: Path, root: Path) -> None:
    """Copy a tree of files over another; modes are ours, not those of a checkout."""
    for path in sorted(path for path in files.rglob("*") if path.is_file()):
        target = root / path.relative_to(files)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o644)


def remove(path: Path) -> None:
    """Take a file, link or folder away, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
