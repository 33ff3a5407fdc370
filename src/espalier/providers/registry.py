"""The providers of this build, passed in where a process is assembled."""

from __future__ import annotations

from espalier.clusters.design.cluster_objects.shared_parts import with_shared_parts
from espalier.clusters.design.provider import Providers
from espalier.providers.cloudstack.checks import questions as cloudstack_questions
from espalier.providers.cloudstack.checks.cloudstacks import CloudStacks
from espalier.providers.cloudstack.provider import cloudstack
from espalier.providers.docker.provider import DOCKER
from espalier.providers.nutanix.checks import questions as nutanix_questions
from espalier.providers.nutanix.checks.prism import PrismCentrals
from espalier.providers.nutanix.provider import nutanix
from espalier.providers.snow.checks import questions as snow_questions
from espalier.providers.snow.checks.devices import SnowDevices
from espalier.providers.snow.provider import snow
from espalier.providers.tinkerbell.provider import TINKERBELL
from espalier.providers.tinkerbell.render import template_configs
from espalier.providers.vsphere.checks.grants import grants
from espalier.providers.vsphere.checks.questions import LookUp
from espalier.providers.vsphere.checks.vcenter import VCenters
from espalier.providers.vsphere.provider import vsphere


def providers(
    vcenters: LookUp,
    prism_centrals: nutanix_questions.LookUp,
    cloudstacks: cloudstack_questions.LookUp,
    snow_devices: snow_questions.LookUp,
) -> Providers:
    """The providers by the kind of `spec.datacenterRef`, with their clients for infrastructure APIs."""
    return {
        provider.links.datacenter.kind: with_shared_parts(provider)
        for provider in (
            DOCKER,
            vsphere(vcenters),
            TINKERBELL,
            nutanix(prism_centrals),
            cloudstack(cloudstacks),
            snow(snow_devices),
        )
    }


PROVIDERS = providers(VCenters(), PrismCentrals(), CloudStacks(), SnowDevices())
"""Those of production, by the kind of `spec.datacenterRef`."""

LOCAL = DOCKER
"""The provider whose machines the local environment simulates, or replaces by real nodes."""

TEMPLATE_CONFIGS = template_configs
"""Makes TinkerbellTemplateConfigs with the workflows that the machines of a render input get without one."""

VSPHERE_GRANTS = grants
"""Makes, of the objects of a manifest, the roles that its account for vSphere needs."""
