"""What can be built, from which Go module, and how. Read by build.py; standard library only.

A new version of a program is a change of a go.mod (then `go mod tidy` in its folder). A further Kubernetes program is a
line in its main.go and one in `programs` here.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 1024 * 1024

BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
"""What makes a build the same everywhere. Where modules come from is left to the machine's own Go settings."""
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")
KUBERNETES_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
CLUSTER_API = "sigs.k8s.io/cluster-api"


@dataclass(frozen=True)
class Component:
    """One Go module. Its main.go becomes one binary, which is several programs by the name it is called by.

    With `packages` there is no main.go, and each program is a binary of its own.
    """

    name: str
    folder: Path
    module: str
    """The required module whose version is the component's version."""
    programs: Mapping[str, tuple[str, ...]]
    """Program -> arguments that make it print its version (none: it has no such thing)."""
    size: int
    """Bytes of the binary, about."""
    workspace: int
    """Bytes that Go's module and build caches grow by, about, when they hold nothing of it yet."""
    minutes: float
    """With cold caches, on two cores, about."""
    version_packages: tuple[str, ...] = ()
    """Go packages whose variables the linker sets to the version, as Kubernetes has it."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Program -> the main package of a required module that it is made from."""
    folders: tuple[str, ...] = ()
    """What else is taken out of `module`: folders that are copied beside the programs, by the same path."""

    @cached_property
    def version(self) -> str:
        """The version that go.mod pins, without the leading v."""
        return self._pinned(rf"^(?:require)?\s*{re.escape(self.module)} v(\S+)")

    @cached_property
    def go_version(self) -> tuple[int, ...]:
        """The oldest Go that go.mod admits."""
        return numbers(self._pinned(r"^go (\S+)"))

    @cached_property
    def recipe(self) -> str:
        """A hash of everything that decides what is built."""
        made_from = (
            sorted(BUILD_ENVIRONMENT.items()),
            self.flags,
            platform(),
            sorted(self.packages.items()),
            self.folders,
        )
        digest = hashlib.sha256(repr(made_from).encode())
        for name in ("go.mod", "go.sum") if self.packages else ("main.go", "go.mod", "go.sum"):
            digest.update((self.folder / name).read_bytes())
        return digest.hexdigest()[:12]

    @property
    def flags(self) -> tuple[str, ...]:
        """What `go build` is told: without symbol tables, which only a debugger reads."""
        linker = ["-s", "-w"]
        if self.version_packages:
            # kubeadm and Cluster API refuse an API server that does not know its version.
            major, minor, _ = self.version.split(".")
            values = {"gitVersion": f"v{self.version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            linker += [f"-X {p}.{key}={value}" for p in self.version_packages for key, value in values.items()]
        return (*BUILD_FLAGS, f"-ldflags={' '.join(linker)}")

    @property
    def binaries(self) -> Mapping[str, str]:
        """File -> the package that it is compiled from. A file that is several programs is named apart from them."""
        return self.packages or {f"{self.name}.bin": "."}

    @property
    def label(self) -> str:
        """Name and version, for people."""
        return f"{self.name} {self.version}"

    def home(self, assets: Path) -> Path:
        """The folder of the finished build."""
        return assets / f"{self.name}-{self.version}-{self.recipe}"

    def _pinned(self, pattern: str) -> str:
        found = re.search(pattern, (self.folder / "go.mod").read_text(), re.MULTILINE)
        if found is None:
            raise ValueError(f"{self.folder / 'go.mod'} does not say {pattern!r}")
        return found[1]


COMPONENTS = (
    Component(
        "etcd",
        HERE / "etcd",
        module="go.etcd.io/etcd/server/v3",
        programs={"etcd": ("--version",), "etcdctl": ("version",)},
        size=28 * MIB,
        workspace=600 * MIB,
        minutes=1,
    ),
    Component(
        "kubernetes",
        HERE / "kubernetes" / "v1.36",
        module="k8s.io/kubernetes",
        programs={
            "kube-apiserver": ("--version",),
            "kube-controller-manager": ("--version",),
            "kubectl": ("version", "--client"),
        },
        size=125 * MIB,
        workspace=4000 * MIB,
        minutes=5,
        version_packages=KUBERNETES_VERSION_PACKAGES,
    ),
    Component(
        "cluster-api",
        HERE / "cluster-api",
        module=CLUSTER_API,
        # Their only way to tell the version is to start and log it.
        programs=dict.fromkeys(
            ("cluster-api-core", "cluster-api-kubeadm-bootstrap", "cluster-api-kubeadm-control-plane"), ()
        ),
        size=190 * MIB,
        workspace=2500 * MIB,
        minutes=4,
        version_packages=(f"{CLUSTER_API}/version",),
        packages={
            "cluster-api-core": CLUSTER_API,
            "cluster-api-kubeadm-bootstrap": f"{CLUSTER_API}/bootstrap/kubeadm",
            "cluster-api-kubeadm-control-plane": f"{CLUSTER_API}/controlplane/kubeadm",
        },
        folders=tuple(
            f"{config}/{part}"
            for config in ("config", "bootstrap/kubeadm/config", "controlplane/kubeadm/config")
            for part in ("crd/bases", "rbac", "webhook")
        ),
    ),
    Component(
        "client-go-peer",
        HERE.parent / "benchmarks" / "peers" / "client_go",
        module="k8s.io/client-go",
        programs={"client-go-peer": ()},
        size=27 * MIB,
        workspace=700 * MIB,
        minutes=1.5,
    ),
)
BY_NAME = {component.name: component for component in COMPONENTS}
ENVTEST = (BY_NAME["etcd"], BY_NAME["kubernetes"])
"""What a control plane for tests is made of."""
TESTED = (*ENVTEST, BY_NAME["cluster-api"])
"""What tests run against when it is there."""


def numbers(version: str) -> tuple[int, ...]:
    """`go1.26.3` or `1.26.3` as numbers; what follows them (`rc1`, `-custom`) does not count."""
    found = re.match(r"(?:go)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, found[1].split("."))) if found else ()


def platform() -> str:
    """The machine that is built for."""
    machine = os.uname()
    return f"{machine.sysname}/{machine.machine}"
