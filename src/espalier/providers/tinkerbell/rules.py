"""Validation of Clusters on bare metal: their spec alone, changes, and together with referenced objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.host_os import BOTTLEROCKET, REDHAT, UBUNTU
from espalier.api.text import paths
from espalier.api.text.violations import Violation
from espalier.clusters.design import addresses
from espalier.clusters.design.cluster_objects.linked_objects import of_kind
from espalier.clusters.design.cluster_objects.machine_groups import (
    MachineGroup,
    machine_groups,
    names_version,
    references_to,
    without_failure_domains,
)
from espalier.clusters.design.render_input import group_count, group_name
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.kube.objects import Object
from espalier.providers.tinkerbell import templates
from espalier.providers.tinkerbell.kinds import (
    TinkerbellDatacenterConfig,
    TinkerbellMachineConfig,
    TinkerbellTemplateConfig,
    Workflow,
)

_CP = "spec.controlPlaneConfiguration"
_GROUPS = "spec.workerNodeGroupConfigurations"
_KIND = TinkerbellMachineConfig.resource.kind
_ROLLING = "RollingUpdate"

DEFAULTS = {_KIND: {"osFamily": BOTTLEROCKET}}

_WORKER = re.compile(r"\{\{ *\.device_1 *\}\}")
_TOGETHER = "it can't be changed together with the Kubernetes version; upgrade first, then change it"


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Fields that are missing or rejected."""
    yield from endpoint.violations(spec)
    yield from references_to(_KIND, spec)
    yield from without_failure_domains(
        spec, "bare metal has no failure domains; to use other hardware, give the group its own machine config"
    )
    control_plane = spec.control_plane_configuration
    if not spec.worker_node_group_configurations and control_plane is not None and control_plane.taints:
        taints = ", ".join(f"{taint.key}:{taint.effect}" for taint in control_plane.taints)
        message = "without worker node groups, pods must run on the control plane"
        yield Violation(f"{_CP}.taints", taints, "nothing", message)
    yield from _strategies(spec)
    proxy = spec.proxy_configuration
    for name, url in (("httpProxy", proxy.http_proxy), ("httpsProxy", proxy.https_proxy)) if proxy else ():
        if "@" in url:
            message = "Tinkerbell workflows would expose the password; use a proxy that needs none"
            yield Violation(f"spec.proxyConfiguration.{name}", "user and password", "a URL without them", message)


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """A warning about an address of the API server that may be taken: each field has an effect or is rejected."""
    yield from endpoint.overlaps(spec)


def changes(old: eksa.ClusterSpec, new: eksa.ClusterSpec) -> Iterator[Violation]:
    """Violations: machines added or removed together with a new Kubernetes version, as in EKS Anywhere."""
    if old.kubernetes_version == new.kubernetes_version:
        return
    old_control_plane, new_control_plane = old.control_plane_configuration, new.control_plane_configuration
    if (
        old_control_plane is not None
        and new_control_plane is not None
        and old_control_plane.count != new_control_plane.count
    ):
        yield Violation(f"{_CP}.count", str(new_control_plane.count), str(old_control_plane.count), _TOGETHER)
    before = {group_name(group): group_count(group) for group in old.worker_node_group_configurations}
    after = {group_name(group): group_count(group) for group in new.worker_node_group_configurations}
    for index, name in enumerate(after):
        if name not in before:
            yield Violation(f"{_GROUPS}[{index}].name", name, ", ".join(before) or "no groups", _TOGETHER)
        elif after[name] != before[name]:
            yield Violation(f"{_GROUPS}[{index}].count", str(after[name]), str(before[name]), _TOGETHER)
    if removed := [name for name in before if name not in after]:
        yield Violation(_GROUPS, f"no {', '.join(removed)}", ", ".join(before), _TOGETHER)


