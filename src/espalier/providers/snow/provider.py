"""The infrastructure provider Snow."""

from __future__ import annotations

from espalier.api.core import SECRET
from espalier.clusters.design.provider import Bottlerocket, EtcdRenderer, Extras, Links, Provider
from espalier.providers.snow import environment, references, render, rules
from espalier.providers.snow.checks.controller import configs
from espalier.providers.snow.checks.questions import LookUp
from espalier.providers.snow.cluster_api import INFRASTRUCTURE, AWSSnowIPPool
from espalier.providers.snow.kinds import KINDS, SnowDatacenterConfig, SnowIPPool, SnowMachineConfig


def snow(look_up: LookUp) -> Provider:
    """The provider, whose controllers query devices through `look_up`."""
    checked = configs(look_up)
    return Provider(
        links=Links(
            SnowDatacenterConfig.resource,
            machine_configs=(SnowMachineConfig.resource,),
            further=references.further,
            further_kinds=(SnowIPPool.resource,),
            data=(SECRET,),
            depend=references.depend,
            carriers=(SECRET,),
            violations=rules.linked_violations,
            problems=checked.problems("Snow"),
        ),
        infrastructure=INFRASTRUCTURE,
        kinds=KINDS,
        render=render,
        rules=rules,
        extras=Extras(kinds=(SECRET, AWSSnowIPPool.resource), names=render.extra_names, render=render.extras),
        environment_secrets=environment.secrets,
        names_credentials="identityRef of the SnowDatacenterConfig",
        joint_variables=(tuple(references.FILES.values()),),
        file_variables=tuple(references.FILES.values()),
        clashes=rules.clashes,
        images=("snow.kubeVip",),
        bottlerocket=Bottlerocket(
            references.with_bottlerocket, render.lacks_images_of_bottlerocket, (render.BOTTLEROCKET_BOOTSTRAP,)
        ),
        etcd=EtcdRenderer(render.etcd_config, render.etcd_machine_template),
        no_proxy=render.no_proxy,
        settings=render.settings,
        controllers=checked.controllers,
        rights=checked.rights,
        tested_with="simulated machines; checks with device APIs that the tests serve",
    )
