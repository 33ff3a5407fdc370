"""Annotations, labels and finalizers of in-place upgrades, with their prose."""

from __future__ import annotations

from typing import Annotated

from espalier.api.definitions.reference import Annotation, Finalizer, Label, Writer
from espalier.api.eksa.vocabulary.group import GROUP

IN_PLACE_CONTROL_PLANE: Annotated[
    str, Annotation("KubeadmControlPlane", Writer.MANAGER, "`true`: requests an in-place upgrade of its machines.")
] = "controlplane.clusters.x-k8s.io/in-place-upgrade-needed"
"""The name is EKS Anywhere's."""

IN_PLACE_DEPLOYMENT: Annotated[
    str, Annotation("MachineDeployment", Writer.MANAGER, "`true`: requests an in-place upgrade of its machines.")
] = "machinedeployment.clusters.x-k8s.io/in-place-upgrade-needed"

FALLBACK_ANNOTATION: Annotated[
    str,
    Annotation(
        "KubeadmControlPlane, MachineDeployment",
        Writer.MANAGER,
        "`RollingUpdate`: machines are replaced when a change can't be made in place; otherwise it is rejected.",
        "set `upgradeRolloutStrategy.fallback` in the Cluster instead",
    ),
] = f"{GROUP}/in-place-fallback"

IN_PLACE_HOOKS: Annotated[
    str,
    Annotation(
        "KubeadmControlPlane, MachineDeployment",
        Writer.MANAGER,
        "Cluster API upgrades these machines in place through our runtime hooks. The value is the fallback.",
    ),
] = f"{GROUP}/in-place-hooks"
"""Without it the hooks let Cluster API replace the machines."""

IN_PLACE_REFUSED: Annotated[
    str,
    Annotation(
        "KubeadmControlPlane, MachineDeployment",
        Writer.MANAGER,
        "Generation, and its fields that the runtime hooks can't change in place.",
        "revert the change, or set a fallback",
    ),
] = f"{GROUP}/in-place-refused"

NODE_HAS: Annotated[
    str,
    Annotation(
        "Machine",
        Writer.MANAGER,
        "Bootstrap configuration of its node before the last upgrade through runtime hooks: digests of "
        "files, kubelet flags, the folder of patches.",
    ),
] = f"{GROUP}/in-place-node-has"
"""Cluster API writes the new spec of the Machine before it calls the hooks."""

UNFINISHED: Annotated[
    str,
    Annotation(
        "Machine",
        Writer.MANAGER,
        "Files and kubelet flags that an in-place upgrade may have changed on its node, until the Machine "
        "records the result. The next upgrade completes an aborted one.",
        "delete the Machine to have it replaced instead",
    ),
] = f"{GROUP}/in-place-unfinished"
"""Set before the upgrade starts: with it, the node needs an upgrade."""

GOAL: Annotated[
    str,
    Annotation(
        "NodeUpgrade", Writer.MANAGER, "Digest of the bootstrap configuration that runtime hooks apply to the node."
    ),
] = f"{GROUP}/in-place-goal"

REPLACING: Annotated[
    str,
    Annotation(
        "KubeadmControlPlane",
        Writer.MANAGER,
        "A machine was lost during an in-place upgrade; Cluster API stays unpaused until the machine is replaced.",
    ),
] = f"{GROUP}/in-place-replacing"
"""The machine is replaced before the upgrade of the next node; then the pause is set again."""

NODE_IN_WORK: Annotated[
    str,
    Annotation(
        "KubeadmControlPlane",
        Writer.MANAGER,
        "Name and UID of the ControlPlaneUpgrade or NodeUpgrade that upgrades its nodes: one at a time.",
        "if that upgrade has failed, delete it to start another one",
    ),
] = f"{GROUP}/in-place-node"
"""Whoever created them: etcd can spare one member."""

