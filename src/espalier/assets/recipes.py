"""Recipes of components. Data; which versions there are, and which go together, is in `api/version_matrix.py`.

A program of which several versions are built has a file `v<version>.mod` for each (then `go mod tidy -modfile=...`).
"""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.version_matrix import ETCD as ETCD_MINORS
from espalier.api.version_matrix import KUBERNETES as KUBERNETES_MINORS
from espalier.api.version_matrix import ROWS, Row, selected_row
from espalier.assets.base import DEFAULT_REPOSITORY, NAME
from espalier.assets.component import HERE, MIB, Component, numbers, with_needs
from espalier.assets.go import GoModule
from espalier.assets.module_files import CrdFiles, CrdModule, RenderedChart
from espalier.assets.node_base import NodeBase
from espalier.assets.node_root import NodeRoot

VERSION = {"gitVersion": "v{version}", "gitMajor": "{major}", "gitMinor": "{minor}", "gitTreeState": "clean"}
"""kubeadm and Cluster API reject an API server without a version."""
KUBERNETES_STAMPS = {
    f"{package}.{name}": value
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for name, value in VERSION.items()
}
CLUSTER_API_MODULE = "sigs.k8s.io/cluster-api"
CORE_FOLDER_SINCE = (1, 14)
"""Since this version, the core provider of Cluster API is below `core/`."""
CAPV_MODULE = f"{CLUSTER_API_MODULE}-provider-vsphere"


def _modfile(version: str) -> str:
    return f"v{version}.mod"


def _commands(module: str, *programs: str) -> dict[str, str]:
    """The packages of programs in folder `cmd` of a module."""
    return {program: f"{module}/cmd/{program}" for program in programs}


def etcd(version: str) -> GoModule:
    """etcd and etcdctl of a version."""
    return GoModule(
        "etcd",
        folder=HERE / "etcd",
        modfile=_modfile(version),
        module="go.etcd.io/etcd/server/v3",
        programs={"etcd": ("--version",), "etcdctl": ("version",)},
        size=28 * MIB,
        workspace=600 * MIB,
        minutes=1,
    )


def _coredns(version: str) -> GoModule:
    return GoModule(
        "coredns",
        folder=HERE / "coredns",
        modfile=_modfile(version),
        module="github.com/coredns/coredns",
        programs={"coredns": ("-version",)},
        size=52 * MIB,
        workspace=1000 * MIB,
        minutes=1.5,
    )


def node_programs(version: str) -> GoModule:
    """The programs of nodes."""
    servers = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet")
    return GoModule(
        "kubernetes-node",
        folder=HERE / "kubernetes-node",
        modfile=_modfile(version),
        module="k8s.io/kubernetes",
        programs={
            **dict.fromkeys(servers, ("--version",)),
            "kubeadm": ("version", "--output=short"),
            "kubectl": ("version", "--client"),
        },
        size=155 * MIB,
        workspace=4500 * MIB,
        minutes=7,
        stamps=KUBERNETES_STAMPS,
    )


def _own(name: str, size: int) -> GoModule:
    return GoModule(
        name, folder=HERE / name, module="", programs={name: ()}, size=size, workspace=100 * MIB, minutes=0.5
    )


def etcdutl(version: str) -> GoModule:
    """The program that checks snapshots and data directories of etcd, for tests of backups."""
    return GoModule(
        "etcdutl",
        folder=HERE / "etcdutl",
        modfile=_modfile(version),
        module="go.etcd.io/etcd/etcdutl/v3",
        programs={"etcdutl": ("version",)},
        packages={"etcdutl": "go.etcd.io/etcd/etcdutl/v3"},
        size=18 * MIB,
        workspace=300 * MIB,
        minutes=0.5,
    )


def kubernetes(version: str) -> GoModule:
    """The programs of a control plane, and kubectl."""
    return GoModule(
        "kubernetes",
        folder=HERE / "kubernetes",
        modfile=_modfile(version),
        module="k8s.io/kubernetes",
        programs={
            "kube-apiserver": ("--version",),
            "kube-controller-manager": ("--version",),
            "kubectl": ("version", "--client"),
        },
        size=125 * MIB,
        workspace=4000 * MIB,
        minutes=5,
        stamps=KUBERNETES_STAMPS,
    )


