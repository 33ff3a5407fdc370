"""User data of a virtual machine as its image applies it: cloud-init writes the files, and kubelet joins with them."""

from __future__ import annotations

import json

from espalier.api.gardener.operating_system_config import BOOTSTRAP_KUBECONFIG, KUBELET_CONFIG
from espalier.simulator.cloud.user_data import files_of

JOINED = "/var/lib/kubelet/pki/kubelet-client-current.pem"
"""kubelet's certificate, once its request is approved and signed."""
WITHIN = 300
"""Seconds until then."""
COMMANDS = (
    f"ln -s {BOOTSTRAP_KUBECONFIG} /etc/kubernetes/bootstrap-kubelet.conf",
    f"ln -s {KUBELET_CONFIG} /var/lib/kubelet/config.yaml",
    "systemctl start kubelet",
    f"timeout {WITHIN} sh -c 'until [ -e {JOINED} ]; do sleep 0.2; done'",
)
"""Kubelet's unit has the paths of kubeadm; what comes after these commands, the pod network, asks the API server."""


def cloud_config(user_data: bytes) -> bytes:
    """The user data for cloud-init. A machine without a kubeconfig runs but does not join as a node."""
    files = files_of(user_data)
    written = [{"path": path, "content": content, "permissions": "0600"} for path, content in files.items()]
    commands = list(COMMANDS) if BOOTSTRAP_KUBECONFIG in files else []
    return b"#cloud-config\n" + json.dumps({"write_files": written, "runcmd": commands}).encode()