IGNORED_CHECKS: Annotated[
    str,
    Annotation(
        "Machine, infrastructure machine",
        Writer.USER,
        "Preflight checks of kubeadm to ignore on this host, like `Swap,Mem`. A provider may set it too.",
        "set it when a NodeUpgrade fails with such an `[ERROR Name]` in its message",
    ),
] = f"{GROUP}/ignore-preflight-errors"
"""Those of `nodeRegistration.ignorePreflightErrors` need no annotation."""

KUBEADM_PATCHES: Annotated[
    str,
    Annotation(
        "infrastructure machine",
        Writer.PROVIDER,
        "Directory on the host with patches for kubeadm. The directory in the KubeadmConfig takes precedence.",
    ),
] = f"{GROUP}/kubeadm-patches"

CORDONED_BY_UPGRADE: Annotated[
    str,
    Annotation(
        "Node (workload cluster)",
        Writer.UPGRADER,
        "The upgrade cordoned the node and will uncordon it. A node that an operator cordoned stays cordoned.",
    ),
] = f"{GROUP}/cordoned-by-upgrade"

DRAIN_BLOCKED: Annotated[
    str,
    Annotation(
        "Node (workload cluster)",
        Writer.UPGRADER,
        "The pods that the drain of the node waits for, and what blocks each.",
        "make the PodDisruptionBudget in it allow the eviction, or delete the pod",
    ),
] = f"{GROUP}/drain-blocked"

RESTARTED_BY_UPGRADE: Annotated[
    str,
    Annotation(
        "static pod (workload cluster)",
        Writer.UPGRADER,
        "UID of the upgrade that restarted the pod because a file that it mounts has changed.",
    ),
] = f"{GROUP}/restarted-by-upgrade"

UPGRADE_SECONDS: Annotated[
    str, Annotation("Machine", Writer.MANAGER, "Duration of its last in-place upgrade, for `espalier plan`.")
] = f"{GROUP}/in-place-upgrade-seconds"

RETRY_ANNOTATION: Annotated[
    str,
    Annotation(
        "NodeUpgrade",
        Writer.USER,
        "The failed upgrader pod is recreated; the manager then removes the annotation.",
        "`espalier upgrades retry` sets it; fix the cause of the failure first",
    ),
] = f"{GROUP}/retry"

REGISTRY_ANNOTATION: Annotated[
    str,
    Annotation(
        "ConfigMap `in-place-upgrade`",
        Writer.USER,
        "Registry, with an optional path, from which nodes pull upgrader images instead of that in the Bundles.",
        "set it where nodes pull images from a mirror",
    ),
] = f"{GROUP}/upgrader-registry"

NODE_UPGRADE_ANNOTATION: Annotated[
    str,
    Annotation(
        "Pod (workload cluster)",
        Writer.MANAGER,
        "Namespace and name of the NodeUpgrade that an upgrader pod belongs to.",
    ),
] = f"{GROUP}/node-upgrade"

UPGRADER_LABEL: Annotated[
    str,
    Label(
        "Pod, ServiceAccount, ClusterRole, ClusterRoleBinding (workload cluster)",
        Writer.MANAGER,
        "Belongs to an in-place upgrade of a node.",
    ),
] = "eks-d-upgrader"

CONTROL_PLANE_FINALIZER: Annotated[
    str, Finalizer("ControlPlaneUpgrade", Writer.MANAGER, "Keeps the upgrade until its NodeUpgrades are gone.")
] = f"controlplaneupgrades.{GROUP}/finalizer"

DEPLOYMENT_FINALIZER: Annotated[
    str, Finalizer("MachineDeploymentUpgrade", Writer.MANAGER, "Keeps the upgrade until its NodeUpgrades are gone.")
] = f"machinedeploymentupgrades.{GROUP}/finalizer"

NODE_FINALIZER: Annotated[
    str,
    Finalizer(
        "NodeUpgrade", Writer.MANAGER, "Keeps the upgrade until the step on the node has ended and its pod is gone."
    ),
] = f"nodeupgrades.{GROUP}/finalizer"
