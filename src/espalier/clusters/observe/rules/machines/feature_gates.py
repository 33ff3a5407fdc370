"""Rules about feature gates: with one that its version has lost, no kube-apiserver and no kubelet starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.text.violations import Violation
from espalier.api.version_matrix import lost_gates
from espalier.clusters.observe.rules import messages


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Feature gates in flags and KubeletConfigurations that the Kubernetes version has lost."""
    version = spec.kubernetes_version
    if control_plane := spec.control_plane_configuration:
        field = "spec.controlPlaneConfiguration"
        settings = (control_plane.api_server_extra_args.get("feature-gates") or "").split(",")
        gates = (setting.partition("=")[0].strip() for setting in settings)
        yield from _lost(f"{field}.apiServerExtraArgs.feature-gates", gates, version)
        yield from _of_kubelet(field, control_plane.kubelet_configuration, version)
    for index, group in enumerate(spec.worker_node_group_configurations):
        field = f"spec.workerNodeGroupConfigurations[{index}]"
        yield from _of_kubelet(field, group.kubelet_configuration, group.kubernetes_version or version)


def _of_kubelet(field: str, configuration: object, version: str) -> Iterator[Violation]:
    gates = configuration.get("featureGates") if isinstance(configuration, dict) else None
    if isinstance(gates, dict):
        yield from _lost(f"{field}.kubeletConfiguration.featureGates", gates, version)


def _lost(field: str, gates: Iterable[str], version: str) -> Iterator[Violation]:
    lost = lost_gates(version)
    for gate in gates:
        if gate in lost:
            yield Violation(field, gate, f"a feature gate of Kubernetes {version}", messages.LOST_GATE)
