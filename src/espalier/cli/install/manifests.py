"""`espalier manifests`: what `kubectl apply -f -` installs on a management cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from espalier.api import core
from espalier.api.crd import crd_of
from espalier.api.eksa.group import MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.resource import Resource
from espalier.cli.install import admission_policies, deployment
from espalier.cli.kit import flags, output
from espalier.cli.kit.commands import Command
from espalier.cli.kit.failures import Usage
from espalier.cli.programs import components
from espalier.cli.programs.webhook_configurations import SERVICE, webhook_tree
from espalier.clusters import rbac
from espalier.clusters.design.provider import Providers
from espalier.kube.rbac import Right, trees
from espalier.providers.registry import PROVIDERS
from espalier.runtime.component import kinds

NAME = "espalier-controller-manager"
CLUSTERS_ROLE = f"{NAME}-clusters"
"""Name of the Role in each watched namespace, which may include the system's namespace."""

COPIES_ROLE = f"{NAME}-kubeconfig-copies"
"""Name of the Role in each namespace whose owner wants copies of kubeconfigs."""

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{NAME}"


class Of(StrEnum):
    """The purpose of manifests."""

    MANAGER = "manager"
    GARDEN = "garden"
    SEED = "seed"


_IMAGE = re.compile(
    r"[a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")

Tree = dict[str, Any]


@click.command(cls=Command)
@flags.choice(
    "--of",
    Of.MANAGER,
    help="manager: a management cluster; garden: what `espalier garden` needs; seed: what `espalier gardenlet` needs.",
)
@click.option("--image", default="", metavar="IMAGE", help="Image of the manager; adds the Deployment.")
@click.option(
    "--webhook-url", default="", metavar="URL", help="https://HOST:PORT of a manager that runs outside the cluster."
)
@flags.watched_namespaces
@flags.choice(
    "--in-place",
    FrontEnd.ANNOTATIONS,
    help="How machines are upgraded in place, as for `espalier manager`; hooks need more permissions.",
)
@click.option(
    "--management-cluster",
    default="",
    metavar="NAMESPACE/NAME",
    help="Cluster that represents the management cluster; adds the ConfigMap that names it.",
)
@click.option(
    "--kubeconfig-copies",
    is_flag=True,
    help="Print only the permission to copy kubeconfigs to these namespaces.",
)
@click.option("--seed", default="", metavar="NAME", help="Seed of the gardenlet that --of seed --image deploys.")
@deployment.options
def manifests(
    *,
    of: Of,
    image: str,
    webhook_url: str,
    namespace: Sequence[str],
    in_place: FrontEnd,
    management_cluster: str,
    kubeconfig_copies: bool,
    seed: str,
    pods: deployment.Pods,
    pod_flags: Sequence[str],
) -> None:
    """Print CRDs, namespace, RBAC, webhooks and Deployment, as YAML.

    With --namespace, the manager gets its permissions on Clusters from a Role in each of these namespaces, which must
    exist; its ClusterRole covers only cluster-scoped kinds.

    With --kubeconfig-copies, only a Role for each of these namespaces is printed, for their owner to apply: it lets
    the manager create and replace Secrets there, to copy kubeconfigs to, but not read any.

    \b
    Examples:
      espalier manifests --image example.com/espalier:v0.26.0 | kubectl apply -f -
      espalier manifests --kubeconfig-copies -n team-a | kubectl apply -f -
      espalier manifests --of garden --webhook-url https://10.0.0.5:9443
      espalier manifests --of seed --seed west --image example.com/espalier:v1
    """
    namespaces = flags.namespaces(namespace)
    if image and not _IMAGE.fullmatch(image):
        raise Usage(f"--image: found {image!r}, allowed is an image reference such as example.com/espalier:v0.26.0")
    if kubeconfig_copies and of is Of.MANAGER:
        if not namespaces or image or webhook_url or pod_flags:
            raise Usage("--kubeconfig-copies needs --namespace and allows no other flag: it prints a Role for each")
        _write(kubeconfig_copy_rights(namespaces))
        return
    if pod_flags and not image:
        raise Usage(f"{pod_flags[0]}: found without --image, which adds the Deployment whose pods it sets")
    if of is not Of.MANAGER:
        others = {"--namespace": namespace, "--in-place": in_place is not FrontEnd.ANNOTATIONS}
        others |= {"--management-cluster": management_cluster, "--kubeconfig-copies": kubeconfig_copies}
        for flag, is_given in others.items():
            if is_given:
                raise Usage(f"{flag}: found with --of {of}, allowed is --of manager")
        _write(_of_gardener(of, image, webhook_url, seed, pods))
        return
    if seed:
        raise Usage("--seed: found with --of manager, allowed is --of seed")
    if bool(image) == bool(webhook_url):
        raise Usage("give either --image (a manager in the cluster) or --webhook-url (one outside of it)")
    _check_url(webhook_url)
    webhooks = [tree for _, tree in webhook_configurations(webhook_url, namespaces)]
    named = [management(management_cluster)] if management_cluster else []
    running = deployed(image, namespaces, in_place, pods) if image else []
    _write([*installed(PROVIDERS, namespaces, in_place), *named, *webhooks, *running])


