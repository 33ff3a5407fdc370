"""Records of operations on management clusters: each cluster has its own."""

from __future__ import annotations

import pytest

from espalier.api.core import CONFIG_MAP, NAMESPACE
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.management import creating
from espalier.kube.client import Client
from espalier.management import record as records
from espalier.management.steps import Refused
from tests.support.environments import empty_api_servers
from tests.support.environments.empty_api_servers import MANAGEMENT

OTHER = Key("a", "other")


def record(operation: str, key: Key = MANAGEMENT) -> records.Record:
    return records.Record(operation, *key, "v0.26.0")


def with_servers(story: empty_api_servers.Story) -> None:
    async def in_namespace(bootstrap: Client, cluster: Client) -> None:
        await bootstrap.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
        await story(bootstrap, cluster)

    empty_api_servers.with_servers(in_namespace)


def test_a_bootstrap_says_whom_it_is_in_use_for() -> None:
    """The cluster that is asked for, if there are several; never one that upgrades itself."""

    async def story(bootstrap: Client, _cluster: Client) -> None:
        await records.write(bootstrap, record(records.UPGRADE, Key("a", "a")))
        assert await records.of_bootstrap(bootstrap, MANAGEMENT) is None
        await records.write(bootstrap, record(records.DELETE, OTHER))
        assert await records.of_bootstrap(bootstrap, MANAGEMENT) == record(records.DELETE, OTHER)
        await records.write(bootstrap, record(records.CREATE))
        assert await records.of_bootstrap(bootstrap, MANAGEMENT) == record(records.CREATE)

    with_servers(story)


def test_other_components_are_refused_once_installed() -> None:
    """Until then the folder may change."""
    for step, goes_on in (("", True), ("create", True), ("cluster-api", False), ("move", False)):
        begun = records.Record(records.CREATE, *MANAGEMENT, "v0.26.0", step, "{}", "one")
        assert creating.record_of(begun, MANAGEMENT, "v0.26.0", "{}", "", "one") == begun
        if goes_on:
            changed = creating.record_of(begun, MANAGEMENT, "v0.26.0", "{}", "", "other")
            assert (changed.step, changed.components) == (step, "other")
            continue
        with pytest.raises(Refused, match="--components: Cluster API is installed in cluster default/management"):
            creating.record_of(begun, MANAGEMENT, "v0.26.0", "{}", "", "other")


def test_no_secret_is_in_the_digest_of_components() -> None:
    """Whoever can read the record could try passwords against it."""
    secrets: list[Tree] = [{"kind": "Secret", "stringData": {"password": word}} for word in ("a", "b")]
    deployments: list[Tree] = [{"kind": "Deployment", "spec": word} for word in ("a", "b")]
    digests = {records.digest_of([secret, deployments[0]]) for secret in secrets}
    assert len(digests) == 1
    assert records.digest_of([secrets[0], deployments[1]]) not in digests


def test_forgotten_records_leave_those_of_others() -> None:
    async def story(bootstrap: Client, _cluster: Client) -> None:
        for key in (MANAGEMENT, OTHER):
            await records.write(bootstrap, record(records.CREATE, key))
            await records.keep_kubeconfig(bootstrap, key, str(key).encode())
        await records.forget(bootstrap, MANAGEMENT)
        assert await records.read(bootstrap, MANAGEMENT) is None
        assert await records.read_kubeconfig(bootstrap, MANAGEMENT) is None
        assert await records.read(bootstrap, OTHER) == record(records.CREATE, OTHER)
        assert await records.read_kubeconfig(bootstrap, OTHER) == str(OTHER).encode()

    with_servers(story)


def test_a_record_under_another_name_is_not_read() -> None:
    """Neither without a cluster in its name, nor with another one in it."""

    async def story(bootstrap: Client, _cluster: Client) -> None:
        await records.write(bootstrap, record(records.CREATE))
        (written,) = (await bootstrap.list(CONFIG_MAP, SYSTEM_NAMESPACE)).items
        await records.forget(bootstrap, MANAGEMENT)
        for name in (records.NAME, records.name_of(OTHER)):
            metadata = {"name": name, "namespace": SYSTEM_NAMESPACE}
            await bootstrap.apply(CONFIG_MAP, {"metadata": metadata, "data": written.tree["data"]})
        assert await records.read(bootstrap, MANAGEMENT) is None
        assert await records.read(bootstrap, OTHER) is None
        await bootstrap.delete(CONFIG_MAP, records.name_of(OTHER), SYSTEM_NAMESPACE)
        assert await records.of_bootstrap(bootstrap, MANAGEMENT) is None

    with_servers(story)
