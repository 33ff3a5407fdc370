"""The life of a cluster in the hands of somebody who has kubectl, a manifest, and nothing of ours."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import NamedTuple

from tests.support.environments.management import Management
from tests.support.servers.kubectl import Kubectl, columns

EXAMPLE = Path(__file__).parents[3] / "examples" / "docker.yaml"
GARDEN = "cluster.anywhere.eks.amazonaws.com/garden"
VERSIONS = {"1.35": "v1.35.4-eks-1-35-1", "1.36": "v1.36.3-eks-1-36-1"}
TIMEOUT = "--timeout=90s"


async def create(management: Management) -> None:
    """Apply the example, and wait until the cluster is ready."""
    kubectl = management.kubectl
    applied = await kubectl("apply", "-f", str(EXAMPLE))
    assert applied.splitlines() == [
        f"{GARDEN} created",
        "dockerdatacenterconfig.anywhere.eks.amazonaws.com/garden created",
    ]
    await ready(management)
    assert await nodes(management) == [VERSIONS["1.35"]] * 3


async def ready(management: Management) -> None:
    """Wait until the cluster is as it was asked for last."""
    waited = await management.kubectl("wait", "--for=condition=Ready", GARDEN, TIMEOUT)
    assert waited == f"{GARDEN} condition met\n"


async def looks_well(management: Management) -> None:
    """`get` has the columns of the kind, and `describe` the events."""
    kubectl = management.kubectl
    table = columns(await kubectl("get", "clusters.anywhere.eks.amazonaws.com", "garden"))
    assert table[0] == ["NAME", "VERSION", "CONTROL PLANE", "WORKERS", "READY", "AGE"]
    assert table[1][:5] == ["garden", "1.35", "True", "True", "True"]
    described = await kubectl("describe", GARDEN)
    _, _, events = described.partition("Events:")
    for reason in ("ControlPlaneReady", "CNIInstalled", "KubeconfigCopied", "Ready"):
        assert re.search(rf"^\s+Normal\s+{reason}\s", events, re.MULTILINE), described


async def edit(management: Management, old: str, new: str) -> None:
    """`kubectl edit`."""
    assert await management.kubectl.edit(GARDEN, old=old, new=new) == f"{GARDEN} edited\n"


async def scale(management: Management) -> None:
    """From two workers to four."""
    await edit(management, "count: 2", "count: 4")
    await ready(management)
    assert await nodes(management) == [VERSIONS["1.35"]] * 5


async def begin_upgrade(management: Management) -> None:
    """Ask for the next minor version."""
    await edit(management, 'kubernetesVersion: "1.35"', 'kubernetesVersion: "1.36"')


async def upgraded(management: Management) -> None:
    """Wait until all machines have it."""
    await ready(management)
    assert await nodes(management) == [VERSIONS["1.36"]] * 5


async def delete(management: Management) -> None:
    """All that the manifest made goes with it."""
    await management.kubectl("delete", "-f", str(EXAMPLE), TIMEOUT)


async def nodes(management: Management) -> list[str]:
    """The versions of the cluster's nodes, as its own kubeconfig shows them."""
    workload = await workload_kubectl(management)
    template = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}"
    return (await workload("get", "nodes", "-o", template)).split()


async def workload_kubectl(management: Management) -> Kubectl:
    """kubectl for the workload cluster."""
    template = "jsonpath={.data.value}"
    kubeconfig = await management.kubectl("get", "secret", "garden-kubeconfig", "-o", template)
    file = management.kubectl.home / "garden.kubeconfig"
    file.write_bytes(base64.b64decode(kubeconfig))
    return management.kubectl.with_kubeconfig(file)


class Listed(NamedTuple):
    """One object, as kubectl names it."""

    kind: str
    name: str
    namespace: str


async def inventory(management: Management) -> set[Listed]:
    """Every object of every kind that can be listed, but for what comes and goes by itself."""
    kubectl = management.kubectl
    kinds = (await kubectl("api-resources", "--verbs=list", "-o", "name")).split()
    kinds = [kind for kind in kinds if kind not in {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}]
    table = "custom-columns=KIND:.kind,VERSION:.apiVersion,NAME:.metadata.name,NAMESPACE:.metadata.namespace"
    listed = await kubectl("get", ",".join(kinds), "--all-namespaces", "--no-headers", "-o", table)
    names = set()
    for kind, version, name, namespace in map(str.split, listed.splitlines()):
        group, _, version_in_group = version.rpartition("/")
        names.add(Listed(f"{kind}.{version_in_group}.{group}" if group else kind, name, namespace))
    return names


async def nothing_is_left(management: Management, before: set[Listed]) -> None:
    """All is as it was before, once the garbage collector has taken what went with its owners."""
    for kind, name, namespace in await inventory(management) - before:
        await management.kubectl("wait", "--for=delete", f"{kind}/{name}", "--namespace", namespace, TIMEOUT)
    assert await inventory(management) - before == set()
