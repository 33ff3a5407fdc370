"""Commands look at the Cluster API that is installed before they write: with a version that they do not know, and with
objects in a version that is gone, they touch nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.kube.client import PatchType
from tests.support.environments.environment import LocalEnvironment, local_environment

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
MANAGER, CLUSTERS = "capi-controller-manager", "clusters.cluster.x-k8s.io"
LABELS = {"cluster.x-k8s.io/provider": "cluster-api"}
DOCKER_ENDS = "DockerCluster, DockerMachine and their templates: found DockerCluster; Cluster API 1.15"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnvironment]:
    with local_environment(tmp_path_factory.mktemp("environment"), "--boot-seconds", "0.05") as running:
        yield running


def install(env: LocalEnvironment, version: str, stored: list[str], namespace: str = "capi-system") -> None:
    """Traces of an installation of Cluster API: its manager, and the versions in which objects are stored."""
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "manager", "image": f"registry.example/cluster-api:v{version}"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template}
    deployment = {"metadata": {"name": MANAGER, "namespace": namespace, "labels": LABELS}, "spec": spec}

    async def write() -> None:
        async with connection.connect(flags.Connection(env.home / "kubeconfig")) as connected:
            await connected.client.apply(NAMESPACE, {"metadata": {"name": namespace}})
            await connected.client.apply(DEPLOYMENT, deployment, force=True)
            patch: dict[str, Any] = {"status": {"storedVersions": stored}}
            await connected.client.patch(
                CUSTOM_RESOURCE_DEFINITION, CLUSTERS, patch=patch, type=PatchType.MERGE, subresource="status"
            )

    asyncio.run(write())


@pytest.mark.parametrize(
    ("version", "stored", "expected"),
    [
        ("1.12.3", ["v1beta2"], "Cluster API: found 1.12.3, allowed are versions 1.13, 1.14; upgrade it to"),
        ("1.15.0", ["v1beta2"], "Cluster API: found 1.15.0, allowed are versions 1.13, 1.14; install"),
        ("1.14.2", ["v1alpha4", "v1beta2"], f"CustomResourceDefinition {CLUSTERS}: found objects stored as v1alpha4"),
    ],
)
def test_what_does_not_work_is_refused(env: LocalEnvironment, version: str, stored: list[str], expected: str) -> None:
    install(env, version, stored)
    for told in (env.apply(EXAMPLE, "create", "--no-wait"), env.espalier("plan", "-f", "-", stdin=EXAMPLE)):
        text = " ".join(told.err.split())
        assert told.code != 0
        assert text.startswith(f"error: {expected}"), told.err
        assert text.endswith(". Nothing was changed")
        assert text.count("error: ") == 1
    assert [name for name in env.names("get", "clusters") if name.endswith("/garden")] == []


def test_deployments_of_others_refuse_nothing(env: LocalEnvironment) -> None:
    install(env, "1.14.2", ["v1beta2"])
    install(env, "1.15.0", ["v1beta2"], "default")
    planned = env.espalier("plan", "-f", "-", stdin=EXAMPLE)
    assert (planned.code, planned.err) == (1, "")


def test_what_ends_is_warned_of(env: LocalEnvironment) -> None:
    install(env, "1.14.2", ["v1beta2"])
    planned = env.espalier("plan", "-f", "-", stdin=EXAMPLE)
    assert DOCKER_ENDS in " ".join(planned.out.split())
    created = env.apply(EXAMPLE, "create", "--no-wait")
    assert created.code == 0, created.err
    assert DOCKER_ENDS in " ".join(created.err.split())
