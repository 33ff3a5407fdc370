"""Credentials for a vCenter from the environment variables that the CLI of EKS Anywhere reads."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

import msgspec

from espalier.api.core import SECRET
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusters.credentials import NAMESPACES, SERVERS
from espalier.providers.vsphere.checks.questions import server_of
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig
from espalier.providers.vsphere.linked import CP_PASSWORD, CP_USER, CREDENTIALS, PASSWORD, USER

VARIABLES = {
    USER: "EKSA_VSPHERE_USERNAME",
    PASSWORD: "EKSA_VSPHERE_PASSWORD",
    CP_USER: "EKSA_VSPHERE_CP_USERNAME",
    CP_PASSWORD: "EKSA_VSPHERE_CP_PASSWORD",
}


def secret(environment: Mapping[str, str], manifest: Sequence[Tree]) -> Tree | None:
    """The Secret with the credentials, for the servers and the namespaces of a manifest; None if there are none."""
    given = {field: environment[name] for field, name in VARIABLES.items() if environment.get(name)}
    kind = VSphereDatacenterConfig.resource.kind
    datacenters = [msgspec.convert(one, VSphereDatacenterConfig) for one in manifest if one["kind"] == kind]
    if USER not in given or PASSWORD not in given or not datacenters:
        return None
    marks = {
        SERVERS: ",".join(sorted({server_of(one.spec).permission for one in datacenters})),
        NAMESPACES: ",".join(sorted({one.metadata.namespace for one in datacenters})),
    }
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {"name": CREDENTIALS, "namespace": SYSTEM_NAMESPACE, "annotations": marks},
        "type": "Opaque",
        "data": {field: base64.b64encode(value.encode()).decode() for field, value in given.items()},
    }
