"""Permission to send credentials: a Secret of the system's namespace names, in annotations, the servers that it is for
and the namespaces whose Clusters may use it.

Servers and references are input of tenants. Without this, a tenant could have the manager send the credentials of
others to a server of his own (DESIGN §6.11).
"""

from __future__ import annotations

from collections.abc import Mapping

from espalier.api.eksa.group import GROUP

SERVERS = f"{GROUP}/credentials-servers"
"""On a Secret, set by whoever made it: servers, as specs name them, separated by commas."""

NAMESPACES = f"{GROUP}/credentials-namespaces"
"""On a Secret, likewise: namespaces of Clusters that may use it, separated by commas; `*` for all."""

ANY = "*"


def permits(annotations: Mapping[str, str], *, server: str, namespace: str) -> bool:
    """True if a Secret with these annotations may be sent to `server` for a Cluster in `namespace`."""
    namespaces = _listed(annotations.get(NAMESPACES, ""))
    return server.lower() in _listed(annotations.get(SERVERS, "").lower()) and bool(namespaces & {namespace, ANY})


def advice(name: str, *, server: str, namespace: str) -> str:
    """The sentence for a Secret that is absent or not permitted; the same for both, as names of Secrets of others are
    not for tenants to find out.
    """
    return (
        f"Secret {name}, which must exist and permit this use: annotation {SERVERS} with {server}, "
        f"and {NAMESPACES} with {namespace} or {ANY}"
    )


def _listed(value: str) -> frozenset[str]:
    return frozenset(filter(None, (one.strip() for one in value.split(","))))
