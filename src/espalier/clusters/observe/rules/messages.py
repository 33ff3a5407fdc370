"""Messages of refusals and warnings: each states the reason and the remedy.

`Violation` adds the field, the value found and the allowed values. Messages of rules that need only the object itself
are in `api/eksa/vocabulary/sentences.py`, because the CRDs use them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from espalier.api.eksa.releases.release import BundlesRef
from espalier.api.eksa.vocabulary.group import (
    CLUSTER_NAME_LABEL,
    CLUSTER_NAMESPACE_LABEL,
    PAUSED_ANNOTATION,
    SYSTEM_NAMESPACE,
)
from espalier.api.eksa.vocabulary.metadata_keys import GATE_ANNOTATION
from espalier.api.manifests import schema
from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.api.text.printable import LONGEST_OBJECT_NAME, quoted
from espalier.clusters.design import names
from espalier.clusters.design.eks_anywhere import CONTROLLER
from espalier.releases import release_name

MOST_NAMED = 5
"""The most objects that a message names."""


def listed(values: Iterable[object]) -> str:
    """The first names, and the number of the others."""
    return first(sorted(map(str, values)), MOST_NAMED)


def counted(values: Iterable[object]) -> str:
    """Their number, for users who may not read them."""
    return str(sum(1 for _ in values))


def unnamed_group(index: int) -> str:
    """A worker node group without a name."""
    field = f"spec.workerNodeGroupConfigurations[{index}].name"
    return (
        f"{field}: not set, so the group is called {names.DEFAULT_GROUP}, as in EKS Anywhere; its machines have this "
        "name, so set another one before the cluster is created"
    )


NO_VERSION = "the management cluster has no eksaVersion to inherit (it still uses spec.bundlesRef); set one"


def manages_nobody(name: str) -> str:
    """A workload cluster's management cluster is itself a workload cluster."""
    return f'Cluster "{name}" is not self-managed, so it can\'t manage others; name the management cluster'


REQUIRES_EKS_ANYWHERE = (
    "RequiresEKSAnywhereClusterAPI: external etcd needs EKS Anywhere's build of Cluster API and its etcdadm "
    "providers, but stock Cluster API is installed (its Cluster has no spec.managedExternalEtcdRef); install that "
    "build, or remove the field to run etcd on control plane machines"
)

BOTTLEROCKET_REQUIRES_EKS_ANYWHERE = (
    "RequiresEKSAnywhereClusterAPI: machines with Bottlerocket need EKS Anywhere's build of Cluster API, but stock "
    "Cluster API is installed (its Cluster has no spec.managedExternalEtcdRef); install that build, or use machine "
    "configs with another osFamily (the default is bottlerocket)"
)

PAUSED_RECORD = "the cluster is self-managed and paused: the manager does not act on this record of it"

CHANGED_BY_UPGRADE = "record of the management cluster; change it with `espalier upgrade cluster`"
WITHOUT_MACHINES = "record of the management cluster; it has no machines here, so nothing is done for it"

NAMES_IT = (
    "ConfigMap eksa-system/management-cluster names the management cluster (`espalier manifests "
    "--management-cluster NAMESPACE/NAME`, docs/management-cluster.md)"
)


def not_the_management_cluster(key: Key | None, *, names_others: bool = True) -> str:
    """A self-managed Cluster that is not the record of the management cluster."""
    which = f"Cluster {key}" if names_others else "another Cluster"
    known = f"the management cluster is {which}" if key is not None else "there is no management cluster yet"
    return (
        f"this Cluster names itself or nothing as its management cluster, but is not a management cluster: {known}; "
        f"{NAMES_IT}; name the cluster that manages this one, or delete it"
    )


