"""The providers where machines are simulated: what would be asked of an infrastructure's API has an answer at once.

Part of the local environment, not of what a management cluster needs.
"""

from __future__ import annotations

from espalier.clusters.design.provider import Providers
from espalier.providers import registry
from espalier.providers.cloudstack.checks import questions as cloudstack_questions
from espalier.providers.nutanix.checks import questions as nutanix_questions
from espalier.providers.simulated import cloudstack, nutanix, snow, vsphere
from espalier.providers.snow.checks import questions as snow_questions
from espalier.providers.vsphere.checks.questions import LookUp


def providers(
    vcenters: LookUp = vsphere.simulated_answers,
    prism_centrals: nutanix_questions.LookUp = nutanix.simulated_answers,
    cloudstacks: cloudstack_questions.LookUp = cloudstack.simulated_answers,
    snow_devices: snow_questions.LookUp = snow.simulated_answers,
) -> Providers:
    """The providers by the kind of `spec.datacenterRef`, with other clients in place of simulated ones if wanted."""
    return registry.providers(vcenters, prism_centrals, cloudstacks, snow_devices)


SIMULATED = providers()
"""All of them, with simulated answers."""
