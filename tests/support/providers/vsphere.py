"""A cluster on vSphere, as tests ask for it: the example, and the credentials that an administrator brings."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.observe.scope import Scope
from tests.support.objects.observed_clusters import NAMESPACE, observer, rendered_of
from tests.support.objects.rendered_manifests import FORK
from tests.support.providers import examples
from tests.support.providers.bottlerocket import CONNECTED, SETTINGS, on_bottlerocket
from tests.support.providers.examples import stored

VINEYARD = "vineyard"
KEY = Key(NAMESPACE, VINEYARD)
SERVER = "vcenter.example.com"
MAKER, READER = "canary-of-who-makes-machines", "canary-of-who-reads"
CREDENTIALS = {"username": "maker", "password": MAKER, "usernameCP": "reader", "passwordCP": READER}
KEY_OF_ANN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJq0 ann@laptop"
DOMAIN = {
    "name": "east",
    "computeCluster": "East",
    "resourcePool": "/Datacenter/host/East/Resources",
    "datastore": "/Datacenter/datastore/East",
    "folder": "/Datacenter/vm/East",
    "network": "/Datacenter/network/East",
}


def credentials(data: Mapping[str, str] = CREDENTIALS, namespace: str = NAMESPACE, **annotations: str) -> Tree:
    """The Secret that an administrator makes."""
    return examples.secret("vsphere-credentials", SERVER, namespace, data, annotations)


def manifest(namespace: str = NAMESPACE, **spec: Any) -> list[Tree]:
    """The documents of the example, as somebody would apply them; `spec` replaces fields of the Cluster's spec."""
    return examples.documents("vsphere.yaml", namespace, spec)


def of(trees: list[Tree], kind: str, name: str = VINEYARD) -> Any:
    """The spec of one of them, to be changed."""
    return examples.spec_of(trees, kind, name)


def everything() -> list[Tree]:
    """The example with all that can be asked for of vSphere."""
    trees = manifest(
        externalEtcdConfiguration={"count": 3, "machineGroupRef": reference("vineyard-cp")},
        proxyConfiguration={"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"},
        registryMirrorConfiguration={"endpoint": "mirror.example.com", "port": "5000"},
    )
    plane = trees[0]["spec"]["controlPlaneConfiguration"]
    plane["taints"] = [{"key": "role", "value": "control", "effect": "NoSchedule"}]
    plane["labels"] = {"row": "first"}
    (workers,) = trees[0]["spec"]["workerNodeGroupConfigurations"]
    workers |= {"failureDomains": ["east"], "labels": {"slope": "south"}}
    datacenter = of(trees, "VSphereDatacenterConfig")
    datacenter |= {"thumbprint": ":".join(["ab"] * 20), "failureDomains": [DOMAIN]}
    for name in (VINEYARD, "vineyard-cp"):
        of(trees, "VSphereMachineConfig", name).update(
            {
                "cloneMode": "linkedClone",
                "storagePolicyName": "fast",
                "tags": ["urn:vmomi:InventoryServiceTag:a:GLOBAL"],
                "users": [{"name": "ann", "sshAuthorizedKeys": [KEY_OF_ANN]}],
                "hostOSConfiguration": {"ntpConfiguration": {"servers": ["time.example.com"]}},
            }
        )
    of(trees, "VSphereMachineConfig")["networks"] = ["Rows", "/Datacenter/network/Cellar"]
    return trees


EC2_USER = [{"name": "ec2-user", "sshAuthorizedKeys": [KEY_OF_ANN]}]
"""Bottlerocket supports no other user."""


def with_bottlerocket(namespace: str = NAMESPACE) -> list[Tree]:
    """The example, with another operating system."""
    return on_bottlerocket(manifest(namespace), users=EC2_USER, template="bottlerocket-1-35", diskGiB=22)


def everything_with_bottlerocket() -> list[Tree]:
    """All that can be asked for, with that operating system."""
    trees = on_bottlerocket(everything(), users=EC2_USER, hostOSConfiguration=SETTINGS)
    trees[0]["spec"] |= copy.deepcopy(CONNECTED)
    plane = trees[0]["spec"]["controlPlaneConfiguration"]
    plane["kubeletConfiguration"] = {"maxPods": 20, "clusterDNS": ["::1"]}
    plane["skipAdmissionForSystemResources"] = True
    return trees


def reference(name: str) -> Tree:
    """To a machine config."""
    return {"kind": "VSphereMachineConfig", "name": name}


def seen(trees: list[Tree], secret: Tree | None = None) -> Scope:
    """The scope of a reconcile of the Cluster among these objects."""
    scope = observer(*stored(trees), secret or credentials(), FORK).scope(KEY)
    assert scope is not None
    return scope


def made(trees: list[Tree]) -> Rendered:
    """The rendered objects of the Cluster among these objects."""
    return rendered_of(seen(trees))
