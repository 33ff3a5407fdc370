"""The providers of this build, passed in where a process is assembled."""

from __future__ import annotations

from espalier.clusters.provider import Providers
from espalier.clusters.shared_parts import with_shared_parts
from espalier.providers.docker.provider import DOCKER
from espalier.providers.vsphere.provider import VSPHERE

PROVIDERS: Providers = {one.links.datacenter.kind: with_shared_parts(one) for one in (DOCKER, VSPHERE)}
"""The providers by the kind of `spec.datacenterRef`."""

LOCAL = DOCKER
"""The provider whose machines the local environment simulates, or replaces by real nodes."""