def cluster_api(version: str) -> GoModule:
    """The managers of Cluster API, with their definitions and rights."""
    core = "" if numbers(version) < CORE_FOLDER_SINCE else "core/"
    packages = {
        "cluster-api-core": f"{CLUSTER_API_MODULE}/{core}".rstrip("/"),
        "cluster-api-kubeadm-bootstrap": f"{CLUSTER_API_MODULE}/bootstrap/kubeadm",
        "cluster-api-kubeadm-control-plane": f"{CLUSTER_API_MODULE}/controlplane/kubeadm",
    }
    return GoModule(
        "cluster-api",
        folder=HERE / "cluster-api",
        modfile=_modfile(version),
        module=CLUSTER_API_MODULE,
        programs=dict.fromkeys(packages, ()),  # they only log their version when they start
        packages=packages,
        folders=tuple(
            f"{config}/{part}"
            for config in (f"{core}config", "bootstrap/kubeadm/config", "controlplane/kubeadm/config")
            for part in ("crd/bases", "rbac", "webhook")
        ),
        size=190 * MIB,
        workspace=2500 * MIB,
        minutes=4,
        stamps={f"{CLUSTER_API_MODULE}/version.{name}": value for name, value in VERSION.items()},
    )


def _containerd(version: str) -> GoModule:
    return GoModule(
        "containerd",
        folder=HERE / "containerd",
        modfile=_modfile(version),
        module="github.com/containerd/containerd/v2",
        programs={"containerd": ("--version",), "containerd-shim-runc-v2": (), "ctr": ("--version",)},
        packages=_commands("github.com/containerd/containerd/v2", "containerd", "containerd-shim-runc-v2", "ctr"),
        size=90 * MIB,
        workspace=1500 * MIB,
        minutes=3,
    )


