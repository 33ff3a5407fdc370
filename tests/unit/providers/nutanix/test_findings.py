"""The conclusions from answers of a Prism Central: each problem is named, with the field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.clusters.report.checks.configs import Use
from espalier.providers.nutanix.checks import findings
from espalier.providers.nutanix.checks.controller import _of_machines
from espalier.providers.nutanix.checks.questions import Answers, CategoryValue, Entity, GpuModel, ObjectType, Question
from espalier.providers.nutanix.kinds import NutanixDatacenterConfig, NutanixMachineConfig
from tests.support.providers.nutanix import domain, manifest, named, of

EAST, WEST = "uuid-of-east", "uuid-of-west"
GPUS = (
    GpuModel(EAST, "Ampere 40", 8757, "PASSTHROUGH_GRAPHICS", 2),
    GpuModel(EAST, "Turing", 7864, "VIRTUAL", 1),
    GpuModel(WEST, "Ampere 40", 8757, "PASSTHROUGH_GRAPHICS", 9),
)
THERE: dict[ObjectType, list[Entity]] = {
    ObjectType.CLUSTER: [Entity(EAST, "cluster-1"), Entity(WEST, "cluster-2")],
    ObjectType.SUBNET: [Entity("s1", "subnet-1", EAST), Entity("s2", "subnet-2", WEST), Entity("s3", "everywhere")],
    ObjectType.IMAGE: [Entity("i1", "ubuntu-1-35"), Entity("i2", "twice-1.35"), Entity("i3", "twice-1.35")],
    ObjectType.PROJECT: [Entity("p1", "quarries")],
}


def answers(questions: frozenset[Question], there: dict[ObjectType, list[Entity]]) -> Answers:
    entities = {
        question: tuple(entity for entity in there[question.object_type] if question.matches(entity))
        for question in questions
    }
    return Answers(entities, frozenset({CategoryValue("stone", "granite")}), GPUS)


def of_machines(*versions: str, there: dict[ObjectType, list[Entity]] = THERE, **changes: Any) -> list[str]:
    """The problems of the example's machine config, changed."""
    tree = of(manifest(), "NutanixMachineConfig") | changes
    spec = msgspec.convert({"spec": tree}, NutanixMachineConfig).spec
    places = [spec.cluster]
    place, others = findings.of_machines(spec)
    result = answers(findings.questions([place], others), there)
    return list(findings.judge_machines(spec, places, result, versions or ("1.35",)))


def of_datacenter(*domains: Any) -> list[str]:
    tree = of(manifest(), "NutanixDatacenterConfig") | {"failureDomains": list(domains)}
    spec = msgspec.convert({"spec": tree}, NutanixDatacenterConfig).spec
    return list(findings.judge_datacenter(spec, answers(findings.questions(findings.of_datacenter(spec)), THERE)))


def test_the_example_has_no_problems() -> None:
    assert of_machines() == of_machines(project=named("Quarries"), subnet=named("everywhere")) == []
    categories = [{"key": "stone", "value": "granite"}]
    assert of_machines(additionalCategories=categories) == []
    assert of_machines(image={"type": "uuid", "uuid": "I1"}) == []
    assert of_datacenter(domain("a") | {"cluster": named("cluster-1"), "subnets": [named("subnet-1")]}) == []


@pytest.mark.parametrize("sort", ObjectType)
def test_a_missing_object_is_named(sort: ObjectType) -> None:
    problems = of_machines(there=THERE | {sort: []}, project=named("quarries"))
    asked = {
        ObjectType.CLUSTER: "cluster-1",
        ObjectType.SUBNET: "subnet-1",
        ObjectType.IMAGE: "ubuntu-1-35",
        ObjectType.PROJECT: "quarries",
    }
    sentence = f"spec.{sort.label}: found {asked[sort]}; Prism Central has no such {sort.label}, or the account may not"
    assert [message[: len(sentence)] for message in problems] == [sentence]


