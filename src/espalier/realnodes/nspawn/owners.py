"""The management clusters that share this machine: which of them acts on which node. Pure.

A node is made by one of them, and a move gives it to another. Its new object has another uid, but the same name, and
its cluster the same certificate authority; two clusters of one name have different ones. The authority is known by its
key: its certificate is public, so whoever may write Secrets in any management cluster could claim a node with a copy.
Only the owner of a node takes it away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from espalier.api.core import Secret
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key
from espalier.clusterapi.objects import is_cluster_paused
from espalier.kube.objects import Object
from espalier.realnodes.nspawn.system.state import EndpointRecord, NodeRecord

MOVED_AWAY = "moved"
"""The owner of a node whose object was deleted for a move, until somebody has it. Whoever is not on this machine never
does: the node runs on.
"""
ENVIRONMENT = ""
"""The owner of what the local environment's own API server manages."""


def authority_secret(cluster: Key) -> Key:
    """The Secret in which Cluster API has the certificate authority of a cluster."""
    return Key(cluster.namespace, f"{cluster.name}-ca")


def fingerprint(secret: Object | None) -> str:
    """The SHA-256 of the authority's key; empty without one, as nobody proves then to be of this cluster."""
    return fingerprint_of(secret.decode(Secret).data.get("tls.key")) if secret is not None else ""


def fingerprint_of(text: bytes | None) -> str:
    """The SHA-256 of a certificate or key (PEM), whatever is around it; empty without one."""
    return hashlib.sha256(text.strip()).hexdigest() if text and text.strip() else ""


def of_object(nodes: Iterable[NodeRecord], uid: str) -> NodeRecord | None:
    """The node of an infrastructure object."""
    return next((node for node in nodes if node.uid == uid), None)


def moved_here(nodes: Iterable[NodeRecord], key: Key, authority: str) -> NodeRecord | None:
    """The node of a provisioned machine that came by a move; `authority` is the fingerprint of its cluster's."""
    return next((node for node in nodes if node.key == key and authority and node.authority == authority), None)


def adopted(node: NodeRecord, owner: str, uid: str) -> NodeRecord:
    """The record of a node that has another object from now on, maybe in another management cluster."""
    return msgspec.structs.replace(node, owner=owner, uid=uid, instance=node.instance_id)


def moved_away(old: Object | None, new: Object | None) -> bool:
    """True for the event that an infrastructure object is gone because of a move."""
    return new is None and old is not None and DELETE_FOR_MOVE in old.metadata.annotations


def has_ended(cluster: Object | None, *, is_alone: bool) -> bool:
    """True if a node whose object is gone is to be taken away: somebody took the finalizer off, or the API server lost
    its data. `cluster` is that of the node.

    A move removes objects, too, with their cluster paused, and then the cluster: what no longer exists may be acted on
    by another management cluster of this machine, unless this one `is_alone`.
    """
    return is_alone if cluster is None else not is_cluster_paused(cluster)


def is_behind(node: NodeRecord, endpoint: EndpointRecord) -> bool:
    """True if a node belongs to the cluster of a control plane's endpoint, whoever manages it."""
    if node.endpoint:
        return node.endpoint == endpoint.address
    return str(node.cluster_key) == endpoint.cluster  # recorded by an earlier release


def may_have(endpoint: EndpointRecord, nodes: Iterable[NodeRecord], authority: str) -> bool:
    """True if the nodes behind a control plane's address are those of a cluster with this authority.

    Names and addresses are public: without this, a cluster of the same name would get the traffic of another's clients.
    """
    return all(node.authority in ("", authority) for node in nodes if is_behind(node, endpoint))
