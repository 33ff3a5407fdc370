"""The layer of nodes of one Kubernetes version over the shared file system: its programs and all images."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from espalier.assets import base, debian, image_store
from espalier.assets.archive import Image, Layer, write_archive
from espalier.assets.component import HERE, Component
from espalier.assets.node_root import NodeRoot
from espalier.assets.processes import BuildFailed, Progress, run

FILES = HERE / "node"
"""Our own files: units, settings of containerd, of the kubelet's unit and of cloud-init."""
ENABLED = ("containerd", "kubelet")
FOLDERS = (
    "etc/cni/net.d",
    "etc/kubernetes/manifests",
    "etc/containerd/conf.d",
    "var/lib/containerd",
    "var/lib/kubelet",
)
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE_PROGRAMS = ("kubelet", "kubeadm", "kubectl")
PROXY_PACKAGES = ("iptables", "nftables", "conntrack", "kmod")
"""Programs that kube-proxy calls, in each of its modes."""
PROBE_IMAGE = "espalier.local/probe:1"


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
    cni_plugins: Component
    etcd_tag: str
    pause_tag: str
    repository: str = base.DEFAULT_REPOSITORY
    """Repository in the images' names, as kubeadm's imageRepository."""

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
        """All components that the base is made of."""
        programs = (self.kubernetes, self.etcd, self.coredns, self.pause, self.probe)
        return (self.containerd, self.cni_plugins, self.root, *programs)

    @property
    def as_root(self) -> bool:
        """Unpacking images mounts overlays."""
        return True

    @property
    def ingredients(self) -> Iterable[bytes]:
        """Names, and what writes the images."""
        yield from _described(FILES)
        yield repr((self.etcd_tag, self.pause_tag, self.repository, PROXY_PACKAGES, PROBE_IMAGE)).encode()
        for module in ("archive.py", "debian.py", "image_store.py", "node_base.py"):
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

    def make(self, work_folder: Path, assets: Path, progress: Progress) -> None:
        """Lay out the programs, write the images, and have containerd unpack them."""
        self._system(work_folder / "system", assets)
        self._asked_for(work_folder / "system/usr/local/bin/kubeadm")
        archive = work_folder / "images.tar"
        progress.show("writing images")
        root = self.root.home(assets) / "rootfs"
        digests = write_archive(self._images(root, assets), archive)
        progress.show("unpacking images")
        store, programs = work_folder / "containerd", self.containerd.home(assets)
        store.mkdir()
        image_store.fill(store, archive, programs, pinned=[self.image_names["pause"]], label=self.label)
        archive.unlink()
        image_store.link_equals(
            store, [_binary(component, assets) for component in (self.kubernetes, self.etcd, self.coredns)]
        )
        facts = {
            "version": self.version,
            "repository": self.repository,
            "root": self.root.home(assets).name,
            "images": dict(sorted(digests.items())),
        }
        (work_folder / base.FACTS).write_text(json.dumps(facts, indent=2) + "\n")

    def _system(self, system: Path, assets: Path) -> None:
        """The layer over Debian. Programs are the files of the components themselves, by another name."""
        _lay_over(FILES, system)
        for folder in FOLDERS:
            (system / folder).mkdir(parents=True, exist_ok=True)
        wanted = system / "etc/systemd/system/multi-user.target.wants"
        wanted.mkdir(parents=True)
        for unit in ENABLED:
            (wanted / f"{unit}.service").symlink_to(f"../{unit}.service")
        for component, folder in ((self.containerd, "usr/local/bin"), (self.cni_plugins, "opt/cni/bin")):
            (system / folder).mkdir(parents=True)
            for program in component.contents:
                os.link(component.home(assets) / program, system / folder / program)
        programs = system / "usr/local/bin"
        os.link(_binary(self.kubernetes, assets), programs / "kubernetes")
        for program in NODE_PROGRAMS:
            (programs / program).symlink_to("kubernetes")
        sandbox = "[plugins.'io.containerd.cri.v1.images'.pinned_images]\n"
        settings = system / "etc/containerd/conf.d/sandbox.toml"
        settings.write_text(f"version = 3\n{sandbox}  sandbox = '{self.image_names['pause']}'\n")
        for path in (system, *system.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)  # whatever the umask is: they cover Debian's own

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
            Image((names["kube-proxy"],), (kubernetes, helpers), ("/usr/local/bin/kube-proxy",)),
            _image(
                names["etcd"], _programs(self.etcd, assets, self.etcd.contents, "usr/local/bin"), "usr/local/bin/etcd"
            ),
            _image(names["coredns"], _programs(self.coredns, assets, ("coredns",), ""), "coredns"),
            _image(names["pause"], _programs(self.pause, assets, ("pause",), ""), "pause", user="65535:65535"),
            _image(PROBE_IMAGE, _programs(self.probe, assets, ("probe",), ""), "probe"),
        ]


def _programs(component: Component, assets: Path, programs: Sequence[str], folder: str) -> Layer:
    """A layer of one binary, linked by the names of its programs."""
    target = Path(folder, component.name) if len(programs) > 1 else Path(folder, programs[0])
    links = {str(Path(folder, program)): target.name for program in programs if program != target.name}
    return Layer({str(target): _binary(component, assets), **links}, {"tmp": 0o1777})


def _binary(component: Component, assets: Path) -> Path:
    return (component.home(assets) / component.contents[0]).resolve()


def _image(name: str, layer: Layer, program: str, user: str = "") -> Image:
    return Image((name,), (layer,), (f"/{program}",), user)


def _described(folder: Path) -> Iterable[bytes]:
    """Names and contents of all files of a folder, sorted."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield f"{path.relative_to(folder)}\n".encode()
        yield path.read_bytes()


def _lay_over(files: Path, root: Path) -> None:
    """Copy a tree of files over another; modes are ours, not those of a checkout."""
    for path in sorted(path for path in files.rglob("*") if path.is_file()):
        target = root / path.relative_to(files)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o644)
