"""The providers of this build, passed in where a process is assembled."""

from __future__ import annotations

from espalier.clusters.provider import Providers
from espalier.clusters.shared_parts import with_shared_parts
from espalier.providers.docker.provider import DOCKER
from espalier.providers.vsphere.checks.questions import LookUp
from espalier.providers.vsphere.checks.simulated import everything_is_there
from espalier.providers.vsphere.checks.vcenter import VCenters
from espalier.providers.vsphere.provider import vsphere


def providers(vcenters: LookUp) -> Providers:
    """The providers by the kind of `spec.datacenterRef`, with what they ask the APIs of infrastructure by."""
    return {one.links.datacenter.kind: with_shared_parts(one) for one in (DOCKER, vsphere(vcenters))}


PROVIDERS = providers(VCenters())
SIMULATED = providers(everything_is_there)
"""The same, where machines are simulated."""

LOCAL = DOCKER
"""The provider whose machines the local environment simulates, or replaces by real nodes."""
