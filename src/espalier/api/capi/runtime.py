"""`runtime.cluster.x-k8s.io/v1beta2`: ExtensionConfig, by which Cluster API finds runtime extensions."""

from __future__ import annotations

from espalier.api.resource import Resource

EXTENSION_CONFIG = Resource(
    "runtime.cluster.x-k8s.io", "v1beta2", "extensionconfigs", "ExtensionConfig", namespaced=False
)

DISCOVERED = "Discovered"
"""Condition: Cluster API asked the extension which hooks it has, and calls them."""
