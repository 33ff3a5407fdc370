"""kube-vip: it keeps the address of a control plane on one of its machines, for providers without a load balancer."""

from __future__ import annotations

import json

from espalier.api.capi.kubeadm import File

PATH = "/etc/kubernetes/manifests/kube-vip.yaml"
_KUBECONFIG = "/etc/kubernetes/admin.conf"
_FIRST_KUBECONFIG = "/etc/kubernetes/super-admin.conf"

FIRST_MACHINE = (
    f"if [ -f /run/kubeadm/kubeadm.yaml ]; then "
    f'''sed -i 's#"path": "{_KUBECONFIG}"#"path": "{_FIRST_KUBECONFIG}"#' {PATH}; fi'''
)
"""A command, before kubeadm: on the machine that begins a control plane, `admin.conf` has no rights until the API
server is reached, by the address that kube-vip is to bring."""


def file(image: str, address: str) -> File:
    """The static pod on machines of the control plane."""
    return File(
        path=PATH, owner="root:root", permissions="0600", content=json.dumps(_pod(image, address), indent=2) + "\n"
    )


def _pod(image: str, address: str) -> dict[str, object]:
    settings = {
        "vip_arp": "true",
        "port": "6443",
        "vip_cidr": "128" if ":" in address else "32",
        "cp_enable": "true",
        "cp_namespace": "kube-system",
        "vip_ddns": "false",
        "vip_leaderelection": "true",
        "vip_leaseduration": "15",
        "vip_renewdeadline": "10",
        "vip_retryperiod": "2",
        "address": address,
    }
    container = {
        "name": "kube-vip",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["manager"],
        "env": [{"name": name, "value": value} for name, value in settings.items()],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
        "volumeMounts": [{"name": "kubeconfig", "mountPath": _KUBECONFIG}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kube-vip", "namespace": "kube-system"},
        "spec": {
            "hostNetwork": True,
            "containers": [container],
            "volumes": [{"name": "kubeconfig", "hostPath": {"path": _KUBECONFIG}}],
        },
    }
