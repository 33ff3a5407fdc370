"""What nodes of one Kubernetes version have beyond the shared file system: its programs, and images of all it runs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from espalier.local.assets import base, debian
from espalier.local.assets.archive import Image, Layer, write_archive
from espalier.local.assets.component import Component
from espalier.local.assets.node_root import NodeRoot
from espalier.local.assets.processes import BuildFailed, Progress, run

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE_PROGRAMS = ("kubelet", "kubeadm", "kubectl")
PROXY_PACKAGES = ("iptables", "nftables", "conntrack", "kmod")
"""What kube-proxy calls, in each of its modes."""
PROBE_IMAGE = "espalier.local/probe:1"
START_SECONDS = 60
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


@dataclass(frozen=True)
class NodeBase(Component):
    """Programs and images of one Kubernetes version; see `base.py` for the layout."""

    root: NodeRoot
    kubernetes: Component
    etcd: Component
    coredns: Component
    pause: Component
    probe: Component
    containerd: Component
    etcd_tag: str
    pause_tag: str
    repository: str = base.DEFAULT_REPOSITORY
    """Where the images' names say that they come from, as kubeadm's imageRepository."""

    @property
    def version(self) -> str:
        """The Kubernetes version."""
        return self.kubernetes.version

    @property
    def contents(self) -> Sequence[str]:
        """Folders and facts."""
        return ("system", "containerd", base.FACTS)

    @property
    def needs(self) -> Sequence[Component]:
        """All that it is made of."""
        return (self.root, self.containerd, self.kubernetes, self.etcd, self.coredns, self.pause, self.probe)

    @property
    def as_root(self) -> bool:
        """Unpacking images mounts overlays."""
        return True

    @property
    def ingredients(self) -> Iterable[bytes]:
        """Names, and what writes the images."""
        yield repr((self.etcd_tag, self.pause_tag, self.repository, PROXY_PACKAGES, PROBE_IMAGE, CONTAINERD)).encode()
        for module in ("archive.py", "debian.py", "node_base.py"):
            yield Path(__file__).with_name(module).read_bytes()

    @cached_property
    def image_names(self) -> dict[str, str]:
        """Program -> the name of the image that kubeadm of this version asks for."""
        dns = "coredns/coredns" if self.repository == base.DEFAULT_REPOSITORY else "coredns"
        tags = {program: f"{program}:v{self.version}" for program in (*CONTROL_PLANE, "kube-proxy")}
        tags |= {
            "coredns": f"{dns}:v{self.coredns.version}",
            "pause": f"pause:{self.pause_tag}",
            "etcd": f"etcd:{self.etcd_tag}",
        }
        return {program: f"{self.repository}/{tag}" for program, tag in tags.items()}

    def make(self, workshop: Path, assets: Path, progress: Progress) -> None:
        """Lay out the programs, write the images, and have containerd unpack them."""
        self._system(workshop / "system", assets)
        self._asked_for(workshop / "system/usr/local/bin/kubeadm")
        archive = workshop / "images.tar"
        progress.show("writing images")
        root = self.root.home(assets) / "rootfs"
        digests = write_archive(self._images(root, assets), archive)
        progress.show("unpacking images")
        self._import(archive, workshop / "containerd", assets)
        archive.unlink()
        facts = {
            "version": self.version,
            "repository": self.repository,
            "root": self.root.home(assets).name,
            "images": dict(sorted(digests.items())),
        }
        (workshop / base.FACTS).write_text(json.dumps(facts, indent=2) + "\n")

    def _system(self, system: Path, assets: Path) -> None:
        programs = system / "usr/local/bin"
        programs.mkdir(parents=True)
        binary = self.kubernetes.home(assets) / f"{self.kubernetes.name}.bin"
        os.link(binary.resolve(), programs / "kubernetes")
        for program in NODE_PROGRAMS:
            (programs / program).symlink_to("kubernetes")
        settings = system / "etc/containerd/conf.d"
        settings.mkdir(parents=True)
        sandbox = "[plugins.'io.containerd.cri.v1.images'.pinned_images]\n"
        (settings / "sandbox.toml").write_text(f"version = 3\n{sandbox}  sandbox = '{self.image_names['pause']}'\n")

    def _asked_for(self, kubeadm: Path) -> None:
        """Ask kubeadm which images it wants. Raises `BuildFailed` when ours have other names."""
        options = [f"--kubernetes-version=v{self.version}", f"--image-repository={self.repository}"]
        wanted = set(run([kubeadm, "config", "images", "list", *options], self.label).split())
        if wanted != set(self.image_names.values()):
            other = ", ".join(sorted(wanted ^ set(self.image_names.values())))
            raise BuildFailed(f"{self.label}: kubeadm asks for other images than the recipe makes: {other}")

    def _images(self, root: Path, assets: Path) -> list[Image]:
        kubernetes = _programs(self.kubernetes, assets, (*CONTROL_PLANE, "kube-proxy"), "usr/local/bin")
        helpers = Layer(debian.package_files(root, PROXY_PACKAGES), {"run": 0o755, "tmp": 0o1777})
        names = self.image_names
        return [
            *(Image((names[p],), (kubernetes,), (f"/usr/local/bin/{p}",)) for p in CONTROL_PLANE),
            Image((names["kube-proxy"],), (helpers, kubernetes), ("/usr/local/bin/kube-proxy",)),
            _image(
                names["etcd"], _programs(self.etcd, assets, self.etcd.contents, "usr/local/bin"), "usr/local/bin/etcd"
            ),
            _image(names["coredns"], _programs(self.coredns, assets, ("coredns",), ""), "coredns"),
            _image(names["pause"], _programs(self.pause, assets, ("pause",), ""), "pause", user="65535:65535"),
            _image(PROBE_IMAGE, _programs(self.probe, assets, ("probe",), ""), "probe"),
        ]

    def _import(self, archive: Path, store: Path, assets: Path) -> None:
        """Have containerd unpack the archive into an image store, and compare what it has with what was asked."""
        programs = self.containerd.home(assets)
        # Paths of sockets must be short, and the store must lie where hard links to it can be made: two folders.
        with (
            tempfile.TemporaryDirectory(prefix="espalier-") as scratch,
            _containerd(programs, Path(scratch), store) as address,
        ):
            ctr: list[str | Path] = [programs / "ctr", "--address", address, "--namespace", "k8s.io"]
            run([*ctr, "images", "import", "--snapshotter=overlayfs", archive], self.label)
            there = set(run([*ctr, "images", "list", "--quiet"], self.label).split())
            if lost := {*self.image_names.values(), PROBE_IMAGE} - there:
                raise BuildFailed(f"{self.label}: containerd did not import {', '.join(sorted(lost))}")
            for name in self.image_names.values():
                run([*ctr, "images", "label", name, "io.cri-containerd.image=managed"], self.label)
            run([*ctr, "images", "label", self.image_names["pause"], "io.cri-containerd.pinned=pinned"], self.label)


@contextlib.contextmanager
def _containerd(programs: Path, scratch: Path, store: Path) -> Iterator[Path]:
    """A containerd of our own while the block runs, with its image store in `store`. Yields its socket."""
    store.mkdir()
    (scratch / "containerd").symlink_to(store)
    settings, log, ready = scratch / "config.toml", scratch / "log", scratch / "n"
    settings.write_text(CONTAINERD.format(folder=scratch))
    # It ends with us, also when we are killed; it tells when it serves as it would tell systemd.
    command: list[str | Path] = ["setpriv", "--pdeathsig=TERM", programs / "containerd", "--config", settings]
    with log.open("wb") as words, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(ready))
        environment = {**os.environ, "NOTIFY_SOCKET": str(ready)}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
        try:
            _await_ready(notices, process, log)
            yield scratch / "s"
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


def _programs(component: Component, assets: Path, programs: Sequence[str], folder: str) -> Layer:
    """A layer of one binary, linked by the names of its programs."""
    home = component.home(assets)
    first = (home / programs[0]).resolve()
    target = Path(folder, component.name) if len(programs) > 1 else Path(folder, programs[0])
    links = {str(Path(folder, program)): target.name for program in programs if program != target.name}
    return Layer({str(target): first, **links}, {"tmp": 0o1777})


def _image(name: str, layer: Layer, program: str, user: str = "") -> Image:
    return Image((name,), (layer,), (f"/{program}",), user)