ROW = selected_row()
"""The row that tests run on, and management clusters of real nodes."""
ETCD = etcd(ROW.etcd)
ETCD_BEFORE = etcd(ROW.etcd_before)
"""The previous minor version, for tests of clients of etcd."""
ETCD_3_5 = etcd(ETCD_MINORS["3.5"].patch)
"""The newest etcd whose databases etcdbrctl reads."""
ETCDUTL = etcdutl(ROW.etcd)
KUBERNETES = kubernetes(ROW.kubernetes)
CLUSTER_API = cluster_api(ROW.cluster_api)
CONTAINERD = _containerd(ROW.containerd)
ETCDBRCTL = GoModule(
    "etcdbrctl",
    folder=HERE / "etcdbrctl",
    module="github.com/gardener/etcd-backup-restore",
    programs={"etcdbrctl": ()},  # the log contains the version, among other lines
    packages={"etcdbrctl": "github.com/gardener/etcd-backup-restore"},
    size=60 * MIB,
    workspace=1500 * MIB,
    minutes=2,
)
"""The peer of our etcd agent, for tests of interchange. Of no group: `make real-assets REAL=etcdbrctl`."""
CLUSTERCTL = GoModule(
    "clusterctl",
    folder=HERE / "clusterctl",
    module=CLUSTER_API_MODULE,
    programs={"clusterctl": ("version", "--output=short")},
    packages=_commands(CLUSTER_API_MODULE, "clusterctl"),
    size=45 * MIB,
    workspace=2000 * MIB,
    minutes=1,
    stamps={f"{CLUSTER_API_MODULE}/version.{name}": value for name, value in VERSION.items()},
)
"""Moves clusters as others do, for tests of what is left of ours. Of no group: `make real-assets REAL=clusterctl`."""
_SUMS_OF_CERT_MANAGER = {"1.21.1": "h1:0LttV37Q5c2CBNoHkjuI8sLKTXWZDC2SwQkxrBMKV9w="}
HELM_MODULE = "helm.sh/helm/v3"
HELM = GoModule(
    "helm",
    folder=HERE / "helm",
    module=HELM_MODULE,
    programs={"helm": ("version", "--short")},
    packages=_commands(HELM_MODULE, "helm"),
    size=60 * MIB,
    workspace=2000 * MIB,
    minutes=2,
    stamps={
        f"{HELM_MODULE}/internal/version.version": "v{version}",
        # What templates take for the cluster's version where there is none: else 1.20, which charts refuse.
        **{
            f"{HELM_MODULE}/pkg/{package}.k8sVersion{name}": value
            for package in ("chartutil", "lint/rules")
            for name, value in (("Major", "1"), ("Minor", "34"))
        },
    },
)
"""Installs the chart, for tests of it. Group `helm`: `make real-assets REAL=helm`."""
CERT_MANAGER = RenderedChart(
    "cert-manager",
    module="github.com/cert-manager/cert-manager",
    release=ROW.cert_manager,
    sum=_SUMS_OF_CERT_MANAGER[ROW.cert_manager],
    namespace_file="deploy/manifests/namespace.yaml",
    chart="deploy/charts/cert-manager",
    # make/manifests.mk of the module.
    flags=(
        "--kube-version=1.29.0",
        "--api-versions=",
        "--namespace=cert-manager",
        "--set=crds.enabled=true",
        "--set=creator=static",
        "--set=startupapicheck.enabled=false",
    ),
    helm=HELM,
    size=2 * MIB,
    workspace=100 * MIB,
    minutes=0.2,
)
"""The `cert-manager.yaml` of a release, for tests of components in files. Group `helm`."""
DISTRIBUTION = "github.com/distribution/distribution/v3"
REGISTRY = GoModule(
    "registry",
    folder=HERE / "registry",
    module=DISTRIBUTION,
    programs={"registry": ("--version",)},
    packages=_commands(DISTRIBUTION, "registry"),
    size=75 * MIB,
    workspace=1500 * MIB,
    minutes=2,
    stamps={f"{DISTRIBUTION}/version.version": "v{version}"},
)
"""Images are pushed into it, for tests of pushes. Of no group: `make real-assets REAL=registry`."""
CAPV = GoModule(
    "capv",
    folder=HERE / "capv",
    module=CAPV_MODULE,
    # capv only logs its version when it starts.
    programs={"capv": ()},
    packages={"capv": CAPV_MODULE},
    folders=("config/default/crd/bases", "config/rbac", "config/govmomi/webhook"),
    size=75 * MIB,
    workspace=1500 * MIB,
    minutes=2,
    stamps={f"{CAPV_MODULE}/pkg/version.{name}": value for name, value in VERSION.items()},
)
"""Cluster API's provider for vSphere, for tests of that provider."""
PROVIDER_CRDS = CrdFiles(
    "provider-crds",
    release="0.26.1",
    modules=(
        CrdModule(
            "docker",
            f"{CLUSTER_API_MODULE}/test",
            "1.13.8",
            "h1:Beq2n8NBxHfVGmKCrNv8tIA88mQqUeof0/Wkjn5Dmqs=",
            "infrastructure/docker/config/crd/bases",
            "infrastructure.cluster.x-k8s.io_docker*.yaml",
        ),
        CrdModule(
            "vsphere",
            CAPV_MODULE,
            "1.16.1",
            "h1:6fN9Df5EBtxzI5546L4kzevCyE/wM9qWv8ZS+iAU9f8=",
            "config/default/crd/bases",
        ),
        CrdModule(
            "cloudstack",
            f"{CLUSTER_API_MODULE}-provider-cloudstack",
            "0.6.1",
            "h1:WHyN5jRN9Ga8/koDh1gaGHA13N8j5trHG4pD7N58MCw=",
            "config/crd/bases",
            "infrastructure.*.yaml",
        ),
        CrdModule(
            "nutanix",
            "github.com/nutanix-cloud-native/cluster-api-provider-nutanix",
            "1.5.0",
            "h1:GYwGYt014QmmUzcqlXgZNn0thzDtVMNMMZywCiz9r18=",
            "config/crd/bases",
        ),
        CrdModule(
            "tinkerbell-stack",
            "github.com/tinkerbell/tinkerbell",
            "0.25.0",
            "h1:U7blKIMZCjzoDesaA2615Xivoby6MFdDMoL7Sk+27so=",
            "crd/bases/v1alpha1",
        ),
        CrdModule(
            "etcdadm",
            "github.com/aws/etcdadm-controller",
            "1.0.28",
            "h1:htsoFE6yNhS+q4gf4eR+4c6/wszlDNnjqRkMO6G2aIk=",
            "config/crd/bases",
        ),
        CrdModule(
            "etcdadm",
            "github.com/aws/etcdadm-bootstrap-provider",
            "1.0.22",
            "h1:zxaIEWv+c9K7WsJZ4Ravq3SfYtx6a1GIs3rrPJgD4Fk=",
            "config/crd/bases",
        ),
        *(
            CrdModule(
                "cluster-api-fork",
                "github.com/snarkychef/cluster-api",
                "0.1.0",
                "h1:0euy+diCRLqS1gMD+IAXkm9lo5JHWhJXb+Lrwh5IpIM=",
                f"{folder}config/crd/bases",
                files,
            )
            for folder, files in (
                ("", "cluster.x-k8s.io_*.yaml"),
                ("bootstrap/kubeadm/", "*.yaml"),
                ("controlplane/kubeadm/", "*.yaml"),
            )
        ),
    ),
    size=4 * MIB,
    workspace=60 * MIB,
    minutes=0.2,
)
"""CRDs of providers, as EKS Anywhere ships them, and of the build of Cluster API whose types it compiles in,
for tests of what is rendered. Not to be had as modules: Nutanix' provider 1.6.1, Tinkerbell's, and Snow's, whose source
is not public."""
VCENTER = GoModule(
    "vcenter",
    folder=HERE / "vcenter",
    module="github.com/vmware/govmomi",
    programs={"vcenter": ("-version",)},
    size=25 * MIB,
    workspace=500 * MIB,
    minutes=1,
)
"""The simulator of vCenter, for tests of provider vSphere."""