MACHINES: dict[str, tuple[dict[str, Any], str]] = {
    "a subnet elsewhere": ({"subnet": named("subnet-2")}, "spec.subnet: found subnet-2, which is not a subnet of"),
    "a name twice": (
        {"image": named("twice-1.35")},
        "spec.image: found twice-1.35, the name of 2 images (i2, i3); use the uuid of one",
    ),
    "no category": (
        {"additionalCategories": [{"key": "stone", "value": "marble"}]},
        "spec.additionalCategories[0]: found stone: marble; Prism Central has no such value",
    ),
    "no GPU": (
        {"gpus": [{"type": "name", "name": "Volta"}]},
        "spec.gpus[0]: found 1 of Volta, but cluster cluster-1 has 0; its GPUs are: Ampere 40 (device 8757), Turing",
    ),
    "too few": (
        {"gpus": [{"type": "deviceID", "deviceID": 8757}] * 3},
        "spec.gpus[0]: found 3 of device 8757, but cluster cluster-1 has 2",
    ),
    "two modes": (
        {"gpus": [{"type": "deviceID", "deviceID": 8757}, {"type": "deviceID", "deviceID": 7864}]},
        "spec.gpus: found several modes in cluster cluster-1 (PASSTHROUGH_GRAPHICS, VIRTUAL); use GPUs of one",
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_each_problem_of_machines_is_named_once(name: str) -> None:
    changes, sentence = MACHINES[name]
    assert [message[: len(sentence)] for message in of_machines(**changes)] == [sentence]


@pytest.mark.parametrize(
    ("image", "version", "fits"),
    [
        *(
            ("ubuntu-1-35", "1.35", True),
            ("ubuntu_1_35", "1.35", True),
            ("v1.35.4", "1.35", True),
            ("k135", "1.35", True),
        ),
        *(("ubuntu-1-35", "1.36", False), ("ubuntu", "1.35", False), ("ubuntu-1-3.5", "1.36", False)),
    ],
)
def test_image_has_its_kubernetes_version_in_its_name(image: str, version: str, fits: bool) -> None:
    there = THERE | {ObjectType.IMAGE: [Entity("i", image)]}
    problems = of_machines(version, there=there, image=named(image))
    assert problems == ([] if fits else [problems[0]])
    assert fits or problems[0].startswith(f"spec.image: found {image}, whose name lacks Kubernetes {version};")


def test_each_problem_of_failure_domains_is_named() -> None:
    right = domain("a") | {"cluster": named("cluster-2"), "subnets": [named("subnet-2")]}
    problems = of_datacenter(right, domain("b"), right | {"subnets": [named("subnet-1"), named("nowhere")]})
    assert [message.partition(";")[0] for message in problems] == [
        "spec.failureDomains[1].cluster: found cluster-b",
        "spec.failureDomains[1].subnets[0]: found subnet-b",
        "spec.failureDomains[2].subnets[0]: found subnet-1, which is not a subnet of cluster cluster-2",
        "spec.failureDomains[2].subnets[1]: found nowhere",
    ]


def test_clusters_of_failure_domains_are_asked_about() -> None:
    """GPUs of workers are looked for there."""
    trees = manifest()
    of(trees, "NutanixDatacenterConfig")["failureDomains"] = [domain("a", "md-0")]
    trees_by_name = {(tree["kind"], tree["metadata"]["name"]): tree for tree in trees}
    cluster = msgspec.convert(trees_by_name["Cluster", "quarry"], Cluster)
    datacenter = msgspec.convert(trees_by_name["NutanixDatacenterConfig", "quarry"], NutanixDatacenterConfig)
    config = msgspec.convert(trees_by_name["NutanixMachineConfig", "quarry"], NutanixMachineConfig)

    check = _of_machines(config, [Use(cluster, datacenter)])

    (request,) = check.requests
    asked = {question.value for question in request.query.questions if question.object_type is ObjectType.CLUSTER}
    assert asked == {"cluster-1", "cluster-a"}
