"""Problems in a Prism Central's answers: objects that a spec names and Prism Central lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from espalier.api.text.listing import first
from espalier.clusters.design.cluster_objects.machine_groups import names_version
from espalier.clusters.report.checks.limits import MOST_SHOWN
from espalier.providers.nutanix.checks.questions import Answers, CategoryValue, Entity, GpuModel, ObjectType, Question
from espalier.providers.nutanix.kinds import Gpu, Identifier, NutanixDatacenterConfigSpec, NutanixMachineConfigSpec
from espalier.providers.nutanix.references import other_version


class Named(NamedTuple):
    """A field of a spec and the entity that it names."""

    field: str
    object_type: ObjectType
    identifier: Identifier

    @property
    def question(self) -> Question:
        """The question for the entity."""
        return Question.of(self.object_type, self.identifier)


class Place(NamedTuple):
    """A cluster, and subnets that must be its own."""

    cluster: Named
    subnets: tuple[Named, ...]

    @classmethod
    def of(cls, field: str, cluster: Identifier, subnets: Mapping[str, Identifier]) -> Place:
        """The place that is named by field `cluster`, and by the fields of subnets beside it."""
        named = (Named(f"{field}.{name}", ObjectType.SUBNET, subnet) for name, subnet in subnets.items())
        return cls(Named(f"{field}.cluster", ObjectType.CLUSTER, cluster), tuple(named))


def of_datacenter(spec: NutanixDatacenterConfigSpec) -> list[Place]:
    """All entities that the failure domains of a datacenter name."""
    return [
        Place.of(
            f"spec.failureDomains[{index}]",
            domain.cluster,
            {f"subnets[{number}]": subnet for number, subnet in enumerate(domain.subnets)},
        )
        for index, domain in enumerate(spec.failure_domains)
    ]


def of_machines(spec: NutanixMachineConfigSpec) -> tuple[Place, list[Named]]:
    """All entities that a machine config names: its place, and the others, its image first."""
    project = [Named("spec.project", ObjectType.PROJECT, spec.project)] if spec.project is not None else []
    image = Named("spec.image", ObjectType.IMAGE, spec.image)
    return Place.of("spec", spec.cluster, {"subnet": spec.subnet}), [image, *project]


def questions(places: Iterable[Place], others: Iterable[Named] = ()) -> frozenset[Question]:
    """Questions for all of these entities."""
    in_places = [named for place in places for named in (place.cluster, *place.subnets)]
    return frozenset(named.question for named in (*in_places, *others))


def categories(spec: NutanixMachineConfigSpec) -> frozenset[CategoryValue]:
    """The categories of a machine config."""
    return frozenset(CategoryValue(category.key, category.value) for category in spec.additional_categories)


def judge_datacenter(spec: NutanixDatacenterConfigSpec, answers: Answers) -> Iterator[str]:
    """Problems of failure domains."""
    for place in of_datacenter(spec):
        yield from _judge_place(place, answers)


def judge_machines(
    spec: NutanixMachineConfigSpec, elements: Sequence[Identifier], answers: Answers, versions: Iterable[str]
) -> Iterator[str]:
    """Problems of machines with these Kubernetes versions. GPUs must be in the clusters `elements`."""
    place, others = of_machines(spec)
    yield from _judge_place(place, answers)
    for named in others:
        entities = answers.entities.get(named.question, ())
        yield from _exactly_one(named, entities)
        for entity in entities[:1]:
            if named.object_type is ObjectType.IMAGE and entity.name:
                for version in versions:
                    if not names_version(entity.name, version):
                        yield f"{named.field}: {other_version(entity.name, version)}"
    for index, category in enumerate(spec.additional_categories):
        if (value := CategoryValue(category.key, category.value)) not in answers.categories:
            yield (
                f"spec.additionalCategories[{index}]: found {value}; Prism Central has no such value, or the account "
                "may not read it; correct the field, or add the value to the category"
            )
    if answers.gpus is not None:
        for element in elements:
            for cluster in answers.entities.get(Question.of(ObjectType.CLUSTER, element), ())[:1]:
                yield from _gpus(spec.gpus, element, [model for model in answers.gpus if model.cluster == cluster.uuid])


def _judge_place(place: Place, answers: Answers) -> Iterator[str]:
    clusters = answers.entities.get(place.cluster.question, ())
    yield from _exactly_one(place.cluster, clusters)
    uuids = {entity.uuid for entity in clusters}
    for named in place.subnets:
        subnets = answers.entities.get(named.question, ())
        in_cluster = tuple(subnet for subnet in subnets if not subnet.cluster or subnet.cluster in uuids)
        if subnets and uuids and not in_cluster:
            yield (
                f"{named.field}: found {named.identifier}, which is not a subnet of cluster "
                f"{place.cluster.identifier}; use one that is"
            )
        else:
            yield from _exactly_one(named, in_cluster or subnets)


def _exactly_one(named: Named, entities: Sequence[Entity]) -> Iterator[str]:
    """A problem unless there is exactly one entity."""
    finding, label = f"{named.field}: found {named.identifier}", named.object_type.label
    if not entities:
        yield (
            f"{finding}; Prism Central has no such {label}, or the account may not read it; correct the field, or "
            "grant the account access to it"
        )
    elif len(entities) > 1:
        shown = first([entity.uuid for entity in entities], MOST_SHOWN)
        yield f"{finding}, the name of {len(entities)} {label}s ({shown}); use the uuid of one"


def _gpus(query: Sequence[Gpu], cluster: Identifier, existing: Sequence[GpuModel]) -> Iterator[str]:
    modes: set[str] = set()
    for index, gpu in enumerate(query):
        matching = [
            model
            for model in existing
            if (model.name == gpu.name if gpu.type == "name" else model.device_id == gpu.device_id)
        ]
        name = gpu.name if gpu.type == "name" else f"device {gpu.device_id}"
        requested = sum(other == gpu for other in query)
        count = sum(model.number for model in matching)
        modes |= {model.mode for model in matching}
        if count < requested and query.index(gpu) == index:
            models = sorted({f"{model.name} (device {model.device_id})" for model in existing})
            listed = first(models, MOST_SHOWN) or "none"
            yield (
                f"spec.gpus[{index}]: found {requested} of {name}, but cluster {cluster} has {count}; "
                f"its GPUs are: {listed}"
            )
    if len(modes) > 1:
        yield f"spec.gpus: found several modes in cluster {cluster} ({', '.join(sorted(modes))}); use GPUs of one"