def _flux(name: str, size: int, minutes: float) -> GoModule:
    module = f"github.com/fluxcd/{name}"
    return GoModule(
        name,
        folder=HERE / name,
        module=module,
        programs={name: ()},  # it does not know its version
        packages={name: module},
        folders=("config/crd/bases", "config/manager", "config/rbac"),
        size=size,
        workspace=2500 * MIB,
        minutes=minutes,
    )


KUSTOMIZE_CONTROLLER = _flux("kustomize-controller", 82 * MIB, 4)
SOURCE_CONTROLLER = _flux("source-controller", 97 * MIB, 4)
"""With an earlier version of one of its libraries (`go.mod`): the one that it asks for can't be had."""
CNI_PLUGINS = GoModule(
    "cni-plugins",
    folder=HERE / "cni-plugins",
    module="github.com/containernetworking/plugins",
    programs=dict.fromkeys(("bridge", "host-local", "loopback", "portmap", "ptp"), ()),
    packages={
        path.rpartition("/")[2]: f"github.com/containernetworking/plugins/plugins/{path}"
        for path in ("main/bridge", "ipam/host-local", "main/loopback", "meta/portmap", "main/ptp")
    },
    stamps={"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion": "v{version}"},
    size=20 * MIB,
    workspace=400 * MIB,
    minutes=1,
)
PAUSE = _own("pause", 2 * MIB)
PROBE = _own("probe", 7 * MIB)
NODE_ROOT = NodeRoot(
    "node-root",
    size=300 * MIB,
    workspace=0,
    minutes=3,
)

FLUX = (SOURCE_CONTROLLER, KUSTOMIZE_CONTROLLER)
"""Flux's controllers of Git repositories, for tests, when they are built."""
GARDENER = GoModule(
    "gardener",
    folder=HERE / "gardener",
    module="github.com/gardener/gardener",
    programs=dict.fromkeys(("gardener-apiserver", "gardener-controller-manager"), ("--version",)),
    packages=_commands("github.com/gardener/gardener", "gardener-apiserver", "gardener-controller-manager"),
    size=220 * MIB,
    workspace=3000 * MIB,
    minutes=6,
    stamps={f"k8s.io/component-base/version.{name}": value for name, value in VERSION.items()},
)
"""The API server and the controllers of a real garden, for tests of our Shoots and Seeds, when they are built."""
MACHINE_CONTROLLER_MANAGER = GoModule(
    "machine-controller-manager",
    folder=HERE / "machine-controller-manager",
    module="github.com/gardener/machine-controller-manager",
    programs=dict.fromkeys(("machine-controller-manager", "machine-controller"), ("-version",)),
    folders=("kubernetes/crds",),
    size=60 * MIB,
    workspace=1500 * MIB,
    minutes=3,
)
"""Gardener's machine controller manager, with a driver for the simulated cloud, for tests of our Workers. The version
is the one that Gardener's has."""


