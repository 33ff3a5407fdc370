"""Versions of Kubernetes, etcd, Cluster API, containerd, cert-manager and the CNI plugins, and which go together.

The only place where they are declared: recipes of assets, rules, documents and tests read them here. A new version is
a new entry of a table below, and for programs that are built its `.mod` file in `espalier/assets`. Standard library
only: `python3 -m espalier.assets` runs before anything is installed.

Versions have no leading v. A minor version is `1.37`, a patch version `1.37.2`. Dates are ISO dates.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

ROW_VARIABLE = "ESPALIER_ROW"
"""The environment variable that names the row whose programs are built and run; without it, `DEFAULT_ROW`."""

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class KubernetesMinor:
    """Requirements of a minor version of Kubernetes."""

    patch: str
    """The patch version that is built and tested."""
    etcd_image: str
    """The tag of etcd's image that kubeadm of this version starts: `3.6.8-0`."""
    etcd_oldest: str
    """The oldest etcd that kubeadm of this version takes as an external one."""
    etcd_newest: str
    """The newest minor version of etcd that a kubeadm puts beside this control plane."""
    coredns: str
    pause: str
    containerd: str
    """The containerd that is built for its nodes."""
    containerd_oldest: str
    """The oldest minor version of containerd whose CRI its kubelet takes."""
    ends: str
    """End of patch releases upstream."""
    lost_gates: frozenset[str] = frozenset()
    """Feature gates of kube-apiserver and kubelet that the version before has."""


@dataclass(frozen=True)
class EtcdMinor:
    """Requirements of a minor version of etcd on the one before."""

    patch: str
    """The patch version that is built and tested."""
    before: str
    """The minor version before it: the only one that it is upgraded from."""
    removed_flags: tuple[str, ...] = ()
    """Prefixes of flags that the version before takes and this one does not."""


@dataclass(frozen=True)
class ClusterApiMinor:
    """Versions that a minor version of Cluster API supports."""

    patch: str
    """The patch version that is built and tested; empty if none is."""
    management: tuple[str, str]
    """The oldest and the newest Kubernetes of a management cluster."""
    workload: tuple[str, str]
    """The oldest and the newest Kubernetes of a workload cluster."""
    first_patches: Mapping[str, str]
    """The first patch version with which a newer Kubernetes is supported, by that Kubernetes."""
    cert_manager: str
    """The cert-manager that its clusterctl installs."""
    ends: str
    """When its support ends, in the words of its own table: it ends with a release, not at a date."""


@dataclass(frozen=True)
class Ending:
    """Something of Cluster API that a later minor version no longer has."""

    subject: str
    release: str
    """The minor version that no longer has it."""
    date: str
    """The month of that release, as announced: `2027-04`; empty if none was announced."""
    instead: str


@dataclass(frozen=True)
class Row:
    """Versions that are built and tested together, named after the Kubernetes of the management cluster."""

    name: str
    kubernetes: str
    etcd: str
    etcd_before: str
    """An etcd of the minor version before, for upgrades and for snapshots of older data."""
    cluster_api: str
    cni_plugins: str

    @property
    def containerd(self) -> str:
        """The containerd of nodes with the row's own Kubernetes."""
        return KUBERNETES[self.name].containerd

    @property
    def cert_manager(self) -> str:
        """The cert-manager that belongs to its Cluster API."""
        return CLUSTER_API[minor_of(self.cluster_api)].cert_manager

    @property
    def nodes(self) -> tuple[str, ...]:
        """Minor versions of Kubernetes that its nodes run: the row's own and two before."""
        minors = list(KUBERNETES)
        last = minors.index(self.name)
        return tuple(minors[max(0, last - 2) : last + 1])


# pkg/features of Kubernetes, and of apiserver; `tests/contracts/test_api_server_flags.py` asks the program.
_LOST_IN_1_37 = """
APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache GangScheduling JobBackoffLimitPerIndex
JobPodReplacementPolicy JobSuccessPolicy LogarithmicScaleDown OrderedNamespaceDeletion PodLifecycleSleepAction
PodLifecycleSleepActionAllowZero PreventStaticPodAPIReferences RelaxedDNSSearchValidation
ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints SidecarContainers
StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
WorkloadAwarePreemption
"""

# https://kubernetes.io/releases/<minor>/ for the ends; cmd/kubeadm/app/constants/constants.go of each patch version for
# etcd, CoreDNS and pause; the newest etcd is that of kubeadm 1.37's table of supported versions (1.34 to 1.36: 3.7.0).
# containerd: cmd/kubelet/app/server.go, which uses the kubelet's own cgroup driver up to 1.37 if a runtime has no
# RuntimeConfig (containerd 1.7), and refuses such a runtime from 1.38 on.
KUBERNETES: Mapping[str, KubernetesMinor] = {
    "1.34": KubernetesMinor("1.34.4", "3.6.5-0", "3.5.24", "3.7", "1.12.1", "3.10.1", "2.3.7", "1.7", "2026-10-27"),
    "1.35": KubernetesMinor("1.35.4", "3.6.6-0", "3.5.24", "3.7", "1.13.1", "3.10.1", "2.3.7", "1.7", "2027-02-28"),
    "1.36": KubernetesMinor("1.36.3", "3.6.8-0", "3.5.24", "3.7", "1.14.2", "3.10.2", "2.3.7", "1.7", "2027-06-28"),
    "1.37": KubernetesMinor(
        *("1.37.2", "3.7.0-0", "3.5.24", "3.7", "1.14.6", "3.10.2", "2.4.2", "1.7", "2027-10-28"),
        lost_gates=frozenset(_LOST_IN_1_37.split()),
    ),
}

