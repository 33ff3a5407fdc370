"""A registry mirror as nodes know it."""

from __future__ import annotations

import re

from espalier.api.eksa.parts.network import OCINamespace, RegistryMirrorConfiguration
from espalier.clusters.design import registry_mirror


def test_each_registry_has_file_of_its_own_in_secret() -> None:
    """Names of fields of Secrets have no colon."""
    namespaces = [OCINamespace(registry="quay.io:5000"), OCINamespace(registry="quay.io-5000")]
    mirror = RegistryMirrorConfiguration(endpoint="mirror", oci_namespaces=namespaces)
    keys = [host.key for host in registry_mirror.hosts(mirror)]
    assert len(keys) == len(set(keys)) == 3
    assert all(re.fullmatch("[-._a-zA-Z0-9]+", key) for key in keys)
