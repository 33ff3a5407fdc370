"""The example with what connects it to a company: registry mirrors, proxies, identity providers, credentials."""

from __future__ import annotations

from typing import Any

from espalier.api.eksa.identity_providers import OIDCConfig
from espalier.api.meta import Tree
from espalier.clusters.design.secrets import credentials
from tests.support.objects.observed_clusters import NAMESPACE

AUTHORITY = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

MIRROR = {
    "endpoint": "mirror.example.com",
    "port": "5000",
    "caCertContent": AUTHORITY,
    "ociNamespaces": [
        {"registry": "public.ecr.aws", "namespace": "eks"},
        {"registry": "783794618700.dkr.ecr.us-west-2.amazonaws.com", "namespace": "curated-packages"},
    ],
}

CONNECTED: dict[str, dict[str, Any]] = {
    "registry-mirror": {"registryMirrorConfiguration": MIRROR},
    "registry-mirror-with-password": {
        "registryMirrorConfiguration": {
            "endpoint": "10.0.0.9",
            "port": "443",
            "authenticate": True,
            "insecureSkipVerify": True,
        },
    },
    "proxy": {
        "proxyConfiguration": {
            "httpProxy": "http://proxy.example.com:3128",
            "httpsProxy": "http://proxy.example.com:3129",
            "noProxy": ["10.9.0.0/16", "example.com"],
        },
    },
    "proxy-with-password": {
        "proxyConfiguration": {"httpProxy": "http://a:p%40ss@proxy:3128", "httpsProxy": "http://a:p%40ss@proxy:3128"},
    },
    "oidc": {"identityProviderRefs": [{"kind": "OIDCConfig", "name": "company"}]},
    "pod-iam": {"podIamConfig": {"serviceAccountIssuer": "https://s3.example.com/garden"}},
    "autoscaling": {
        "workerNodeGroupConfigurations": [{"name": "md-0", "autoscalingConfiguration": {"minCount": 1, "maxCount": 5}}]
    },
    "external-etcd": {
        "externalEtcdConfiguration": {"count": 3},
        "registryMirrorConfiguration": {"endpoint": "mirror.example.com", "port": "5000", "caCertContent": AUTHORITY},
        "proxyConfiguration": {"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"},
    },
    "admission-exclusions": {
        "controlPlaneConfiguration": {"count": 1, "skipAdmissionForSystemResources": True},
    },
}
"""By what it tells of: fields of a spec."""

COMPANY: Tree = {
    "apiVersion": OIDCConfig.resource.api_version,
    "kind": "OIDCConfig",
    "metadata": {"name": "company", "namespace": NAMESPACE, "uid": "oidc", "generation": 1, "resourceVersion": "1"},
    "spec": {
        "issuerUrl": "https://login.example.com",
        "clientId": "kubernetes",
        "usernameClaim": "email",
        "usernamePrefix": "oidc:",
        "groupsClaim": "groups",
        "groupsPrefix": "oidc:",
        "requiredClaims": [{"claim": "department", "value": "garden"}],
    },
}

PASSWORD: Tree = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "registry-credentials",
        "namespace": "eksa-system",
        "uid": "secret",
        "resourceVersion": "1",
        "annotations": {credentials.SERVERS: "10.0.0.9:443,mirror:443", credentials.NAMESPACES: "*"},
    },
    "data": {"username": "YWRtaW4=", "password": "cGFzc3dvcmQ="},
}
