"""The privileges that the account of a manifest needs, as roles and the inventory objects on which it has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from espalier.api.eksa.cluster import Cluster
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.observe.references import references
from espalier.providers.vsphere.checks import findings
from espalier.providers.vsphere.checks.questions import PRIVILEGES, ObjectType, Question
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig, VSphereMachineConfig

K = TypeVar("K", bound=KubeObject)

POLICY_PRIVILEGES = ("StorageProfile.View",)
"""Needed on the root of the inventory, if a machine config names a storage policy."""


def grants(trees: Iterable[Tree]) -> list[Tree]:
    """The roles for each VSphereDatacenterConfig of a manifest: `name`, `server`, `privileges` and `objects`, which are
    inventory paths, or names as they stand in the manifest. Empty without one.

    Machine configs count for the datacenters of the Clusters that name them, and without a Cluster for all. Raises
    `msgspec.ValidationError` for objects that the API server would refuse.
    """
    present = list(trees)
    machines = _typed(VSphereMachineConfig, present)
    clusters = [{ref.name for _, ref in references(cluster.spec)} for cluster in _typed(Cluster, present)]
    roles: list[Tree] = []
    for config in _typed(VSphereDatacenterConfig, present):
        named = set().union(*(names for names in clusters if config.metadata.name in names))
        own = [machine for machine in machines if not clusters or machine.metadata.name in named]
        roles += _roles(config, own)
    return roles


def _roles(config: VSphereDatacenterConfig, machines: list[VSphereMachineConfig]) -> Iterator[Tree]:
    questions = [named.question for named in findings.of_datacenter(config.spec)]
    for machine in machines:
        questions += [named.question for named in findings.of_machines(machine.spec, config.spec.datacenter)]
    for type_, privileges in PRIVILEGES.items():
        if objects := _objects(questions, type_):
            yield _role(config, type_.label, privileges, objects)
    if any(machine.spec.storage_policy_name for machine in machines):
        yield _role(config, "storage policy", POLICY_PRIVILEGES, ["/"])


def _role(config: VSphereDatacenterConfig, label: str, privileges: Iterable[str], objects: list[str]) -> Tree:
    name = f"espalier-{label.replace(' ', '-')}"
    return {"name": name, "server": config.spec.server, "privileges": list(privileges), "objects": objects}


def _objects(questions: Iterable[Question], type_: ObjectType) -> list[str]:
    return sorted({question.path or question.name for question in questions if question.object_type is type_})


def _typed(kind: type[K], trees: Iterable[Tree]) -> list[K]:
    return [msgspec.convert(tree, kind) for tree in trees if tree.get("kind") == kind.resource.kind]
