"""The rights that `espalier plan` needs, and what it says when some are missing."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.api.core import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.gitops import FluxConfig
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.manifests.manifests import Document, read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters.manifests import preflight
from espalier.cli.clusters.plans.plan_text import Planned
from espalier.cli.clusters.plans.planning import PlanRequest
from espalier.cli.kit.failures import Failure
from espalier.clusters.design.drift.gate import Isolation
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment, managed_environment
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
JANE = User("jane", ("system:authenticated",))
ROLES: Sequence[Tree] = list(yaml.safe_load_all((Path(__file__).parents[2] / "examples" / "roles.yaml").read_text()))
ADMINS = "espalier-admin"
SYSTEM = "eksa-system"
CONFIG_MAP = "ConfigMap eksa-system/management-cluster"


def story(tell: Callable[[ManagedEnvironment, Client], Awaitable[None]], leave_out: str = "") -> None:
    """With a cluster, and a client of an administrator, who has all roles of the example but one in `eksa-system`."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            for role in ROLES:
                await give(env, role, leave_out)
            await tell(env, Client(InProcessTransport(env.server, JANE)))

    run(main, epoch=EPOCH, seed=1)


async def give(env: ManagedEnvironment, role: Tree, leave_out: str) -> None:
    name, namespace = role["metadata"]["name"], role["metadata"].get("namespace", "")
    if not role["kind"].endswith("Role") or not name.startswith(ADMINS) or (name, namespace) == (leave_out, SYSTEM):
        return
    kind, of_binding = (ROLE, ROLE_BINDING) if namespace else (CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
    await env.client.apply(kind, role)
    subjects = [{"kind": "User", "apiGroup": ROLE.group, "name": JANE.name}]
    reference = {"apiGroup": ROLE.group, "kind": role["kind"], "name": name}
    await env.client.apply(of_binding, {"metadata": role["metadata"], "roleRef": reference, "subjects": subjects})


async def plan(client: Client) -> Planned:
    (planned,) = await PlanRequest(PROVIDERS, [], "v0.26.0", Isolation.LAYERS, None).of_release(client, None)
    return planned


def documents_of(stored: Object) -> list[Document]:
    """A manifest of this object."""
    return read_manifests(encode_json(stored.tree), source="stored.json")


async def flux(env: ManagedEnvironment) -> None:
    """The management cluster and the cluster are under GitOps."""
    spec = {"github": {"owner": "team", "repository": "fleet", "personal": False}}
    await env.client.create(FluxConfig.resource, {"metadata": {"name": "fleet", "namespace": "default"}, "spec": spec})
    patch: dict[str, Any] = {"spec": {"gitOpsRef": {"kind": "FluxConfig", "name": "fleet"}}}
    for key in (Key("default", "laptop"), GARDEN):
        await env.client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)
    await env.until_ready()


@pytest.mark.soak
@pytest.mark.parametrize("git_ops", sampled([False, True], 1), ids=["plain", "GitOps"])
def test_example_role_suffices_for_a_whole_plan(git_ops: bool) -> None:
    async def tell(env: ManagedEnvironment, jane: Client) -> None:
        if git_ops:
            await flux(env)
        preview = (await plan(jane)).now
        assert (preview.stops, preview.warnings, preview.is_empty) == ("", (), True)
        stored = await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)
        assert await preflight.judge(PROVIDERS, jane, documents_of(stored)) == ()

    story(tell)


@pytest.mark.soak
def test_tenant_is_told_the_rights_that_a_plan_needs() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            with pytest.raises(Failure) as refused:
                await plan(Client(InProcessTransport(env.server, JANE)))
            message = str(refused.value)
            assert 'User "jane" cannot' in message
            assert "the permissions of espalier-admin" in message
            assert "kubectl apply --dry-run=server -f FILE" in message

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_plan_tells_that_the_manager_is_unreadable() -> None:
    async def tell(env: ManagedEnvironment, jane: Client) -> None:
        (warning,) = (await plan(jane)).now.warnings
        assert warning.startswith(f"not allowed to read {CONFIG_MAP}, which names the management cluster")
        assert "the oldest self-managed Cluster is assumed to be it" in warning
        stored = await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)
        assert await preflight.judge(PROVIDERS, jane, documents_of(stored)) == (warning,)

    story(tell, leave_out=ADMINS)


