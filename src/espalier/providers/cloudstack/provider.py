"""The infrastructure provider CloudStack."""

from __future__ import annotations

from espalier.api.core import SECRET
from espalier.api.definitions.reference import Annotation, described
from espalier.clusters.design.provider import EtcdRenderer, Links, Provider
from espalier.kube.objects import Object
from espalier.providers.cloudstack import disks, environment, references, render, rules
from espalier.providers.cloudstack.checks.controller import configs
from espalier.providers.cloudstack.checks.questions import LookUp
from espalier.providers.cloudstack.cluster_api import INFRASTRUCTURE
from espalier.providers.cloudstack.kinds import KINDS, CloudStackDatacenterConfig, CloudStackMachineConfig


def _is_of(machines: Object, datacenter: Object) -> bool:
    """True if a machine config was checked in all availability zones of a datacenter, also those added later."""
    zones = references.availability_zones(datacenter.decode(CloudStackDatacenterConfig).spec)
    return {zone.name for zone in zones} <= {*machines.decode(CloudStackMachineConfig).status.availability_zones}


def cloudstack(look_up: LookUp) -> Provider:
    """The provider, whose controllers query CloudStacks through `look_up`."""
    checked = configs(look_up)
    return Provider(
        links=Links(
            CloudStackDatacenterConfig.resource,
            machine_configs=(CloudStackMachineConfig.resource,),
            with_users=(CloudStackMachineConfig.resource,),
            data=(SECRET,),
            names_secrets=True,
            depend=references.depend,
            violations=rules.linked_violations,
            problems=checked.problems("CloudStack", _is_of),
        ),
        infrastructure=INFRASTRUCTURE,
        kinds=KINDS,
        render=render,
        rules=rules,
        environment_secrets=environment.secrets,
        names_credentials="credentialsRef of the CloudStackDatacenterConfig's availability zones",
        images=("cloudStack.kubeVip",),
        etcd=EtcdRenderer(render.etcd_config, render.etcd_machine_template),
        settings=render.settings,
        complete=render.complete,
        no_proxy=render.no_proxy,
        claims=references.claims,
        claimed=references.claimed,
        encryption_file="/var/lib/kubeadm/encryption-config.yaml",
        controllers=checked.controllers,
        rights=checked.rights,
        annotations=described(Annotation, disks),
        tested_with="simulated machines; checks with a CloudStack API that the tests serve",
    )
