"""Messages of rejected fields: one for each rule that needs only the object itself.

CRDs (CEL, also when no manager runs) and webhooks share them, so they are defined here, below both.
"""

# The cluster.
NAME_FORM = "the name is part of host names, so it must be a DNS label that begins with a letter; choose another name"
NAME_SHORT = "EKS Anywhere rejects names of a single letter; choose a longer one"
NAME_LENGTH = "the name is too long: machine names begin with it; choose a shorter one"
NO_KUBERNETES_VERSION = 'set the Kubernetes minor version in quotes, like "1.35"'
NO_DATACENTER = "set it to the datacenter config of the machines"
NO_CONTROL_PLANE = "set the number of machines, like count: 1"
NO_NETWORK = "set pods, services and cniConfig"

# Release and Bundles.
BOTH = "spec.eksaVersion already selects the Bundles; remove spec.bundlesRef, which is deprecated"
NEW_WITH_BUNDLES = (
    "a new cluster uses the Bundles of its release; remove spec.bundlesRef, which is deprecated, and set "
    "spec.eksaVersion, or omit both to use the release of the management cluster"
)
BUNDLES_CHANGED = (
    "it can't be changed in an existing cluster; to use other Bundles, remove spec.bundlesRef and set "
    "spec.eksaVersion in the same update"
)
BUNDLES_CLEARED_ALONE = "set spec.eksaVersion in the same update that removes spec.bundlesRef"
VERSION_UNSET = (
    "it can be changed, but not removed; if GitOps (Flux, Argo CD) applies a manifest without "
    "the field, set it in the manifest in Git"
)
NOT_SEMVER = "not a semantic version"
RELEASE_NAME = "an EKSARelease is named after its version, so that each version exists once; use this name"
RELEASE_CHANGED = "a release is immutable; create an EKSARelease for another version"
VERSION_TWICE = "duplicate version"
BRING_BUNDLES = (
    "import other Bundles under another name, and an EKSARelease that references them (`espalier releases import`)"
)
BUNDLES_EDITED = f"Bundles are immutable, because clusters are created from them; {BRING_BUNDLES}"
DISTRO_CHANGED = (
    "an EKS Distro Release is immutable, because clusters are created from it; import another one under another name, "
    "with Bundles that reference it (`espalier releases import`)"
)
OTHER_KUBERNETES = "the EKS Distro Release {release} that it references is for Kubernetes {version}"
BRING_DISTRO = "import it with `espalier releases import`, or restart the manager, which installs its own releases"

# Machines.
EVEN = "etcd runs on these machines and needs a majority, so their number must be odd"
NO_SUCCESSOR = "with fewer than 3 machines, none can be removed before its replacement exists"
ETCD_EVEN = "etcd needs a majority, so the count must be odd"
CERTIFICATE_NAME = "a certificate can contain only IP addresses and DNS names"
NO_GROUPS = "add a worker node group, like name: md-0, count: 1"
GROUP_TWICE = "two groups have this name; group names must be unique in a cluster"
GROUP_NAME = "machine names contain it, so it must be a short DNS label"
WORKER_LAG = "workers must not be newer than the control plane, or more than 2 minor versions older"
NO_ROLLOUT = "maxSurge and maxUnavailable can't both be 0: no machine could be replaced"
ALL_TAINTED = "every group has taints that keep pods away, so CoreDNS can't be scheduled; leave one group without"
DURATION = "not a duration in hours, minutes and seconds"
LONG = "longer than Cluster API supports"
STARTUP = "Cluster API waits at least that long for a machine to become a node; 0s means no limit"
UNHEALTHY = "not a number of machines or a percentage"
TOO_MANY = "more than a cluster can have; is there a digit too many?"

LABEL = "not a valid label name"
LABEL_VALUE = "not a valid label value"
KUBELET_LABEL = (
    "the kubelet does not start with an unknown label of kubernetes.io or k8s.io; use a domain of your own, or label "
    "the Nodes once they exist"
)
NO_FLAG = "not a valid flag name; write it without leading dashes, as name: value"
TAINT_KEY = "not a valid taint name"
SECOND_ROLLOUT = (
    "control planes are upgraded in place one machine at a time; remove the field, or set type to RollingUpdate"
)
NO_FALLBACK = "fallback applies only to in-place upgrades; set type to InPlace, or remove it"
EXTERNAL_ETCD_IN_PLACE = "clusters with external etcd are not upgraded in place"
KUBERNETES_STEP = "Kubernetes is upgraded one minor version at a time; upgrade to the versions in between first"
PACKAGES = "the management cluster installs packages of workload clusters; remove the field"

# Networks.
ONE_FAMILY = "pods and services must use the same IP family"
FEW_SERVICES = "kube-apiserver needs at least 8 addresses for services"
NODE_MASK = "each node gets a part of the pod range with this prefix length"
ONE_RANGE = "set exactly one range"
RANGE = "not a range in CIDR notation"
CNI_TWICE = "duplicate CNI; remove the deprecated field"
CNI_UNKNOWN = "unknown CNI"
ONE_CNI = "a cluster has exactly one CNI, like kindnetd: {}"
NATIVE_RANGE = "routingMode direct requires the range that is routed without masquerading"
CILIUM_IS_YOURS = "with skipUpgrade, you manage Cilium's settings; remove one of the two"

# GitOps and identity providers.
GITOPS_CHANGED = (
    "it can't be changed; delete the object and create it again with the other value: clusters that name it continue "
    "without it"
)
IDENTITY_CHANGED = (
    "it can't be changed, because clusters are created with it; create another object, and reference it in "
    "spec.identityProviderRefs of the cluster"
)
NO_CLIENT = "set the client that tokens must be issued for"
ISSUER = "kube-apiserver requires an https URL of the provider"
ONE_CLAIM = "EKS Anywhere enforces only the first claim; keep one"
CLAIM_NAME = (
    "kube-apiserver gets the claim as CLAIM=VALUE, and does not start without a name; set claim to a name without ="
)

NO_REGION = "set the AWS region"
BACKEND_MODE = "not a backend mode of aws-iam-authenticator"
EMPTY_MAPPING = "a mapping lacks its ARN or its username, so it would map nobody; set both"
NO_ARN = "not the ARN of a role or a user of AWS IAM, so it would map nobody"
NO_MAPPING = "mapRoles and mapUsers are stored in a ConfigMap of the cluster; add EKSConfigMap to backendMode"

# Proxies, mirrors, autoscaling.
BOTH_PROXIES = "nodes need a proxy for HTTP and one for HTTPS; set both, they may be the same"
PROXY_ADDRESS = "not a proxy address"
PROXY_WITH_USER = "an address with user or password"
"""Shown in place of such an address: not only its author sees what was rejected."""
MIRROR_ENDPOINT = "set the host of the mirror"
MIRROR_PORT = "not a port"
NO_ISSUER = "set the issuer of service account tokens"
POD_IAM_ISSUER = "AWS reads the issuer's keys from this URL, so it must use https"
NO_RANGE = "minCount must not be greater than maxCount"
COUNT_OUTSIDE = "an autoscaler sets the count; omit it, or set it between minCount and maxCount"
AUTOSCALED_IN_PLACE = "autoscaled groups are not upgraded in place"

# GitOps.
GIT_OPS_KIND = "not a kind that configures GitOps"
