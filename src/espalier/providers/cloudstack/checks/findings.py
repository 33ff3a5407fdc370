"""Problems in a CloudStack's answers: objects that a spec names and an availability zone lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from espalier.api.text.listing import first
from espalier.clusters.report.checks.limits import MOST_SHOWN
from espalier.providers.cloudstack.checks.questions import Answers, Entity, ObjectType, Question
from espalier.providers.cloudstack.kinds import (
    AvailabilityZone,
    CloudStackDatacenterConfigSpec,
    CloudStackMachineConfigSpec,
    DiskOffering,
)
from espalier.providers.cloudstack.references import availability_zones


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


class Field(NamedTuple):
    """A field of a machine config, the question for its object, and the name of that if the ID is given as well."""

    path: str
    question: Question
    name: str = ""


def of_machines(spec: CloudStackMachineConfigSpec) -> list[Field]:
    """All objects that a machine config names in each zone."""
    named = [
        ("spec.computeOffering", ObjectType.OFFERING, spec.compute_offering),
        ("spec.template", ObjectType.TEMPLATE, spec.template),
        *([("spec.diskOffering", ObjectType.DISK_OFFERING, spec.disk)] if spec.disk is not None else []),
    ]
    return [
        *(
            Field(path, Question.of(type_, object_), object_.name if object_.id else "")
            for path, type_, object_ in named
        ),
        *(
            Field(f"spec.affinityGroupIds[{index}]", Question(ObjectType.AFFINITY_GROUP, group_id, ""))
            for index, group_id in enumerate(spec.affinity_group_ids)
        ),
    ]


def judge_machines(spec: CloudStackMachineConfigSpec, zone: AvailabilityZone, answers: Answers) -> Iterator[str]:
    """Problems of a machine config in an availability zone."""
    zone_label = f"availability zone {zone.name}"
    if answers.zones != 1 or answers.domains != 1 or answers.accounts not in (None, 1):
        yield f"{zone_label}: CloudStack has no such zone, domain or account; see the CloudStackDatacenterConfig"
        return
    for path, question, name in of_machines(spec):
        entities = answers.entities.get(question, ())
        yield from _exactly_one(path, question, zone_label, answers)
        for entity in entities:
            if name and entity.name not in ("", name):
                yield (
                    f"{path}.name: found {name}, but {question.object_type.value} {question.id} of {zone_label} is "
                    f"named {entity.name}; set only the ID or only the name"
                )
        if question.object_type is ObjectType.TEMPLATE and any(not entity.is_ready for entity in entities):
            yield (
                f"{path}.{question.field}: found {question}, which is not ready in {zone_label}; wait, or use another"
            )
        if question.object_type is ObjectType.DISK_OFFERING and spec.disk is not None and len(entities) == 1:
            yield from _size(spec.disk, entities[0], zone_label)


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