# https://etcd.io/docs/v3.6/upgrades/upgrade_3_6/ and https://etcd.io/docs/v3.7/upgrades/upgrade_3_7/.
ETCD: Mapping[str, EtcdMinor] = {
    "3.5": EtcdMinor("3.5.35", before="3.4"),
    "3.6": EtcdMinor("3.6.16", before="3.5", removed_flags=("enable-v2",)),
    "3.7": EtcdMinor("3.7.3", before="3.6", removed_flags=("experimental-",)),
}

OLDEST_CERT_MANAGER = "v1.18"
"""The oldest cert-manager with which providers of Cluster API get certificates for their webhooks."""

# docs/book/src/reference/versions.md of Cluster API 1.14.2, and CertManagerDefaultVersion of its clusterctl.
CLUSTER_API: Mapping[str, ClusterApiMinor] = {
    "1.13": ClusterApiMinor(
        "1.13.5",
        management=("1.32", "1.35"),
        workload=("1.30", "1.35"),
        first_patches={"1.36": "1.13.1", "1.37": "1.13.6"},
        cert_manager="1.21.1",
        ends="when 1.16.0 is released",
    ),
    "1.14": ClusterApiMinor(
        "1.14.2",
        management=("1.33", "1.36"),
        workload=("1.31", "1.36"),
        first_patches={"1.37": "1.14.1"},
        cert_manager="1.21.1",
        ends="when 1.17.0 is released",
    ),
}

# https://cert-manager.io/docs/releases/: the oldest and the newest Kubernetes, and when its support ends.
CERT_MANAGER: Mapping[str, tuple[str, str, str]] = {"1.21": ("1.33", "1.36", "when 1.23 is released")}
BEYOND_CERT_MANAGER = frozenset({"1.37"})
"""Rows with a newer Kubernetes than their cert-manager states: it is the one that clusterctl of their Cluster API
installs."""

RELEASED_WITH_CLUSTER_API = ("infrastructure-docker",)
"""The labels of infrastructure providers that are released with Cluster API, in its versions."""

# docs/book/src/developer/providers/migrations/v1.13-to-v1.14.md and docs/book/src/reference/versions.md.
DOCKER_KINDS = Ending("DockerCluster, DockerMachine and their templates", "1.15", "", "DevCluster, DevMachine")
OLD_API = Ending("API version v1beta1 of Cluster API", "1.16", "2027-04", "API version v1beta2")
OLD_CONTRACT = Ending("contract v1beta1 of providers", "1.16", "2027-04", "providers with contract v1beta2")
ENDINGS = (
    DOCKER_KINDS,
    OLD_API,
    OLD_CONTRACT,
    Ending("status.version of KubeadmControlPlane", "", "", "status.versions, from Cluster API 1.14 on"),
)

ROWS: Mapping[str, Row] = {
    row.name: row
    for row in (
        Row("1.36", "1.36.3", etcd="3.6.16", etcd_before="3.5.35", cluster_api="1.13.5", cni_plugins="1.9.1"),
        Row("1.37", "1.37.2", etcd="3.7.3", etcd_before="3.6.16", cluster_api="1.14.2", cni_plugins="1.9.1"),
    )
}
DEFAULT_ROW = "1.36"
"""The row of the newest Kubernetes that the Bundles of this release name."""


class UnknownRow(ValueError):
    """The environment names a row that does not exist. The message has the known ones."""


def selected_row() -> Row:
    """The row that `ESPALIER_ROW` names, else the default one. Raises `UnknownRow`."""
    name = os.environ.get(ROW_VARIABLE) or DEFAULT_ROW
    if name not in ROWS:
        raise UnknownRow(f"{ROW_VARIABLE}: found {name!r}, allowed is a row of versions: {', '.join(ROWS)}")
    return ROWS[name]


def numbers(version: str) -> Numbers:
    """The numbers of `v3.6.8-0` or `3.6`: (3, 6, 8) and (3, 6); empty if the text begins with none."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in match[1].split(".")) if match else ()


def minor_of(version: str) -> str:
    """The minor version of `v3.6.8-0`: `3.6`; empty if the text has fewer than two numbers."""
    version_numbers = numbers(version)
    return f"{version_numbers[0]}.{version_numbers[1]}" if len(version_numbers) > 1 else ""


def lost_gates(kubernetes: str) -> frozenset[str]:
    """Feature gates that a minor version of Kubernetes has no more, as far as they are known."""
    earlier = (row for minor, row in KUBERNETES.items() if numbers(minor) <= numbers(kubernetes))
    return frozenset[str]().union(*(row.lost_gates for row in earlier))


def etcd_range(kubernetes: str, etcd: str) -> str:
    """The versions of etcd that a Kubernetes version can use, `3.5.24 to 3.7`, if this one is not among them.

    Empty if it is, or if nothing is known of either.
    """
    known = KUBERNETES.get(minor_of(kubernetes))
    version_numbers = numbers(etcd)
    if known is None or len(version_numbers) < 2:
        return ""
    oldest = numbers(known.etcd_oldest)[: len(version_numbers)]
    is_usable = version_numbers[:2] <= numbers(known.etcd_newest) and version_numbers >= oldest
    return "" if is_usable else f"{known.etcd_oldest} to {known.etcd_newest}"


def etcd_minors_for(*versions: str) -> tuple[str, ...]:
    """Minor versions of etcd that start with a database of these versions: that of the cluster, that of the storage.

    etcd never starts with data of a later version, and is upgraded one minor version at a time. Empty if no version is
    known: a database has none in the first seconds of its etcd's life.
    """
    newest = max((minor_of(version) for version in versions), key=numbers, default="")
    return (newest, *(minor for minor, etcd in ETCD.items() if etcd.before == newest)) if newest else ()


if __name__ == "__main__":
    print(" ".join(ROWS))
