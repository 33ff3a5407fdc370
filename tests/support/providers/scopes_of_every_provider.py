"""Observed Clusters of the example of each provider."""

from __future__ import annotations

from collections.abc import Callable

from espalier.clusters.observe.scope import Scope
from tests.support.objects.observed_clusters import example, scope
from tests.support.providers import cloudstack, nutanix, snow, tinkerbell, vsphere

CLUSTERS: dict[str, Callable[..., Scope]] = {
    "cloudstack": lambda **spec: cloudstack.seen(cloudstack.manifest(**spec)),
    "docker": lambda **spec: scope(*example("docker.yaml", **spec)),
    "nutanix": lambda **spec: nutanix.seen(nutanix.manifest(**spec)),
    "snow": lambda **spec: snow.seen(snow.manifest(**spec)),
    "tinkerbell": lambda **spec: tinkerbell.seen(tinkerbell.manifest(**spec)),
    "vsphere": lambda **spec: vsphere.seen(vsphere.manifest(**spec)),
}
