"""The step that upgrades kubeadm and runs its upgrade of the node."""

from __future__ import annotations

import json
from collections.abc import Sequence

from . import checks, layout, leftovers
from .cluster_configuration import for_version, has_external_etcd, kubernetes_version
from .commands import Result
from .failures import StepFailed
from .node import Node, on_disk
from .replacing import replace
from .versions import parse

FIRST, OTHER, WORKER = "first-control-plane", "control-plane", "worker"
ROLES = (FIRST, OTHER, WORKER)
IGNORED = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
"""Preflight errors on CoreDNS, which Cluster API upgrades by itself."""
DISTRIBUTED = ("--allow-experimental-upgrades", "--force")
"""To kubeadm, what a distributor appends to a version (`-eks-1-36-2`) makes it a preview, to be allowed."""
LEFT_OUT = "--skip-phases=addon/coredns"
"""CoreDNS is Cluster API's; and kubeadm fails at the version of one that a distributor has built."""
ADMIN = "/etc/kubernetes/admin.conf"
CONFIG = ("configmap", "kubeadm-config", "--namespace=kube-system")
LONGEST = 30 * 60
"""Seconds: kubeadm gives each of four static pods five minutes, and pulls images before."""


def kubeadm(
    node: Node, role: str, version: str, *, etcd_version: str = "", ignored: Sequence[str] = (), patches: str = ""
) -> str:
    """Replace kubeadm, then upgrade the control plane or, once it is, the node's share of it.

    `kubeadm upgrade node` renders the version that kubeadm-config has, whatever version kubeadm has. So a control plane
    node whose cluster has an older one applies the new one, also when it was not meant to be the first: the first may
    have gone before it did.

    `ignored` checks and `patches` (a folder of the host) are those that the node was made with.
    kubeadm's upgrade may be broken off and run again; a run that ended well is noted and not repeated.
    """
    checks.right_image(node, version)
    checks.right_tag(etcd_version)
    if (role != WORKER) != node.control_plane:
        raise StepFailed(
            f"the node is to be upgraded as {role}, but it has {'a' if node.control_plane else 'no'} "
            "static pod of a kube-apiserver: the nodeType of the NodeUpgrade is wrong; nothing was changed"
        )
    note = f"{node.contents.work}/kubeadm.done"
    if node.files.is_file(note):
        return f"kubeadm {node.contents.version} has upgraded the node already"
    checks.compare_with_api_server(node, node.contents.kubernetes)
    checks.healthy_etcd(node)
    targets = layout.tool(node, "kubeadm")
    replace(node, targets)
    program = next(iter(targets))
    if role != WORKER and _applies(node, role, version, etcd_version):
        role = FIRST
        arguments = ["upgrade", "apply", version, "--yes", *(DISTRIBUTED if "-" in version else ())]
    else:
        arguments = ["upgrade", "node"]
    leftovers.note(node)
    preflight = ",".join(dict.fromkeys((*IGNORED, *ignored)))
    options = [f"--ignore-preflight-errors={preflight}"]
    options += [LEFT_OUT] if node.control_plane else []
    options += [f"--patches={patches}"] if patches else []
    result = node.commands.follow(program, *arguments, *options, timeout=LONGEST, say=node.say)
    if result.code:
        raise StepFailed(
            f"kubeadm {' '.join(arguments[:2])} ended with {result.code}: {_cause(result)}; "
            "kubeadm may be run again: remove the cause, then delete the pod"
        )
    try:
        node.files.make_folder(node.contents.work)
        node.files.write(note, f"{role}\n")
    except OSError as error:
        raise on_disk(error, "kubeadm has upgraded the node, but that can't be noted") from error
    return f"kubeadm has upgraded the node to {version} as {role}"


def _cause(result: Result) -> str:
    """Cause of a failure of kubeadm: the failed checks, or else its last lines."""
    checks_ = [line.strip() for line in result.output.splitlines() if line.strip().startswith("[ERROR ")]
    return "; ".join(checks_) or result.last_lines(3)


def _applies(node: Node, role: str, version: str, etcd_version: str) -> bool:
    """Whether the new version is to be applied here. Then kubeadm-config is as kubeadm of that version needs it."""
    text, revision = _configuration(node)
    if has_external_etcd(text):
        raise StepFailed("the cluster has an external etcd: its control plane is not upgraded in place")
    found = kubernetes_version(text)
    numbers = parse(found, "kubernetesVersion of kubeadm-config")
    if numbers > node.contents.kubernetes:
        raise StepFailed(
            f"the control plane has version {found} in kubeadm-config, which is newer than {version}: "
            "nothing is downgraded; delete the upgrade"
        )
    if role != FIRST and (numbers, found) == (node.contents.kubernetes, version):
        return False
    wanted = for_version(text, node.contents.kubernetes.minor, etcd_version)
    if wanted != text:
        _configure(node, wanted, revision)
    return True


def _configuration(node: Node) -> tuple[str, str]:
    """The ClusterConfiguration in kubeadm-config, and the ConfigMap's resource version."""
    kubectl = next(iter(layout.tool(node, "kubectl")))
    read = node.commands.run(kubectl, f"--kubeconfig={ADMIN}", "get", *CONFIG, "--output=json")
    if read.code:
        raise StepFailed(f"the ConfigMap kubeadm-config can't be read with {ADMIN}: {read.last_lines(2)}")
    try:
        found = json.loads(read.output)
        return str(found["data"]["ClusterConfiguration"]), str(found["metadata"]["resourceVersion"])
    except (ValueError, KeyError, TypeError) as error:
        raise StepFailed(f"the ConfigMap kubeadm-config holds no ClusterConfiguration ({error})") from error


def _configure(node: Node, wanted: str, revision: str) -> None:
    kubectl = next(iter(layout.tool(node, "kubectl")))
    patch = json.dumps({"metadata": {"resourceVersion": revision}, "data": {"ClusterConfiguration": wanted}})
    written = node.commands.run(kubectl, f"--kubeconfig={ADMIN}", "patch", *CONFIG, "--type=merge", f"--patch={patch}")
    if written.code:
        raise StepFailed(f"the ConfigMap kubeadm-config can't be written: {written.last_lines(2)}")
    node.say("brought kubeadm-config to what the new version needs")
