"""Authentication of users: kube-apiserver's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.identity_providers import OIDCConfig
from espalier.api.kinds import KubeObject
from espalier.clusters.design.provider import RenderInput

K = TypeVar("K", bound=KubeObject)

ISSUER = "service-account-issuer"
OIDC = "oidc-"
"""Prefix of kube-apiserver's flags for an OIDCConfig."""


def linked(render_input: RenderInput, kind: type[K]) -> K | None:
    """The linked object of a kind."""
    return next((child.decode(kind) for child in render_input.children if child.kind == kind.resource.kind), None)


def flags(render_input: RenderInput) -> dict[str, str]:
    """Flags of kube-apiserver for the identity providers of a cluster."""
    oidc = linked(render_input, OIDCConfig)
    return _oidc(oidc) if oidc is not None else {}


def flags_of(control_plane: KubeadmControlPlane) -> dict[str, str]:
    """The same flags, of an existing control plane."""
    configuration = control_plane.spec.kubeadm_config_spec.cluster_configuration
    api_server = configuration.api_server if configuration is not None else None
    args = api_server.extra_args if api_server is not None else ()
    return {arg.name: arg.value for arg in args if arg.name.startswith(OIDC)}


def issuer(render_input: RenderInput) -> Mapping[str, str]:
    """The issuer of service account tokens: an additional one, where flags name another, which signs."""
    pod_iam = render_input.spec.pod_iam_config
    return {ISSUER: pod_iam.service_account_issuer} if pod_iam is not None else {}


def _oidc(config: OIDCConfig) -> dict[str, str]:
    spec = config.spec
    claim = next((f"{required.claim}={required.value}" for required in spec.required_claims), "")
    args = {
        "oidc-client-id": spec.client_id,
        "oidc-groups-claim": spec.groups_claim,
        "oidc-groups-prefix": spec.groups_prefix,
        "oidc-issuer-url": spec.issuer_url,
        "oidc-required-claim": claim,
        "oidc-username-claim": spec.username_claim,
        "oidc-username-prefix": spec.username_prefix,
    }
    return {name: value for name, value in args.items() if value}
