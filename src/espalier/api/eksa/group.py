"""The group and version of EKS Anywhere's kinds, and its names in objects of other groups."""

GROUP = "anywhere.eks.amazonaws.com"
VERSION = "v1alpha1"

EKSA_VERSION = (
    "^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)"
    "(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)([.](0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$"
)
"""The form of an eksaVersion: a semantic version after a v."""

SYSTEM_NAMESPACE = "eksa-system"
"""Namespace of Cluster API objects, Bundles and the controller."""

MANAGEMENT_CLUSTER = "management-cluster"
"""Name of the ConfigMap there whose `namespace` and `name` identify the record of the management cluster, a Cluster.
Not in the namespace of that Cluster, where users may write."""

CLUSTER_FINALIZER = "clusters.anywhere.eks.amazonaws.com/finalizer"
CLUSTER_NAME_LABEL = "cluster.anywhere.eks.amazonaws.com/cluster-name"
CLUSTER_NAMESPACE_LABEL = "cluster.anywhere.eks.amazonaws.com/cluster-namespace"

PAUSED_ANNOTATION = f"{GROUP}/paused"
PAUSED_BY_COMMAND = "espalier-upgrade-"
"""The beginning of its value while `espalier upgrade cluster` writes a change; a random number follows, and
a count while it renews the pause."""

ALLOW_DELETE_WHEN_PAUSED_ANNOTATION = f"{GROUP}/allow-delete-when-paused"
SKIP_EKSA_VERSION_SKEW_CHECK_ANNOTATION = f"{GROUP}/skip-eksa-version-skew-check"

MOVE_ANNOTATION = f"{GROUP}/move"
"""On a Cluster while `espalier move` takes it to another management cluster, at the source and at the target: the
record of the move, in JSON. Neither manager acts on the Cluster meanwhile, whatever else is in its annotations."""
PAUSED_BY_MOVE = "espalier-move"
"""The value of the paused annotation meanwhile, for managers that don't know the record."""
MOVED_FROM_ANNOTATION = f"{GROUP}/moved-from"
"""On copies that `espalier move` made: the management cluster that they came from, and the epoch of their Cluster."""
