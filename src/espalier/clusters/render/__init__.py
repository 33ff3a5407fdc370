"""From a design to the objects of Cluster API. Pure, typed, one object per function."""

from collections.abc import Mapping

from espalier.api.eksa.docker import DockerDatacenterConfig
from espalier.clusters.design import Provider
from espalier.clusters.render import docker

PROVIDERS: Mapping[str, Provider] = {DockerDatacenterConfig.resource.kind: docker}
"""By the kind of `spec.datacenterRef`."""
