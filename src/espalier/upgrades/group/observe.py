"""One reconcile of an upgrade of several machines: all that is read, and what its steps share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from espalier.api.eksa.upgrades import (
    NodeUpgrade,
)
from espalier.kube.objects import Object
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import names
from espalier.upgrades.group.group import Group, GroupScope
from espalier.upgrades.group.sequence import Member
from espalier.upgrades.observed.observe import UpgradeObserver, cluster_of
from espalier.upgrades.reconciling import UpgradeTools


@dataclass(frozen=True)
class GroupContext:
    """One reconcile of one upgrade of several machines."""

    tools: UpgradeTools
    group: Group
    scope: GroupScope

    @property
    def object(self) -> Object:
        """The upgrade."""
        return self.scope.object

    @property
    def is_deleted(self) -> bool:
        """True if deletion was asked for."""
        return self.scope.is_deleted

    @property
    def is_done(self) -> bool:
        """True if all machines were upgraded.

        Anybody may edit `status.ready`: it does not count while a NodeUpgrade is not completed, or before the upgrade
        has started one.
        """
        members = [member for member in self.scope.members if not member.is_gone]
        return self.scope.upgrade.status.ready and all(member.is_done or member.is_recorded for member in members)

    @property
    def writer(self) -> Writer:
        """The writer, which also updates the caches of the cluster."""
        cluster_view = self.scope.cluster_view
        return self.tools.writer.with_caches(cluster_view.capi_objects.caches) if cluster_view else self.tools.writer

    @property
    def owner(self) -> str:
        """The owner's kind and key, for messages."""
        return f"{self.group.owner_resource.kind} {self.scope.object.namespace}/{self.scope.owner_reference.name}"


def observe(observer: UpgradeObserver, group: Group, upgrade_object: Object) -> GroupScope:
    """Read everything about one upgrade. Raises `msgspec.ValidationError` if the object is invalid."""
    upgrade = upgrade_object.decode(group.upgrade_type)
    reference, data = group.owner_of(upgrade)
    cluster = cluster_of(upgrade_object)
    cluster_view = observer.view(cluster) if cluster else None
    owner = cluster_view.capi_objects.get(group.owner_resource, reference.name) if cluster_view else None
    own_node_upgrades = {node_upgrade.name: node_upgrade for node_upgrade in observer.node_upgrades(upgrade_object)}
    paused = observer.paused_cluster(owner) if owner is not None else None
    named = observer.owner(group.owner_resource, reference.name)
    scope = GroupScope(upgrade_object, upgrade, reference, data, cluster, cluster_view, owner, (), (), paused, named)
    members, foreign = [], []
    for machine in upgrade.spec.machines_require_upgrade:
        name = names.node_upgrade(machine.name)
        object_ = own_node_upgrades.get(name)
        if object_ is None and observer.upgrade(NodeUpgrade.resource, name) is not None:
            foreign.append(name)
        view = cluster_view.capi_objects.machine(machine.name) if cluster_view else None
        is_expected = (
            view is not None
            and cluster_view is not None
            and scope.wanted is not None
            and group.is_expected(cluster_view.capi_objects, scope.wanted, scope.version, view)
        )
        decoded = object_.decode(NodeUpgrade) if object_ else None
        members.append(Member(machine.name, view, object_, decoded, is_expected))
    return replace(scope, members=tuple(members), foreign_node_upgrades=tuple(foreign))