@pytest.mark.soak
def test_plan_tells_that_gitops_is_unreadable() -> None:
    async def tell(env: ManagedEnvironment, jane: Client) -> None:
        await flux(env)
        role = (await env.client.get(CLUSTER_ROLE, ADMINS)).tree
        rules = [
            {**rule, "resources": [resource for resource in rule["resources"] if resource != "fluxconfigs"]}
            for rule in role["rules"]
        ]
        await env.client.patch(CLUSTER_ROLE, ADMINS, patch={"rules": rules}, type=PatchType.MERGE)
        (warning,) = (await plan(jane)).now.warnings
        assert warning.startswith("not allowed to read FluxConfig default/fleet: it is assumed to be missing")

    story(tell)


def test_manifest_without_rights_is_judged_with_notice() -> None:
    async def tell(env: ManagedEnvironment, _jane: Client) -> None:
        nobody = Client(InProcessTransport(env.server, User("nobody", ("system:authenticated",))))
        stored = await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)
        (notice,) = await preflight.judge(PROVIDERS, nobody, documents_of(stored))
        assert notice.startswith("only its manifest was checked, the API server has to check the rest: ")

    story(tell)


async def limit(env: ManagedEnvironment, verbs: dict[str, list[str]]) -> None:
    """Give our administrator these verbs on the kinds of EKS Anywhere, and no others."""
    rules = [{"apiGroups": [Cluster.resource.group], "resources": [what], "verbs": may} for what, may in verbs.items()]
    await env.client.patch(CLUSTER_ROLE, ADMINS, patch={"rules": rules}, type=PatchType.MERGE)


async def lose_releases(env: ManagedEnvironment) -> None:
    for webhooks in (await env.client.list(VALIDATING_WEBHOOK_CONFIGURATION)).items:
        await env.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, webhooks.name)
    for eksarelease in (await env.client.list(EKSARelease.resource)).items:
        await env.client.delete(EKSARelease.resource, eksarelease.name)


@pytest.mark.soak
def test_missing_right_to_install_a_release_is_named() -> None:
    async def tell(env: ManagedEnvironment, jane: Client) -> None:
        await lose_releases(env)
        await limit(env, {"eksareleases": ["list"]})
        for needed in ("v0.26.0", None):  # the latter of a cluster with bundlesRef
            right = 'cannot create resource "releases" in API group "distro.eks.amazonaws.com"'
            if needed is not None:
                with pytest.raises(Failure, match=right):
                    await preflight.install_releases(jane, needed)
            else:
                (notice,) = await preflight.install_releases(jane, needed)
                assert notice.startswith("releases of this program are missing, and the manager has to install them: ")
                assert re.search(right, notice)

    story(tell)


@pytest.mark.soak
def test_unreadable_releases_are_a_notice() -> None:
    async def tell(env: ManagedEnvironment, jane: Client) -> None:
        assert await preflight.install_releases(jane, "v0.26.0") == ()
        await limit(env, {"eksareleases": ["list"]})  # and none of EKS Distro: what a manager brings is there
        (notice,) = await preflight.install_releases(jane, "v0.26.0")
        assert 'cannot list resource "releases"' in notice
        await limit(env, {"clusters": ["list"]})
        (notice,) = await preflight.install_releases(jane, "v0.26.0")
        assert 'cannot list resource "eksareleases"' in notice

    story(tell)


@pytest.mark.soak
@pytest.mark.parametrize("reads_map", sampled([True, False], 0), ids=["all", "all but the ConfigMap"])
def test_record_is_kept_from_who_can_not_see_clusters(reads_map: bool) -> None:
    async def tell(env: ManagedEnvironment, jane: Client) -> None:
        laptop = Key("default", "laptop")
        with pytest.raises(Failure, match="which manages clusters: default/garden") as told:
            await preflight.check_deletable(jane, laptop)
        assert ("assumed to be" in str(told.value)) is not reads_map
        await limit(env, {"clusters": ["get", "delete"]})
        with pytest.raises(Failure, match='cannot list resource "clusters"'):
            await preflight.check_deletable(jane, laptop)

    story(tell, leave_out="" if reads_map else ADMINS)
