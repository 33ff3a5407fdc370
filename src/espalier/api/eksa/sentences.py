"""What people read when a field can't be so: one sentence for each rule that needs only the object itself.

The CRDs say it (CEL, also when no manager runs) and the webhooks say it: so it stands here, below both.
"""

# The cluster.
NAME_FORM = "the name is part of host names, so it must be a DNS label that begins with a letter; choose another name"
NAME_LENGTH = "the name is too long, for names of machines begin with it; choose a shorter one"
NO_KUBERNETES_VERSION = 'give the Kubernetes minor version in quotes, like "1.35"'
NO_DATACENTER = "say where the machines run"
NO_CONTROL_PLANE = "say how many machines it has, like count: 1"
NO_NETWORK = "give pods, services and cniConfig"

# Release and Bundles.
BOTH = "spec.eksaVersion already says which Bundles are used; remove spec.bundlesRef, which is deprecated"
NEW_WITH_BUNDLES = (
    "Bundles of a new cluster are those of its release; remove spec.bundlesRef, which is deprecated, and name the "
    "release in spec.eksaVersion, or leave both out to get that of the management cluster"
)
BUNDLES_CHANGED = (
    "Bundles of an existing cluster can't be exchanged; to move to others, remove spec.bundlesRef and set "
    "spec.eksaVersion in the same write"
)
BUNDLES_CLEARED_ALONE = "set spec.eksaVersion in the same write that removes spec.bundlesRef"
VERSION_UNSET = (
    "the release of a cluster can be changed, but not taken away; if GitOps (Flux, Argo CD) applies a manifest without "
    "the field, put it into the manifest in Git"
)
NOT_SEMVER = "this is no semantic version"
RELEASE_NAME = "the name of an EKSARelease follows from its version, so that there is one of each; give it this name"
RELEASE_CHANGED = "the facts of a release don't change; create an EKSARelease for another version"
VERSION_TWICE = "the version is given twice"
BRING_BUNDLES = (
    "bring other Bundles under another name, and an EKSARelease that names them, with `espalier releases import`"
)
BUNDLES_EDITED = f"the content of Bundles doesn't change, for clusters are made of it; {BRING_BUNDLES}"
DISTRO_CHANGED = (
    "an EKS Distro Release doesn't change, for clusters are made of it; bring another one under another name, with "
    "Bundles that name it, with `espalier releases import`"
)
OTHER_KUBERNETES = "the EKS Distro Release {release} that is named for it is of Kubernetes {version}"
BRING_DISTRO = (
    "bring it with `espalier releases import`, or start the manager again, which brings those of its releases"
)

# Machines.
EVEN = "etcd runs on these machines and needs a majority, so their number must be odd"
NO_SUCCESSOR = "with fewer than 3 machines, none can be removed before its successor is there"
CERTIFICATE_NAME = "a certificate can only be for addresses and DNS names"
NO_GROUPS = "give a worker node group, like name: md-0, count: 1"
GROUP_TWICE = "two groups have this name; names of groups are unique in a cluster"
GROUP_NAME = "names of machines contain it, so it must be a short DNS label"
WORKER_LAG = "workers may not be ahead of the control plane, nor far behind"
NO_ROLLOUT = "maxSurge and maxUnavailable can't both be 0, for then no machine could ever be replaced"
ALL_TAINTED = "every group has taints that keep pods away, so CoreDNS would find no node; leave one group without"
DURATION = "this is no duration of hours, minutes and seconds"
LONG = "this is longer than Cluster API can wait"
STARTUP = "Cluster API gives a machine at least that long to become a node; 0s is however long it takes"
UNHEALTHY = "this is no number of machines and no percentage"
TOO_MANY = "this is more than a cluster can have; was a digit typed twice?"

LABEL = "this is no name of a label"
LABEL_VALUE = "this is no value of a label"
NO_FLAG = "this is no name of a flag; leave out dashes before it, and give its value as the value"
TAINT_KEY = "this is no name of a taint"
SECOND_ROLLOUT = (
    "control planes are upgraded in place one machine at a time; remove the field, or set type to RollingUpdate"
)
NO_LIMITS = "say how machines are replaced, like maxSurge: 1, maxUnavailable: 0"
NO_FALLBACK = "a fallback is for machines that are upgraded in place; set type to InPlace, or remove it"
EXTERNAL_ETCD_IN_PLACE = "etcd on machines of its own is not upgraded in place"
KUBERNETES_STEP = "Kubernetes is upgraded one minor version at a time; take those between first, one by one"
PACKAGES = "packages of workload clusters are brought by their management cluster; remove the field"

# Networks.
ONE_FAMILY = "pods and services need addresses of the same family"
FEW_SERVICES = "kube-apiserver needs at least 8 addresses for services"
NODE_MASK = "each node gets a part of the range of pods with this prefix length"
ONE_RANGE = "give one range"
RANGE = "this is no range in CIDR notation"
CNI_TWICE = "the CNI is given twice; remove the deprecated field"
CNI_UNKNOWN = "this CNI is not known"
ONE_CNI = "a cluster has exactly one CNI, like kindnetd: {}"
NATIVE_RANGE = "with routingMode direct, say which range is routed without masquerading"
CILIUM_IS_YOURS = "with skipUpgrade, Cilium's settings are yours; remove one of the two"

# GitOps.
GIT_OPS_KIND = "GitOps is configured by objects of other kinds"
