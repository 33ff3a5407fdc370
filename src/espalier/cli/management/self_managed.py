"""Manifests of management clusters: which they are, and which flags they allow."""

from __future__ import annotations

from espalier.cli.clusters import documents
from espalier.cli.kit.failures import Usage


def is_self_managed(manifest: documents.Examined) -> bool:
    """True if the Cluster of a manifest names itself as its management cluster, or none."""
    cluster = documents.cluster_of(manifest.documents)
    spec = cluster.tree.get("spec")
    named = spec.get("managementCluster") if isinstance(spec, dict) else None
    return isinstance(spec, dict) and (
        named is None or (isinstance(named, dict) and named.get("name") in (None, "", cluster.name))
    )


def check_flags(*, wait: bool, output_format: str, all_kinds: bool) -> None:
    """Raises `Usage` for a flag that has no meaning for a management cluster."""
    if not wait:
        raise Usage("--no-wait: a management cluster is created by this command, step by step: omit the flag")
    if output_format:
        raise Usage("--output: objects of a management cluster are in itself: omit the flag")
    if all_kinds:
        raise Usage("--all-kinds: apply the other objects to the new management cluster: omit the flag")
