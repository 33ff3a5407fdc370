"""A cluster on Nutanix, as tests ask for it: the example, and the credentials that an administrator brings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.observe.scope import Scope
from tests.support.objects.observed_clusters import NAMESPACE, observer, rendered_of
from tests.support.objects.rendered_manifests import FORK
from tests.support.providers import examples
from tests.support.providers.examples import stored

QUARRY = "quarry"
KEY = Key(NAMESPACE, QUARRY)
SERVER = "prism.example.com:9440"
MAKER, READER = "canary-of-who-makes-machines", "canary-of-who-reads"
KEY_OF_ANN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJq0 ann@laptop"
UUID = "0005a0f3-8f43-a0f2-02b7-3cecef193712"
AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBfTCCASOgAwIBAgIUJFXaneBZpr7p7yoAL85Sn2Q828wwCgYIKoZIzj0EAwIw
EzERMA8GA1UEAwwIcXVhcnJpZXMwIBcNMjYxMTIzMDgwNjA4WhgPMjEyNjEwMzAw
ODA2MDhaMBMxETAPBgNVBAMMCHF1YXJyaWVzMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEoqLTSdhZbRpqgqPc78VNr6PcEAeLf2VfVN9qXKibeOujF7j5XT72Vzyo
5Dnmg8sM7cRJpDCU7hYHTWmUWi5M06NTMFEwHQYDVR0OBBYEFNCbBLbxXBStwLZf
xwSBo2jdmO6kMB8GA1UdIwQYMBaAFNCbBLbxXBStwLZfxwSBo2jdmO6kMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhALiA73C7J/VEdiWVxnHv+SdM
8bNIbR9tEw+JQq0JdAGaAiACeNsglxNuxPop28wnVCt/k8n7R98gsAEK7aGRv0Ja
pw==
-----END CERTIFICATE-----
"""


def account(username: str, password: str) -> str:
    """The content of a field of the Secret, as EKS Anywhere writes it."""
    data = {"prismCentral": {"username": username, "password": password}, "prismElements": None}
    return json.dumps([{"type": "basic_auth", "data": data}])


PLUGIN = {"name": "vault", "socketListenAddress": "unix:///var/run/kmsplugin/vault.sock"}
CREDENTIALS = {"credentials": account("maker", MAKER), "credentialsCP": account("reader", READER)}


def named(name: str) -> Tree:
    """Something of Prism Central."""
    return {"type": "name", "name": name}


def domain(name: str, *groups: str) -> Tree:
    """A failure domain, with machines of these groups."""
    return {
        "name": name,
        "cluster": named(f"cluster-{name}"),
        "subnets": [named(f"subnet-{name}")],
        "workerMachineGroups": list(groups),
    }


def credentials(data: Mapping[str, str] = CREDENTIALS, namespace: str = NAMESPACE, **annotations: str) -> Tree:
    """The Secret that an administrator makes."""
    return examples.secret("nutanix-credentials", SERVER, namespace, data, annotations)


def manifest(namespace: str = NAMESPACE, **spec: Any) -> list[Tree]:
    """The documents of the example, as somebody would apply them; `spec` replaces fields of the Cluster's spec."""
    return examples.documents("nutanix.yaml", namespace, spec)


def of(trees: list[Tree], kind: str, name: str = QUARRY) -> Any:
    """The spec of one of them, to be changed."""
    return examples.spec_of(trees, kind, name)


def everything() -> list[Tree]:
    """The example with all that can be asked for of Nutanix."""
    trees = manifest(
        externalEtcdConfiguration={"count": 3, "machineGroupRef": reference("quarry-cp")},
        proxyConfiguration={"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"},
        registryMirrorConfiguration={"endpoint": "mirror.example.com", "port": "5000"},
        etcdEncryption=[{"providers": [{"kms": PLUGIN}], "resources": ["secrets"]}],
    )
    plane = trees[0]["spec"]["controlPlaneConfiguration"]
    plane["taints"] = [{"key": "role", "value": "control", "effect": "NoSchedule"}]
    plane["labels"] = {"row": "first"}
    (workers,) = trees[0]["spec"]["workerNodeGroupConfigurations"]
    workers |= {"labels": {"stone": "granite"}, "count": 3}
    datacenter = of(trees, "NutanixDatacenterConfig")
    datacenter |= {
        "additionalTrustBundle": AUTHORITY,
        "failureDomains": [domain("east", "md-0"), domain("west", "md-0"), domain("north")],
        "ccmExcludeNodeIPs": ["192.0.2.20", "192.0.2.30-192.0.2.32", "192.0.2.40/30"],
    }
    for name in (QUARRY, "quarry-cp"):
        of(trees, "NutanixMachineConfig", name).update(
            {
                "image": {"type": "uuid", "uuid": UUID},
                "project": named("quarries"),
                "bootType": "uefi",
                "additionalCategories": [{"key": "stone", "value": "granite"}],
                "users": [{"name": "ann", "sshAuthorizedKeys": [KEY_OF_ANN]}],
            }
        )
    of(trees, "NutanixMachineConfig")["gpus"] = [{"type": "deviceID", "deviceID": 8757}]
    return trees


def reference(name: str) -> Tree:
    """To a machine config."""
    return {"kind": "NutanixMachineConfig", "name": name}


def seen(trees: list[Tree], secret: Tree | None = None) -> Scope:
    """The scope of a reconcile of the Cluster among these objects."""
    scope = observer(*stored(trees), secret or credentials(), FORK).scope(KEY)
    assert scope is not None
    return scope


def made(trees: list[Tree]) -> Rendered:
    """The rendered objects of the Cluster among these objects."""
    return rendered_of(seen(trees))
