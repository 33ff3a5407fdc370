"""Messages of refused fields: one for each rule that needs only the object itself.

The CRDs say it (CEL, also when no manager runs) and the webhooks say it: so it stands here, below both.
"""

# The cluster.
NAME_FORM = "the name is part of host names, so it must be a DNS label that begins with a letter; choose another name"
NAME_SHORT = "EKS Anywhere takes no names of a single letter; choose a longer one"
NAME_LENGTH = "the name is too long: names of machines begin with it; choose a shorter one"
NO_KUBERNETES_VERSION = 'give the Kubernetes minor version in quotes, like "1.35"'
NO_DATACENTER = "say where the machines run"
NO_CONTROL_PLANE = "say how many machines it has, like count: 1"
NO_NETWORK = "give pods, services and cniConfig"

# Release and Bundles.
BOTH = "spec.eksaVersion already says which Bundles are used; remove spec.bundlesRef, which is deprecated"
NEW_WITH_BUNDLES = (
    "a new cluster uses the Bundles of its release; remove spec.bundlesRef, which is deprecated, and set "
    "spec.eksaVersion, or leave both out to get the release of the management cluster"
)
BUNDLES_CHANGED = (
    "it can't be changed in an existing cluster; to use other Bundles, remove spec.bundlesRef and set "
    "spec.eksaVersion in the same write"
)
BUNDLES_CLEARED_ALONE = "set spec.eksaVersion in the same write that removes spec.bundlesRef"
VERSION_UNSET = (
    "it can be changed, but not removed; if GitOps (Flux, Argo CD) applies a manifest without "
    "the field, put it into the manifest in Git"
)
NOT_SEMVER = "not a semantic version"
RELEASE_NAME = "the name of an EKSARelease follows from its version, so that there is one of each; give it this name"
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
OTHER_KUBERNETES = "the EKS Distro Release {release} that it references is of Kubernetes {version}"
BRING_DISTRO = "import it with `espalier releases import`, or restart the manager, which installs its own releases"

# Machines.
EVEN = "etcd runs on these machines and needs a majority, so their number must be odd"
NO_SUCCESSOR = "with fewer than 3 machines, none can be removed before its replacement exists"
ETCD_EVEN = "the count must be odd, so that a majority can be found"
CERTIFICATE_NAME = "a certificate can only be for addresses and DNS names"
NO_GROUPS = "give a worker node group, like name: md-0, count: 1"
GROUP_TWICE = "two groups have this name; names of groups are unique in a cluster"
GROUP_NAME = "names of machines contain it, so it must be a short DNS label"
WORKER_LAG = "workers may not be newer than the control plane, nor more than 2 minor versions older"
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
    "with a label of kubernetes.io or k8s.io that it does not know, kubelet does not start; choose a domain of your "
    "own, or label the Nodes once they are there"
)
NO_FLAG = "not a valid flag name; omit the leading dashes, and give its value as the value"
TAINT_KEY = "not a valid taint name"
SECOND_ROLLOUT = (
    "control planes are upgraded in place one machine at a time; remove the field, or set type to RollingUpdate"
)
NO_FALLBACK = "a fallback is for machines that are upgraded in place; set type to InPlace, or remove it"
EXTERNAL_ETCD_IN_PLACE = "external etcd is not upgraded in place"
KUBERNETES_STEP = "Kubernetes is upgraded one minor version at a time; upgrade to those in between first, one by one"
PACKAGES = "packages of workload clusters are installed by their management cluster; remove the field"

# Networks.
ONE_FAMILY = "pods and services need addresses of the same family"
FEW_SERVICES = "kube-apiserver needs at least 8 addresses for services"
NODE_MASK = "each node gets a part of the range of pods with this prefix length"
ONE_RANGE = "give one range"
RANGE = "not a range in CIDR notation"
CNI_TWICE = "duplicate CNI; remove the deprecated field"
CNI_UNKNOWN = "unknown CNI"
ONE_CNI = "a cluster has exactly one CNI, like kindnetd: {}"
NATIVE_RANGE = "with routingMode direct, say which range is routed without masquerading"
CILIUM_IS_YOURS = "with skipUpgrade, Cilium's settings are yours; remove one of the two"

# Identity providers.
IDENTITY_CHANGED = (
    "it can't be changed, because clusters are created with it; create another object, and name that in "
    "spec.identityProviderRefs of the cluster"
)
NO_CLIENT = "say for which client tokens must be issued"
ISSUER = "kube-apiserver asks the provider by a URL with https"
ONE_CLAIM = "EKS Anywhere requires the first claim alone; keep one"

NO_REGION = "say of which region of AWS"
BACKEND_MODE = "not where the authenticator keeps who may log in"
NO_MAPPING = "mapRoles and mapUsers are kept in a ConfigMap of the cluster; add EKSConfigMap to backendMode"

# Proxies, mirrors, autoscaling.
BOTH_PROXIES = "nodes need a proxy for HTTP and one for HTTPS; give both, they may be the same"
PROXY_ADDRESS = "not the address of a proxy"
PROXY_WITH_USER = "an address with user or password"
"""In place of such an address: what is refused is shown to others than its author."""
MIRROR_ENDPOINT = "say where the mirror is"
MIRROR_PORT = "not a port"
NO_ISSUER = "say who issues the tokens of service accounts"
POD_IAM_ISSUER = "AWS asks the issuer for its keys by this URL, with https"
NO_RANGE = "minCount must not be more than maxCount"
COUNT_OUTSIDE = "an autoscaler sets the count; leave it out, or give one within minCount and maxCount"
AUTOSCALED_IN_PLACE = "machines that an autoscaler adds and removes are not upgraded in place"

# GitOps.
GIT_OPS_KIND = "GitOps is configured by objects of other kinds"
