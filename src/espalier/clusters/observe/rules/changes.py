"""Rules about a change of a Cluster: immutable fields, and steps of Kubernetes versions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.network import KindnetdConfig
from espalier.api.eksa.vocabulary import sentences
from espalier.api.text.violations import Violation
from espalier.clusterapi.kubernetes_versions import MAXIMUM_WORKER_LAG, after, before, minor
from espalier.clusters.design import names
from espalier.clusters.design.render_input import cni_of, group_name
from espalier.clusters.observe import git_ops
from espalier.clusters.observe.machines.downgrade import AllowedDowngrades, of_group
from espalier.clusters.observe.machines.observed_versions import Machines, Running
from espalier.clusters.observe.rules import connections, messages

_DELETE = "it can't be changed in an existing cluster; create another cluster"


def fixed(old: eksa.ClusterSpec, new: eksa.ClusterSpec) -> Iterator[Violation]:
    """Immutable fields, unless the Cluster was paused."""
    before_, after_ = _fixed_fields(old), _fixed_fields(new)
    for field, value in before_.items():
        if field == git_ops.FIELD and value is None:
            continue  # GitOps can be configured later
        if after_[field] != value:
            yield Violation(field, _text(after_[field]), _text(value), _DELETE)
    was, wanted = cni_plugin(old), cni_plugin(new)
    if was and wanted and was != wanted:  # none, or two, is checked by another rule
        yield Violation(CNI_FIELD, wanted, was, _DELETE)


CNI_FIELD = "spec.clusterNetwork.cniConfig"
KINDNETD = "kindnetd"


def cni_plugin(spec: eksa.ClusterSpec) -> str:
    """The configured CNI plugin, in either form; empty without one. The plugin is immutable, its settings are not."""
    config = cni_of(spec)
    if config is None:
        return ""
    return KINDNETD if isinstance(config, KindnetdConfig) else "cilium"


def other_plugin(spec: eksa.ClusterSpec, installed: str) -> Iterator[Violation]:
    """A plugin other than the installed one (the name of its DaemonSet), however it got into the spec."""
    was, wanted = _PLUGINS.get(installed, ""), cni_plugin(spec)
    if was and wanted and was != wanted:
        yield Violation(CNI_FIELD, wanted, was, f"{_DELETE}, or set {was} again")


_PLUGINS = {"kindnet": KINDNETD, "cilium": "cilium"}


def _fixed_fields(spec: eksa.ClusterSpec) -> dict[str, object]:
    network = spec.cluster_network
    control_plane = spec.control_plane_configuration
    return {
        "spec.managementCluster.name": spec.management_cluster.name,
        "spec.datacenterRef": spec.datacenter_ref,
        "spec.controlPlaneConfiguration.endpoint": control_plane and control_plane.endpoint,
        "spec.clusterNetwork.pods": network and network.pods,
        "spec.clusterNetwork.services": network and network.services,
        "spec.clusterNetwork.dns": network and network.dns,
        "spec.clusterNetwork.nodes": network and network.nodes,
        "spec.proxyConfiguration": spec.proxy_configuration
        and connections.without_credentials(spec.proxy_configuration),
        "spec.externalEtcdConfiguration": "external etcd" if spec.external_etcd_configuration else None,
        git_ops.FIELD: spec.git_ops_ref,
    }


def warnings(old: eksa.ClusterSpec, new: eksa.ClusterSpec) -> Iterator[str]:
    """Warnings about effects that a change does not have at once."""
    if old.proxy_configuration != new.proxy_configuration:
        yield f"spec.proxyConfiguration: {messages.CREDENTIALS_OF_PROXY}"


def versions(spec: eksa.ClusterSpec) -> tuple[str, dict[str, str | None]]:
    """The Kubernetes versions in the spec, of the control plane and of groups by name."""
    groups = {group_name(group): group.kubernetes_version for group in spec.worker_node_group_configurations}
    return spec.kubernetes_version, groups


def kubernetes(
    old: eksa.ClusterSpec, new: eksa.Cluster, downgrades: AllowedDowngrades, offered: Collection[str] = ()
) -> Iterator[Violation]:
    """Kubernetes is upgraded one minor version at a time, per control plane and worker node group, and downgraded
    only to revert an upgrade.

    `offered` are the versions of the cluster's release, if they are known: no other one is called allowed.
    """
    spec, name = new.spec, new.metadata.name
    if old.kubernetes_version and spec.kubernetes_version:
        was, wanted, field = old.kubernetes_version, spec.kubernetes_version, "spec.kubernetesVersion"
        yield from _step(was, wanted, field, downgrades.control_plane, messages.not_revertible, offered)
    earlier = {
        group_name(group): group.kubernetes_version or old.kubernetes_version
        for group in old.worker_node_group_configurations
    }
    for index, group in enumerate(spec.worker_node_group_configurations):
        version = earlier.get(group_name(group))
        wanted = group.kubernetes_version or spec.kubernetes_version
        # A group without a version of its own follows the control plane, which is checked above.
        follows = group.kubernetes_version is None and version == old.kubernetes_version
        if version and wanted and not follows:
            field = f"spec.workerNodeGroupConfigurations[{index}].kubernetesVersion"
            of_it = of_group(downgrades, name, group_name(group))
            yield from _step(version, wanted, field, of_it, messages.kubernetes_downgrade, offered)


def _step(
    old: str,
    new: str,
    field: str,
    earlier: Collection[str],
    refused: Callable[[str], str],
    offered: Collection[str],
) -> Iterator[Violation]:
    steps = minor(new) - minor(old)
    versions = [*sorted((version for version in earlier if minor(version) < minor(old)), key=minor), old, after(old)]
    allowed = " or ".join(version for version in versions if version == old or not offered or version in offered)
    if steps < 0 and new not in earlier:
        yield Violation(field, new, allowed, f"{refused(old)}{messages.lost_zero(new)}")
    elif steps > 1:
        yield Violation(field, new, allowed, sentences.KUBERNETES_STEP)


def too_early(cluster: eksa.Cluster, at: Running) -> Iterator[Violation]:
    """Versions for which machines would skip a minor version because they have not reached the previous one yet.

    Versions that are in the Cluster API objects already are not checked: that upgrade is in progress.
    """
    spec, field = cluster.spec, "spec.kubernetesVersion"
    wanted = spec.kubernetes_version
    control_plane = at.control_plane
    goes_on = control_plane and control_plane.desired and wanted and minor(wanted) > minor(control_plane.desired)
    if control_plane is not None and goes_on:
        yield from _skipped(field, wanted, control_plane, "the control plane")
    for index, group in enumerate(spec.worker_node_group_configurations):
        name = group_name(group)
        machines = at.groups.get(names.machine_deployment(cluster.metadata.name, name))
        version = group.kubernetes_version or wanted
        if machines is None or not version or not machines.desired:
            continue
        who = f"group {name}"
        if minor(version) > minor(machines.desired):
            own = f"spec.workerNodeGroupConfigurations[{index}].kubernetesVersion"
            yield from _skipped(own if group.kubernetes_version else field, version, machines, who)
        elif goes_on and minor(wanted) - minor(machines.earliest) > MAXIMUM_WORKER_LAG:
            allowed = after(machines.earliest, MAXIMUM_WORKER_LAG)
            first = before(wanted, MAXIMUM_WORKER_LAG)
            yield Violation(field, wanted, allowed, messages.machines_behind(who, machines.earliest, first))


def _skipped(field: str, wanted: str, machines: Machines, who: str) -> Iterator[Violation]:
    if not machines.is_known:
        yield Violation(field, wanted, machines.desired, messages.not_reported(who))
    elif minor(wanted) - minor(machines.earliest) > 1:
        first = before(wanted)
        allowed = " or ".join(dict.fromkeys([machines.desired, after(machines.earliest)]))
        yield Violation(field, wanted, allowed, messages.machines_behind(who, machines.earliest, first))


def _text(value: object) -> str:
    if value is None or value == "":
        return "nothing"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
