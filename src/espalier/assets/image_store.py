"""A /var/lib/containerd with images in it, filled by a containerd of our own that runs for a moment. As root."""

from __future__ import annotations

import contextlib
import filecmp
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from espalier.assets.node_root import OWN_MOUNTS
from espalier.assets.processes import BuildFailed, run

START_SECONDS = 60
SNAPSHOTS = "io.containerd.snapshotter.v1.overlayfs/snapshots"
IDENTITY = "io.containerd.grpc.v1.introspection/uuid"
CONTAINERD = """\
version = 3
root = "{folder}/containerd"
state = "{folder}/run"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", \
"io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "{folder}/s"
[ttrpc]
  address = "{folder}/t"
"""


def fill(store: Path, archive: Path, programs: Path, *, pinned: Sequence[str] = (), label: str) -> None:
    """Have the containerd of the folder `programs` unpack an archive into a store, an empty or an earlier one.

    The images become known to the kubelet's interface; those that are pinned are never taken away to save space.
    Raises `BuildFailed`.
    """
    with serving(store, programs) as ctr:
        run([*ctr, "images", "import", "--snapshotter=overlayfs", archive], label)
        for name in run([*ctr, "images", "list", "--quiet"], label).split():
            run([*ctr, "images", "label", name, "io.cri-containerd.image=managed"], label)
        for name in pinned:
            run([*ctr, "images", "label", name, "io.cri-containerd.pinned=pinned"], label)
    (store / IDENTITY).unlink(missing_ok=True)  # each node's containerd makes its own


def link_equals(store: Path, originals: Sequence[Path]) -> None:
    """Make unpacked files that equal one of the originals, on the same file system, links to it.

    Then the programs of containers, of the node itself and of all nodes are one file: on disk, and in memory.
    """
    by_size = {original.stat().st_size: original for original in originals}
    for path in (store / SNAPSHOTS).glob("*/fs/**/*"):
        if path.is_symlink() or not path.is_file():
            continue
        original = by_size.get(path.stat().st_size)
        if original and path.stat().st_mode == original.stat().st_mode and filecmp.cmp(path, original, shallow=False):
            linked = path.with_name(f".{path.name}.linked")
            os.link(original, linked)
            linked.replace(path)


@contextlib.contextmanager
def serving(store: Path, programs: Path) -> Iterator[list[str | Path]]:
    """A containerd that serves a store while the block runs. Yields the beginning of a command that asks it.

    Raises `BuildFailed` when it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="espalier-") as folder:  # apart from the store: sockets have short names
        scratch = Path(folder)
        (scratch / "containerd").symlink_to(store.absolute())
        settings, log, ready = scratch / "config.toml", scratch / "log", scratch / "n"
        settings.write_text(CONTAINERD.format(folder=scratch))
        # containerd ends with us, also when we are killed; it reports that it serves as it would to systemd.
        command: list[str | Path] = [
            *OWN_MOUNTS,
            "setpriv",
            "--pdeathsig=TERM",
            programs / "containerd",
            "-c",
            settings,
        ]
        with log.open("wb") as output, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(str(ready))
            environment = {**os.environ, "NOTIFY_SOCKET": str(ready)}
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            try:
                _await_ready(notices, process, log)
                yield [programs / "ctr", "--address", scratch / "s", "--namespace", "k8s.io"]
            finally:
                process.terminate()
                process.wait()


def _await_ready(notices: socket.socket, process: subprocess.Popen[bytes], log: Path) -> None:
    notices.settimeout(1)
    for _ in range(START_SECONDS):
        with contextlib.suppress(TimeoutError):
            if b"READY=1" in notices.recv(4096):
                return
        if process.poll() is not None:
            break
    raise BuildFailed(f"containerd does not start:\n  {log.read_text(errors='replace')[-2000:]}")