def no_management_cluster(name: str, key: Key | None, *, names_others: bool = True) -> str:
    """A workload cluster references a management cluster that does not exist or is another Cluster."""
    if not names_others:
        return f'"{name}" is not the management cluster; {NAMES_IT}'
    if key is None:
        return f'there is no management cluster "{name}": no Cluster is its record; {NAMES_IT}'
    if key.name != name:
        return f'"{name}" is not the management cluster, which is Cluster {key}; name "{key.name}"'
    return (
        f"Cluster {key}, the record of the management cluster, does not exist, or is in a namespace that this manager "
        "does not watch; create it (docs/management-cluster.md)"
    )


def used_by_the_management_cluster(management: Key) -> str:
    """A workload cluster references an object of the management cluster."""
    return (
        f"this object belongs to the management cluster ({management}) and can't be shared with its workload clusters; "
        "create one for this cluster"
    )


def shared_with_workload_clusters(clusters: str) -> str:
    """The record of the management cluster references an object of clusters that it manages."""
    return f"this object belongs to workload clusters: {clusters}; create one for the management cluster"


def manages(clusters: str) -> str:
    """The record of the management cluster can't be deleted."""
    return (
        f"this is the record of the management cluster, which manages clusters: {clusters}; delete those first, "
        "because they can't be changed without it"
    )


def runs_on_itself(name: str) -> str:
    """A management cluster that would delete its own machines."""
    return (
        "this is the record of the management cluster, whose own machines Cluster API manages here: it would delete "
        f"them under its own controllers; give `espalier delete cluster {name}`, which moves it to a bootstrap first. "
        "If it is being deleted, and is to stay: `espalier upgrade cluster -f FILE` makes this record anew"
    )


def cluster_name_taken(other: object) -> str:
    """The name is taken; `other` is None for users who may not read that Cluster."""
    which = f"a cluster {other}" if other is not None else "a cluster of this name in another namespace"
    return f"there is {which}; names of clusters are unique in all namespaces, choose another"


def in_use(users: str) -> str:
    """A release object can't be deleted."""
    return f"in use by clusters: {users}; move them to another release or delete them first"


def no_bundles(eksa_version: str, reference: BundlesRef) -> str:
    """The Bundles of a reference do not exist: of the EKSARelease of a version, or of the Cluster if that is empty."""
    field = f"spec.eksaVersion: spec.bundlesRef of EKSARelease {release_name(eksa_version)}" if eksa_version else ""
    namespace, name = quoted(reference.namespace, LONGEST_OBJECT_NAME), quoted(reference.name, LONGEST_OBJECT_NAME)
    elsewhere = "" if reference.namespace == SYSTEM_NAMESPACE else f"; allowed: Bundles in namespace {SYSTEM_NAMESPACE}"
    return (
        f"{field or 'spec.bundlesRef'}: the Bundles do not exist; found {namespace}/{name}{elsewhere}; import them "
        "(`espalier releases import`), or choose another release"
    )


def other_content(what: str) -> str:
    """A release object was deleted and created again with other content."""
    return (
        f"{what} was deleted and recreated with other content than this cluster was created from, so nothing is "
        "rendered from it. Delete it and restore the original (`espalier releases import FOLDER`, or start a manager "
        "that has it), or move the cluster to another release"
    )


def no_authenticator(distro: str) -> str:
    """AWSIamConfig with a release that can't run its authenticator."""
    return (
        f"AWSIamConfig needs the image of AWS IAM Authenticator, and EKS Distro Release {distro} has none; set "
        "spec.eksaVersion to v0.26.0 or later, import a release that has one (`espalier releases import`), or remove "
        "the reference"
    )


def other_provider(flags: Sequence[str]) -> str:
    """An OIDCConfig from which the control plane was made was deleted and recreated with other content."""
    return (
        f"the OIDCConfig was deleted and recreated with other content ({', '.join(flags)}), which would replace the "
        "control plane; recreate it as it was, or create another and name that here"
    )


# eksaVersion.
UNKNOWN_RELEASE = (
    "the management cluster has no EKSARelease of this version; choose an existing one, or add it with "
    "`espalier releases import`"
)
MAJOR = "clusters can't be upgraded to another major version; create another cluster"


