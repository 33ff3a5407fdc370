"""Annotations of Clusters and of what belongs to them, with prose. More are in `group.py` and `upgrade_keys.py`."""

from __future__ import annotations

from typing import Annotated

from espalier.api.definitions.reference import Annotation, Finalizer, Label, Writer
from espalier.api.eksa.vocabulary.group import GROUP

CNI_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster (Cluster API)",
        Writer.MANAGER,
        "Name and content hash of the CNI that is installed in the workload cluster.",
    ),
] = f"{GROUP}/cni"
WORKLOAD_OBJECTS_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster (Cluster API)", Writer.MANAGER, "Hash and names of the provider's objects in the workload cluster."
    ),
] = f"{GROUP}/workload-objects"
KUBECONFIG_ANNOTATION: Annotated[
    str, Annotation("Cluster", Writer.MANAGER, "Digest of the kubeconfig that was copied into the Cluster's namespace.")
] = f"{GROUP}/kubeconfig-copied"
GATE_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster",
        Writer.MANAGER,
        "Content hash of the last completed reconcile; `open` while a change is in progress (`docs/isolation.md`).",
        "remove it to have the manager adopt or reconcile the Cluster again",
    ),
] = f"{GROUP}/reconciled-content"
IDENTITY_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster",
        Writer.MANAGER,
        "UIDs of the management Cluster and of the Cluster for which `reconciled-content` was written.",
    ),
] = f"{GROUP}/reconciled-as"
"""A Cluster that was exported, deleted and created again carries the uids of its predecessor."""

ADOPTED_LABEL: Annotated[
    str,
    Label(
        "ConfigMap in `eksa-system`",
        Writer.USER,
        "The record of a cluster that `espalier adopt apply` took over from EKS Anywhere.",
        "`espalier adopt undo` removes it, as long as the cluster was not changed",
    ),
] = f"{GROUP}/adopted"

GROUP_ANNOTATION: Annotated[
    str,
    Annotation(
        "MachineDeployment",
        Writer.MANAGER,
        "The worker node group, if it has a MachineDeployment for each failure domain.",
    ),
] = f"{GROUP}/worker-node-group"
REMEDIATION_STOPPED_ANNOTATION: Annotated[
    str,
    Annotation(
        "MachineHealthCheck",
        Writer.MANAGER,
        "Machines were replaced several times without becoming healthy, so the check was paused.",
        "fix the cause, then remove `cluster.x-k8s.io/paused` from the check",
    ),
] = f"{GROUP}/remediation-stopped"
MANAGEMENT_FINALIZER: Annotated[
    str,
    Finalizer(
        "Cluster", Writer.MANAGER, "Keeps the management Cluster while it manages other clusters.", "delete those first"
    ),
] = f"{GROUP}/manages-clusters"
RELEASE_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster",
        Writer.MANAGER,
        "Digests of the release objects that the cluster was created from.",
        "remove it to accept changed release objects (reason `ReleaseReplaced`)",
    ),
] = f"{GROUP}/release-content"
PATCHES_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster",
        Writer.USER,
        "Comma-separated names of the patch layers that may apply to the cluster.",
        "`espalier plan` shows what a patch changes",
    ),
] = f"{GROUP}/patches"
"""Counts as content."""

DRIFT_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster",
        Writer.USER,
        "How drift is handled: `report` (default), `correct` (except where it replaces machines), `correct-machines`.",
        "set it when condition `Synced` says `Drifted`",
    ),
] = f"{GROUP}/drift"
"""A `drift_policy.Policy`. Does not count as content."""

CREDENTIALS_SERVERS: Annotated[
    str,
    Annotation(
        "Secret in `eksa-system`",
        Writer.USER,
        "Comma-separated servers to which the credentials may be sent, as written in specs.",
        "set it on Secrets with credentials of providers and registries (reason `CredentialsNotPermitted`)",
    ),
] = f"{GROUP}/credentials-servers"
CREDENTIALS_NAMESPACES: Annotated[
    str,
    Annotation(
        "Secret in `eksa-system`",
        Writer.USER,
        "Comma-separated namespaces whose Clusters may use the credentials; `*` for all.",
        "set it together with `credentials-servers`",
    ),
] = f"{GROUP}/credentials-namespaces"
CREDENTIALS_IN_WORKLOAD_CLUSTERS: Annotated[
    str,
    Annotation(
        "Secrets with credentials of providers, in `eksa-system`",
        Writer.USER,
        "With `allowed`: workload clusters may get the credentials of the user that creates machines. "
        "Administrators of such a cluster can read them.",
        "provide credentials of a read-only user, or set it (reason `CredentialsNotPermitted`)",
    ),
] = f"{GROUP}/credentials-in-workload-clusters"
"""Cloud controllers may use the account that creates machines."""

KUBECONFIG_REQUESTED: Annotated[
    str,
    Annotation(
        "KubeadmControlPlane",
        Writer.USER,
        "When `espalier renew certificates` deleted the Secret with the kubeconfig: Cluster API does not watch it, and "
        "issues a new one when its KubeadmControlPlane changes.",
    ),
] = f"{GROUP}/kubeconfig-requested"

MANAGED_BY_CLI: Annotated[str, Annotation("Cluster", Writer.CLI, "Accepted, without effect.")] = (
    f"{GROUP}/managed-by-cli"
)
CONTROL_PLANE_CONFIG: Annotated[
    str, Annotation("machine configs", Writer.CLI, "Accepted, without effect: see the Cluster.")
] = f"{GROUP}/control-plane"
ETCD_CONFIG: Annotated[str, Annotation("machine configs", Writer.CLI, "Accepted, without effect: see the Cluster.")] = (
    f"{GROUP}/etcd"
)
MANAGED_BY: Annotated[str, Annotation("machine configs", Writer.CLI, "Accepted, without effect.")] = (
    f"{GROUP}/managed-by"
)
COMPONENTS_VERSION: Annotated[str, Annotation("Cluster", Writer.CLI, "Accepted, without effect.")] = (
    f"{GROUP}/management-components-version"
)
SIMULATED_PROVIDERS: Annotated[
    str,
    Annotation(
        "Deployment of the simulated Cluster API",
        Writer.ENVIRONMENT,
        "The providers that it simulates, separated by commas, as `cluster.x-k8s.io/provider` names them.",
    ),
] = f"{GROUP}/simulated-providers"
