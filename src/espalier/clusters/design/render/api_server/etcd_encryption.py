"""Encryption in etcd (`spec.etcdEncryption`), by a KMS plugin that runs on control plane machines.

The plugin is a user's pod: it must run before the API server reads encrypted objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from espalier.api.capi.kubeadm import File, HostPathMount
from espalier.api.eksa.parts.control_plane import EtcdEncryption, KeyManagementService
from espalier.api.meta import Tree
from espalier.clusterapi.kubernetes_versions import minor
from espalier.clusters.design.provider import RenderInput

MOUNTED = "/etc/kubernetes/enc/encryption-config.yaml"
SOCKETS = "/var/run/kmsplugin/"
"""The folder of plugins' sockets, as in EKS Anywhere."""

CACHE_SIZE, TIMEOUT = 1000, "3s"
"""The default, as in EKS Anywhere."""

_GATES, _KMS_V1 = "feature-gates", "KMSv1=true"
_KMS_V1_OFF_SINCE = minor("1.29")
"""The first Kubernetes version with this protocol version off by default; older ones may not know the feature gate."""


class Parts(NamedTuple):
    """The additions to control plane machines."""

    flags: dict[str, str]
    volumes: list[HostPathMount]
    files: list[File]


def of(render_input: RenderInput) -> Parts:
    """The additions; none for most clusters. The provider determines the path of the file."""
    if not render_input.spec.etcd_encryption:
        return Parts({}, [], [])
    path = render_input.provider.encryption_file
    content = json.dumps(_configuration(render_input.spec.etcd_encryption), indent=2) + "\n"  # JSON is YAML
    return Parts(
        flags={"encryption-provider-config": MOUNTED, **_gates(render_input)},
        volumes=[
            HostPathMount(
                name="encryption-config", host_path=path, mount_path=MOUNTED, path_type="File", read_only=True
            ),
            HostPathMount(
                name="kms-plugin",
                host_path=SOCKETS,
                mount_path=SOCKETS,
                path_type="DirectoryOrCreate",
                read_only=False,
            ),
        ],
        files=[File(path=path, owner="root:root", permissions="0600", content=content)],
    )


def _gates(render_input: RenderInput) -> dict[str, str]:
    """The feature gates, including those that the Cluster requests."""
    if minor(render_input.of_control_plane.version) < _KMS_V1_OFF_SINCE:
        return {}
    asked = render_input.control_plane.api_server_extra_args.get(_GATES, "")
    return {_GATES: ",".join(filter(None, (asked, _KMS_V1)))}


def _configuration(asked: list[EtcdEncryption]) -> Mapping[str, object]:
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [
            {
                "resources": rule.resources,
                "providers": [*(_plugin(each.kms) for each in rule.providers), {"identity": {}}],
            }
            for rule in asked
        ],
    }


def _plugin(kms: KeyManagementService) -> Tree:
    return {
        "kms": {
            "apiVersion": "v1",
            "name": kms.name,
            "endpoint": kms.socket_listen_address,
            "cachesize": CACHE_SIZE if kms.cachesize is None else kms.cachesize,
            "timeout": kms.timeout or TIMEOUT,
        }
    }
