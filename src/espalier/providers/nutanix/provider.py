"""The infrastructure provider Nutanix."""

from __future__ import annotations

from espalier.api.core import SECRET
from espalier.clusters.design.provider import EtcdRenderer, Extras, Links, Provider
from espalier.clusters.report.checks.problems import problems_of
from espalier.kube.rbac import Right
from espalier.providers.nutanix import cloud_controller, environment, references, render, rules
from espalier.providers.nutanix.checks.controller import configs
from espalier.providers.nutanix.checks.questions import REACHABLE, LookUp
from espalier.providers.nutanix.cluster_api import INFRASTRUCTURE
from espalier.providers.nutanix.kinds import KINDS, NutanixDatacenterConfig, NutanixMachineConfig


def nutanix(look_up: LookUp) -> Provider:
    """The provider, whose controllers query Prism Centrals through `look_up`."""
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
            problems=problems_of(
                NutanixDatacenterConfig.resource,
                NutanixMachineConfig.resource,
                server="Prism Central",
                reachable=REACHABLE,
            ),
        ),
        infrastructure=INFRASTRUCTURE,
        kinds=KINDS,
        render=render,
        rules=rules,
        extras=Extras(
            kinds=cloud_controller.SET.resources, names=cloud_controller.extra_names, render=cloud_controller.extras
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
        controllers=configs(look_up).controllers,
        rights=(Right((NutanixDatacenterConfig.resource, NutanixMachineConfig.resource), ("patch",), "status"),),
        tested_with="simulated machines; checks with a Prism Central that the tests serve",
    )
