"""The accounts of a shoot's machine controller manager: in the seed, which has its machines, and in the shoot, which
has their nodes. No other program of a control plane needs rights that API servers do not give by themselves."""

from __future__ import annotations

from typing import Annotated

from espalier.api import core
from espalier.api.definitions.reference import Annotation, Writer
from espalier.api.gardener.machines import Machine, MachineClass, MachineDeployment, MachineSet
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.rbac import FOLLOW, Right, trees
from espalier.shoots.control_plane.deployment import labels_of

MACHINE_CONTROLLER_MANAGER = "machine-controller-manager"
SHOOT_ROLES: Annotated[
    str,
    Annotation(
        "ServiceAccount of machine-controller-manager",
        Writer.GARDENLET,
        "Digest of the roles that it has in its shoot: they are applied again when it is missing or another one.",
    ),
] = metadata_keys.DOMAIN + "shoot-roles"
CLUSTER_ROLE = "espalier-machine-controller-manager"
"""The ClusterRole of all of them, each in the namespace of its shoot. It is installed with the gardenlet, which may
bind it without having these rights itself."""

_KINDS = tuple(kind.resource for kind in (MachineClass, MachineDeployment, MachineSet, Machine))
RIGHTS = (
    Right(_KINDS, ("get", *FOLLOW, "create", "update", "patch", "delete")),
    Right(_KINDS, ("update", "patch"), "status"),
    Right(_KINDS, ("update",), "finalizers"),
    Right((core.SECRET,), ("get", *FOLLOW, "update", "patch")),
    Right((core.CORE_EVENT,), ("create", "update", "patch")),
    Right((core.LEASE,), ("create",)),
    Right((core.LEASE,), ("get", "update", "patch"), names=(MACHINE_CONTROLLER_MANAGER, "machine-controller")),
)
"""The rights of Gardener's machine controller manager in its namespace. It sets finalizers on Secrets of classes."""


IN_SHOOT = "gardener.cloud:target:machine-controller-manager"
"""Name of its roles in the shoot, as in Gardener."""
USER = f"system:{MACHINE_CONTROLLER_MANAGER}"
"""Its name in the shoot, by the certificate that is derived for it."""
SHOOT_RIGHTS = (
    Right((core.NODE,), ("get", *FOLLOW, "update", "patch", "delete")),
    Right((core.NODE,), ("update", "patch"), "status"),
    Right((core.POD,), ("get", *FOLLOW, "delete")),
    Right((core.POD,), ("create",), "eviction"),
    Right((core.PERSISTENT_VOLUME, core.PERSISTENT_VOLUME_CLAIM), ("get", *FOLLOW)),
    Right((core.POD_DISRUPTION_BUDGET,), FOLLOW),
    Right((core.VOLUME_ATTACHMENT,), ("get", *FOLLOW, "delete")),
)
"""It drains nodes, and takes those for lost that are silent."""
TOKEN_RIGHTS = (Right((core.SECRET,), ("get", "list", "create", "delete")),)
"""In the namespace of tokens with which machines join."""

_APPROVED = "system:certificates.k8s.io:certificatesigningrequests"
GROUPS_BY_ROLE = {
    "system:node-bootstrapper": "system:bootstrappers",
    f"{_APPROVED}:nodeclient": "system:bootstrappers",
    f"{_APPROVED}:selfnodeclient": "system:nodes",
}
"""Default roles, and the groups that get them: holders of a token may request a node's certificate, nodes the next one,
and both requests are approved."""


def in_shoot() -> list[tuple[Resource, Tree]]:
    """The objects of the shoot by which machines are managed, and join."""
    role, user = (core.ROLE, core.ROLE_BINDING), {"kind": "User", "name": USER}
    cluster_role = core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING
    made = [*_granted(cluster_role, SHOOT_RIGHTS, user), *_granted(role, TOKEN_RIGHTS, user, core.KUBE_SYSTEM)]
    for name, group in GROUPS_BY_ROLE.items():
        subject = {"apiGroup": core.CLUSTER_ROLE.group, "kind": "Group", "name": group}
        made.append((core.CLUSTER_ROLE_BINDING, _binding(cluster_role, name, name, subject)))
    return made


def service_account(namespace: str, in_shoot: str) -> Tree:
    """The ServiceAccount that the pod names; without it, no API server accepts the pod. It records the digest of the
    rights that the program has in the shoot; empty if it has not got them."""
    tree = _object(core.SERVICE_ACCOUNT.api_version, core.SERVICE_ACCOUNT.kind, namespace)
    if in_shoot:
        tree["metadata"]["annotations"] = {SHOOT_ROLES: in_shoot}
    return tree


def role_binding(namespace: str) -> Tree:
    """The binding of the ClusterRole in the shoot's namespace."""
    subject = {"kind": core.SERVICE_ACCOUNT.kind, "name": MACHINE_CONTROLLER_MANAGER, "namespace": namespace}
    role = {"apiGroup": core.CLUSTER_ROLE.group, "kind": core.CLUSTER_ROLE.kind, "name": CLUSTER_ROLE}
    tree = _object(core.ROLE_BINDING.api_version, core.ROLE_BINDING.kind, namespace)
    return {**tree, "roleRef": role, "subjects": [subject]}


def _granted(
    kinds: tuple[Resource, Resource], rights: tuple[Right, ...], subject: Tree, namespace: str = ""
) -> list[tuple[Resource, Tree]]:
    metadata = {"name": IN_SHOOT, **({"namespace": namespace} if namespace else {})}
    role = {"apiVersion": kinds[0].api_version, "kind": kinds[0].kind, "metadata": metadata, "rules": trees(rights)}
    given = {"apiGroup": kinds[0].group, **subject}
    return [(kinds[0], role), (kinds[1], _binding(kinds, IN_SHOOT, IN_SHOOT, given, namespace))]


def _binding(kinds: tuple[Resource, Resource], name: str, role: str, subject: Tree, namespace: str = "") -> Tree:
    return {
        "apiVersion": kinds[1].api_version,
        "kind": kinds[1].kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": kinds[0].group, "kind": kinds[0].kind, "name": role},
        "subjects": [subject],
    }


def _object(api_version: str, kind: str, namespace: str) -> Tree:
    name = MACHINE_CONTROLLER_MANAGER
    metadata = {"name": name, "namespace": namespace, "labels": labels_of(name)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
