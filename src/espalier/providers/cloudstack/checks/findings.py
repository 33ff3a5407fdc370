"""Problems in a CloudStack's answers: objects that a spec names and an availability zone lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from espalier.api.listing import first
from espalier.providers.cloudstack.checks.questions import Answers, Entity, ObjectType, Question
from espalier.providers.cloudstack.kinds import (
    AvailabilityZone,
    CloudStackDatacenterConfigSpec,
    CloudStackMachineConfigSpec,
    DiskOffering,
    Named,
)
from espalier.providers.cloudstack.references import availability_zones

MOST_SHOWN = 5


class ZoneFields(NamedTuple):
    """An availability zone, and the fields that describe it."""

    zone: AvailabilityZone
    zones: str
    """The field that has `zone.name` and `zone.network`."""
    domain: str
    account: str


def zones_of(spec: CloudStackDatacenterConfigSpec) -> list[ZoneFields]:
    """The availability zones of a datacenter, with their fields."""
    zones = []
    for index, zone in enumerate(availability_zones(spec)):
        field = f"spec.availabilityZones[{index}]"
        if spec.availability_zones:
            zones.append(ZoneFields(zone, f"{field}.zone", f"{field}.domain", f"{field}.account"))
        else:
            zones.append(ZoneFields(zone, f"spec.zones[{index}]", "spec.domain", "spec.account"))
    return zones


def network_of(zone: AvailabilityZone) -> Question:
    """The question for the network of an availability zone."""
    return Question.of(ObjectType.NETWORK, zone.zone.network)


def judge_zone(fields: ZoneFields, answers: Answers) -> Iterator[str]:
    """Problems of an availability zone of a datacenter."""
    zone = fields.zone
    place, network = Question.of(ObjectType.ZONE, zone.zone), network_of(zone)
    if answers.zones != 1:
        yield _counted(f"{fields.zones}.{place.field}", str(place), "CloudStack", "zone", answers.zones)
    elif answers.domains != 1:
        yield _counted(fields.domain, zone.domain, "CloudStack", "domain", answers.domains or 0)
    elif answers.accounts not in (None, 1):
        yield _counted(fields.account, zone.account, f"domain {zone.domain}", "account", answers.accounts or 0)
    else:
        yield from _exactly_one(f"{fields.zones}.network", network, f"zone {place}", answers)


_OBJECT_TYPES = {
    "spec.computeOffering": ObjectType.OFFERING,
    "spec.template": ObjectType.TEMPLATE,
    "spec.diskOffering": ObjectType.DISK_OFFERING,
}


def _named(spec: CloudStackMachineConfigSpec) -> dict[str, Named]:
    """The objects that a machine config names in each zone."""
    objects: dict[str, Named] = {"spec.computeOffering": spec.compute_offering, "spec.template": spec.template}
    return objects | ({"spec.diskOffering": spec.disk} if spec.disk is not None else {})


def of_machines(spec: CloudStackMachineConfigSpec) -> dict[str, Question]:
    """Questions for all objects that a machine config names, by field."""
    questions = {field: Question.of(_OBJECT_TYPES[field], named) for field, named in _named(spec).items()}
    groups = {
        f"spec.affinityGroupIds[{index}]": Question(ObjectType.AFFINITY_GROUP, group_id, "")
        for index, group_id in enumerate(spec.affinity_group_ids)
    }
    return questions | groups


def judge_machines(spec: CloudStackMachineConfigSpec, zone: AvailabilityZone, answers: Answers) -> Iterator[str]:
    """Problems of a machine config in an availability zone."""
    zone_label = f"availability zone {zone.name}"
    if answers.zones != 1 or answers.domains != 1 or answers.accounts not in (None, 1):
        yield f"{zone_label}: CloudStack has no such zone, domain or account; see the CloudStackDatacenterConfig"
        return
    for field, question in of_machines(spec).items():
        yield from _exactly_one(field, question, zone_label, answers)
    for field, named in _named(spec).items():
        question = of_machines(spec)[field]
        for entity in answers.entities.get(question, ()):
            if named.id and named.name and entity.name not in ("", named.name):
                yield (
                    f"{field}.name: found {named.name}, but {question.object_type.value} {named.id} of {zone_label} is "
                    f"named {entity.name}; set only the ID or only the name"
                )
    template = Question.of(ObjectType.TEMPLATE, spec.template)
    if [entity for entity in answers.entities.get(template, ()) if not entity.is_ready]:
        yield (
            f"spec.template.{template.field}: found {template}, which is not ready in {zone_label}; wait, or use "
            "another"
        )
    if spec.disk is not None:
        offerings = answers.entities.get(Question.of(ObjectType.DISK_OFFERING, spec.disk), ())
        if len(offerings) == 1:
            yield from _size(spec.disk, offerings[0], zone_label)


def _size(disk: DiskOffering, offering: Entity, zone_label: str) -> Iterator[str]:
    field, size = "spec.diskOffering.customSizeInGB", disk.custom_size_in_gb
    name = offering.name or offering.id
    if offering.is_customized and size == 0:
        yield f"{field}: found nothing, but disk offering {name} of {zone_label} has no fixed size; set a size"
    elif size and offering.is_customized is False:
        yield f"{field}: found {size}, but disk offering {name} of {zone_label} has a fixed size; remove the field"


def _exactly_one(field: str, question: Question, zone_label: str, answers: Answers) -> Iterator[str]:
    """A problem unless there is exactly one object."""
    entities = answers.entities.get(question, ())
    if len(entities) != 1:
        naming_field = field if question.object_type is ObjectType.AFFINITY_GROUP else f"{field}.{question.field}"
        yield _counted(naming_field, str(question), zone_label, question.object_type.value, len(entities), entities)


def _counted(field: str, name: str, zone_label: str, label: str, count: int, entities: Sequence[Entity] = ()) -> str:
    if not count:
        return (
            f"{field}: found {name}; {zone_label} has no such {label}, or the account may not see it; "
            "correct the field, or grant the account access to it"
        )
    shown = first([entity.id for entity in entities], MOST_SHOWN)
    ids = f" ({shown})" if shown else ""
    advice = "set the ID" if label not in ("domain", "account") else "give the full path of the domain"
    return f"{field}: found {name}, but {zone_label} has {count} {label}s of this name{ids}; {advice}"
