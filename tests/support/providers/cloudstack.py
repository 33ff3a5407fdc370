"""A cluster on CloudStack, as tests ask for it: the example, and the keys that an administrator brings."""

from __future__ import annotations

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

HARBOR = "harbor"
KEY = Key(NAMESPACE, HARBOR)
SERVER = "cloudstack.example.com:8443"
API = f"https://{SERVER}/client/api"
MAKER = "canary-of-who-makes-machines"
KEY_OF_ANN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJq0 ann@laptop"
PLUGIN = {"name": "vault", "socketListenAddress": "unix:///var/run/kmsplugin/vault.sock"}
CREDENTIALS = {"api-url": API, "api-key": "key-of-maker", "secret-key": MAKER, "verify-ssl": "true"}


def credentials(
    data: Mapping[str, str] = CREDENTIALS, namespace: str = NAMESPACE, name: str = "global", **annotations: str
) -> Tree:
    """The Secret that an administrator makes."""
    return examples.secret(name, SERVER, namespace, data, annotations)


def zone(name: str, /, **changes: Any) -> Tree:
    """An availability zone."""
    return {
        "name": name,
        "credentialsRef": "global",
        "managementApiEndpoint": API,
        "domain": "ROOT",
        "account": "admin",
        "zone": {"name": f"zone-{name}", "network": {"name": f"network-{name}"}},
    } | changes


def disk(**changes: Any) -> Tree:
    """A second disk."""
    return {
        "name": "Small",
        "customSizeInGB": 20,
        "mountPath": "/data-small",
        "device": "/dev/vdb",
        "filesystem": "ext4",
        "label": "data_disk",
    } | changes


def manifest(namespace: str = NAMESPACE, **spec: Any) -> list[Tree]:
    """The documents of the example, as somebody would apply them; `spec` replaces fields of the Cluster's spec."""
    return examples.documents("cloudstack.yaml", namespace, spec)


def of(trees: list[Tree], kind: str, name: str = HARBOR) -> Any:
    """The spec of one of them, to be changed."""
    return examples.spec_of(trees, kind, name)


def everything() -> list[Tree]:
    """The example with all that can be asked for of CloudStack."""
    trees = manifest(
        externalEtcdConfiguration={"count": 3, "machineGroupRef": reference("harbor-cp")},
        proxyConfiguration={"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"},
        registryMirrorConfiguration={"endpoint": "mirror.example.com", "port": "5000"},
        etcdEncryption=[{"providers": [{"kms": PLUGIN}], "resources": ["secrets"]}],
    )
    plane = trees[0]["spec"]["controlPlaneConfiguration"]
    plane["endpoint"]["host"] = "192.0.2.15:7443"
    plane["taints"] = [{"key": "role", "value": "control", "effect": "NoSchedule"}]
    plane["labels"] = {"row": "first"}
    (workers,) = trees[0]["spec"]["workerNodeGroupConfigurations"]
    workers |= {"labels": {"boat": "small"}, "count": 3}
    north = {"id": "zone-id", "network": {"id": "network-id"}}
    of(trees, "CloudStackDatacenterConfig")["availabilityZones"].append(zone("az-2", zone=north))
    for name in (HARBOR, "harbor-cp"):
        of(trees, "CloudStackMachineConfig", name).update(
            {
                "diskOffering": disk(),
                "symlinks": {"/var/log/kubernetes": "/data-small/var/log/kubernetes"},
                "userCustomDetails": {"team": "boats"},
                "users": [{"name": "ann", "sshAuthorizedKeys": [KEY_OF_ANN]}],
            }
        )
    workers_config = of(trees, "CloudStackMachineConfig")
    del workers_config["affinity"]
    workers_config["affinityGroupIds"] = ["group-a", "group-b"]
    return trees


def reference(name: str) -> Tree:
    """To a machine config."""
    return {"kind": "CloudStackMachineConfig", "name": name}


def seen(trees: list[Tree], *secrets: Tree) -> Scope:
    """The scope of a reconcile of the Cluster among these objects."""
    scope = observer(*stored(trees), *(secrets or (credentials(),)), FORK).scope(KEY)
    assert scope is not None
    return scope


def made(trees: list[Tree], *secrets: Tree) -> Rendered:
    """The rendered objects of the Cluster among these objects."""
    return rendered_of(seen(trees, *secrets))
