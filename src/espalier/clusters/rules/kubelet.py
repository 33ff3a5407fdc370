"""Rules about KubeletConfigurations: with an invalid one a kubelet never starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from espalier.api import kubelet
from espalier.api.eksa import cluster as eksa
from espalier.api.schema import Part
from espalier.api.violations import Violation, shown
from espalier.clusters.rules import messages

_CONFIGURATION = Part(kubelet.SCHEMA)


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Unknown fields, values of wrong types, and fields that the provider sets."""
    control_plane = spec.control_plane_configuration
    if control_plane is not None:
        yield from _of(control_plane.kubelet_configuration, "spec.controlPlaneConfiguration.kubeletConfiguration")
    for index, group in enumerate(spec.worker_node_group_configurations):
        yield from _of(group.kubelet_configuration, f"spec.workerNodeGroupConfigurations[{index}].kubeletConfiguration")


def _of(configuration: Mapping[str, Any] | None, field: str) -> Iterator[Violation]:
    if not configuration:
        return
    if "providerID" in configuration:
        yield Violation(f"{field}.providerID", shown(configuration["providerID"]), "nothing", messages.PROVIDER_ID)
    yield from _CONFIGURATION.violations(dict(configuration), field)