def _write(objects: Sequence[Tree]) -> None:
    output.write_data("---\n".join(output.to_yaml(tree) for tree in objects))


def _check_url(url: str) -> None:
    """Raises `Usage`."""
    if url and (urlsplit(url).scheme != "https" or not urlsplit(url).hostname):
        raise Usage(f"--webhook-url: found {url!r}, allowed is https://HOST:PORT (API servers call nothing else)")


def _of_gardener(of: Of, image: str, webhook_url: str, seed: str, pods: deployment.Pods) -> list[Tree]:
    """Raises `Usage`."""
    from espalier.cli.install import garden_manifests  # noqa: PLC0415  it declares webhooks by this module

    _check_url(webhook_url)
    if of is Of.SEED:
        if webhook_url:
            raise Usage("--webhook-url: found with --of seed, whose gardenlet serves no webhooks")
        if bool(image) != bool(seed):
            missing, given = ("--seed", "--image") if image else ("--image", "--seed")
            raise Usage(f"--of seed: found {given} without {missing}; a gardenlet is deployed by both")
        if seed and not _NAME.fullmatch(seed):
            raise Usage(f"--seed: found {seed!r}, allowed is the name of a Seed, such as west")
        return [*garden_manifests.of_seed(), *(garden_manifests.gardenlet_deployed(image, seed, pods) if image else ())]
    if seed:
        raise Usage("--seed: found with --of garden, allowed is --of seed")
    if image and webhook_url:
        raise Usage("--of garden: give either --image (a garden's controllers in the cluster) or --webhook-url")
    return [
        *garden_manifests.of_garden(webhook_url),
        *(garden_manifests.garden_deployed(image, pods) if image else ()),
    ]


def management(record: str) -> Tree:
    """ConfigMap that names the record of the management cluster. Raises `Usage`."""
    namespace, slash, name = record.partition("/")
    if not (slash and _NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
        raise Usage(
            f"--management-cluster: found {record!r}, allowed is NAMESPACE/NAME of a Cluster, such as default/laptop"
        )
    return _object(core.CONFIG_MAP, MANAGEMENT_CLUSTER) | {"data": {"namespace": namespace, "name": name}}


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
        _object(core.NAMESPACE, SYSTEM_NAMESPACE),
        *(msgspec.to_builtins(crd_of(kind)) for kind in kinds(made_of)),
        _object(core.SERVICE_ACCOUNT, NAME),
        *_granted(core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING, NAME, "", in_all),
        *admission_policies.policies(NAME, ACCOUNT),
        *_granted(core.ROLE, core.ROLE_BINDING, NAME, SYSTEM_NAMESPACE, system),
        *_in_each(namespaces, CLUSTERS_ROLE, watched),
    ]


def kubeconfig_copy_rights(namespaces: Sequence[str]) -> list[Tree]:
    """The permission to copy kubeconfigs to these namespaces."""
    return _in_each(
        namespaces, COPIES_ROLE, [right for part in components.of_manager(PROVIDERS) for right in part.rights.by_owners]
    )


def _in_each(namespaces: Sequence[str], name: str, granted: Sequence[Right]) -> list[Tree]:
    return [
        tree for namespace in namespaces for tree in _granted(core.ROLE, core.ROLE_BINDING, name, namespace, granted)
    ]


def _granted(
    role: Resource, binding: Resource, name: str, namespace: str, granted: Sequence[Right]
) -> tuple[Tree, Tree]:
    """A role, and its binding to the manager."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM_NAMESPACE}
    reference = {"apiGroup": role.group, "kind": role.kind, "name": name}
    return (
        _object(role, name, namespace) | {"rules": trees(granted)},
        _object(binding, name, namespace) | {"roleRef": reference, "subjects": [subject]},
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
            _object(resource, name)
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
) -> list[Tree]:
    """The manager in the cluster, with its Service and what protects it."""
    share = ["--namespace", ",".join(namespaces)] if namespaces else []
    share += ["--in-place", str(in_place)] if in_place is not FrontEnd.ANNOTATIONS else []
    manager = deployment.Program(NAME, "manager", ("manager", *share), image, webhook_service=SERVICE)
    return deployment.deployed(manager, pods or deployment.Pods())


def _object(resource: Resource, name: str, namespace: str = SYSTEM_NAMESPACE) -> Tree:
    metadata = {"name": name} | ({"namespace": namespace} if resource.namespaced else {})
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
