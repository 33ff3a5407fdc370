"""The conclusions from answers of a CloudStack: each problem is named, with the field and the availability zone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.cloudstack.checks import findings
from espalier.providers.cloudstack.checks.controller import configs
from espalier.providers.cloudstack.checks.questions import Answers, Entity, ObjectType, Query, api_of, place_of
from espalier.providers.cloudstack.kinds import AvailabilityZone, CloudStackDatacenterConfig, CloudStackMachineConfig
from espalier.providers.simulated.cloudstack import simulated_answers
from tests.support.providers.cloudstack import API, disk, manifest, of, zone

THERE: dict[ObjectType, list[Entity]] = {
    ObjectType.NETWORK: [Entity("n1", "network-1")],
    ObjectType.OFFERING: [Entity("o1", "4 CPUs, 8 GB"), Entity("o2", "twice"), Entity("o3", "twice")],
    ObjectType.TEMPLATE: [Entity("t1", "rhel8-kube-v1-35"), Entity("t2", "copied", is_ready=False)],
    ObjectType.DISK_OFFERING: [
        Entity("k1", "Small", is_customized=True),
        Entity("k2", "Fixed", is_customized=False),
        Entity("k3", "Untold"),
    ],
    ObjectType.AFFINITY_GROUP: [Entity("group-a", "a")],
}
ALL_PRESENT = Answers(1, 1, 1)
DEPRECATED: dict[str, Any] = {
    "availabilityZones": [],
    "zones": [{"name": "zone-1", "network": {"name": "network-1"}}],
    "domain": "ROOT",
    "account": "admin",
    "managementApiEndpoint": API,
}


def of_machines(answers: Answers = ALL_PRESENT, **changes: Any) -> list[str]:
    """The problems of the example's machine config, changed."""
    tree = of(manifest(), "CloudStackMachineConfig") | changes
    spec = msgspec.convert({"spec": tree}, CloudStackMachineConfig).spec
    here = msgspec.convert({"spec": {"availabilityZones": [zone("az-1")]}}, CloudStackDatacenterConfig).spec
    entities = {
        question: tuple(
            entity
            for entity in THERE[question.object_type]
            if (entity.id == question.id if question.id else entity.name == question.name)
        )
        for _, question, _ in findings.of_machines(spec)
    }
    answers_of_config = msgspec.structs.replace(answers, entities=entities)
    return list(findings.judge_machines(spec, here.availability_zones[0], answers_of_config))


def of_datacenter(answers: Answers = ALL_PRESENT, **changes: Any) -> list[str]:
    tree = of(manifest(), "CloudStackDatacenterConfig") | changes
    (fields,) = findings.zones_of(msgspec.convert({"spec": tree}, CloudStackDatacenterConfig).spec)
    network = findings.network_of(fields.zone)
    entities = {network: tuple(entity for entity in THERE[ObjectType.NETWORK] if network.name in ("", entity.name))}
    return list(findings.judge_zone(fields, msgspec.structs.replace(answers, entities=entities)))


def test_the_example_has_no_problems() -> None:
    assert of_machines() == of_machines(diskOffering=disk(), affinityGroupIds=["group-a"]) == []
    assert of_machines(computeOffering={"id": "o2", "name": "twice"}, template={"id": "t1"}) == []
    assert of_machines(diskOffering=disk(name="Fixed", customSizeInGB=0)) == []
    assert of_machines(diskOffering=disk(name="Untold")) == []
    assert of_datacenter() == of_datacenter(**DEPRECATED) == of_datacenter(Answers(1, 1, None)) == []


