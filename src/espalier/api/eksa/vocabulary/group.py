"""The group and version of EKS Anywhere's kinds, and its names in objects of other groups."""

from typing import Annotated

from espalier.api.definitions.reference import Annotation, Finalizer, Label, Writer

GROUP = "anywhere.eks.amazonaws.com"
VERSION = "v1alpha1"

EKSA_VERSION = (
    "^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)"
    "(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)([.](0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$"
)
"""The form of an eksaVersion: a semantic version after a v."""

SYSTEM_NAMESPACE = "eksa-system"
"""Namespace of Cluster API objects, Bundles and the controller."""

MANAGER = "espalier-controller-manager"
"""Name of the manager's Deployment there, and the beginning of the names of its Leases."""

MANAGEMENT_CLUSTER = "management-cluster"
"""Name of the ConfigMap there whose `namespace` and `name` identify the record of the management cluster, a Cluster.
Not in the namespace of that Cluster, where users may write."""

BOOTSTRAP = "bootstrap"
"""Name of the record of a bootstrap, from which a management cluster is created. No cluster may have it."""

CLUSTER_FINALIZER: Annotated[
    str,
    Finalizer(
        "Cluster",
        Writer.MANAGER,
        "Keeps a Cluster until everything that was created for it is deleted.",
        "condition `Ready` lists what is left; removing the finalizer leaves the machines running",
    ),
] = "clusters.anywhere.eks.amazonaws.com/finalizer"
CLUSTER_NAME_LABEL: Annotated[
    str,
    Label(
        "objects of Cluster API, Secrets",
        Writer.MANAGER,
        "Name of the Cluster that an object was created for. Objects without it are never changed or deleted.",
        "set it and the next one on Secrets with keys that a new cluster is to reuse",
    ),
] = "cluster.anywhere.eks.amazonaws.com/cluster-name"
CLUSTER_NAMESPACE_LABEL: Annotated[
    str, Label("objects of Cluster API, Secrets", Writer.MANAGER, "Namespace of that Cluster.")
] = "cluster.anywhere.eks.amazonaws.com/cluster-namespace"

PAUSED_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster, ControlPlaneUpgrade, MachineDeploymentUpgrade",
        Writer.USER,
        "With any value: a Cluster is not reconciled; an in-place upgrade starts no further node.",
        "remove it to resume",
    ),
] = f"{GROUP}/paused"
PAUSED_BY_COMMAND = "espalier-upgrade-"
"""The beginning of its value while `espalier upgrade cluster` writes a change; a random number follows, and
a count while it renews the pause."""

ALLOW_DELETE_WHEN_PAUSED_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster",
        Writer.USER,
        "Allows the deletion of a paused Cluster.",
        "set it to delete a Cluster that stays paused",
    ),
] = f"{GROUP}/allow-delete-when-paused"
SKIP_EKSA_VERSION_SKEW_CHECK_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster",
        Writer.USER,
        "Allows an update of `eksaVersion` to skip minor versions, or to downgrade.",
        "remove it after the update",
    ),
] = f"{GROUP}/skip-eksa-version-skew-check"

MOVE_ANNOTATION: Annotated[
    str,
    Annotation(
        "Cluster",
        Writer.USER,
        "`espalier move` is taking the Cluster to another management cluster: the record of the move. No "
        "manager acts on the Cluster meanwhile.",
        "give the same `espalier move` again, or with `--back`",
    ),
] = f"{GROUP}/move"
"""At the source and at the target. The value is JSON."""

PAUSED_BY_MOVE = "espalier-move"
"""The value of the paused annotation meanwhile, for managers that don't know the record."""
MOVED_FROM_ANNOTATION: Annotated[
    str,
    Annotation(
        "all objects of a cluster",
        Writer.USER,
        "`espalier move` copied the object from the management cluster with this uid; `restore` says that it came "
        "from a folder, and the number counts the moves.",
    ),
] = f"{GROUP}/moved-from"
INFRASTRUCTURE_ANNOTATION: Annotated[
    str,
    Annotation(
        "Namespace `eksa-system`",
        Writer.ENVIRONMENT,
        "The process of simulated machines that this management cluster reaches. A cluster moves only between "
        "management clusters that reach the same ones.",
    ),
] = f"{GROUP}/infrastructure"
MANAGEMENT_STATE_ANNOTATION: Annotated[
    str,
    Annotation(
        "ConfigMap `eksa-system/management-cluster`",
        Writer.USER,
        "`espalier create cluster` creates this management cluster (`creating`), or has created it (`running`); or "
        "`espalier upgrade cluster` changes it (`upgrading`): only then its manager acts on the record.",
        "give the same command again to end the creation or the upgrade",
    ),
] = f"{GROUP}/management-state"
"""Whoever may write Clusters in some namespace can't write this ConfigMap."""
MANAGEMENT_UPGRADING = "upgrading"
