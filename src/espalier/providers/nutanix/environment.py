"""Credentials for a Prism Central from the environment variables that the CLI of EKS Anywhere reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from espalier.api.meta import Tree
from espalier.clusters.design.secrets import credentials
from espalier.providers.nutanix.kinds import NutanixDatacenterConfig
from espalier.providers.nutanix.references import (
    OF_MACHINES,
    VARIABLES,
    credentials_of,
    permission,
    write_account,
)


def secrets(environment: Mapping[str, str], manifest: Sequence[Tree]) -> Iterator[Tree]:
    """The Secret that the datacenter of a manifest names, with the account; nothing without an account."""
    kind = NutanixDatacenterConfig.resource.kind
    datacenters = [msgspec.convert(tree, NutanixDatacenterConfig) for tree in manifest if tree["kind"] == kind]
    data = {
        field: write_account(environment[user], environment[password])
        for field, (user, password) in VARIABLES.items()
        if environment.get(user) and environment.get(password)
    }
    if OF_MACHINES not in data or not datacenters:
        return
    name = credentials_of(datacenters[0].spec)
    named = [datacenter for datacenter in datacenters if credentials_of(datacenter.spec) == name]
    servers = [permission(datacenter.spec) for datacenter in named]
    yield credentials.secret(
        name, data, servers=servers, namespaces=[datacenter.metadata.namespace for datacenter in named]
    )
