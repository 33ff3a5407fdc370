"""Feature gates that the kubeadm control plane provider puts into each machine's configuration, by version."""

from __future__ import annotations

import re

from espalier.api.meta import Tree

LOCAL_MODE = "ControlPlaneKubeletLocalMode"
"""On for 1.31 to 1.35, where kubeadm has it off by default; from 1.36 on kubeadm knows it no longer."""

_MINOR = re.compile(r"v?1\.(\d+)\.")


def with_gates(configuration: Tree, version: str) -> Tree:
    """A ClusterConfiguration as the provider writes it into machines of a version. What is asked for wins."""
    asked: Tree = configuration.get("featureGates") or {}
    found = _MINOR.match(version)
    if found is None or not 31 <= int(found[1]) < 36 or LOCAL_MODE in asked:
        return {**configuration}
    return configuration | {"featureGates": {**asked, LOCAL_MODE: True}}
