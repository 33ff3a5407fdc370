"""Credentials for a vCenter from the environment variables that the CLI of EKS Anywhere reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from espalier.api.meta import Tree
from espalier.clusters.design.secrets import credentials
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig
from espalier.providers.vsphere.references import CP_PASSWORD, CP_USER, CREDENTIALS, PASSWORD, USER, VARIABLES
from espalier.providers.vsphere.server import server_of

ACCOUNTS = ((VARIABLES[USER], VARIABLES[PASSWORD]), (VARIABLES[CP_USER], VARIABLES[CP_PASSWORD]))


def secrets(environment: Mapping[str, str], manifest: Sequence[Tree]) -> Iterator[Tree]:
    """The Secret with the credentials, for the servers and the namespaces of a manifest; nothing without an account."""
    data = {field: environment[name] for field, name in VARIABLES.items() if environment.get(name)}
    kind = VSphereDatacenterConfig.resource.kind
    datacenters = [msgspec.convert(tree, VSphereDatacenterConfig) for tree in manifest if tree["kind"] == kind]
    if USER not in data or PASSWORD not in data or not datacenters:
        return
    servers = [server_of(datacenter.spec).permission for datacenter in datacenters]
    namespaces = [datacenter.metadata.namespace for datacenter in datacenters]
    yield credentials.secret(CREDENTIALS, data, servers=servers, namespaces=namespaces)
