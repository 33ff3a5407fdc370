"""A cluster on bare metal, as tests ask for it."""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.observe.scope import Scope
from tests.support.objects.observed_clusters import NAMESPACE, observer, rendered_of
from tests.support.objects.render_inputs import documents
from tests.support.objects.rendered_manifests import FORK
from tests.support.providers import examples
from tests.support.providers.examples import stored
from tests.support.providers.vsphere import KEY_OF_ANN

FORGE = "forge"
KEY = Key(NAMESPACE, FORGE)
MACHINES, TEMPLATE = "TinkerbellMachineConfig", "TinkerbellTemplateConfig"

__all__ = ["FORGE", "KEY", "everything", "manifest", "of", "reference", "stored"]


def of(trees: list[Tree], kind: str, name: str = FORGE) -> Any:
    """The spec of one of the documents, to be changed."""
    return examples.spec_of(trees, kind, name)


def manifest(namespace: str = NAMESPACE, **spec: Any) -> list[Tree]:
    """The documents of the example, as somebody would apply them; `spec` replaces fields of the Cluster's spec."""
    return examples.documents("tinkerbell.yaml", namespace, spec)


def everything() -> list[Tree]:
    """The example with all that can be asked for of Tinkerbell: machines of two minor versions, workers with a workflow
    of their own.
    """
    trees = manifest(
        proxyConfiguration={"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"},
        registryMirrorConfiguration={"endpoint": "mirror.example.com", "port": "5000"},
        kubernetesVersion="1.36",
    )
    plane = trees[0]["spec"]["controlPlaneConfiguration"]
    plane |= {
        "taints": [{"key": "role", "value": "control", "effect": "NoSchedule"}],
        "labels": {"row": "first"},
        "certSans": ["forge.example.com"],
    }
    (workers,) = trees[0]["spec"]["workerNodeGroupConfigurations"]
    workers |= {"kubernetesVersion": "1.35", "labels": {"fire": "hot"}}
    of(trees, "TinkerbellDatacenterConfig").update(
        {"isoBoot": True, "hookIsoURL": "https://images.example.com/hook.iso", "loadBalancerInterface": "eth0"}
    )
    del of(trees, "TinkerbellDatacenterConfig")["osImageURL"]
    for name, version in ((FORGE, "1-35"), (f"{FORGE}-cp", "1-36")):
        of(trees, MACHINES, name).update(
            {
                "osImageURL": f"https://images.example.com/ubuntu-{version}.gz",
                "users": [{"name": "ann", "sshAuthorizedKeys": [KEY_OF_ANN]}],
                "hostOSConfiguration": {"ntpConfiguration": {"servers": ["time.example.com"]}},
            }
        )
    workers_config = of(trees, MACHINES)
    del workers_config["hardwareSelector"]
    workers_config |= {
        "hardwareAffinity": {
            "required": [{"labelSelector": {"matchLabels": {"type": "worker"}}}],
            "preferred": [
                {
                    "weight": 10,
                    "hardwareAffinityTerm": {
                        "labelSelector": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
                    },
                }
            ],
        },
        "templateRef": {"kind": TEMPLATE, "name": FORGE},
    }
    return [*trees, template(trees[0]["metadata"]["namespace"])]


def template(namespace: str) -> Tree:
    """A workflow that writes an operating system, and says what it did."""
    write = {
        "name": "write",
        "image": "public.ecr.aws/tools/image2disk:v1",
        "timeout": 600,
        "environment": {"DEST_DISK": "{{ index .Hardware.Disks 0 }}", "IMG_URL": "https://images.example.com/old.gz"},
        "volumes": ["/dev:/dev"],
    }
    tell = {
        "name": "tell",
        "image": "public.ecr.aws/tools/tell:v1",
        "timeout": 90,
        "command": ["tell", "done"],
        "on-timeout": ["tell", "late"],
        "on-failure": ["tell", "failed"],
        "environment": {"TEXT": "first line\nsecond line\n"},
        "pid": "host",
    }
    task = {"name": FORGE, "worker": "{{.device_1}}", "actions": [write, tell], "environment": {"A": "b"}}
    workflow = {
        "name": FORGE,
        "id": "",
        "version": "0.1",
        "global_timeout": 6000,
        "tasks": [task | {"volumes": ["/a:/a"]}],
    }
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": TEMPLATE,
        "metadata": {"name": FORGE, "namespace": namespace},
        "spec": {"template": workflow},
    }


def reference(name: str) -> Tree:
    """To a machine config."""
    return {"kind": MACHINES, "name": name}


def seen(trees: list[Tree]) -> Scope:
    """The scope of a reconcile of the Cluster among these objects."""
    scope = observer(*stored(trees), FORK).scope(KEY)
    assert scope is not None
    return scope


def made(trees: list[Tree]) -> Rendered:
    """The rendered objects of the Cluster among these objects."""
    return rendered_of(seen(trees))


def objects(rendered: Rendered) -> list[Tree]:
    """The rendered objects as they are applied to the management cluster."""
    extras = [msgspec.to_builtins(extra) for extra in rendered.extras]
    return [*extras, *documents(msgspec.structs.replace(rendered, cni=(), workload=()))]
