"""Rules about encryption in etcd: with an invalid configuration, kube-apiserver does not start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.control_plane import KeyManagementService
from espalier.api.text.violations import Violation
from espalier.clusters.design.render.api_server.etcd_encryption import SOCKETS

_FIELD = "spec.etcdEncryption"
_SOCKET = re.compile(rf"unix://(/@[A-Za-z0-9._-]+|{SOCKETS}[A-Za-z0-9._-]+)")
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DURATION = re.compile(r"(([0-9]+(\.[0-9]*)?)(ns|us|µs|ms|s|m|h))+")


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Violations of a cluster whose provider supports it."""
    asked = spec.etcd_encryption
    if len(asked) > 1:
        message = "only one encryption configuration is supported; merge them"
        yield Violation(_FIELD, f"{len(asked)} configurations", "one", message)
    for index, encryption in enumerate(asked):
        field = f"{_FIELD}[{index}]"
        if len(encryption.providers) != 1:
            message = "only one provider is supported; keep one"
            yield Violation(f"{field}.providers", f"{len(encryption.providers)} providers", "one", message)
        if not encryption.resources:
            yield Violation(f"{field}.resources", "nothing", "resources like secrets", "say which resources to encrypt")
        for place, name in enumerate(encryption.resources):
            if not _RESOURCE.fullmatch(name):
                message = "not the name of a resource, with its group if it has one"
                yield Violation(f"{field}.resources[{place}]", name, "secrets, leases.coordination.k8s.io", message)
        for number, provider in enumerate(encryption.providers):
            yield from _plugin(f"{field}.providers[{number}].kms", provider.kms)


def _plugin(field: str, kms: KeyManagementService) -> Iterator[Violation]:
    if not kms.name or ":" in kms.name:
        yield Violation(f"{field}.name", kms.name or "nothing", "a name without colons", "name the KMS plugin")
    if not _SOCKET.fullmatch(kms.socket_listen_address):
        message = "not a socket that the API server can reach"
        address = kms.socket_listen_address or "nothing"
        yield Violation(
            f"{field}.socketListenAddress", address, f"unix://{SOCKETS}NAME.sock, or unix:///@NAME", message
        )
    if kms.cachesize is not None and (kms.cachesize == 0 or not -1 <= kms.cachesize < 2**31):
        message = "not a cache size"
        yield Violation(f"{field}.cachesize", str(kms.cachesize), "1 or more, or -1 for no cache", message)
    if kms.timeout and not (_DURATION.fullmatch(kms.timeout) and re.search("[1-9]", kms.timeout)):
        yield Violation(f"{field}.timeout", kms.timeout, "a duration like 3s", "not a timeout")
