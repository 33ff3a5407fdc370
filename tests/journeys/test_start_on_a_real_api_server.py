"""`espalier manager`, upgraded where a real API server is not ready for it: it waits, says for what, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import PATIENCE, Production, production
from tests.support.environments.managing import unasked
from tests.support.environments.many_clusters import all_ready
from tests.support.histories.isolation_stories import apply, is_synced, numbered
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually, until

pytestmark = [pytest.mark.envtest, pytest.mark.soak]

DISTRO = "kubernetes-1-35-eks-1"
UNDEFINED = (
    "[-]caches failed: not listed yet: releases.distro.eks.amazonaws.com (not served by the API server "
    "in v1alpha1; apply the output of this version's `espalier manifests`, which defines it)\n"
)
POLICY = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: strangers}}
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [{DistroRelease.resource.group}]
      apiVersions: ["*"]
      operations: [CREATE]
      resources: [{DistroRelease.resource.plural}]
  validations:
  - {{expression: "object.metadata.name != '{DISTRO}'", message: no images of strangers}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: strangers}}
spec: {{policyName: strangers, validationActions: [Deny]}}
"""
"""A policy with which the operators of a management cluster refuse a release for its images."""

PROBE = f"""
apiVersion: {DistroRelease.resource.api_version}
kind: {DistroRelease.resource.kind}
metadata: {{name: {DISTRO}, namespace: {SYSTEM_NAMESPACE}}}
spec: {{channel: 1-35, number: 1}}
"""


@pytest.mark.demand(L6="where the management cluster is not ready for a manager")
async def test_manager_that_lacks_something_goes_on_later(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with production(control_plane, tmp_path) as management:
        port, metrics = free_port(), free_port()
        flags = ("--health-address", f"127.0.0.1:{port}", "--metrics-address", f"127.0.0.1:{metrics}")
        management.flags = (*management.flags, *flags)
        await apply(management.client, 1)
        await all_ready(management.caches.of(Cluster.resource), 1, seconds=PATIENCE)
        await a_definition_that_nobody_applied(management, port)
        await a_release_that_is_refused(management, port, metrics)
        for resource in (Cluster.resource, DockerDatacenterConfig.resource):
            await management.kubectl("delete", resource.group_resource, numbered(0).name, "--ignore-not-found")


async def a_definition_that_nobody_applied(management: Production, port: int) -> None:
    await management.stop()
    await management.client.delete(CUSTOM_RESOURCE_DEFINITION, DistroRelease.resource.group_resource)
    management.launch()
    await readiness(management, port, lambda status, text: status == 500 and UNDEFINED in text)
    await management.kubectl("apply", "-f", "-", stdin=management.manifests)
    await readiness(management, port, lambda status, _text: status == 200)
    distros = management.caches.of(DistroRelease.resource, SYSTEM_NAMESPACE)
    await until(distros, Key(SYSTEM_NAMESPACE, DISTRO), lambda value: value is not None)
    assert management.manager is not None
    management.manager.check()


async def a_release_that_is_refused(management: Production, port: int, metrics: int) -> None:
    """Its clusters are told, and left as they are."""
    clusters = management.caches.of(Cluster.resource)
    await management.stop()
    await forget(management.client)
    await management.kubectl("apply", "-f", "-", stdin=POLICY)
    await until_it_is_denied(management)
    await management.start()
    missing = f"releases.distro.eks.amazonaws.com eksa-system/{DISTRO} could not be installed: "
    await until(clusters, numbered(0), lambda value: value is not None and missing in synced(value))
    assert "no images of strangers" in synced(clusters.get(numbered(0)))
    unready = await readiness(management, port, lambda status, text: status == 200 and "releases failed" in text)
    assert missing in unready
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{metrics}/metrics") as answer:
        assert "espalier_uninstalled_objects 1.0\n" in await answer.text()
    await management.kubectl("delete", "-f", "-", stdin=POLICY)
    await until(clusters, numbered(0), lambda value: value is not None and is_synced(value))
    await readiness(management, port, lambda status, text: (status, text) == (200, "ok"))


async def until_it_is_denied(management: Production) -> None:
    """Policies are known to an API server some time after they were written."""
    await eventually(
        lambda: management.kubectl.finish("create", "--dry-run=server", "-f", "-", stdin=PROBE),
        lambda finished: "no images of strangers" in finished[2],
        within=PATIENCE,
    )


async def forget(client: Client) -> None:
    async with unasked(client):  # which would refuse it, or have nobody who answers
        for release in (await client.list(DistroRelease.resource)).items:
            await client.delete(DistroRelease.resource, release.name, release.namespace)


def synced(value: Object | None) -> str:
    assert value is not None
    conditions = value.decode(Cluster).status.conditions
    return next((condition.message for condition in conditions if condition.type == names.SYNCED), "")


async def readiness(management: Production, port: int, is_so: Callable[[int, str], bool]) -> str:
    """The answer of the running process about its readiness, once it is as awaited."""

    async def answer() -> tuple[int, str]:
        assert management.manager is not None
        management.manager.check()
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/readyz") as opened:
            return opened.status, await opened.text()

    not_yet = aiohttp.ClientConnectionError  # it has just begun
    return (await eventually(answer, lambda answer: is_so(*answer), within=PATIENCE, despite=not_yet))[1]
