"""`espalier manager --webhook-secret`: a real API server trusts what somebody else issued, also after a renewal."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

from espalier.api.core import SECRET, VALIDATING_WEBHOOK_CONFIGURATION, Secret
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import ObjectMeta
from espalier.clusters import rbac
from espalier.kube.client import PatchType
from espalier.kube.connection.pki import Authority
from espalier.runtime.clock import SystemClock
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import Production, production
from tests.support.waiting import eventually

pytestmark = pytest.mark.envtest

NAME, HOST = "issued", "127.0.0.1"
CLUSTER = """
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {name: refused, namespace: default}
spec: {kubernetesVersion: "1.2", datacenterRef: {kind: DockerDatacenterConfig, name: none}}
"""


def issued() -> dict[str, bytes]:
    now = SystemClock().now()
    authority = Authority.create("issuer", now=now, rng=random.Random())
    pair = authority.issue_server(HOST, names=[HOST], now=now)
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


async def judges(management: Production, data: dict[str, bytes]) -> None:
    """Wait until the API server trusts this certificate, and asks the manager."""

    async def is_trusted() -> bool:
        validating_webhook_configuration = await management.client.get(
            VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS
        )
        bundles = {hook["clientConfig"].get("caBundle") for hook in validating_webhook_configuration.tree["webhooks"]}
        return bundles == {encoded(data["ca.crt"])}

    await eventually(is_trusted)

    async def is_asked() -> bool:
        code, _, complaint = await management.kubectl.finish("apply", "-f", "-", stdin=CLUSTER)
        assert code != 0
        return "set the number of machines" in complaint  # only our webhook says so

    await eventually(is_asked)


async def test_a_certificate_of_others_is_trusted(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with production(control_plane, tmp_path) as management:
        await management.stop()
        data = issued()
        metadata = ObjectMeta(name=NAME, namespace=SYSTEM_NAMESPACE)
        await management.client.create(SECRET, Secret(metadata=metadata, type="kubernetes.io/tls", data=data))
        management.flags = (*management.flags, "--webhook-secret", NAME)
        await management.start()
        await judges(management, data)
        renewed = issued()
        patch = {"data": {key: encoded(value) for key, value in renewed.items()}}
        await management.client.patch(SECRET, NAME, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
        await judges(management, renewed)
