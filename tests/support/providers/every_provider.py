"""A cluster of every provider that there is, with all that can be asked for of it, and what an administrator brings.

Sweeps over providers go by `SAMPLES`. A provider that is registered and has no sample fails them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.clusters.design.secrets import credentials
from espalier.kube.client import Client
from espalier.providers.kinds import CATALOG
from espalier.providers.registry import PROVIDERS
from tests.support.objects.observed_clusters import EXAMPLES
from tests.support.providers import cloudstack, hardware, nutanix, snow, tinkerbell, vsphere

MIRROR = "mirror.example.com:5000"


def canary(what: str) -> str:
    """A credential: no other text contains it."""
    return f"canary-{what}-h7q2"


PROXY = f"{canary('proxy-user')}:{canary('proxy-password')}@proxy.example.com:3128"


@dataclass(frozen=True)
class Sample:
    """A provider's cluster."""

    kind: str
    """Of its datacenter."""
    name: str
    """Which is part of the names of all that it consists of."""
    trees: Callable[[], list[Tree]]
    credentials: Callable[[str], list[Tree]] = lambda _namespaces: []
    """The Secrets that an administrator makes, for these namespaces."""
    machines: Callable[[int], list[Tree]] = lambda _clusters: []
    """The machines that are not made on demand, for so many clusters."""
    takes_proxy_password: bool = True

    def cluster(self, namespace: str, name: str, number: int = 0) -> list[Tree]:
        """The manifest of one, which comes first in it, with as few machines as there can be. Clusters of different
        numbers have different addresses.
        """
        text = json.dumps(self.trees()).replace(self.name, name)
        text = re.sub(r'"192\.0\.2\.1[03456](?=[":])', f'"203.0.113.{10 + number}', text)
        trees: list[Tree] = json.loads(text)
        for place, tree in enumerate(trees):
            tree["metadata"]["namespace"] = namespace
            for range_ in tree["spec"]["pools"] if tree["kind"] == snow.POOL else ():
                network = f"10.{place}.{number}"
                range_ |= {"ipStart": f"{network}.20", "ipEnd": f"{network}.60"}
                range_ |= {"subnet": f"{network}.0/24", "gateway": f"{network}.1"}
        spec = trees[0]["spec"]
        for machines in (spec["controlPlaneConfiguration"], spec.get("externalEtcdConfiguration"), *groups(spec)):
            if machines is not None:
                machines["count"] = 1
        proxy = PROXY if self.takes_proxy_password else "proxy.example.com:3128"
        spec["proxyConfiguration"] = {"httpProxy": f"http://{proxy}", "httpsProxy": proxy}
        endpoint, _, port = MIRROR.partition(":")
        spec["registryMirrorConfiguration"] = {"endpoint": endpoint, "port": port, "authenticate": True}
        spec["identityProviderRefs"] = [{"kind": "OIDCConfig", "name": name}]
        return [*trees, oidc(namespace, name)]

    async def bring(self, client: Client, *namespaces: str, clusters: int = 1) -> None:
        """All that an administrator brings for clusters of these namespaces."""
        for tree in [registry(namespaces), *self.credentials(",".join(namespaces))]:
            await client.apply(SECRET, tree, field_manager="administrator")
        await hardware.put(client, self.machines(clusters))


def groups(spec: Mapping[str, Any]) -> list[Any]:
    """The worker node groups."""
    value: list[Any] = spec.get("workerNodeGroupConfigurations", [])
    return value


def oidc(namespace: str, name: str) -> Tree:
    """Who may log in."""
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "OIDCConfig",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clientId": "kubernetes", "issuerUrl": "https://login.example.com"},
    }


def registry(namespaces: Sequence[str]) -> Tree:
    """The account for a mirror of registries."""
    data = {"username": canary("mirror-user"), "password": canary("mirror-password")}
    return credentials.secret("registry-credentials", data, servers=[MIRROR], namespaces=namespaces)


async def apply(client: Client, trees: Sequence[Tree]) -> None:
    """As `kubectl apply` does."""
    for tree in trees:
        await client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")


def _docker() -> list[Tree]:
    text = (EXAMPLES / "docker-external-etcd.yaml").read_bytes()
    return [manifest.tree for manifest in read_manifests(text, source="docker")]


def _vsphere(namespaces: str) -> list[Tree]:
    data = {
        "username": canary("vsphere-user"),
        "password": canary("vsphere-password"),
        "usernameCP": canary("vsphere-reader"),
        "passwordCP": canary("vsphere-reader-password"),
    }
    return [vsphere.credentials(data, namespaces)]


def _nutanix(namespaces: str) -> list[Tree]:
    data = {
        "credentials": nutanix.account(canary("nutanix-user"), canary("nutanix-password")),
        "credentialsCP": nutanix.account(canary("nutanix-reader"), canary("nutanix-reader-password")),
    }
    return [nutanix.credentials(data, namespaces)]


def _cloudstack(namespaces: str) -> list[Tree]:
    own = {"api-key": canary("cloudstack-key"), "secret-key": canary("cloudstack-secret-key")}
    return [cloudstack.credentials(cloudstack.CREDENTIALS | own, namespaces)]


def _snow(namespaces: str) -> list[Tree]:
    keys = f"aws_access_key_id = {canary('snow-key')}\naws_secret_access_key = {canary('snow-secret-key')}\n"
    data = {"credentials": f"[{snow.DEVICE}]\n{keys}region = snow\n", "ca-bundle": snow.AUTHORITY}
    return [snow.credentials(data, namespaces)]


def _rack(clusters: int) -> list[Tree]:
    """With accounts of BMCs. A second machine of each kind is spare."""
    trees = hardware.rack(clusters + 1, clusters + 1)
    for tree in trees:
        if tree["kind"] == "Secret":
            account = {"username": canary("bmc-user"), "password": canary("bmc-password")}
            tree["data"] = {name: base64.b64encode(text.encode()).decode() for name, text in account.items()}
    return trees


_ALL = (
    Sample("DockerDatacenterConfig", "meadow", _docker),
    Sample("VSphereDatacenterConfig", vsphere.VINEYARD, vsphere.everything, _vsphere),
    Sample(
        "TinkerbellDatacenterConfig",
        tinkerbell.FORGE,
        tinkerbell.everything,
        machines=_rack,
        takes_proxy_password=False,
    ),
    Sample("NutanixDatacenterConfig", nutanix.QUARRY, nutanix.everything, _nutanix),
    Sample("CloudStackDatacenterConfig", cloudstack.HARBOR, cloudstack.everything, _cloudstack),
    Sample("SnowDatacenterConfig", snow.GLACIER, snow.everything, _snow),
)
SAMPLES: Mapping[str, Sample] = {item.kind: item for item in _ALL}

KINDS = sorted(PROVIDERS)
"""Names under which sweeps report: of each of them there must be a sample."""

__all__ = ["KINDS", "SAMPLES", "SYSTEM_NAMESPACE", "Sample", "apply", "canary", "groups"]
