"""Problems in a Prism Central's answers: objects that a spec names and Prism Central lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from espalier.api.listing import first
from espalier.clusters.design.machine_groups import names_version
from espalier.providers.nutanix.checks.questions import Answers, CategoryValue, Entity, GpuModel, ObjectType, Question
from espalier.providers.nutanix.kinds import Gpu, Identifier, NutanixDatacenterConfigSpec, NutanixMachineConfigSpec
from espalier.providers.nutanix.references import other_version

MOST_SHOWN = 5


def of_datacenter(spec: NutanixDatacenterConfigSpec) -> frozenset[Question]:
    """Questions for all entities that the failure domains of a datacenter name."""
    return frozenset(
        question
        for domain in spec.failure_domains
        for question in (
            Question.of(ObjectType.CLUSTER, domain.cluster),
            *(Question.of(ObjectType.SUBNET, subnet) for subnet in domain.subnets),
        )
    )


def of_machines(spec: NutanixMachineConfigSpec, elements: Iterable[Identifier]) -> frozenset[Question]:
    """Questions for all entities that a machine config names, with the clusters of its machines."""
    project = [Question.of(ObjectType.PROJECT, spec.project)] if spec.project is not None else []
    return frozenset(
        (
            Question.of(ObjectType.CLUSTER, spec.cluster),
            Question.of(ObjectType.SUBNET, spec.subnet),
            Question.of(ObjectType.IMAGE, spec.image),
            *project,
            *(Question.of(ObjectType.CLUSTER, element) for element in elements),
        )
    )


def categories(spec: NutanixMachineConfigSpec) -> frozenset[CategoryValue]:
    """The categories of a machine config."""
    return frozenset(CategoryValue(category.key, category.value) for category in spec.additional_categories)


def judge_datacenter(spec: NutanixDatacenterConfigSpec, answers: Answers) -> Iterator[str]:
    """Problems of failure domains."""
    for index, domain in enumerate(spec.failure_domains):
        field = f"spec.failureDomains[{index}]"
        yield from _cluster_and_subnets(
            (f"{field}.cluster", domain.cluster),
            [(f"{field}.subnets[{number}]", subnet) for number, subnet in enumerate(domain.subnets)],
            answers,
        )


def judge_machines(
    spec: NutanixMachineConfigSpec, elements: Sequence[Identifier], answers: Answers, versions: Iterable[str]
) -> Iterator[str]:
    """Problems of machines with these Kubernetes versions. GPUs must be in the clusters `elements`."""
    yield from _cluster_and_subnets(("spec.cluster", spec.cluster), [("spec.subnet", spec.subnet)], answers)
    images = answers.entities.get(Question.of(ObjectType.IMAGE, spec.image), ())
    yield from _exactly_one("spec.image", ObjectType.IMAGE, spec.image, images)
    for image in images[:1]:
        for version in versions:
            if image.name and not names_version(image.name, version):
                yield f"spec.image: {other_version(image.name, version)}"
    if spec.project is not None:
        projects = answers.entities.get(Question.of(ObjectType.PROJECT, spec.project), ())
        yield from _exactly_one("spec.project", ObjectType.PROJECT, spec.project, projects)
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


def _cluster_and_subnets(
    cluster: tuple[str, Identifier], subnets: Sequence[tuple[str, Identifier]], answers: Answers
) -> Iterator[str]:
    field, identifier = cluster
    clusters = answers.entities.get(Question.of(ObjectType.CLUSTER, identifier), ())
    yield from _exactly_one(field, ObjectType.CLUSTER, identifier, clusters)
    uuids = {entity.uuid for entity in clusters}
    for subnet_field, subnet in subnets:
        subnets_of_name = answers.entities.get(Question.of(ObjectType.SUBNET, subnet), ())
        in_cluster = tuple(
            subnet_entity
            for subnet_entity in subnets_of_name
            if not subnet_entity.cluster or subnet_entity.cluster in uuids
        )
        if subnets_of_name and uuids and not in_cluster:
            yield f"{subnet_field}: found {subnet}, which is not a subnet of cluster {identifier}; use one that is"
        else:
            yield from _exactly_one(subnet_field, ObjectType.SUBNET, subnet, in_cluster or subnets_of_name)


def _exactly_one(
    field: str, object_type: ObjectType, identifier: Identifier, entities: Sequence[Entity]
) -> Iterator[str]:
    """A problem unless there is exactly one entity."""
    if not entities:
        yield (
            f"{field}: found {identifier}; Prism Central has no such {object_type.label}, or the account may not "
            "read it; correct the field, or grant the account access to it"
        )
    elif len(entities) > 1:
        shown = first([entity.uuid for entity in entities], MOST_SHOWN)
        description = f"the name of {len(entities)} {object_type.label}s ({shown})"
        yield f"{field}: found {identifier}, {description}; use the uuid of one"


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
