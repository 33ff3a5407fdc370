"""`espalier upgrades`: what is being upgraded in place, step by step, and another attempt."""

from __future__ import annotations

import asyncio
import json

import pytest

from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from tests.support.environments.environment import LocalEnvironment

pytestmark = pytest.mark.embedded


def create(env: LocalEnvironment, machine: str) -> None:
    async def main() -> None:
        client = Client(HttpTransport(Kubeconfig.load([env.home / "kubeconfig"]).context()))
        spec = {"machine": {"name": machine}, "kubernetesVersion": "v1.36.3-eks-1-36-1", "nodeType": "Worker"}
        body = {"metadata": {"name": f"{machine}-node-upgrader", "namespace": SYSTEM_NAMESPACE}, "spec": spec}
        await client.create(NodeUpgrade.resource, body)
        await client.close()

    asyncio.run(main())


@pytest.mark.soak
def test_upgrades_are_listed_described_and_tried_again(env: LocalEnvironment) -> None:
    nothing = env.espalier("upgrades", "list")
    assert (nothing.code, nothing.out) == (0, "")
    assert "No in-place upgrades found" in nothing.err
    create(env, "nobody")
    told = ""
    for _ in range(100):
        told = env.espalier("upgrades", "list").out
        if "MachineMissing" in told:
            break
    assert "nobody-node-upgrader" in told
    assert "Machine eksa-system/nobody does not exist" in " ".join(told.split())
    described = env.espalier("upgrades", "describe", "nobody-node-upgrader").out
    assert "KubeadmUpgraded" in described
    listed = json.loads(env.espalier("upgrades", "list", "-o", "json").out)
    assert [item["kind"] for item in listed["items"]] == ["NodeUpgrade"]
    assert (
        env.espalier("upgrades", "retry", "nobody-node-upgrader").out
        == "NodeUpgrade nobody-node-upgrader is being retried\n"
    )
    unknown = env.espalier("upgrades", "retry", "somebody")
    assert unknown.code == 1
    assert "there is no upgrade named 'somebody'" in unknown.err
    assert "nobody-node-upgrader" in unknown.err
