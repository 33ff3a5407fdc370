"""The certificate of a registry mirror from an environment variable, as the CLI of EKS Anywhere reads it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests.leniency import Note
from espalier.api.manifests.manifests import Document
from espalier.cli.kit.connecting import variable_files

VARIABLE = "EKSA_REGISTRY_MIRROR_CA"
"""Names a file with certificates as PEM."""

FIELD = "spec.registryMirrorConfiguration"


def completed(document: Document, environment: Mapping[str, str]) -> Document:
    """The document with the certificate in its registry mirror, if it names none. Raises `Failure` for a file that
    can't be read. Every command reads it, so that all of them say the same about a manifest.
    """
    path, spec = environment.get(VARIABLE), document.tree.get("spec")
    if not path or document.kind != Cluster.resource.kind or not isinstance(spec, dict):
        return document
    mirror = spec.get("registryMirrorConfiguration")
    if not isinstance(mirror, dict) or mirror.get("caCertContent"):
        return document
    mirror = {**mirror, "caCertContent": variable_files.content(VARIABLE, path)}
    note = Note(f"{FIELD}.caCertContent", f"missing; read from {path}, which {VARIABLE} names")
    tree = {**document.tree, "spec": {**spec, "registryMirrorConfiguration": mirror}}
    return replace(document, tree=tree, notes=(*document.notes, note))
