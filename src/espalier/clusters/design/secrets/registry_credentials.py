"""The account for a registry mirror that requires one: the Secret, its fields, and the variables that give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusters.design import registry_mirror
from espalier.clusters.design.render.nodes.node_setup import CREDENTIALS, asks_for_password
from espalier.clusters.design.secrets import credentials
from espalier.clusters.design.secrets.credential_files import Unreadable

USER, PASSWORD = "username", "password"
"""Fields of the Secret, as in EKS Anywhere."""
FIELDS = (USER, PASSWORD)

VARIABLES = {USER: "REGISTRY_USERNAME", PASSWORD: "REGISTRY_PASSWORD"}
"""The variables that the CLI of EKS Anywhere reads."""


def secrets(environment: Mapping[str, str], manifest: Sequence[Tree]) -> Iterator[Tree]:
    """The Secret with the account, for the mirrors of a manifest that require one; nothing without an account.

    Raises `Unreadable` where only one of the variables is set.
    """
    clusters = [msgspec.convert(body, Cluster) for body in manifest if body["kind"] == Cluster.resource.kind]
    asking = [cluster for cluster in clusters if asks_for_password(cluster.spec)]
    data = {field: environment[name] for field, name in VARIABLES.items() if environment.get(name)}
    if not asking or not data:
        return
    if missing := [name for field, name in VARIABLES.items() if field not in data]:
        (given,) = (name for field, name in VARIABLES.items() if field in data)
        raise Unreadable(f"{given} is set, and {missing[0]} is not: a registry mirror with authenticate needs both")
    mirrors = (cluster.spec.registry_mirror_configuration for cluster in asking)
    servers = [registry_mirror.base(mirror) for mirror in mirrors if mirror is not None]
    namespaces = [cluster.metadata.namespace for cluster in asking]
    yield credentials.secret(CREDENTIALS, data, servers=servers, namespaces=namespaces)


def lack(data: Mapping[str, bytes], _annotations: Mapping[str, str]) -> str:
    """The fields that the Secret lacks."""
    return credentials.lacking(
        f"{SYSTEM_NAMESPACE}/{CREDENTIALS}", data, FIELDS, "with the account of the registry mirror"
    )
