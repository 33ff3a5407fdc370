"""Fields of a Shoot that its CloudProfile has to offer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.cli.local.environment.garden import garden_objects
from espalier.shoots.admission.shoot_rules.offers import violations

PROFILE = msgspec.convert(garden_objects.cloud_profile(), CloudProfile)


def shoot(**spec: object) -> Shoot:
    return msgspec.convert(garden_objects.shoot("a", "garden-dev", version="1.35.4", nodes=(1, 2), **spec), Shoot)


def pool(**fields: object) -> Tree:
    machine = {"type": "small", "image": {"name": "local", "version": "1.0.0"}}
    return {"name": "pool", "machine": machine, "minimum": 1, "maximum": 2, **fields}


BAD = {
    "cloudProfileName": "other",
    "credentialsBindingName": "a",
    "secretBindingName": "b",
    "purpose": "fun",
    "region": "there",
    "provider": {
        "type": "aws",
        "workers": [pool(name="A" * 16, maxSurge=0, maxUnavailable="0%", maximum=0, minimum=0)],
    },
}


def test_each_wrong_field_of_a_new_shoot_is_named() -> None:
    assert [problem.field for problem in violations(None, shoot(**BAD), PROFILE)] == [
        "spec.cloudProfileName",
        "spec.provider.type",
        "spec.purpose",
        "spec.secretBindingName",
        "spec.region",
        "spec.provider.workers[0].name",
        "spec.provider.workers[0].maxUnavailable",
        "spec.provider.workers",
    ]


@pytest.mark.parametrize("profile", [PROFILE, None])
def test_what_is_stored_is_not_reviewed(profile: CloudProfile | None) -> None:
    assert list(violations(shoot(**BAD), shoot(**BAD, hibernation={"enabled": True}), profile)) == []


def test_another_profile_has_to_offer_all() -> None:
    old = shoot(cloudProfile={"name": "old"}, region="there")
    new = shoot(region="there", provider={"type": "local", "workers": [pool(machine={"type": "huge"})]})
    fields = [problem.field for problem in violations(old, new, PROFILE)]
    assert fields == ["spec.region", "spec.provider.workers[0].machine.type"]


def test_older_form_of_a_profile_is_the_same() -> None:
    fields = {"region": "there", "provider": {"type": "aws", "workers": [pool(machine={"type": "huge"})]}}
    old = shoot(cloudProfile=None, cloudProfileName="local", **fields)
    assert list(violations(old, shoot(cloudProfileName="local", **fields), PROFILE)) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"secretBindingName": "b"}, "spec.secretBindingName"),
        ({"cloudProfileName": "other"}, "spec.cloudProfileName"),
        ({"cloudProfile": {"name": "local", "kind": "NamespacedCloudProfile"}}, "spec.cloudProfile.kind"),
        ({"provider": {"type": "aws", "workers": [pool()]}}, "spec.provider.type"),
        ({"provider": {"type": "local", "workers": [pool(maxSurge=0)]}}, "spec.provider.workers[0].maxUnavailable"),
    ],
)
def test_a_changed_field_is_reviewed(change: dict[str, Any], field: str) -> None:
    assert [problem.field for problem in violations(shoot(), shoot(**change), PROFILE)] == [field]


def test_a_profile_without_lists_offers_everything() -> None:
    empty = msgspec.convert({"metadata": {"name": "local"}, "spec": {"type": "local"}}, CloudProfile)
    assert list(violations(None, shoot(region="there"), empty)) == []


def test_shoot_without_profile_is_not_reviewed() -> None:
    assert list(violations(None, shoot(cloudProfile=None, region="there"), None)) == []


def test_a_new_pool_has_to_be_offered() -> None:
    workers = [pool(), pool(name="new", machine={"type": "small", "image": {"name": "local", "version": "2.0.0"}})]
    new = shoot(provider={"type": "local", "workers": workers})
    (problem,) = violations(shoot(), new, PROFILE)
    assert (problem.field, problem.allowed) == ("spec.provider.workers[1].machine.image.version", "1.0.0")
