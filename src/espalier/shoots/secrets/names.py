"""Names of a shoot's secrets, and the names under which its API server is reached."""

from __future__ import annotations

CA = "ca"
CA_FRONT_PROXY = "ca-front-proxy"
CA_KUBELET = "ca-kubelet"
CA_METRICS_SERVER = "ca-metrics-server"
ETCD_ENCRYPTION = "etcd-encryption-secret"
KUBE_AGGREGATOR = "kube-aggregator"
KUBE_APISERVER = "kube-apiserver"
BASIC_AUTH = "kube-apiserver-basic-auth"
SERVICE_ACCOUNT_KEY = "service-account-key"
SSH_KEYPAIR = "ssh-keypair"
STATIC_TOKEN = "static-token"  # noqa: S105 - the name of a secret

PERSISTED = (
    CA,
    CA_FRONT_PROXY,
    STATIC_TOKEN,
    CA_KUBELET,
    CA_METRICS_SERVER,
    ETCD_ENCRYPTION,
    KUBE_AGGREGATOR,
    BASIC_AUTH,
    KUBE_APISERVER,
    SERVICE_ACCOUNT_KEY,
    SSH_KEYPAIR,
)
"""The secrets that are persisted in the ShootState, the same in each seed: the proposal's list, in its order."""

CA_ETCD_PEER = "ca-etcd-peer"
ETCD_PEER = "etcd-peer"
ETCD_CLIENT = "etcd-client"
KUBELET_CLIENT = "kube-apiserver-kubelet"
METRICS_SERVER = "metrics-server"
ADMIN_KUBECONFIG = "kubeconfig"
CLOUD_PROVIDER = "cloudprovider"
"""The user's credentials at the provider: neither persisted nor derived, but copied from the garden."""


def server_names(namespace: str) -> tuple[str, ...]:
    """The DNS names in the API server's certificate. No address: the certificate is persisted, and addresses differ by
    seed."""
    service = KUBE_APISERVER
    inside = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    return (*inside, service, f"{service}.{namespace}", f"{service}.{namespace}.svc", "localhost")
