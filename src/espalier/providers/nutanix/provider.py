"""The infrastructure provider Nutanix."""

from __future__ import annotations

from espalier.api.core import SECRET
from espalier.clusters.design.provider import EtcdRenderer, Extras, Links, Provider
from espalier.providers.nutanix import cloud_controller, environment, references, render, rules
from espalier.providers.nutanix.checks.controller import configs
from espalier.providers.nutanix.checks.questions import LookUp
from espalier.providers.nutanix.cluster_api import INFRASTRUCTURE
from espalier.providers.nutanix.kinds import KINDS, NutanixDatacenterConfig, NutanixMachineConfig


def nutanix(look_up: LookUp) -> Provider:
    """The provider, whose controllers query Prism Centrals through `look_up`."""
    checked = configs(look_up)
    return Provider(
        links=Links(
            NutanixDatacenterConfig.resource,
            machine_configs=(NutanixMachineConfig.resource,),
            with_users=(NutanixMachineConfig.resource,),
            defaults=rules.DEFAULTS,
            data=(SECRET,),
            depend=references.depend,
            carriers=(SECRET,),
            domains=references.domains,
            violations=rules.linked_violations,
            problems=checked.problems("Prism Central"),
        ),
        infrastructure=INFRASTRUCTURE,
        kinds=KINDS,
        render=render,
        rules=rules,
        extras=cloud_controller.SET.beside(
            Extras(names=render.extra_names, render=render.extras), cloud_controller.workload
        ),
        environment_secrets=environment.secrets,
        names_credentials="credentialRef of the NutanixDatacenterConfig",
        joint_variables=tuple(references.VARIABLES.values()),
        images=("nutanix.cloudProvider", "nutanix.kubeVip"),
        etcd=EtcdRenderer(render.etcd_config, render.etcd_machine_template),
        encryption_file="/etc/kubernetes/enc/encryption-config.yaml",
        settings=render.settings,
        no_proxy=render.no_proxy,
        workload=cloud_controller.workload,
        controllers=checked.controllers,
        rights=checked.rights,
        tested_with="simulated machines; checks with a Prism Central that the tests serve",
    )
