"""Manifests of gardens and seeds: CRDs, namespaces, accounts, RBAC, and the garden's webhooks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from espalier.api import core
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.gardener import SEED_KINDS, names
from espalier.api.meta import Tree
from espalier.cli.install import deployment
from espalier.cli.install.manifests import granted_to
from espalier.cli.programs import garden_components
from espalier.kube.rbac import APPLY, FOLLOW, Right, Rights, trees
from espalier.runtime.component import Component, kinds
from espalier.shoots.admission.users import GARDEN_ACCOUNT
from espalier.shoots.control_plane import accounts
from espalier.shoots.etcd import setup as etcds
from espalier.shoots.garden import setup as garden
from espalier.shoots.gardenlet import setup as gardenlet
from espalier.shoots.state.rbac import PROJECT_ADMIN, PROJECT_VIEWER

GARDEN, GARDENLET = GARDEN_ACCOUNT, "espalier-gardenlet"
CERTIFICATE = "espalier-garden-webhook-certificate"
GARDEN_KUBECONFIG, _GARDEN_FOLDER = "gardenlet-kubeconfig", "/etc/espalier/garden"
"""The Secret in a seed with which its gardenlet connects to the garden (key `kubeconfig`), and where it is mounted."""


PROJECT_ROLES = {
    "gardener.cloud:system:project-member": PROJECT_ADMIN,
    "gardener.cloud:system:project-viewer": PROJECT_VIEWER,
}
"""ClusterRoles for the people of projects, by Gardener's names. A RoleBinding in a project's namespace gives them to
its members: nobody has them by default."""


def of_garden(webhook_url: str, *, beside_gardener: bool = False) -> list[Tree]:
    """The objects that a garden needs for `espalier garden`, and roles for the members of its projects.

    `beside_gardener`: Gardener has the kinds and roles of these names, so neither is made.
    """
    process = Rights(
        cluster_scoped=(
            Right(
                (core.VALIDATING_WEBHOOK_CONFIGURATION,),
                (*FOLLOW, "patch"),
                names=(garden_components.VALIDATING_WEBHOOKS,),
            ),
        ),
        system=(
            Right((core.LEASE,), ("get", *APPLY)),
            Right((core.SECRET,), (*FOLLOW, "create")),
            Right((core.SECRET,), ("patch",), names=(CERTIFICATE,)),
        ),
    )
    made_of = (*garden_components.of_garden(), Component("process", rights=process))
    namespaces = (SYSTEM_NAMESPACE, names.GARDEN_NAMESPACE, names.SEED_LEASES, names.STATE_NAMESPACE)
    states = granted_to(GARDEN, core.ROLE, core.ROLE_BINDING, GARDEN, names.STATE_NAMESPACE, garden.IN_STATE_NAMESPACE)
    return [
        *(tree for tree in _installed(GARDEN, made_of, namespaces) if not (beside_gardener and _defines(tree))),
        *states,
        *(() if beside_gardener else _project_roles()),
        garden_components.webhook_configuration(webhook_url),
    ]


def of_seed() -> list[Tree]:
    """The objects that a seed needs for `espalier gardenlet`."""
    made_of = (
        Component("gardenlet", kinds=SEED_KINDS, rights=gardenlet.RIGHTS),
        Component("etcd", rights=etcds.RIGHTS),
        Component("process", rights=Rights(system=(Right((core.LEASE,), ("get", *APPLY)),))),
    )
    machines = {**core.CLUSTER_ROLE.body(accounts.CLUSTER_ROLE), "rules": trees(accounts.RIGHTS)}
    return [*_installed(GARDENLET, made_of, (SYSTEM_NAMESPACE, names.GARDEN_NAMESPACE)), machines]


def garden_deployed(image: str, pods: deployment.Pods) -> list[Tree]:
    """`espalier garden` in the cluster of its API server."""
    service = garden_components.SERVICE
    return deployment.deployed(deployment.Program(GARDEN, "garden", ("garden",), image, webhook_service=service), pods)


def gardenlet_deployed(image: str, seed: str, pods: deployment.Pods) -> list[Tree]:
    """`espalier gardenlet` in its seed."""
    args = ("gardenlet", "--seed", seed, "--garden-kubeconfig", f"{_GARDEN_FOLDER}/kubeconfig")
    mounted = ((GARDEN_KUBECONFIG, _GARDEN_FOLDER),)
    return deployment.deployed(deployment.Program(GARDENLET, "gardenlet", args, image, secret_mounts=mounted), pods)


def _installed(account: str, made_of: Sequence[Component], namespaces: Sequence[str]) -> list[Tree]:
    everywhere = [right for part in made_of for right in part.rights.everywhere]
    system = [right for part in made_of for right in part.rights.system]
    return [
        *(core.NAMESPACE.body(name) for name in namespaces),
        *(msgspec.to_builtins(crd_of(kind)) for kind in kinds(made_of)),
        core.SERVICE_ACCOUNT.body(account, SYSTEM_NAMESPACE),
        *granted_to(account, core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING, account, "", everywhere),
        *granted_to(account, core.ROLE, core.ROLE_BINDING, account, SYSTEM_NAMESPACE, system),
    ]


def _project_roles() -> list[Tree]:
    return [{**core.CLUSTER_ROLE.body(name), "rules": trees(rights)} for name, rights in PROJECT_ROLES.items()]


def _defines(tree: Tree) -> bool:
    return bool(tree["kind"] == core.CUSTOM_RESOURCE_DEFINITION.kind)