def too_many_minors(next_minor: str) -> str:
    """An upgrade by more than one minor."""
    return f"releases are upgraded one minor version at a time; upgrade to a release of {next_minor} first"


def release_downgrade(old: str) -> str:
    """A downgrade to an earlier minor."""
    return f"a cluster can't be downgraded from {old} to an earlier minor version; keep its release"


def unfinished(old: str) -> str:
    """The upgrade to the previous release is still in progress."""
    return f"the last change of the cluster, with release {old}, is still in progress; wait until it is Ready"


def ahead(management: str) -> str:
    """A workload cluster would be newer than its management cluster."""
    return f"a cluster can't be newer than its management cluster {management}; upgrade the management cluster first"


def too_far_behind(management: str, maximum: int) -> str:
    """A workload cluster would be too old for its management cluster."""
    return f"more than {maximum} minor versions behind the management cluster {management}; choose a newer release"


def left_behind(clusters: str, maximum: int) -> str:
    """An upgrade of the management cluster past its workload clusters."""
    return f"this would leave clusters more than {maximum} minor versions behind: {clusters}; upgrade them first"


def overtaken(clusters: str) -> str:
    """A downgrade of the management cluster below its workload clusters."""
    return f"these clusters would be newer than their management cluster: {clusters}; keep its release"


def behind(version: str, steps: int, management: str) -> str:
    """A warning: allowed, but the management cluster can't be upgraded further before this cluster."""
    minors = "one minor version" if steps == 1 else f"{steps} minor versions"
    return f"spec.eksaVersion: {version} is {minors} behind the management cluster {management}; plan an upgrade"


# Kubernetes.
def kubernetes_downgrade(old: str) -> str:
    """A downgrade of a worker node group's Kubernetes version."""
    return f"Kubernetes can't be downgraded from {old}; keep it"


def not_revertible(old: str) -> str:
    """A downgrade of the control plane's Kubernetes version after its upgrade can no longer be reverted."""
    until = "an upgrade can be reverted only until a control plane machine runs the new version or is being upgraded"
    return f"Kubernetes can't be downgraded from {old}: {until}; keep it"


def not_in_place(refusal: str, changed: Iterable[str]) -> str:
    """A change that can't be made in place, with the changed fields of the Cluster."""
    return f"{refusal}; changed here: {listed(changed)}"


def machines_behind(who: str, earliest: str, first: str) -> str:
    """Machines would skip a version, because some have not reached the previous one yet."""
    return f"{who} still has machines with Kubernetes {earliest}; wait until all of them run {first}"


def not_reported(who: str) -> str:
    """The versions of machines are unknown."""
    return f"{who} was changed and its status is outdated, so its machines' versions are unknown; wait for Cluster API"


def support_is_due(field: str, version: str, suffix: str) -> str:
    """A warning: allowed, but support of the version ends soon, or has ended."""
    return f"{field}: Kubernetes {version}{suffix}; plan an upgrade"


def not_in_release(release: str, version: str) -> str:
    """The Bundles lack this Kubernetes version."""
    return f"release {release} does not have this Kubernetes version{lost_zero(version)}"


def forced(field: str) -> str:
    """Flux deletes a Cluster that it applies with force, to make a change."""
    return (
        f"Flux applies it with `force` ({field}), by which a typing error in Git deletes a running cluster; take that "
        "away, and delete it then"
    )


def lost_zero(version: str) -> str:
    """The likely cause of a version that nobody wants: 1.30 was a number on its way. Empty for other versions."""
    major, _, minor = version.partition(".")
    if major != "1" or len(minor) != 1:
        return ""
    return f"; {version}0 may have lost its zero on the way: put it in quotes ({schema.LOST_DIGITS})"


def lacks_components(kind: str, parts: str) -> str:
    """The Bundles were made before the provider was supported."""
    return (
        f"the release has no images for clusters with {kind} ({parts}); use a newer one, or Bundles that have them "
        "(`espalier releases import`)"
    )


