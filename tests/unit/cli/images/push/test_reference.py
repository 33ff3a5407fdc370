"""Names of images in registries."""

from __future__ import annotations

import pytest

from espalier.cli.local.images.push.reference import Reference


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("registry.example/espalier:v1", ("registry.example", "espalier", "v1")),
        ("registry.example:5000/a/b_c/d.e-f:v1.2-3_4", ("registry.example:5000", "a/b_c/d.e-f", "v1.2-3_4")),
        ("localhost/espalier:v1", ("localhost", "espalier", "v1")),
        ("[::1]:5000/espalier:v1", ("[::1]:5000", "espalier", "v1")),
        ("docker.io/team/espalier:v1", ("registry-1.docker.io", "team/espalier", "v1")),
    ],
)
def test_name_has_registry_repository_and_tag(text: str, parts: tuple[str, str, str]) -> None:
    reference = Reference.parse(text)
    assert (reference.host, reference.repository, reference.tag) == parts
    assert str(reference) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found nothing"),
        ("espalier:v1", "without a registry"),
        ("team/espalier:v1", "without a registry"),
        ("registry.example/espalier", "without a tag"),
        ("registry.example:5000/espalier", "without a tag"),
        ("registry.example/espalier:v1@sha256:00", "a digest"),
        ("registry.example/Espalier:v1", "whose repository"),
        ("registry.example/../x:v1", "whose repository"),
        ("registry.example/espalier:v1?x", "whose tag"),
        ("registry.example/espalier:", "whose tag"),
        ("registry.example:99999/espalier:v1", "whose registry"),
        ("[::1]:0/espalier:v1", "whose registry"),
        ("user@registry.example/espalier:v1", "a digest"),
        ("registry.example\n/espalier:v1", "whose registry"),
        ("https://registry.example/espalier:v1", "whose re"),
    ],
)
def test_other_names_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as failure:
        Reference.parse(text)
    assert "allowed: REGISTRY/REPOSITORY:TAG" in str(failure.value)
    assert "\n" not in str(failure.value)
