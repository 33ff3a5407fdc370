"""The objects that are installed on a management cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from espalier.api import core
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import MANAGEMENT_CLUSTER, MANAGER, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.cli.install import admission_policies, deployment
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.flags import LABEL
from espalier.cli.programs import components
from espalier.cli.programs.webhook_configurations import DASHBOARD_SERVICE, SERVICE, webhook_tree
from espalier.clusters import rbac
from espalier.clusters.design.provider import Providers
from espalier.kube.rbac import Right, trees
from espalier.providers.registry import PROVIDERS
from espalier.runtime.component import kinds

NAME = MANAGER
CLUSTERS_ROLE = f"{NAME}-clusters"
"""Name of the Role in each watched namespace, which may include the system's namespace."""

COPIES_ROLE = f"{NAME}-kubeconfig-copies"
"""Name of the Role in each namespace whose owner wants copies of kubeconfigs."""

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{NAME}"


def everything(
    *,
    image: str = "",
    webhook_url: str = "",
    namespaces: Sequence[str] = (),
    in_place: FrontEnd = FrontEnd.ANNOTATIONS,
    management_cluster: str = "",
    webhook_secret: str = "",
    pods: deployment.Pods | None = None,
    dashboard: Sequence[str] | None = None,
) -> list[Tree]:
    """All objects of an installation, whose manager runs in the cluster (`image`) or is reached at a URL.

    `dashboard`: namespaces of what forwards requests to it; None for none. Raises `Usage`.
    """
    return [
        *installed(PROVIDERS, namespaces, in_place),
        *([management(management_cluster)] if management_cluster else []),
        *(tree for _, tree in webhook_configurations(webhook_url, namespaces)),
        *(deployed(image, namespaces, in_place, pods, webhook_secret, dashboard) if image else []),
    ]


def management(record: str) -> Tree:
    """ConfigMap that names the record of the management cluster. Raises `Usage`."""
    namespace, slash, name = record.partition("/")
    if not (slash and re.fullmatch(LABEL, namespace) and re.fullmatch(LABEL, name)):
        raise Usage(
            f"--management-cluster: found {record!r}, allowed is NAMESPACE/NAME of a Cluster, such as default/laptop"
        )
    return core.CONFIG_MAP.body(MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE) | {"data": {"namespace": namespace, "name": name}}


def installed(
    providers: Providers, namespaces: Sequence[str] = (), in_place: FrontEnd = FrontEnd.ANNOTATIONS
) -> list[Tree]:
    """Namespace, CRDs, ServiceAccount, its rights (on the Clusters of these namespaces, or of all) and their limit."""
    made_of = components.of_manager(providers, front_end=in_place)
    watched = [right for part in made_of for right in part.rights.watched]
    everywhere = [right for part in made_of for right in part.rights.cluster_scoped]
    system = [right for part in made_of for right in part.rights.system]
    in_all = everywhere if namespaces else [*watched, *everywhere]
    return [
        core.NAMESPACE.body(SYSTEM_NAMESPACE),
        *(msgspec.to_builtins(crd_of(kind)) for kind in kinds(made_of)),
        core.SERVICE_ACCOUNT.body(NAME, SYSTEM_NAMESPACE),
        *granted_to(NAME, core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING, NAME, "", in_all),
        *admission_policies.policies(NAME, ACCOUNT),
        *granted_to(NAME, core.ROLE, core.ROLE_BINDING, NAME, SYSTEM_NAMESPACE, system),
        *_in_each(namespaces, CLUSTERS_ROLE, watched),
    ]


def kubeconfig_copy_rights(namespaces: Sequence[str]) -> list[Tree]:
    """The permission to copy kubeconfigs to these namespaces."""
    return _in_each(
        namespaces, COPIES_ROLE, [right for part in components.of_manager(PROVIDERS) for right in part.rights.by_owners]
    )


def _in_each(namespaces: Sequence[str], name: str, granted: Sequence[Right]) -> list[Tree]:
    return [
        tree
        for namespace in namespaces
        for tree in granted_to(NAME, core.ROLE, core.ROLE_BINDING, name, namespace, granted)
    ]


def granted_to(
    account: str, role: Resource, binding: Resource, name: str, namespace: str, granted: Sequence[Right]
) -> tuple[Tree, Tree]:
    """A role, and its binding to an account of ours."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE}
    reference = {"apiGroup": role.group, "kind": role.kind, "name": name}
    return (
        role.body(name, namespace) | {"rules": trees(granted)},
        binding.body(name, namespace) | {"roleRef": reference, "subjects": [subject]},
    )


def webhook_configurations(url: str = "", namespaces: Sequence[str] = ()) -> list[tuple[Resource, Tree]]:
    """The admission webhooks, reached at `url`, or at the Service when that is empty.

    With `namespaces`, Clusters of other ones are not sent to this manager, which knows nothing about them.

    The manager writes the caBundle. They fail closed: a Cluster that nobody checked could become another cluster than
    asked for, while a manager that is away builds nothing in any case. Clusters can be deleted without it.
    """
    asked = [webhook for component in components.of_manager(PROVIDERS) for webhook in component.webhooks]
    return [
        (
            resource,
            resource.body(name, SYSTEM_NAMESPACE)
            | {"webhooks": [webhook_tree(url, webhook, SERVICE, namespaces) for webhook in webhooks]},
        )
        for resource, name, webhooks in (
            (
                core.MUTATING_WEBHOOK_CONFIGURATION,
                rbac.MUTATING_WEBHOOKS,
                [webhook for webhook in asked if webhook.mutates],
            ),
            (
                core.VALIDATING_WEBHOOK_CONFIGURATION,
                rbac.VALIDATING_WEBHOOKS,
                [webhook for webhook in asked if not webhook.mutates],
            ),
        )
    ]


def deployed(
    image: str,
    namespaces: Sequence[str] = (),
    in_place: FrontEnd = FrontEnd.ANNOTATIONS,
    pods: deployment.Pods | None = None,
    webhook_secret: str = "",
    dashboard: Sequence[str] | None = None,
) -> list[Tree]:
    """The manager in the cluster, with its Services and what protects it."""
    share = ["--namespace", ",".join(namespaces)] if namespaces else []
    share += ["--in-place", str(in_place)] if in_place is not FrontEnd.ANNOTATIONS else []
    share += ["--webhook-secret", webhook_secret] if webhook_secret else []
    served = None if dashboard is None else deployment.Dashboard(DASHBOARD_SERVICE, tuple(dashboard))
    manager = deployment.Program(NAME, "manager", ("manager", *share), image, webhook_service=SERVICE, dashboard=served)
    return deployment.deployed(manager, pods or deployment.Pods())
