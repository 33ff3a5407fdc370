"""Refusals of the steps of a management cluster, on API servers that lack something."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from espalier.api.core import CONFIG_MAP, NAMESPACE
from espalier.api.eksa.gitops import FluxConfig
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.cli.management import deleting
from espalier.kube.client import Client
from espalier.kube.errors import ServerFailure, Unreachable
from espalier.kube.transports.wire import Request, Response
from espalier.management import handed_over, installing
from espalier.management import record as records
from espalier.management.creation import moved, until_answering
from espalier.management.removal import Removal
from espalier.management.steps import Refused
from espalier.moving.condition import of_management_cluster
from tests.support.environments.bootstraps import Quiet
from tests.support.environments.empty_api_servers import MANAGEMENT, creation, named, with_servers
from tests.support.objects.moved_clusters import NoRules


@pytest.mark.parametrize(("has", "where"), [(1, "gone here"), (0, "gone there")])
def test_a_side_without_its_namespace_is_not_moved(has: int, where: str) -> None:
    async def story(bootstrap: Client, cluster: Client) -> None:
        await (bootstrap, cluster)[has].apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
        with pytest.raises(Refused, match=f"namespace eksa-system is {where}"):
            await moved(bootstrap, cluster, MANAGEMENT, NoRules(), Quiet(), of_management_cluster("espalier"))

    with_servers(story)


def test_espalier_is_not_installed_over_another() -> None:
    async def story(bootstrap: Client, cluster: Client) -> None:
        for client in (bootstrap, cluster):
            await named(client, "other")
        await records.keep_kubeconfig(bootstrap, MANAGEMENT, b"its kubeconfig")
        with pytest.raises(Refused, match=r"names Cluster default/other; give the manifest of another cluster"):
            await creation(bootstrap, cluster).actions["espalier"]()

    with_servers(story)


def test_a_creation_without_its_kubeconfig_is_refused() -> None:
    async def story(bootstrap: Client, cluster: Client) -> None:
        with pytest.raises(Refused, match="of the bootstrap is gone, and with it the way to cluster"):
            await creation(bootstrap, cluster).actions["espalier"]()

    with_servers(story)


def test_a_cluster_that_never_answers_is_given_up() -> None:
    async def story(_bootstrap: Client, cluster: Client) -> None:
        async def request(_request: Request) -> None:
            raise Unreachable("nobody listens")

        cluster.transport = SimpleNamespace(request=request)
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unreachable, match="nobody listens"):
            await until_answering(cluster.without_repeats(), MANAGEMENT, Quiet())
        assert asyncio.get_running_loop().time() - began < 200

    with_servers(story)


def test_a_bootstrap_without_a_record_gets_no_git_ops() -> None:
    """The cluster is refused there, with the reason."""

    async def story(bootstrap: Client, _cluster: Client) -> None:
        reference: Tree = {"kind": "FluxConfig", "name": "fleet"}
        await handed_over.let_name(bootstrap, reference, FluxConfig.resource, {})

    with_servers(story)


def test_a_kind_that_is_not_served_is_named() -> None:
    async def story(_bootstrap: Client, cluster: Client) -> None:
        tree: Tree = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "b"}}
        with pytest.raises(Refused, match=r"Widget a: example\.com/v1 is not served by the cluster"):
            await installing.apply(cluster, [tree])

    with_servers(story)


def test_a_management_cluster_does_not_delete_itself() -> None:
    """It would be its own bootstrap, and delete the machines that it runs on."""

    async def story(bootstrap: Client, _cluster: Client) -> None:
        await named(bootstrap, MANAGEMENT.name)

        async def connect() -> Client:
            return bootstrap

        given = SimpleNamespace(connect=connect, flag=" --bootstrap-kubeconfig FILE")
        with pytest.raises(Refused, match="cluster default/management can't delete itself"):
            await deleting._check_is_free(given, MANAGEMENT)

    with_servers(story)


@pytest.mark.parametrize(("failures", "goes_on"), [(100, True), (10_000, False)])
def test_what_a_webhook_refuses_at_first_is_repeated(*, failures: int, goes_on: bool) -> None:
    """The webhook of cert-manager answers some time after it is installed, also if both are in the same manifests."""

    async def story(_bootstrap: Client, cluster: Client) -> None:
        transport, left = cluster.transport, failures

        async def request(asked: Request) -> Response:
            nonlocal left
            if asked.method == "PATCH" and "/configmaps/" in asked.path and left:
                left -= 1
                return Response(500, b'{"reason": "InternalError", "message": "failed calling webhook"}')
            return await transport.request(asked)

        cluster.transport = SimpleNamespace(request=request)
        tree: Tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}
        trees: list[Tree] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}, tree]
        progress = Quiet()
        if not goes_on:
            with pytest.raises(ServerFailure, match="failed calling webhook"):
                await installing.apply(cluster.without_repeats(), trees, progress)
            return
        await installing.apply(cluster.without_repeats(), trees, progress)
        assert (await cluster.get(CONFIG_MAP, "a", "b")).name == "a"
        assert "ConfigMap a" in progress.told[0]

    with_servers(story)


def test_cluster_that_was_not_created_is_not_returned() -> None:
    """Its bootstrap has no kubeconfig of it yet."""

    async def story(bootstrap: Client, _cluster: Client) -> None:
        def connect(_content: bytes) -> Client:
            raise AssertionError("there is nothing to connect to")

        async def until_gone(_at: Client) -> None: ...

        work = Removal(MANAGEMENT, bootstrap, connect, NoRules(), Quiet(), until_gone)
        await work.actions["return"]()

    with_servers(story)


def test_fields_that_a_manifest_lost_are_listed() -> None:
    def manifest(**spec: object) -> str:
        return records.manifest_of([{"kind": "Cluster", "metadata": {"name": "a"}, "spec": spec}])

    begun = records.Record(records.CREATE, "default", "a", "v0.26.0", manifest=manifest(count=2, more={"b": 1}))
    assert records.changed(begun, manifest(count=3)) == [
        "Cluster a: spec.count: found 3, begun with 2",
        "Cluster a: spec.more: found nothing, begun with a value",
    ]
