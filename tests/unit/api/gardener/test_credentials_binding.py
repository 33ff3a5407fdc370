"""Which Secret has the credentials of a shoot."""

from __future__ import annotations

import pytest

from espalier.api.gardener.garden.credentials_binding import CredentialsBinding, named_credentials, secret_of
from espalier.api.gardener.garden.seed import CredentialsReference
from espalier.api.gardener.garden.shoot import Provider, ShootSpec
from espalier.api.meta import ObjectMeta


def spec(**fields: str) -> ShootSpec:
    return ShootSpec(provider=Provider(type="local"), **fields)  # type: ignore[arg-type]


def binding(namespace: str = "garden-dev", kind: str = "Secret") -> CredentialsBinding:
    reference = CredentialsReference(name="account", namespace=namespace, kind=kind)
    return CredentialsBinding(
        metadata=ObjectMeta(name="cloud", namespace="garden-dev"), credentials_ref=reference, provider=None
    )


BOUND = spec(credentials_binding_name="cloud")


def test_a_binding_names_the_secret() -> None:
    assert secret_of(BOUND, binding()) == secret_of(BOUND, binding(kind="")) == "account"


def test_without_binding_the_shoot_names_the_secret() -> None:
    assert secret_of(BOUND, None) == "cloud"
    assert secret_of(spec(secret_binding_name="cloud"), binding()) == "cloud"
    assert secret_of(spec(), None) == ""


@pytest.mark.parametrize("other", [binding("garden-other"), binding(kind="WorkloadIdentity")])
def test_credentials_elsewhere_are_refused(other: CredentialsBinding) -> None:
    with pytest.raises(ValueError, match=r"CredentialsBinding garden-dev/cloud: found .*, allowed: a Secret of names"):
        secret_of(BOUND, other)


def test_messages_name_the_field_in_use() -> None:
    assert named_credentials(BOUND) == ("spec.credentialsBindingName", "cloud")
    assert named_credentials(spec(secret_binding_name="cloud")) == ("spec.secretBindingName", "cloud")
    assert named_credentials(spec()) == ("spec.secretBindingName", "")
