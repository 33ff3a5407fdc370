"""The infrastructure provider vSphere."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.core import SECRET
from espalier.api.eksa.release import VersionsBundle
from espalier.clusters.provider import EtcdRenderer, Extras, Links, Provider
from espalier.kube.rbac import Right
from espalier.providers.vsphere import cloud_controller, linked, render, rules
from espalier.providers.vsphere.checks.controller import datacenters, machines
from espalier.providers.vsphere.checks.problems import problems
from espalier.providers.vsphere.checks.questions import LookUp
from espalier.providers.vsphere.cluster_api import INFRASTRUCTURE, VSphereDeploymentZone, VSphereFailureDomain
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig, VSphereMachineConfig


def _lacks(bundle: VersionsBundle) -> Iterator[str]:
    images = bundle.v_sphere
    for name, field in (("manager", "manager"), ("kubeVip", "kube_vip")):
        if images is None or getattr(images, field) is None:
            yield f"vSphere.{name}"


def vsphere(look_up: LookUp) -> Provider:
    """The provider, whose controllers ask vCenters by `look_up`."""
    return Provider(
        links=Links(
            VSphereDatacenterConfig.resource,
            machine_configs=(VSphereMachineConfig.resource,),
            data=(SECRET,),
            depend=linked.depend,
            carriers=(SECRET,),
            zone=linked.zone,
            violations=rules.linked_violations,
            resolve=linked.resolve,
            problems=problems,
        ),
        infrastructure=INFRASTRUCTURE,
        render=render,
        rules=rules,
        extras=Extras(
            kinds=(SECRET, VSphereFailureDomain.resource, VSphereDeploymentZone.resource),
            names=render.extra_names,
            render=render.extras,
        ),
        lacks=lambda bundle: tuple(_lacks(bundle)),
        etcd=EtcdRenderer(render.etcd_config, render.etcd_machine_template),
        settings=render.settings,
        no_proxy=render.no_proxy,
        workload=cloud_controller.workload,
        controllers=(datacenters(look_up), machines(look_up)),
        rights=(Right((VSphereDatacenterConfig.resource, VSphereMachineConfig.resource), ("patch",), "status"),),
    )
