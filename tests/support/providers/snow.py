"""A cluster on Snow, as tests ask for it: the example, and the credentials that an administrator brings."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.observe.scope import Scope
from espalier.kube.connection.pki import Authority
from tests.support.objects.observed_clusters import NAMESPACE, NOW, observer, rendered_of
from tests.support.objects.rendered_manifests import FORK
from tests.support.providers import examples
from tests.support.providers.bottlerocket import CONNECTED, SETTINGS, on_bottlerocket
from tests.support.providers.examples import stored

GLACIER = "glacier"
KEY = Key(NAMESPACE, GLACIER)
DATACENTER, MACHINES, POOL = "SnowDatacenterConfig", "SnowMachineConfig", "SnowIPPool"
DEVICE, OTHER_DEVICE = "192.0.2.100", "192.0.2.101"
CANARY = "canary-of-who-makes-machines"
PROFILES = f"""\
[{DEVICE}]
aws_access_key_id = maker
aws_secret_access_key = {CANARY}
region = snow
"""
AUTHORITY = Authority.create("device", now=NOW, rng=random.Random("a device")).certificate.decode()
CREDENTIALS = {"credentials": PROFILES, "ca-bundle": AUTHORITY}

__all__ = ["GLACIER", "KEY", "credentials", "everything", "manifest", "of", "reference", "stored"]


def of(trees: list[Tree], kind: str, name: str = GLACIER) -> Any:
    """The spec of one of the documents, to be changed."""
    return examples.spec_of(trees, kind, name)


def credentials(data: Mapping[str, str] = CREDENTIALS, namespace: str = NAMESPACE, servers: str = DEVICE) -> Tree:
    """The Secret that an administrator makes."""
    return examples.secret("snow-credentials", servers, namespace, data, {})


def manifest(namespace: str = NAMESPACE, **spec: Any) -> list[Tree]:
    """The documents of the example, as somebody would apply them; `spec` replaces fields of the Cluster's spec."""
    return examples.documents("snow.yaml", namespace, spec)


def another_pool(namespace: str = NAMESPACE) -> Tree:
    """A SnowIPPool beside that of the example."""
    range_ = {"ipStart": "198.51.100.20", "ipEnd": "198.51.100.60", "subnet": "198.51.100.0/24"}
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": POOL,
        "metadata": {"name": "crevasse", "namespace": namespace},
        "spec": {"pools": [range_ | {"gateway": "198.51.100.1"}]},
    }


def everything() -> list[Tree]:
    """The example with all that can be asked for of Snow."""
    trees = manifest(
        externalEtcdConfiguration={"count": 3, "machineGroupRef": reference("glacier-cp")},
        proxyConfiguration={"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"},
        registryMirrorConfiguration={"endpoint": "mirror.example.com", "port": "5000"},
    )
    plane = trees[0]["spec"]["controlPlaneConfiguration"]
    plane["taints"] = [{"key": "role", "value": "control", "effect": "NoSchedule"}]
    plane["labels"] = {"row": "first"}
    plane["certSans"] = ["glacier.example.com"]
    (workers,) = trees[0]["spec"]["workerNodeGroupConfigurations"]
    workers |= {
        "labels": {"ice": "blue"},
        "taints": [{"key": "thaw", "value": "late", "effect": "PreferNoSchedule"}],
        "count": 3,
    }
    trees.append(another_pool())
    for name in (GLACIER, "glacier-cp"):
        of(trees, MACHINES, name).update(
            {
                "instanceType": "sbe-g.4xlarge",
                "physicalNetworkConnector": "QSFP",
                "containersVolume": {"deviceName": "/dev/sdb", "size": 100, "type": "sbp1"},
                "nonRootVolumes": [{"deviceName": "/dev/sdc", "size": 10, "type": "sbg1"}],
                "hostOSConfiguration": {"ntpConfiguration": {"servers": ["time.example.com"]}},
                "network": {
                    "directNetworkInterfaces": [
                        {"index": 1, "vlanID": 7, "dhcp": True},
                        {"index": 2, "primary": True, "ipPoolRef": {"kind": POOL, "name": "crevasse"}},
                        {"index": 3, "dhcp": False, "ipPoolRef": {"kind": POOL, "name": GLACIER}},
                    ]
                },
            }
        )
    return trees


def with_bottlerocket(namespace: str = NAMESPACE) -> list[Tree]:
    """The example, with the operating system that is meant where none is named."""
    trees = manifest(namespace)
    for name in (GLACIER, "glacier-cp"):
        del of(trees, MACHINES, name)["osFamily"]
    return trees


def everything_with_bottlerocket() -> list[Tree]:
    """All that can be asked for, with that operating system."""
    trees = on_bottlerocket(everything(), hostOSConfiguration=SETTINGS)
    trees[0]["spec"] |= copy.deepcopy(CONNECTED)
    plane = trees[0]["spec"]["controlPlaneConfiguration"]
    plane["kubeletConfiguration"] = {"maxPods": 20, "clusterDNS": ["::1"]}
    return trees


def reference(name: str) -> Tree:
    """To a machine config."""
    return {"kind": MACHINES, "name": name}


def seen(trees: list[Tree], secret: Tree | None = None) -> Scope:
    """The scope of a reconcile of the Cluster among these objects."""
    scope = observer(*stored(trees), secret or credentials(), FORK).scope(KEY)
    assert scope is not None
    return scope


def made(trees: list[Tree]) -> Rendered:
    """The rendered objects of the Cluster among these objects."""
    return rendered_of(seen(trees))
