"""Rules about authentication."""

from __future__ import annotations

import re
from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import sentences
from espalier.api.eksa.fields import HTTPS_URL, HTTPS_URLS
from espalier.api.violations import Violation
from espalier.clusters.references import IDENTITY_PROVIDERS

_URL = re.compile(HTTPS_URL.replace("[[]", r"\["))  # in CEL a backslash would have to be doubled
_KINDS = tuple(kind.kind for kind in IDENTITY_PROVIDERS)


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """References to other kinds, duplicate kinds, flags that an object also sets, and an invalid issuer."""
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
    if spec.pod_iam_config is not None and not _URL.search(spec.pod_iam_config.service_account_issuer):
        found = spec.pod_iam_config.service_account_issuer
        message = sentences.POD_IAM_ISSUER if found else sentences.NO_ISSUER
        yield Violation("spec.podIamConfig.serviceAccountIssuer", found or "nothing", HTTPS_URLS, message)
