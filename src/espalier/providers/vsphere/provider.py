"""The infrastructure provider vSphere."""

from __future__ import annotations

from espalier.api.core import SECRET
from espalier.clusters.design.provider import Bottlerocket, EtcdRenderer, Extras, Links, Provider
from espalier.providers.vsphere import cloud_controller, environment, references, render, rules
from espalier.providers.vsphere.checks.controller import configs
from espalier.providers.vsphere.checks.questions import LookUp
from espalier.providers.vsphere.cluster_api import INFRASTRUCTURE, VSphereDeploymentZone, VSphereFailureDomain
from espalier.providers.vsphere.kinds import KINDS, VSphereDatacenterConfig, VSphereMachineConfig


def vsphere(look_up: LookUp) -> Provider:
    """The provider, whose controllers query vCenters through `look_up`."""
    checked = configs(look_up)
    return Provider(
        links=Links(
            VSphereDatacenterConfig.resource,
            machine_configs=(VSphereMachineConfig.resource,),
            with_users=(VSphereMachineConfig.resource,),
            defaults=rules.DEFAULTS,
            data=(SECRET,),
            depend=references.depend,
            carriers=(SECRET,),
            zone=references.zone,
            violations=rules.linked_violations,
            warnings=rules.linked_warnings,
            resolve=references.resolve,
            problems=checked.problems("the vCenter"),
        ),
        infrastructure=INFRASTRUCTURE,
        kinds=KINDS,
        render=render,
        rules=rules,
        extras=cloud_controller.SET.beside(
            Extras(
                kinds=(VSphereFailureDomain.resource, VSphereDeploymentZone.resource),
                names=render.extra_names,
                render=render.extras,
            ),
            cloud_controller.workload,
        ),
        environment_secrets=environment.secrets,
        joint_variables=environment.ACCOUNTS,
        images=("vSphere.manager", "vSphere.kubeVip"),
        bottlerocket=Bottlerocket(references.with_bottlerocket, render.lacks_images_of_bottlerocket),
        etcd=EtcdRenderer(render.etcd_config, render.etcd_machine_template),
        encryption_file="/var/lib/kubeadm/encryption-config.yaml",
        settings=render.settings,
        no_proxy=render.no_proxy,
        workload=cloud_controller.workload,
        controllers=checked.controllers,
        rights=checked.rights,
        tested_with="simulated machines; checks, and Cluster API's provider, with govmomi's simulator of a vCenter",
    )
