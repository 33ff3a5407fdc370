"""Permission to send credentials: annotations of a Secret in the system's namespace list the servers that may get it,
and the namespaces whose Clusters may use it.

Servers and references are input of tenants. Without this, a tenant could have the manager send others' credentials to a
server of his own (DESIGN §6.11).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

from espalier.api.core import SECRET
from espalier.api.eksa.group import GROUP, SYSTEM_NAMESPACE
from espalier.api.meta import Tree

SERVERS = f"{GROUP}/credentials-servers"
"""On a Secret, set by its author: servers as in specs, separated by commas."""

NAMESPACES = f"{GROUP}/credentials-namespaces"
"""On a Secret, likewise: namespaces of Clusters that may use it, separated by commas; `*` for all."""

IN_WORKLOAD_CLUSTERS, ALLOWED = f"{GROUP}/credentials-in-workload-clusters", "allowed"
"""Likewise: cloud controllers may use the account that creates machines."""

ANY = "*"


def permits(annotations: Mapping[str, str], *, server: str, namespace: str) -> bool:
    """True if a Secret with these annotations may be sent to `server` for a Cluster in `namespace`."""
    namespaces = _listed(annotations.get(NAMESPACES, ""))
    return server.lower() in _listed(annotations.get(SERVERS, "").lower()) and bool(namespaces & {namespace, ANY})


def advice(name: str, *, server: str, namespace: str) -> str:
    """The message for a Secret that is absent or not permitted; the same for both, because tenants must not learn names
    of others' Secrets.
    """
    return (
        f"Secret {name}, which must exist and permit this use: annotation {SERVERS} with {server}, "
        f"and {NAMESPACES} with {namespace} or {ANY}"
    )


def secret(name: str, data: Mapping[str, str], *, servers: Iterable[str], namespaces: Iterable[str]) -> Tree:
    """A Secret with credentials for these servers and namespaces."""
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "name": name,
            "namespace": SYSTEM_NAMESPACE,
            "annotations": {SERVERS: ",".join(sorted(set(servers))), NAMESPACES: ",".join(sorted(set(namespaces)))},
        },
        "type": "Opaque",
        "data": {field: base64.b64encode(value.encode()).decode() for field, value in data.items()},
    }


def widened(annotations: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """These annotations with more servers and namespaces; existing permissions stay."""
    return {name: ",".join(sorted(_listed(annotations.get(name, "")) | _listed(value))) for name, value in more.items()}


def servers_beside(annotations: Mapping[str, str], asked: Mapping[str, str]) -> list[str]:
    """The servers in these annotations other than the given ones. `insecure:HOST` is the same server as `HOST`."""
    known = {one.rpartition("insecure:")[2] for one in _listed(asked.get(SERVERS, "").lower())}
    there = {one.rpartition("insecure:")[2] for one in _listed(annotations.get(SERVERS, "").lower())}
    return sorted(there - known)


def _listed(value: str) -> frozenset[str]:
    return frozenset(filter(None, (one.strip() for one in value.split(","))))
