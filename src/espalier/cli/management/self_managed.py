"""Manifests of management clusters: which they are, and which flags they allow."""

from __future__ import annotations

from urllib.parse import quote

from espalier.api.eksa.cluster import Cluster
from espalier.cli.clusters.manifests import documents
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Usage


def is_self_managed(manifest: documents.Examined) -> bool:
    """True if the Cluster of a manifest names itself as its management cluster, or none."""
    clusters = [document for document in manifest.documents if document.kind == Cluster.resource.kind]
    spec = clusters[0].tree.get("spec") if len(clusters) == 1 else None
    if not isinstance(spec, dict):
        return False  # reported as for any other cluster
    cluster, named = clusters[0], spec.get("managementCluster") or {}
    return isinstance(named, dict) and named.get("name") in (None, "", cluster.name)


def environment_of(name: str) -> Home | None:
    """The environment of a management cluster that was created on this machine; None without one."""
    home = Home.locate().of_management_cluster(folder_name(name))
    return home if home.bootstrap.exists() else None


def resumption(home: Home) -> str:
    """The command that starts the machines of a management cluster, or what manages its real nodes."""
    real = " --nodes real" if home.components.exists() else ""
    return f"ESPALIER_HOME={home.root} espalier up --detach{real}"


def folder_name(name: str) -> str:
    """A name as that of one folder, whatever a manifest or an argument says."""
    return quote(name, safe="") if name.strip(".") else "unnamed"


def check_flags(*, wait: bool, output_format: str, all_kinds: bool) -> None:
    """Raises `Usage` for a flag that has no meaning for a management cluster."""
    if not wait:
        raise Usage("--no-wait: the command itself makes each step of a management cluster: omit the flag")
    if output_format:
        raise Usage("--output: objects of a management cluster are in itself: omit the flag")
    if all_kinds:
        raise Usage("--all-kinds: apply the other objects to the new management cluster: omit the flag")
