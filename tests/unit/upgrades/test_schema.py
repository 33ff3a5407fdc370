"""API servers refuse upgrades in place whose texts would reach kubeadm, and programs that run as root on nodes."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.kinds import KubeObject
from espalier.api.manifests import schema
from tests.support.objects.upgrade_objects import SPECS

FIELDS = [(kind, field) for kind, spec in SPECS.items() for field in spec if field.endswith("Version")]
INJECTED = (
    "{0}\n    imageRepository: evil.example/x",
    "{0} --x",
    "{0}'",
    '{0}"',
    "{0};",
    "{0}: x",
    "../{0}",
    "{0}/x",
    "",
)


def violations(kind: type[KubeObject], spec: Any) -> list[str]:
    body = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": {"name": "a"}}
    return [violation.field for violation in schema.violations(kind, {**body, "spec": spec})]


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
def test_upgrades_as_they_are_made_are_accepted(kind: type[KubeObject]) -> None:
    assert violations(kind, SPECS[kind]) == []


@pytest.mark.parametrize("text", INJECTED)
@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=lambda kind: getattr(kind, "__name__", kind))
def test_no_version_takes_more_than_a_version(kind: type[KubeObject], field: str, text: str) -> None:
    spec = SPECS[kind]
    assert violations(kind, spec | {field: text.format(spec[field])}) == [f"spec.{field}"]
