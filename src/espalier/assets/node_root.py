"""The file system that every node has: Debian with systemd, runc and cloud-init, below `rootfs/` of its folder.

Only packages: what we build and write ourselves is laid over it (`node_base.py`), so that it can change in seconds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from espalier.assets import debian
from espalier.assets.component import Component, platform
from espalier.assets.processes import Progress, follow

PACKAGES = (
    *("systemd", "systemd-sysv", "systemd-timesyncd", "dbus", "kmod", "procps", "sudo", "ca-certificates", "runc"),
    *("iproute2", "iputils-ping", "ifupdown", "ethtool", "socat", "conntrack", "iptables", "nftables", "ebtables"),
    *(
        "util-linux",
        "cloud-init",
        "python3-cffi-backend",
    ),  # the last by name: debootstrap can't resolve what is virtual
)
OWN_MOUNTS = ("unshare", "--mount", "--")
"""Gives a command mounts of its own, which end with it, also when it is killed."""
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
    """Debian by debootstrap."""

    @property
    def version(self) -> str:
        """Debian's suite: packages are those of the day on which it is built."""
        return debian.SUITE

    @property
    def contents(self) -> Sequence[str]:
        """The folder."""
        return ("rootfs",)

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
        """Packages, and what is taken away."""
        yield repr((PACKAGES, MASKED, DROPPED, KEPT_FOLDERS, platform())).encode()

    def make(self, work_folder: Path, assets: Path, progress: Progress) -> None:
        """Install Debian, and take away what a node does not need."""
        root = work_folder / "rootfs"
        mirror = debian.mirror()
        command = [*OWN_MOUNTS, "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", debian.SUITE]
        steps = 0

        def on_line(line: str | None) -> bool:
            nonlocal steps
            steps += line is not None and line.startswith("I: ")
            progress.show(f"debootstrap, {steps} steps")
            return True

        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        environment["DPKG_FORCE"] = "unsafe-io"  # nothing need be on disk yet: a build that ends early is thrown away
        command += [str(root), *([mirror] if mirror else [])]
        follow(command, work_folder, environment=environment, label=self.label, on_line=on_line)
        for path in DROPPED:
            remove(root / path)
        for folder in KEPT_FOLDERS:
            (root / folder).mkdir(parents=True)
        (root / "etc/machine-id").write_text("")  # each node makes its own
        units = root / "etc/systemd/system"
        for unit in MASKED:
            remove(units / unit)
            (units / unit).symlink_to("/dev/null")


def remove(path: Path) -> None:
    """Take a file, link or folder away, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
