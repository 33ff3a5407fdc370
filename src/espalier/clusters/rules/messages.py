"""What people read when versions are refused, or warned of: each sentence says why, and what to do.

The field, what was found and what is allowed stand beside it (`Violation`), so they are not said again. Sentences of
rules that need only the object itself stand in `api/eksa/sentences.py`: the CRDs say them as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.eksa.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL
from espalier.api.resource import Key

MOST_NAMED = 5
"""Objects that are named in a sentence."""


def listed(found: Iterable[object]) -> str:
    """Some of them by name, and how many more there are."""
    said = sorted(map(str, found))
    more = [f"and {len(said) - MOST_NAMED} more"] if len(said) > MOST_NAMED else []
    return ", ".join([*said[:MOST_NAMED], *more])


def counted(found: Iterable[object]) -> str:
    """How many there are: for who may not know which."""
    return str(sum(1 for _ in found))


NO_VERSION = (
    "the management cluster names no release that this cluster could get (it still has spec.bundlesRef); name one"
)


def manages_nobody(name: str) -> str:
    """A workload cluster in the place of a management cluster."""
    return f'Cluster "{name}" is not self-managed, so it can\'t manage others; name the cluster that manages it'


REQUIRES_EKS_ANYWHERE = (
    "RequiresEKSAnywhereClusterAPI: etcd on machines of its own needs EKS Anywhere's build of Cluster API and its "
    "etcdadm providers, and stock Cluster API is installed (its Cluster has no spec.managedExternalEtcdRef); install "
    "that build, or remove the field to have etcd on the machines of the control plane"
)

NAMES_IT = (
    "ConfigMap eksa-system/management-cluster says which it is (`espalier manifests --management-cluster "
    "NAMESPACE/NAME`, docs/management-cluster.md)"
)


def not_the_management_cluster(key: Key | None, *, is_told: bool = True) -> str:
    """A Cluster that says that it manages itself, and is not the record of the management cluster."""
    which = f"Cluster {key}" if is_told else "another Cluster"
    known = f"the management cluster is {which}" if key is not None else "no Cluster is the management cluster yet"
    return (
        f"this Cluster names itself, or nobody, as its management cluster, which it is not: {known}; {NAMES_IT}; "
        "name the cluster that manages this one, or delete it"
    )


def no_management_cluster(name: str, key: Key | None, *, is_told: bool = True) -> str:
    """What a workload cluster names is not the management cluster, or that is not there."""
    if not is_told:
        return f'"{name}" is not the management cluster; {NAMES_IT}'
    if key is None:
        return f'there is no management cluster "{name}": no Cluster is its record; {NAMES_IT}'
    if key.name != name:
        return f'"{name}" is not the management cluster, that is Cluster {key}; name "{key.name}"'
    return (
        f"Cluster {key}, the record of the management cluster, does not exist, or is in a namespace that this manager "
        "does not watch; create it (docs/management-cluster.md)"
    )


def used_by_the_management_cluster(management: Key) -> str:
    """A workload cluster names an object of the management cluster."""
    return (
        f"this object is the management cluster's ({management}), which shares it with no cluster that it manages; "
        "create one of your own, and name that"
    )


def lent_to(clusters: str) -> str:
    """The record of the management cluster names an object of clusters that it manages."""
    return f"this object belongs to clusters that are managed: {clusters}; create one of its own, and name that"


def manages(clusters: str) -> str:
    """The record of the management cluster may not be deleted."""
    return (
        f"this is the record of the management cluster, and it manages clusters: {clusters}; delete those first, for "
        "without it none of them is changed any more"
    )


def cluster_name_taken(other: object) -> str:
    """There is a Cluster of the name; `other` is None for who may not know where."""
    which = f"a cluster {other}" if other is not None else "a cluster of this name in another namespace"
    return f"there is {which}; names of clusters are unique in all namespaces, choose another"


def in_use(users: str) -> str:
    """A release, or what it names, may not be deleted."""
    return f"clusters are made of this: {users}; move them to another release, or delete them, first"


def other_content(what: str) -> str:
    """An object of a release was deleted and created again with other content."""
    return (
        f"{what} is not what this cluster was made of: deleted and created again with other content, under the same "
        "name. Nothing is made of it. Delete it and bring the original back (`espalier releases import FOLDER`, or "
        "start a manager that has it), or move the cluster to another release"
    )


# eksaVersion.
UNKNOWN_RELEASE = (
    "there is no EKSARelease of this version in the management cluster; choose one of those, or add it with "
    "`espalier releases import`"
)
MAJOR = "releases of another major version can't be reached by an upgrade; create another cluster"


def one_minor_at_a_time(next_minor: str) -> str:
    """An upgrade over more than one minor."""
    return f"releases are upgraded one minor version at a time; go to a release of {next_minor} first"


def release_downgrade(old: str) -> str:
    """A release of an earlier minor."""
    return f"a cluster can't go back from {old} to a release of an earlier minor version; keep its release"


def unfinished(old: str) -> str:
    """The change to the release before is still under way."""
    return f"the last change of the cluster, with release {old}, is not finished; wait until it is Ready"


def ahead(management: str) -> str:
    """A workload cluster would be newer than what manages it."""
    return f"a cluster can't be ahead of its management cluster {management}; upgrade that one first"


def too_far_behind(management: str, maximum: int) -> str:
    """A workload cluster would be too old for what manages it."""
    return (
        f"this is more than {maximum} minor versions behind the management cluster {management}; take a newer release"
    )


def left_behind(clusters: str, maximum: int) -> str:
    """An upgrade of the management cluster past its workload clusters."""
    return f"this would leave clusters more than {maximum} minor versions behind: {clusters}; upgrade them first"


def overtaken(clusters: str) -> str:
    """A downgrade of the management cluster below its workload clusters."""
    return f"these clusters would be ahead of their management cluster: {clusters}; keep its release"


def behind(version: str, steps: int, management: str) -> str:
    """A warning: allowed, but the next upgrade of the management cluster waits for this cluster."""
    minors = "one minor version" if steps == 1 else f"{steps} minor versions"
    return f"spec.eksaVersion: {version} is {minors} behind the management cluster {management}; plan an upgrade"


# Kubernetes.
def kubernetes_downgrade(old: str) -> str:
    """A Kubernetes version before that in force, of a worker node group."""
    return f"Kubernetes can't be downgraded from {old}; keep it"


def no_way_back(old: str) -> str:
    """The same of the control plane, of which an upgrade can be taken back for a while."""
    until = "an upgrade can be taken back only until a control plane machine runs the new version, or is worked on"
    return f"Kubernetes can't be downgraded from {old}: {until}; keep it"


def machines_behind(who: str, earliest: str, first: str) -> str:
    """Machines would skip a version, for some are still at an earlier one than was asked for last."""
    return f"{who} still has machines of Kubernetes {earliest}; wait until all of them have {first}"


def not_reported(who: str) -> str:
    """What machines have is not known."""
    return f"{who} was changed and has not reported since, so what its machines have is not known; wait until it has"


def support_is_due(field: str, version: str, told: str) -> str:
    """A warning: allowed, but the version gets no more fixes soon, or none already."""
    return f"{field}: Kubernetes {version}{told}; plan an upgrade"


def not_in_release(release: str) -> str:
    """The Bundles lack a Kubernetes version."""
    return f"release {release} does not have this Kubernetes version"


# What is passed on to Kubernetes.
PROVIDER_ID = "the provider names its machines; remove the field"
BUILT_FLAG = "this flag follows from how the cluster is built, and another value would break it; remove it"
FLAG_VALUE = "no API server starts, or gets nodes, with this value; give another, or remove the flag"
NO_POLICY = "this is not a valid audit policy"
NO_RULES = "an audit policy needs rules; to log nothing, give one with level: None"
NO_LEVEL = "a rule of an audit policy has a level"

# GitOps.
GIT_OPS_OF_ITS_OWN = (
    "a workload cluster has no GitOps of its own, but is described in the repository of its management cluster; name "
    "the configuration of that cluster, or remove the field"
)


def name_taken(objects: Iterable[object]) -> str:
    """What is said of objects of others under names that a cluster needs."""
    return (
        f"{', '.join(map(str, objects))} is there and was not made for this cluster, by its labels: if it was, set its "
        f"labels {CLUSTER_NAME_LABEL} and {CLUSTER_NAMESPACE_LABEL} to this Cluster's name and namespace; if not, "
        "remove that object, or choose another name for the worker node group or the cluster"
    )


def name_of(name: str, cluster: object) -> str:
    """Said of a name of objects that are another cluster's; `cluster` is None for who may not know which."""
    whose = f"cluster {cluster}" if cluster is not None else "another cluster"
    return (
        f'objects made for it would be named "{name}", as those of {whose}: '
        "names of objects are made of the names of the cluster and its groups; choose another"
    )
