"""`security.gardener.cloud/v1alpha1 CredentialsBinding`: which credentials shoots use at a provider."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from espalier.api.gardener.garden.seed import CredentialsReference
from espalier.api.gardener.garden.shoot import ShootSpec
from espalier.api.kinds import AGE, Column, KubeObject, kind
from espalier.api.meta import Part
from espalier.api.resource import Resource

GROUP, VERSION = "security.gardener.cloud", "v1alpha1"


class CredentialsBindingProvider(Part):
    """Type of the infrastructure."""

    type: str


@kind(
    Resource(GROUP, VERSION, "credentialsbindings", "CredentialsBinding"),
    columns=(
        Column("Provider", ".provider.type", "string", "Type of the infrastructure"),
        Column("Credentials Kind", ".credentialsRef.kind", "string", "Kind of the credentials"),
        Column("Credentials", ".credentialsRef.name", "string", "Name of the credentials"),
        AGE,
    ),
    partly=True,
)
class CredentialsBinding(KubeObject, kw_only=True):
    """The credentials that shoots of a namespace use at a provider."""

    credentials_ref: Annotated[
        CredentialsReference, Meta(description="A Secret of the same namespace, which alone a gardenlet may read.")
    ]
    provider: CredentialsBindingProvider | None = None


def named_credentials(spec: ShootSpec) -> tuple[str, str]:
    """The field of a Shoot that names its credentials, and the name; empty if the Shoot names none."""
    if spec.credentials_binding_name:
        return "spec.credentialsBindingName", spec.credentials_binding_name
    return "spec.secretBindingName", spec.secret_binding_name


def secret_of(spec: ShootSpec, binding: CredentialsBinding | None) -> str:
    """The Secret with a shoot's credentials, in the Shoot's namespace; empty if the Shoot names none.

    `binding` is the CredentialsBinding of the name in the Shoot. Without it the Shoot names the Secret itself: gardens
    had no CredentialsBindings before. Raises `ValueError` for credentials that no gardenlet of ours can read.
    """
    _, name = named_credentials(spec)
    if not spec.credentials_binding_name or binding is None:
        return name
    reference, namespace = binding.credentials_ref, binding.metadata.namespace
    if (reference.kind or "Secret") != "Secret" or reference.namespace not in ("", namespace):
        other = f"{reference.kind or 'Secret'} {reference.namespace}/{reference.name}"
        raise ValueError(
            f"credentialsRef of CredentialsBinding {namespace}/{name}: found {other}, allowed: a Secret of namespace "
            f"{namespace}; name such a Secret"
        )
    return reference.name
