"""Rules about KubeletConfigurations: with an invalid one a kubelet never starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts import kubelet
from espalier.api.manifests.schema import Part
from espalier.api.text.violations import Violation, shown
from espalier.clusters.design import addresses
from espalier.clusters.observe.rules import messages

_CONFIGURATION = Part(kubelet.SCHEMA)
_HIGH_THRESHOLD, _LOW_THRESHOLD = 85, 80
"""Percentages of image garbage collection that a kubelet takes by default."""
_NEVER = ("0%", "100%")
"""Thresholds that a kubelet drops."""
_LEADING_ZEROS = re.compile(r"(?<![0-9A-Fa-f:])0+(?=[0-9])")
"""Kubelets read 010.0.0.1 as 10.0.0.1."""

_json = msgspec.json.Encoder()


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Unknown fields, values with which no kubelet starts, and fields that the provider sets."""
    control_plane = spec.control_plane_configuration
    if control_plane is not None:
        yield from _of(control_plane.kubelet_configuration, "spec.controlPlaneConfiguration.kubeletConfiguration")
    for index, group in enumerate(spec.worker_node_group_configurations):
        yield from _of(group.kubelet_configuration, f"spec.workerNodeGroupConfigurations[{index}].kubeletConfiguration")


def _of(configuration: Mapping[str, Any] | None, field: str) -> Iterator[Violation]:
    if not configuration:
        return
    if (size := len(_json.encode(configuration))) > kubelet.MOST_BYTES:
        # Alone: it may have a million other mistakes.
        yield Violation(field, f"{size} bytes", f"at most {kubelet.MOST_BYTES} bytes of JSON", "each node gets a copy")
        return
    if "providerID" in configuration:
        yield Violation(f"{field}.providerID", shown(configuration["providerID"]), "nothing", messages.PROVIDER_ID)
    violations = list(_CONFIGURATION.violations(dict(configuration), field))
    yield from violations or _related(configuration, field)


def _related(configuration: Mapping[str, Any], field: str) -> Iterator[Violation]:
    """The settings that a kubelet refuses because of two fields, or can't use; both are of their types."""
    high = configuration.get("imageGCHighThresholdPercent")
    low = configuration.get("imageGCLowThresholdPercent")
    most = _HIGH_THRESHOLD if high is None else high
    if (_LOW_THRESHOLD if low is None else low) >= most:
        value = f"{_LOW_THRESHOLD} (the default)" if low is None else str(low)
        message = "must be below imageGCHighThresholdPercent"
        allowed = f"0 to {most - 1}" if most else "a higher imageGCHighThresholdPercent"
        yield Violation(f"{field}.imageGCLowThresholdPercent", value, allowed, message)
    periods = configuration.get("evictionSoftGracePeriod") or {}
    for signal, threshold in (configuration.get("evictionSoft") or {}).items():
        if signal not in periods and threshold not in _NEVER:
            message = "each soft threshold needs a grace period"
            yield Violation(f"{field}.evictionSoftGracePeriod", f"none for {signal}", "one like 1m30s", message)
    for index, server in enumerate(configuration.get("clusterDNS") or ()):
        if addresses.parsed(_LEADING_ZEROS.sub("", server)) is None:
            yield Violation(f"{field}.clusterDNS[{index}]", server, "an IP address", "not an IP address")
