"""Secrets: eleven are generated once and persisted; all others are derived anew from them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.trees import yaml_trees
from espalier.kube.connection.pki import KeyPair
from espalier.shoots.secrets import derived, names, persisted
from espalier.shoots.secrets.persisted import Data, InvalidSecret

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = "shoot--dev--apple"


def generated(seed: int = 1, **present: Data) -> dict[str, Data]:
    return persisted.generate(present, namespace=SPACE, now=NOW, rng=random.Random(seed))


ALL = generated()


@pytest.mark.demand("G6", "G14")
def test_the_eleven_of_the_proposal_are_generated() -> None:
    assert tuple(ALL) == names.PERSISTED
    assert set(ALL["ca"]) == {"ca.crt", "ca.key"}
    assert "id_rsa" in ALL["ssh-keypair"]


@pytest.mark.demand("G30")
@given(st.sets(st.sampled_from(names.PERSISTED)))
def test_an_existing_secret_is_never_generated_again(existing: set[str]) -> None:
    present = {name: ALL[name] for name in existing}
    made = persisted.generate(present, namespace=SPACE, now=NOW, rng=random.Random(2))
    assert made.keys() == set(names.PERSISTED) - existing


def test_carried_api_certificate_names_no_address() -> None:
    certificate = KeyPair(ALL["kube-apiserver"]["kube-apiserver.crt"], b"").x509
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.IPAddress) == []
    assert f"kube-apiserver.{SPACE}.svc" in alternatives.get_values_for_type(x509.DNSName)
    certificate.verify_directly_issued_by(KeyPair(ALL["ca"]["ca.crt"], b"").x509)


def test_keys_are_on_p256() -> None:
    key = load_pem_private_key(ALL["service-account-key"]["id_rsa"], None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    ssh = load_ssh_private_key(ALL["ssh-keypair"]["id_rsa"], None)
    assert isinstance(ssh, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)


def test_encryption_configuration_has_key_of_its_own() -> None:
    text = ALL["etcd-encryption-secret"]["encryption-configuration.yaml"].decode()
    assert yaml_trees.trees(text, "secret")[0]["kind"] == "EncryptionConfiguration"
    assert text != generated(2)["etcd-encryption-secret"]["encryption-configuration.yaml"].decode()


@pytest.mark.demand("G7")
def test_derived_secrets_verify_and_differ_by_seed() -> None:
    here = derived.derive(ALL, {}, namespace=SPACE, now=NOW, rng=random.Random(3))
    there = derived.derive(ALL, {}, namespace=SPACE, now=NOW, rng=random.Random(4))
    assert set(here) == set(derived.CERTIFICATES)
    assert not set(here) & set(names.PERSISTED)
    for name in derived.CERTIFICATES:
        assert here[name] != there[name]
    for place in (here, there):
        certificate = KeyPair(place["kube-scheduler"]["kube-scheduler.crt"], b"").x509
        certificate.verify_directly_issued_by(KeyPair(ALL["ca"]["ca.crt"], b"").x509)
        assert b"kube-apiserver.shoot--dev--apple.svc" in place["kube-scheduler"]["kubeconfig"]


def test_nothing_is_derived_again_while_it_is_fresh() -> None:
    present = derived.derive(ALL, {}, namespace=SPACE, now=NOW, rng=random.Random(3))
    assert derived.derive(ALL, present, namespace=SPACE, now=NOW) == {}


def test_certificates_near_their_end_are_derived_again() -> None:
    present = derived.derive(ALL, {}, namespace=SPACE, now=NOW, rng=random.Random(3))
    due = derived.outdated(ALL, present, namespace=SPACE, now=NOW + timedelta(days=61))
    assert set(due) == set(derived.CERTIFICATES)


def test_certificates_of_another_authority_are_renewed() -> None:
    present = derived.derive(generated(9), {}, namespace=SPACE, now=NOW, rng=random.Random(3))
    due = derived.outdated(ALL, present, namespace=SPACE, now=NOW)
    assert set(due) == set(derived.CERTIFICATES)


@pytest.mark.parametrize("file", ["gardenlet.crt", "gardenlet.key", "ca.crt", "kubeconfig"])
@pytest.mark.parametrize("change", ["missing", "malformed", "of another seed"])
def test_changed_derived_secret_is_derived_again(file: str, change: str) -> None:
    present = derived.derive(ALL, {}, namespace=SPACE, now=NOW, rng=random.Random(3))
    other = derived.derive(generated(9), {}, namespace=SPACE, now=NOW, rng=random.Random(4))
    contents = {"missing": {}, "malformed": {file: b"x"}, "of another seed": {file: other["gardenlet"][file]}}
    unchanged = {name: content for name, content in present["gardenlet"].items() if name != file}
    changed = {**present, "gardenlet": unchanged | contents[change]}
    assert derived.outdated(ALL, changed, namespace=SPACE, now=NOW) == ("gardenlet",)


def test_what_others_add_to_a_derived_secret_stays() -> None:
    present = derived.derive(ALL, {}, namespace=SPACE, now=NOW, rng=random.Random(3))
    present["gardenlet"]["note"] = b"of an operator"
    assert derived.outdated(ALL, present, namespace=SPACE, now=NOW) == ()


@pytest.mark.parametrize(
    "broken", [{}, {"ca.crt": b"x", "ca.key": b"y"}, {**ALL["ca"], "ca.key": ALL["ca-kubelet"]["ca.key"]}]
)
def test_broken_carried_authority_is_named_and_kept(broken: Data) -> None:
    present = derived.derive(ALL, {}, namespace=SPACE, now=NOW)
    with pytest.raises(InvalidSecret, match="not a matching pair"):
        derived.outdated({**ALL, "ca": broken}, present, namespace=SPACE, now=NOW)
