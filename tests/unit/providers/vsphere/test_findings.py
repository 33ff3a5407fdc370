"""Answers of a vCenter become sentences that name field, value and what to do."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.eksa import cluster as eksa
from espalier.api.meta import ObjectMeta
from espalier.kube.objects import Object, to_bytes
from espalier.providers.simulated.vsphere import simulated_answers
from espalier.providers.vsphere.checks import findings
from espalier.providers.vsphere.checks.questions import Answers, ObjectType, Question, Template
from espalier.providers.vsphere.kinds import (
    Resolved,
    VSphereDatacenterConfig,
    VSphereDatacenterConfigSpec,
    VSphereMachineConfig,
    VSphereMachineConfigSpec,
)
from espalier.providers.vsphere.provider import vsphere

GIB = 1024**3
PROBLEMS = vsphere(simulated_answers).links.problems
DATACENTER = msgspec.convert(
    {
        "server": "vcenter.example.com",
        "datacenter": "DC0",
        "network": "VM Network",
        "thumbprint": "",
        "insecure": False,
    },
    VSphereDatacenterConfigSpec,
)
MACHINES = msgspec.convert(
    {
        "datastore": "ssd",
        "folder": "",
        "resourcePool": "*/Resources",
        "memoryMiB": 8192,
        "numCPUs": 2,
        "osFamily": "ubuntu",
        "template": "/DC0/vm/ubuntu-1.35",
    },
    VSphereMachineConfigSpec,
)
TEMPLATE = Template(True, (20 * GIB,), True, frozenset({"os:ubuntu", "eksdRelease:kubernetes-1-35-eks-4"}))


@pytest.mark.parametrize(
    ("asked", "mode", "template", "resolved"),
    [
        (40, None, TEMPLATE, "fullClone"),
        (20, None, TEMPLATE, ""),
        (10, None, TEMPLATE, ""),  # which is raised to 20
        (None, None, TEMPLATE, ""),
        (40, "linkedClone", TEMPLATE, ""),
        (40, None, msgspec.structs.replace(TEMPLATE, has_snapshot=False), ""),
        (22, None, msgspec.structs.replace(TEMPLATE, disks=(2 * GIB, 20 * GIB)), ""),
    ],
)
def test_machines_are_cloned_if_links_are_too_small(
    asked: int | None, mode: str | None, template: Template, resolved: str
) -> None:
    spec = msgspec.structs.replace(MACHINES, disk_gi_b=asked, clone_mode=mode)
    config = VSphereMachineConfig(metadata=ObjectMeta(name="m", generation=2), spec=spec)
    assert concluded(config, template).clone_mode == resolved


def concluded(config: VSphereMachineConfig, template: Template) -> Resolved:
    """The resolved fields of a machine config whose template is this one."""
    path = config.spec.template
    named = findings.of_machines(config.spec, "DC0")
    answers_of_vcenter = msgspec.structs.replace(answers(named), templates={path: template})
    paths, _ = findings.conclude(config, "DC0", named, answers_of_vcenter, frozenset({"1.35"}), frozenset())
    return paths


def test_the_clone_mode_is_kept_until_the_spec_changes() -> None:
    spec = msgspec.structs.replace(MACHINES, disk_gi_b=40)
    config = VSphereMachineConfig(metadata=ObjectMeta(name="m", generation=2), spec=spec)
    without = msgspec.structs.replace(TEMPLATE, has_snapshot=False)
    before = concluded(config, without)
    checked = msgspec.structs.replace(config.status, observed_generation=2, resolved=before)
    settled = msgspec.structs.replace(config, status=checked)
    assert concluded(settled, TEMPLATE).clone_mode == ""
    changed = msgspec.structs.replace(settled, metadata=ObjectMeta(name="m", generation=3))
    assert concluded(changed, TEMPLATE).clone_mode == "fullClone"


def of_bottlerocket(*disks: int) -> Template:
    """A template with disks of so many GiB."""
    tags = frozenset({"os:bottlerocket", "eksdRelease:kubernetes-1-35-eks-4"})
    return Template(True, tuple(disk * GIB for disk in disks), True, tags)


def answers(named: tuple[findings.Named, ...], **of: tuple[str, ...]) -> Answers:
    """Each thing is found once, unless another answer is given for its type."""
    paths = {
        question: of.get(
            question.object_type.name.lower(),
            (question.path or f"/DC0/{question.object_type.section}/{question.name}",),
        )
        for _, question in named
    }
    return Answers(paths=paths, templates={"/DC0/vm/ubuntu-1.35": TEMPLATE})


def test_existing_objects_have_no_problems() -> None:
    for named in (findings.of_datacenter(DATACENTER), findings.of_machines(MACHINES, "DC0")):
        assert list(findings.evaluate(named, answers(named))) == []


def test_missing_datacenter_is_only_problem_reported() -> None:
    named = findings.of_datacenter(DATACENTER)
    assert list(findings.evaluate(named, answers(named, datacenter=(), network=()))) == [
        "spec.datacenter: found DC0; the vCenter has no such datacenter, or the account may not read it"
    ]


def test_a_missing_object_is_reported_with_its_field() -> None:
    named = findings.of_datacenter(DATACENTER)
    assert list(findings.evaluate(named, answers(named, network=()))) == [
        "spec.network: found VM Network, but datacenter DC0 has no such network; correct the field, "
        "or create it in vSphere"
    ]
    named = findings.of_machines(MACHINES, "DC0")
    assert list(findings.evaluate(named, answers(named, template=(), datastore=()))) == [
        "spec.datastore: found ssd, but datacenter DC0 has no such datastore; correct the field, "
        "or create it in vSphere",
        "spec.template: found /DC0/vm/ubuntu-1.35, but datacenter DC0 has no such template; correct the field, "
        "or import it",
    ]


def test_objects_of_failure_domains_are_checked_too() -> None:
    domain = {"name": "a", "computeCluster": "C", "resourcePool": "R", "datastore": "D", "folder": "F", "network": "N"}
    spec = msgspec.convert(msgspec.to_builtins(DATACENTER) | {"failureDomains": [domain]}, VSphereDatacenterConfigSpec)
    named = findings.of_datacenter(spec)
    missing = list(findings.evaluate(named, answers(named, folder=(), compute_cluster=())))
    assert [problem.partition(":")[0] for problem in missing] == [
        "spec.failureDomains[0].computeCluster",
        "spec.failureDomains[0].folder",
    ]


POOLS = ("/DC0/host/a/Resources", "/DC0/host/b/Resources")


def test_several_matches_are_told_unless_one_is_used() -> None:
    named = findings.of_machines(MACHINES, "DC0")
    several = answers(named, resource_pool=POOLS)
    assert list(findings.evaluate(named, several)) == [
        "spec.resourcePool: found */Resources, which matches 2 in the datacenter "
        "(/DC0/host/a/Resources, /DC0/host/b/Resources); give the path of one"
    ]
    assert list(findings.evaluate(named, several, [POOLS[1]])) == []


@pytest.mark.demand("L57")
def test_a_new_match_changes_nothing() -> None:
    named = findings.of_machines(MACHINES, "DC0")
    first = findings.resolved(MACHINES, named, answers(named, resource_pool=POOLS[1:]), Resolved())
    assert first.resource_pool == POOLS[1]
    assert first.template == "/DC0/vm/ubuntu-1.35"
    later = findings.resolved(MACHINES, named, answers(named, resource_pool=POOLS), first)
    assert later == first
    gone = findings.resolved(MACHINES, named, answers(named, resource_pool=POOLS[:1]), first)
    assert gone.resource_pool == POOLS[0]


def test_missing_privileges_are_reported_with_object() -> None:
    named = findings.of_machines(MACHINES, "DC0")
    lacking = msgspec.structs.replace(answers(named), lacking={"/DC0/datastore/ssd": ("Datastore.Browse",)})
    assert list(findings.evaluate(named, lacking)) == [
        "spec.datastore: the account lacks privileges on /DC0/datastore/ssd: Datastore.Browse; grant them"
    ]


@pytest.mark.parametrize(
    ("template", "spec", "message"),
    [
        (TEMPLATE, {}, ""),
        (msgspec.structs.replace(TEMPLATE, is_template=False), {}, ""),
        (
            msgspec.structs.replace(TEMPLATE, is_template=False, has_snapshot=False),
            {},
            "spec.template: /DC0/vm/ubuntu-1.35 is a virtual machine, not a template",
        ),
        (
            msgspec.structs.replace(TEMPLATE, has_snapshot=False),
            {"cloneMode": "linkedClone"},
            "spec.cloneMode: found linkedClone, but /DC0/vm/ubuntu-1.35 has no snapshot",
        ),
        (TEMPLATE, {"diskGiB": 20}, ""),
        (TEMPLATE, {"diskGiB": 19}, "spec.diskGiB: found 19, but the disk of /DC0/vm/ubuntu-1.35 has 20 GiB"),
        (of_bottlerocket(22), {"osFamily": "", "diskGiB": 22}, ""),
        (of_bottlerocket(20, 2), {"osFamily": "bottlerocket"}, ""),
        (
            of_bottlerocket(20, 20),
            {"osFamily": "bottlerocket"},
            "spec.template: /DC0/vm/ubuntu-1.35 has disks of 20 GiB, 20 GiB, but Bottlerocket has one of 22 GiB, "
            "or two of 2 and 20 GiB",
        ),
        (
            of_bottlerocket(25),
            {"osFamily": ""},
            "spec.template: /DC0/vm/ubuntu-1.35 has disks of 25 GiB, but Bottlerocket has one of 22 GiB, or two of "
            "2 and 20 GiB",
        ),
        (TEMPLATE, {"osFamily": "redhat"}, "spec.template: /DC0/vm/ubuntu-1.35 lacks tag os:redhat"),
        (
            msgspec.structs.replace(TEMPLATE, tags=frozenset({"os:ubuntu", "eksdRelease:kubernetes-1-3-eks-4"})),
            {},
            "spec.template: /DC0/vm/ubuntu-1.35 lacks a tag that begins with eksdRelease:kubernetes-1-35-, "
            "for Kubernetes 1.35",
        ),
    ],
)
def test_a_template_must_fit_the_machines(template: Template, spec: dict[str, object], message: str) -> None:
    asked = msgspec.convert(msgspec.to_builtins(MACHINES) | spec, VSphereMachineConfigSpec)
    path = "/DC0/vm/ubuntu-1.35"
    problems = list(findings.judge_template(asked, path, Answers(templates={path: template}), ["1.35"]))
    assert ([problem.partition(";")[0] for problem in problems] or [""]) == [message]


BY_TAGS = msgspec.convert(msgspec.to_builtins(MACHINES) | {"template": ""}, VSphereMachineConfigSpec)


def test_a_template_is_chosen_by_its_tags_and_kept() -> None:
    folder = "/DC0/vm/Templates"
    search = Question(ObjectType.TEMPLATE, "DC0", findings.TEMPLATES)

    def of(*names: str) -> Answers:
        tags = {name: frozenset({"os:ubuntu", f"eksdRelease:kubernetes-{name[1:]}-eks-4"}) for name in names}
        templates = {f"{folder}/{name}": msgspec.structs.replace(TEMPLATE, tags=tags[name]) for name in names}
        return Answers(paths={search: tuple(templates)}, templates=templates)

    def chosen(answers: Answers, versions: list[str], before: Resolved) -> tuple[dict[str, str], list[str]]:
        return findings.choose_templates(BY_TAGS, "DC0", answers, versions, before)

    first, wrong = chosen(of("a1-35", "b1-35", "a1-36"), ["1.35"], Resolved())
    assert (first, wrong) == ({"1.35": f"{folder}/b1-35"}, [])
    later, _ = chosen(of("a1-35", "b1-35", "c1-35"), ["1.35"], Resolved(templates=first))
    assert later == first
    gone, _ = chosen(of("a1-35"), ["1.35"], Resolved(templates=first))
    assert gone == {"1.35": f"{folder}/a1-35"}
    assert chosen(of("a1-35"), ["1.36"], Resolved()) == (
        {},
        [
            "spec.template: found nothing, but folder Templates of datacenter DC0 has no template with tags os:ubuntu "
            "and eksdRelease:kubernetes-1-36-..., for Kubernetes 1.36; import one, or set the field"
        ],
    )
    named = findings.of_machines(BY_TAGS, "DC0")
    assert list(findings.evaluate(named, answers(named, template=()))) == []


def child(kind: type[VSphereDatacenterConfig | VSphereMachineConfig], spec: object, **status: object) -> Object:
    metadata = {"name": "vs", "namespace": "team-a", "generation": 2}
    tree = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
        "status": status,
    }
    return Object(to_bytes(tree))


VALID = {"specValid": True, "observedGeneration": 2, "kubernetesVersions": ["1.35"]}
FREE = VALID | {"addresses": {"a/10.0.0.9": ""}}
CLUSTER = msgspec.convert(
    {
        "metadata": {"name": "a"},
        "spec": {
            "kubernetesVersion": "1.35",
            "controlPlaneConfiguration": {
                "count": 1,
                "endpoint": {"host": "10.0.0.9"},
                "machineGroupRef": {"kind": "VSphereMachineConfig", "name": "vs"},
            },
        },
    },
    eksa.Cluster,
)


@pytest.mark.parametrize(
    ("datacenter", "machines", "is_new", "reason"),
    [
        (FREE, VALID, True, ""),
        ({}, VALID, True, "LinkedObjectsNotChecked"),
        (VALID | {"observedGeneration": 1}, VALID, True, "LinkedObjectsNotChecked"),
        (VALID | {"specValid": False}, VALID, True, "DatacenterConfigInvalid"),
        (VALID, {"specValid": False, "observedGeneration": 2}, True, "MachineConfigInvalid"),
        (VALID | {"addresses": {"a/10.0.0.9": "printer"}}, VALID, True, "ControlPlaneAddressTaken"),
        (VALID | {"addresses": {"a/10.0.0.9": "a-control-plane"}}, VALID, False, ""),
        (VALID | {"addresses": {"a/10.0.0.8": ""}}, VALID, True, "LinkedObjectsNotChecked"),
        (FREE, VALID | {"kubernetesVersions": ["1.34"]}, True, "LinkedObjectsNotChecked"),
    ],
)
def test_a_cluster_waits_for_the_first_problem(
    datacenter: dict[str, object], machines: dict[str, object], is_new: bool, reason: str
) -> None:
    children = [
        child(VSphereMachineConfig, MACHINES, **machines),
        child(VSphereDatacenterConfig, DATACENTER, **datacenter),
    ]
    first_wait = next(iter(PROBLEMS(CLUSTER, children, is_new)), None)
    assert (first_wait.reason if first_wait is not None else "") == reason


@pytest.mark.parametrize("is_deleted", [False, True])
def test_no_check_comes_for_a_deleted_object(is_deleted: bool) -> None:
    machines = child(VSphereMachineConfig, MACHINES).tree
    if is_deleted:
        machines["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    results = list(
        PROBLEMS(CLUSTER, [Object(to_bytes(machines)), child(VSphereDatacenterConfig, DATACENTER, **FREE)], True)
    )
    assert [item.reason for item in results] == ["LinkedObjectsNotChecked"]
    assert [item.ends_by_itself for item in results] == [not is_deleted]


def test_a_question_of_a_bare_name_has_no_path() -> None:
    assert Question(ObjectType.DATASTORE, "/DC0/", "ssd").path == ""
    assert Question(ObjectType.DATASTORE, "/DC0/", "fast/ssd").path == "/DC0/datastore/fast/ssd"
    assert Question(ObjectType.DATASTORE, "DC0", "/DC0/datastore/ssd/").path == "/DC0/datastore/ssd"