CANT = "or the account may not see it; correct the field, or grant the account access to it"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "offering": (
        {"computeOffering": {"name": "huge"}},
        f"spec.computeOffering.name: found huge; availability zone az-1 has no such compute offering, {CANT}",
    ),
    "offering by ID": (
        {"computeOffering": {"id": "o9", "name": "4 CPUs, 8 GB"}},
        f"spec.computeOffering.id: found o9; availability zone az-1 has no such compute offering, {CANT}",
    ),
    "an ID and another name": (
        {"computeOffering": {"id": "o1", "name": "huge"}},
        "spec.computeOffering.name: found huge, but compute offering o1 of availability zone az-1 is named "
        "4 CPUs, 8 GB; set only the ID or only the name",
    ),
    "two of a name": (
        {"computeOffering": {"name": "twice"}},
        "spec.computeOffering.name: found twice, but availability zone az-1 has 2 compute offerings of this name "
        "(o2, o3); set the ID",
    ),
    "template": (
        {"template": {"name": "none-1-35"}},
        f"spec.template.name: found none-1-35; availability zone az-1 has no such template, {CANT}",
    ),
    "a template that is not ready": (
        {"template": {"id": "t2"}},
        "spec.template.id: found t2, which is not ready in availability zone az-1; wait, or use another",
    ),
    "disk": (
        {"diskOffering": disk(name="None")},
        f"spec.diskOffering.name: found None; availability zone az-1 has no such disk offering, {CANT}",
    ),
    "no size": (
        {"diskOffering": disk(customSizeInGB=0)},
        "spec.diskOffering.customSizeInGB: found nothing, but disk offering Small of availability zone az-1 has no "
        "fixed size; set a size",
    ),
    "a size too many": (
        {"diskOffering": disk(name="Fixed")},
        "spec.diskOffering.customSizeInGB: found 20, but disk offering Fixed of availability zone az-1 has a fixed "
        "size; remove the field",
    ),
    "affinity group": (
        {"affinityGroupIds": ["group-a", "group-z"]},
        f"spec.affinityGroupIds[1]: found group-z; availability zone az-1 has no such affinity group, {CANT}",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_missing_objects_of_machines_are_named(name: str) -> None:
    change, sentence = WRONG[name]
    assert of_machines(**change) == [sentence]


def test_a_missing_zone_is_reported_at_the_datacenter() -> None:
    for answers in (Answers(0), Answers(1, 0), Answers(1, 1, 0)):
        (sentence,) = of_machines(answers)
        assert sentence.endswith("has no such zone, domain or account; see the CloudStackDatacenterConfig")


ZONE = "spec.availabilityZones[0]"


@pytest.mark.parametrize(
    ("answers", "changes", "sentence"),
    [
        (Answers(0), {}, f"{ZONE}.zone.name: found zone-1; CloudStack has no such zone, {CANT}"),
        (Answers(0), DEPRECATED, f"spec.zones[0].name: found zone-1; CloudStack has no such zone, {CANT}"),
        (
            Answers(2),
            {},
            f"{ZONE}.zone.name: found zone-1, but CloudStack has 2 zones of this name; set the ID",
        ),
        (Answers(1, 0), {}, f"{ZONE}.domain: found ROOT; CloudStack has no such domain, {CANT}"),
        (Answers(1, 0), DEPRECATED, f"spec.domain: found ROOT; CloudStack has no such domain, {CANT}"),
        (Answers(1, 1, 0), {}, f"{ZONE}.account: found admin; domain ROOT has no such account, {CANT}"),
        (Answers(1, 1, 0), DEPRECATED, f"spec.account: found admin; domain ROOT has no such account, {CANT}"),
        (
            ALL_PRESENT,
            DEPRECATED | {"zones": [{"name": "zone-1", "network": {"name": "nets"}}]},
            f"spec.zones[0].network.name: found nets; zone zone-1 has no such network, {CANT}",
        ),
    ],
)
def test_the_missing_objects_of_a_zone_are_named(answers: Answers, changes: dict[str, Any], sentence: str) -> None:
    assert of_datacenter(answers, **changes) == [sentence]


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        ({}, Credentials("key", "canary")),
        ({"verify-ssl": b" False "}, Credentials("key", "canary", insecure=True)),
        ({"api-url": b"https://other.example.com/client/api"}, Credentials("", "")),
        ({"api-key": b""}, Credentials("", "")),
        ({"secret-key": b""}, Credentials("", "")),
    ],
)
def test_keys_are_sent_to_the_url_of_their_secret(changes: dict[str, bytes], sent: Credentials) -> None:
    asked_in = msgspec.convert(zone("az-1"), AvailabilityZone)
    asked = Query(api_of(asked_in), place_of(asked_in))
    data = {"api-url": API.encode(), "api-key": b"key", "secret-key": b"canary"} | changes
    assert configs(simulated_answers).api.credentials(data, asked) == sent