def lacks_images_of_bottlerocket(parts: str) -> str:
    """The Bundles have no images for Bottlerocket."""
    return (
        f"the release has no images for machines with Bottlerocket ({parts}); use a newer one, or Bundles that have "
        "them (`espalier releases import`), or use machine configs with another osFamily"
    )


# Configuration of Kubernetes components.
PROVIDER_ID = "the infrastructure provider sets it; remove the field"
BUILT_FLAG = "this flag is set from the cluster's configuration, and another value would break it; remove it"
FLAG_VALUE = "with this value the API server does not start, or nodes can't join; change it, or remove the flag"
LOST_GATE = "this version has lost the feature gate, and does not start with it; remove it, also before an upgrade"
UNKNOWN_FLAG = (
    "no supported version of kube-apiserver lists this flag, and kube-apiserver does not start with unknown flags"
)
CREDENTIALS_OF_PROXY = (
    "new machines get the new credentials; existing machines keep theirs, and can't reach the proxy if it rejects them"
)
NO_POLICY = "not a valid audit policy"
NO_RULES = "an audit policy needs rules; to log nothing, use one rule with level: None"
NO_LEVEL = "each rule of an audit policy needs a level"

BEING_WRITTEN = (
    "`espalier upgrade cluster` has paused the cluster while it writes a change; if it was ended, run it again, or "
    f"remove annotation {PAUSED_ANNOTATION}, to apply what it has written so far"
)

NOT_ADOPTED = (
    "EKS Anywhere made this cluster, and nothing is written for it until it is taken over: `espalier adopt plan` shows "
    "what that does, `espalier adopt apply` does it"
)


def eks_anywhere_runs(replicas: int) -> str:
    """A controller beside ours."""
    return (
        f"Deployment {CONTROLLER}: spec.replicas: found {replicas}, allowed 0: EKS Anywhere's controller would write "
        "the same objects; scale it to 0, or give the clusters back with `espalier adopt undo`"
    )


# Registry mirrors.
def not_mirrored(registries: Iterable[str]) -> str:
    """The message for a registry mirror without registries from which a release's images come."""
    return (
        f"without {listed(registries)}, from which images of the release come: machines pull these past the mirror, "
        "and never become nodes where they can't; add it, with the path of its images in the mirror"
    )


# GitOps.
GIT_OPS_OF_ITS_OWN = (
    "a workload cluster shares the GitOps configuration of its management cluster, which has none; remove the field, "
    "or put the management cluster under GitOps first"
)


def git_ops_with_other_content(kind: str, name: str, fields: Iterable[str]) -> str:
    """The message for a GitOps configuration with other content than the management cluster's."""
    return (
        f"a workload cluster shares the GitOps configuration of its management cluster, and {kind} {name} has other "
        f"content in {', '.join(fields)}; delete it and create it with the same content, or name that of the "
        "management cluster"
    )


def record_lost(config_map: str, cluster: object) -> str:
    """The record of a take-over is gone, or somebody has edited it."""
    return (
        f"ConfigMap {SYSTEM_NAMESPACE}/{config_map}: found no record of this cluster that can be read; restore it, or "
        f"remove annotation {GATE_ANNOTATION} from Cluster {cluster} and give `espalier adopt apply` again"
    )


def name_taken(objects: Iterable[object]) -> str:
    """Objects of others have names that the cluster needs."""
    return (
        f"{', '.join(map(str, objects))} exists without the labels of this cluster: if it belongs to it, set its "
        f"labels {CLUSTER_NAME_LABEL} and {CLUSTER_NAMESPACE_LABEL} to this Cluster's name and namespace; if not, "
        "delete that object, or choose another name for the worker node group or the cluster"
    )


def name_of(name: str, cluster: object) -> str:
    """The name is that of another cluster's objects; `cluster` is None for users who may not read that Cluster."""
    whose = f"cluster {cluster}" if cluster is not None else "another cluster"
    return (
        f'its objects would be named "{name}", like those of {whose}: '
        "names of objects contain the names of the cluster and its groups; choose another name"
    )
