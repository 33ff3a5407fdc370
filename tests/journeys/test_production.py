"""The output of `espalier manifests` on a real management cluster is enough for `espalier manager`, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from espalier.api.eksa.vocabulary.group import GROUP, SYSTEM_NAMESPACE
from espalier.api.flux import KUSTOMIZATION
from espalier.cli.install import manifests
from espalier.cli.programs import components
from espalier.kube.rbac import Right
from espalier.providers.registry import PROVIDERS
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import SERVICE_ACCOUNT, Production, production, rights_to_own
from tests.support.histories import kubectl_story as story
from tests.support.sampling import sampled
from tests.support.servers.audit import Asked, Grant, following, grants, requests_of, uses

pytestmark = pytest.mark.envtest

CONTROL_PLANE, MACHINES = "controlplane.cluster.x-k8s.io", "cluster.x-k8s.io"
INFRASTRUCTURE, ETCD = "infrastructure.cluster.x-k8s.io", "etcdcluster.cluster.x-k8s.io"
UNUSED = {
    Grant(SYSTEM_NAMESPACE, MACHINES, "machinedeployments", "delete"): "a worker node group is taken out of the spec",
    Grant(SYSTEM_NAMESPACE, CONTROL_PLANE, "kubeadmcontrolplanes", "delete"): "its Cluster was never made, or is gone",
    Grant(SYSTEM_NAMESPACE, INFRASTRUCTURE, "dockerclusters", "delete"): "its Cluster was never made, or is gone",
    **dict.fromkeys(
        (Grant(SYSTEM_NAMESPACE, ETCD, "etcdadmclusters", verb) for verb in ("create", "patch", "delete")),
        "etcd is on machines of its own",
    ),
    Grant(SYSTEM_NAMESPACE, "", "secrets", "delete"): "nodes no longer have files with passwords",
}
"""Rights that this journey does not use, and when they are used."""


def granted_by(rights_: Iterable[Right]) -> set[str]:
    return {
        str(Grant(SYSTEM_NAMESPACE, resource.group, "/".join(filter(None, (resource.plural, right.subresource))), verb))
        for right in rights_
        for resource in right.resources
        for verb in right.verbs
    }


CLUSTERS, UPGRADES, *_ = components.of_manager(PROVIDERS)

EITHER = {
    str(Grant(SYSTEM_NAMESPACE, MACHINES, "machinehealthchecks", "delete")),
    str(Grant(SYSTEM_NAMESPACE, "bootstrap.cluster.x-k8s.io", "kubeadmconfigtemplates", "delete")),
    *(granted_by(UPGRADES.rights.system) - granted_by(CLUSTERS.rights.system)),
    *(str(Grant(SYSTEM_NAMESPACE, "", "configmaps", verb)) for verb in ("create", "patch", "delete")),
}
"""On a busy machine the garbage collector is there first when a cluster is deleted. And nothing is upgraded in place
here, nor has a cluster authorities that it trusts: that all of those rights are used, `test_rights.py` shows."""

FORBIDDEN = 403

OTHERS = ("vsphere", "tinkerbell", "nutanix", "cloudstack", "snow", "awssnow", "clusterresourcesets")
"""Providers whose clusters are not made here."""


@pytest.mark.demand("L62", L27="one process with all there are", L64="its ServiceAccount and Secrets")
@pytest.mark.parametrize("namespaces", sampled([((),), (("default",),)], 0), ids=["all", "one"])
async def test_service_account_has_exactly_the_needed_rights(
    control_plane: ControlPlane, tmp_path: Path, namespaces: tuple[str, ...]
) -> None:
    since = control_plane.audit_log.stat().st_size
    namespace = namespaces[0] if namespaces else ""
    either = {*EITHER, str(Grant(namespace, "", "events", "patch"))}  # an Event that comes again is patched
    unused = {*UNUSED} | {
        Grant(namespace, GROUP, item, "patch") for item in ("oidcconfigs", "awsiamconfigs")
    }  # none is named
    # Of a wrong record of the management cluster: `test_management.py`.
    unused |= {Grant(SYSTEM_NAMESPACE, "", "events", verb) for verb in ("create", "patch")}
    unused.add(Grant(SYSTEM_NAMESPACE, "", "secrets", "patch"))  # the webhooks' certificate is renewed
    unused |= {item for item in rights_to_own(namespace) if not item.resource.startswith(OTHERS)}
    unused.add(Grant("default", "", "secrets", "update"))  # and so is a kubeconfig
    unused.add(Grant(namespace, KUSTOMIZATION.group, KUSTOMIZATION.plural, "watch"))  # Flux is not installed
    async with production(control_plane, tmp_path, namespaces) as management:
        before = await story.inventory(management)
        await trusts(management)
        await story.create(management)
        await story.scale(management)
        await story.begin_upgrade(management)
        await story.upgraded(management)
        await refuses(management)
        await story.delete(management)
        await story.nothing_is_left(management, before)
        await management.stop()
        # What the next manager finds it need not make, and then it would not use its right to.
        await management.kubectl("delete", "secret", "espalier-webhook-server-cert", "--namespace", SYSTEM_NAMESPACE)
    granted = {
        *grants(yaml.safe_load_all(management.manifests)),
        *grants(manifests.kubeconfig_copy_rights(["default"])),
    }
    assert [str(grant) for grant in granted if "*" in "".join(grant)] == []
    # Of providers that no cluster here has: `test_rights`.
    of_others = {item for item in granted if item.resource.startswith(OTHERS) or item.group.endswith("tinkerbell.org")}
    asked = await everything_asked(
        control_plane, since, {item for item in granted - unused - of_others if str(item) not in either}
    )
    assert [str(request) for request in asked if request.code == FORBIDDEN] == []
    covered = [request for request in asked if request.object_ref and granted.intersection(uses(request))]
    assert {str(item) for item in asked if item.object_ref} == {str(item) for item in covered}
    used = {grant for request in asked for grant in uses(request)}
    assert {str(grant) for grant in granted - used - of_others} - either == {str(grant) for grant in unused}


async def trusts(management: Production) -> None:
    """The API server calls every webhook over TLS, trusting the manager's own authority and nobody else's."""
    secret = await management.kubectl.tree("secret", "espalier-webhook-server-cert", "--namespace", SYSTEM_NAMESPACE)
    for configuration in ("validatingwebhookconfiguration", "mutatingwebhookconfiguration"):
        (item,) = (await management.kubectl.tree(configuration))["items"]
        for webhook in item["webhooks"]:
            ours = "nodeupgrade", "controlplaneupgrade", "machinedeploymentupgrade"
            may_be_away = webhook["name"].startswith("delete.") or webhook["name"].split(".")[1].startswith(ours)
            assert webhook["failurePolicy"] == ("Ignore" if may_be_away else "Fail")
            assert webhook["clientConfig"]["url"].startswith(f"https://127.0.0.1:{management.webhook_port}/")
            assert webhook["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]


async def refuses(management: Production) -> None:
    """A manifest that is wrong, and what its author reads."""
    manifest, _, _ = story.EXAMPLE.read_text().partition("---")
    wrong = manifest.replace("name: garden", "name: orchard").replace('"1.35"', '"1.29"')
    assert await management.kubectl.refused("apply", "-f", "-", stdin=wrong) == (
        'The Cluster "orchard" is invalid: spec.kubernetesVersion: '
        "release v0.26.0 does not have this Kubernetes version; found 1.29; allowed: 1.34, 1.35, 1.36\n"
    )


async def everything_asked(control_plane: ControlPlane, since: int, awaited: set[Grant]) -> list[Asked]:
    """All requests of the manager, which has stopped. The log has its watches a little later: these are waited for."""
    missing = set(awaited)
    with suppress(TimeoutError):
        async with asyncio.timeout(10), following(control_plane.audit_log, since=since) as requests:
            while missing:
                asked = await anext(requests)
                if asked.user.username == SERVICE_ACCOUNT:
                    missing.difference_update(uses(asked))
    return requests_of(control_plane.audit_log, SERVICE_ACCOUNT, since=since)