def linked_violations(cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Violation]:
    """Violations that need the datacenter and machine configs."""
    spec, configs = cluster.spec, of_kind(TinkerbellMachineConfig, children)
    named = [
        (group, configs[group.reference.name])
        for group in machine_groups(spec)
        if group.reference is not None and group.reference.name in configs
    ]
    yield from _operating_systems(named)
    for name, datacenter in of_kind(TinkerbellDatacenterConfig, children).items():
        ip = datacenter.spec.tinkerbell_ip
        if (address := addresses.parsed(ip)) is not None and address == addresses.parsed(spec.endpoint_host):
            message = f"this is the address of Tinkerbell (TinkerbellDatacenterConfig {name}: spec.tinkerbellIP)"
            yield Violation(endpoint.FIELD, spec.endpoint_host, "another address", message)
        yield from _images(name, datacenter.spec.os_image_url, named)
    for name, config in of_kind(TinkerbellTemplateConfig, children).items():
        yield from _workflow(f"{config.kind} {name}: spec.template", config.spec.template)


def _workflow(field: str, workflow: Workflow) -> Iterator[Violation]:
    """A tenant's workflow may run only on the machine that it provisions, not on machines of other tenants."""
    for index, task in enumerate(workflow.tasks):
        if not _WORKER.fullmatch(task.worker):
            message = "a workflow can run only on the machine that it provisions"
            yield Violation(f"{field}.tasks[{index}].worker", task.worker or "nothing", "{{.device_1}}", message)
    for path, text in _texts((), msgspec.to_builtins(workflow)):
        if template := templates.refused(text):
            message = "a template that adds lines could add tasks for other machines; write the text outside of {{ }}"
            yield Violation(f"{field}.{paths.render(path)}", template, templates.ALLOWED, message)


def _texts(path: tuple[paths.PathStep, ...], value: object) -> Iterator[tuple[tuple[paths.PathStep, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name), name
            yield from _texts((*path, name), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts((*path, index), inner)


Named = Sequence[tuple[MachineGroup, TinkerbellMachineConfig]]
"""Groups of machines with their machine configs."""


def _strategies(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """All groups must have one upgrade strategy, because they share spare hardware."""
    control_plane = spec.control_plane_configuration
    own = control_plane.upgrade_rollout_strategy if control_plane else None
    expected = (own.type if own else None) or _ROLLING
    for index, group in enumerate(spec.worker_node_group_configurations):
        strategy = group.upgrade_rollout_strategy
        strategy_type = (strategy.type if strategy else None) or _ROLLING
        if strategy_type != expected:
            field = f"{_GROUPS}[{index}].upgradeRolloutStrategy.type"
            message = "on bare metal, control plane and workers must have the same upgrade strategy"
            yield Violation(field, strategy_type, f"{expected}, as {_CP}.upgradeRolloutStrategy.type", message)


def _operating_systems(named: Named) -> Iterator[Violation]:
    families = list(dict.fromkeys(config.spec.os for _, config in named))
    if len(families) > 1:
        places = ", ".join(f"{group.field}: {config.spec.os}" for group, config in named)
        message = "all machines of a cluster on bare metal must have the same operating system"
        yield Violation(f"{_CP}.machineGroupRef", places, "machine configs with the same osFamily", message)
    for group, config in named:
        field = f"{group.field}.machineGroupRef"
        if config.spec.os == BOTTLEROCKET:
            unset = "" if config.spec.os_family else " (it is not set, which means bottlerocket)"
            message = (
                "EKS Anywhere supports Bottlerocket on bare metal only up to Kubernetes 1.28; use a machine config "
            )
            yield Violation(field, BOTTLEROCKET, f"{UBUNTU}, {REDHAT}", f"{message}with another osFamily{unset}")


def _images(datacenter: str, of_all: str, named: Named) -> Iterator[Violation]:
    """Each group must have one operating system image, with its Kubernetes version in the URL."""
    of_datacenter = f"TinkerbellDatacenterConfig {datacenter}: spec.osImageURL"
    for group, config in named:
        own, version = config.spec.os_image_url, group.kubernetes_version
        field = f"{_KIND} {config.metadata.name}: spec.osImageURL"
        if own and of_all:
            message = f"{of_datacenter} sets an image for all machines; remove one of the two"
            yield Violation(field, own, "nothing", message)
        elif not own and not of_all and not config.spec.template:
            allowed = f"a URL that contains {version}"
            message = f"set the operating system image, here or for all machines in {of_datacenter}"
            yield Violation(field, "nothing", allowed, message)
        elif (own or of_all) and not names_version(own or of_all, version):
            message = f"{group.field} needs Kubernetes {version}, but the URL does not contain it"
            field = field if own else of_datacenter
            yield Violation(field, own or of_all, f"a URL that contains {version}", message)