def envtest(row: Row) -> tuple[GoModule, GoModule]:
    """Components of a control plane for tests."""
    return etcd(row.etcd), kubernetes(row.kubernetes)


def envtest_folder(row: Row) -> str:
    """The name of the folder with links to them, in the folder of assets."""
    return f"envtest-{row.kubernetes}"


def programs_of(row: Row) -> tuple[Component, ...]:
    """The programs of a control plane: for tests, when they are built, and for management clusters of real nodes."""
    further = (etcd(row.etcd_before), etcdutl(row.etcd), cluster_api(row.cluster_api))
    return (*envtest(row), *further, CAPV, VCENTER, PROVIDER_CRDS)


TESTED = programs_of(ROW)


def node_bases(repository: str = DEFAULT_REPOSITORY, row: Row = ROW) -> list[NodeBase]:
    """A base for nodes of each Kubernetes version of a row, whose images have names below `repository`."""
    return [
        NodeBase(
            NAME,
            root=NODE_ROOT,
            kubernetes=node_programs(minor.patch),
            etcd=etcd(minor.etcd_image.partition("-")[0]),
            coredns=_coredns(minor.coredns),
            pause=PAUSE,
            probe=PROBE,
            containerd=_containerd(minor.containerd),
            cni_plugins=CNI_PLUGINS,
            etcd_tag=minor.etcd_image,
            pause_tag=minor.pause,
            repository=repository,
            size=300 * MIB,
            workspace=0,
            minutes=0.5,
        )
        for minor in map(KUBERNETES_MINORS.__getitem__, row.nodes)
    ]


OTHERS = (*FLUX, HELM, CERT_MANAGER, GARDENER, MACHINE_CONTROLLER_MANAGER, ETCDBRCTL, CLUSTERCTL, REGISTRY)
"""Components of no row."""

GROUPS = ("tests", "flux", "helm", "gardener", "nodes")
"""Groups of components: the management cluster that tests run against, Flux for it, Helm with a chart, a real garden,
and everything for real nodes."""


def everything(repository: str = DEFAULT_REPOSITORY) -> list[Component]:
    """All components of all rows, whose images have names below `repository`, in build order."""
    return with_needs((*of_all_rows(repository), *OTHERS))


def chosen(names: Sequence[str], repository: str = DEFAULT_REPOSITORY, row: Row = ROW) -> list[Component]:
    """The components of these names: of a group, of a component, or of one version of it (`node-base-1.35.4`).

    Groups and components are those of the row; one version may be of any row. Raises `ValueError` for an unknown name,
    with the known ones.
    """
    groups = _groups(row, repository)
    of_row = with_needs((*groups["nodes"], *OTHERS))
    of_all = with_needs((*of_row, *everything(repository)))
    components: list[Component] = []
    unknown = []
    for name in names:
        matching = groups.get(name) or [component for component in of_row if component.name == name]
        matching = matching or [component for component in of_all if component.key == name]
        components += matching
        if not matching:
            unknown.append(name)
    if unknown:
        known = ", ".join([*GROUPS, *dict.fromkeys(component.name for component in of_row)])
        versions = ", ".join(component.key for component in of_all if component.name == NAME)
        raise ValueError(f"unknown component {', '.join(unknown)}; known: {known}; for one version: {versions}")
    return with_needs(components)


def of_all_rows(repository: str = DEFAULT_REPOSITORY) -> list[Component]:
    """The components of the groups of every row, in build order."""
    return with_needs(component for row in ROWS.values() for component in _groups(row, repository)["nodes"])


def _groups(row: Row, repository: str) -> dict[str, tuple[Component, ...]]:
    programs = programs_of(row)
    return {
        "tests": programs,
        "flux": FLUX,
        "helm": (HELM, CERT_MANAGER),
        "gardener": (GARDENER, MACHINE_CONTROLLER_MANAGER),
        "nodes": (*programs, *node_bases(repository, row)),
    }
