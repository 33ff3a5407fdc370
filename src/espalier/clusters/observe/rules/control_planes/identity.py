"""Rules about authentication."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv6Address

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.fields import HTTPS_URL, HTTPS_URLS
from espalier.api.eksa.vocabulary import sentences
from espalier.api.text.violations import Violation
from espalier.clusters.design.render.api_server.authentication import ISSUER
from espalier.clusters.observe.references import IDENTITY_PROVIDERS

_URL = re.compile(HTTPS_URL.replace("[[]", r"\["))  # in CEL a backslash would have to be doubled
SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc.cluster.local"
"""The values that kubeadm sets unless the Cluster names another one."""
_KINDS = tuple(kind.kind for kind in IDENTITY_PROVIDERS)


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """References to other kinds, duplicate kinds, flags that an object also sets, and invalid issuers."""
    seen: set[str] = set()
    for index, reference in enumerate(spec.identity_provider_refs):
        field = f"spec.identityProviderRefs[{index}].kind"
        if reference.kind not in _KINDS:
            message = "not a kind of identity provider"
            yield Violation(field, reference.kind, " or ".join(_KINDS), message)
        elif reference.kind in seen:
            message = "kube-apiserver uses one of each kind, so the second would have no effect; remove it"
            yield Violation(field, reference.kind, f"one {reference.kind}", message)
        seen.add(reference.kind)
    control_plane = spec.control_plane_configuration
    flags = control_plane.api_server_extra_args if control_plane is not None else {}
    if "OIDCConfig" in seen:
        for flag, value in flags.items():
            if flag.startswith("oidc-"):
                field = f"spec.controlPlaneConfiguration.apiServerExtraArgs.{flag}"
                yield Violation(field, value, "nothing", "the OIDCConfig sets this flag too; remove one of the two")
    if (provider := flags.get("oidc-issuer-url")) is not None:
        yield from shared_issuer(spec, "spec.controlPlaneConfiguration.apiServerExtraArgs.oidc-issuer-url", provider)
    if spec.pod_iam_config is not None and not is_issuer(spec.pod_iam_config.service_account_issuer):
        issuer = spec.pod_iam_config.service_account_issuer
        message = sentences.POD_IAM_ISSUER if issuer else sentences.NO_ISSUER
        yield Violation("spec.podIamConfig.serviceAccountIssuer", issuer or "nothing", HTTPS_URLS, message)


def is_issuer(url: str) -> bool:
    """As the CRDs have it (`is_https_url`)."""
    if not _URL.fullmatch(url):
        return False
    _, bracket, rest = url.partition("[")
    try:
        return not bracket or IPv6Address(rest.partition("]")[0]).ipv4_mapped is None
    except AddressValueError:
        return False


def shared_issuer(spec: eksa.ClusterSpec, field: str, provider: str) -> Iterator[Violation]:
    """A provider of users that is also the issuer of service account tokens.

    kube-apiserver exits at start then: "URL must not overlap with disallowed issuers" (its validation of an
    AuthenticationConfiguration, which it also applies to flags).
    """
    control_plane = spec.control_plane_configuration
    flags = control_plane.api_server_extra_args if control_plane is not None else {}
    named = [flags[ISSUER]] if ISSUER in flags else []
    if spec.pod_iam_config is not None:
        named.append(spec.pod_iam_config.service_account_issuer)
    if provider in (named or [SERVICE_ACCOUNT_ISSUER]):
        message = (
            "kube-apiserver does not start if this provider is also the issuer of service account tokens; "
            "name another provider, or another issuer of those tokens (spec.podIamConfig.serviceAccountIssuer)"
        )
        yield Violation(field, provider, "a URL that is not an issuer of service account tokens", message)
