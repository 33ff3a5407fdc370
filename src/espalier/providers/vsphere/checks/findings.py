"""Problems in a vCenter's answers: objects that a spec names and the vCenter lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from espalier.api.eksa.parts.host_os import BOTTLEROCKET
from espalier.api.text.listing import first
from espalier.clusters.report.checks.limits import MOST_SHOWN
from espalier.providers.vsphere.checks.questions import Answers, ObjectType, Question, Template
from espalier.providers.vsphere.kinds import (
    LEAST_DISK,
    Resolved,
    VSphereDatacenterConfigSpec,
    VSphereMachineConfig,
    VSphereMachineConfigSpec,
)

GIB = 1024**3
FULL_CLONE = "fullClone"

TEMPLATES = "Templates/*"
"""The location of templates if a spec names none: the folder into which EKS Anywhere imports them."""


class Named(NamedTuple):
    """A field of a spec and the inventory object that it names."""

    field: str
    question: Question


def of_datacenter(spec: VSphereDatacenterConfigSpec) -> tuple[Named, ...]:
    """All objects that a VSphereDatacenterConfig names, its datacenter first."""

    def named(field: str, object_type: ObjectType, name: str) -> Named:
        return Named(field, Question(object_type, spec.datacenter, name))

    return (
        named("spec.datacenter", ObjectType.DATACENTER, spec.datacenter),
        named("spec.network", ObjectType.NETWORK, spec.network),
        *(
            named(f"spec.failureDomains[{index}].{field}", object_type, name)
            for index, domain in enumerate(spec.failure_domains)
            for field, object_type, name in (
                ("computeCluster", ObjectType.COMPUTE_CLUSTER, domain.compute_cluster),
                ("resourcePool", ObjectType.RESOURCE_POOL, domain.resource_pool),
                ("datastore", ObjectType.DATASTORE, domain.datastore),
                ("folder", ObjectType.FOLDER, domain.folder),
                ("network", ObjectType.NETWORK, domain.network),
            )
        ),
    )


def of_machines(spec: VSphereMachineConfigSpec, datacenter: str) -> tuple[Named, ...]:
    """All objects that a VSphereMachineConfig names in a datacenter, the datacenter first."""
    fields = (
        ("spec.datacenter", ObjectType.DATACENTER, datacenter),
        ("spec.datastore", ObjectType.DATASTORE, spec.datastore),
        ("spec.folder", ObjectType.FOLDER, spec.folder),
        ("spec.resourcePool", ObjectType.RESOURCE_POOL, spec.resource_pool),
        *((f"spec.networks[{index}]", ObjectType.NETWORK, name) for index, name in enumerate(spec.networks)),
        ("spec.template", ObjectType.TEMPLATE, spec.template or TEMPLATES),
    )
    return tuple(Named(field, Question(object_type, datacenter, name)) for field, object_type, name in fields)


def evaluate(named: Sequence[Named], answers: Answers, pinned: Iterable[str] = ()) -> Iterator[str]:
    """Objects that are missing, ambiguous, or not permitted. Of several matches, the `pinned` path is used."""
    pinned_paths = frozenset(pinned)
    datacenter = named[0]
    if not answers.paths.get(datacenter.question):
        name = datacenter.question.name
        yield f"{datacenter.field}: found {name}; the vCenter has no such datacenter, or the account may not read it"
        return
    for field, question in named:
        paths = answers.paths.get(question, ())
        finding = f"{field}: found {question.name or question.path}"
        if question.name == TEMPLATES:
            continue  # `choose_templates` says what is missing
        if not paths:
            yield (
                f"{finding}, but datacenter {question.datacenter} has no such {question.object_type.label}; "
                f"correct the field, or {_remedy(question.object_type)}"
            )
        elif len(paths) > 1 and not pinned_paths & set(paths):
            shown = first(paths, MOST_SHOWN)
            yield f"{finding}, which matches {len(paths)} in the datacenter ({shown}); give the path of one"
        for path in paths:
            if lacking := answers.lacking.get(path):
                yield f"{field}: the account lacks privileges on {path}: {', '.join(lacking)}; grant them"


def conclude(
    config: VSphereMachineConfig,
    datacenter: str,
    named: Sequence[Named],
    answers: Answers,
    versions: frozenset[str],
    in_use: frozenset[str],
) -> tuple[Resolved, list[str]]:
    """The paths of objects that a machine config names, and its problems, for machines with these Kubernetes versions.
    Existing machines use the paths `in_use`.
    """
    spec, before = config.spec, config.status.resolved
    paths_in_use = {before.datastore, before.folder, before.resource_pool, before.template} | in_use
    chosen, missing = choose_templates(spec, datacenter, answers, versions, before, in_use)
    paths = msgspec.structs.replace(resolved(spec, named, answers, before, in_use), templates=chosen)
    is_unchanged = config.status.observed_generation == config.metadata.generation
    is_unchanged = is_unchanged and (paths.template, chosen) == (before.template, before.templates)
    mode = before.clone_mode if is_unchanged else clone_mode(spec, paths, answers)
    paths = msgspec.structs.replace(paths, clone_mode=mode)
    problems = [
        *missing,
        *evaluate(named, answers, paths_in_use),
        *judge_template(spec, paths.template, answers, versions),
        *judge_policy_and_tags(spec, answers),
    ]
    return paths, problems


def resolved(
    spec: VSphereMachineConfigSpec,
    named: Sequence[Named],
    answers: Answers,
    before: Resolved,
    in_use: frozenset[str] = frozenset(),
) -> Resolved:
    """The paths of objects that a machine config names. Earlier paths are kept while they match, so that neither a new
    match nor a lost status changes them.
    """
    questions = {question.object_type: question for _, question in named}

    def path(object_type: ObjectType, earlier: str) -> str:
        paths = answers.paths.get(questions[object_type], ())
        return _path_in_use(paths, earlier, in_use) or (paths[0] if len(paths) == 1 else "")

    return Resolved(
        datastore=path(ObjectType.DATASTORE, before.datastore),
        folder=path(ObjectType.FOLDER, before.folder),
        resource_pool=path(ObjectType.RESOURCE_POOL, before.resource_pool),
        template=path(ObjectType.TEMPLATE, before.template) if spec.template else "",
        templates=before.templates,
    )


def clone_mode(spec: VSphereMachineConfigSpec, paths: Resolved, answers: Answers) -> str:
    """`fullClone` if the spec sets another disk size than the template's, but no mode, and Cluster API's provider would
    create linked clones, whose disks keep the template's size. Otherwise empty, as in EKS Anywhere: a template without
    a snapshot is cloned in full.
    """
    if spec.clone_mode or not spec.disk_gi_b:
        return ""
    size = max(spec.disk_gi_b, LEAST_DISK) * GIB
    templates = (answers.templates.get(path) for path in (paths.template, *paths.templates.values()))
    linked_templates = [template.disks for template in templates if template is not None and template.has_snapshot]
    # Bottlerocket may have two disks, which count together.
    return FULL_CLONE if any(size not in (max(disks, default=0), sum(disks)) for disks in linked_templates) else ""


def choose_templates(
    spec: VSphereMachineConfigSpec,
    datacenter: str,
    answers: Answers,
    versions: Iterable[str],
    before: Resolved,
    in_use: frozenset[str] = frozenset(),
) -> tuple[dict[str, str], list[str]]:
    """A template for each Kubernetes version if the spec names none, and problems. The earlier template stays while it
    fits; otherwise the last by name is chosen.
    """
    chosen, problems = {}, []
    if spec.template:
        return {}, []
    paths = answers.paths.get(Question(ObjectType.TEMPLATE, datacenter, TEMPLATES), ())
    for minor in sorted(set(versions)):
        matching = [path for path in paths if _fits(spec, minor, answers.templates.get(path))]
        earlier = before.templates.get(minor, "")
        if matching:
            chosen[minor] = _path_in_use(matching, earlier, in_use) or matching[-1]
        else:
            problems.append(
                f"spec.template: found nothing, but folder Templates of datacenter {datacenter} has no template with "
                f"tags os:{spec.os} and {_release(minor)}..., for Kubernetes {minor}; import one, or set the field"
            )
    return chosen, problems


def _path_in_use(paths: Sequence[str], earlier: str, in_use: frozenset[str]) -> str:
    """The earlier path, or else a path in use; empty if neither is among these."""
    return earlier if earlier in paths else max((path for path in paths if path in in_use), default="")


def _fits(spec: VSphereMachineConfigSpec, minor: str, template: Template | None) -> bool:
    """True if a template fits, or if nothing is known about it except that it exists."""
    if template is None:
        return True
    is_of_release = any(tag.startswith(_release(minor)) for tag in template.tags)
    return template.is_template and f"os:{spec.os}" in template.tags and is_of_release


def _release(minor: str) -> str:
    """The prefix of tags for releases of EKS Distro."""
    return f"eksdRelease:kubernetes-{minor.replace('.', '-')}-"


_DISKS_OF_BOTTLEROCKET = ([22 * GIB], [2 * GIB, 20 * GIB])
"""Of templates, as in EKS Anywhere."""


def judge_template(
    spec: VSphereMachineConfigSpec, path: str, answers: Answers, versions: Iterable[str]
) -> Iterator[str]:
    """Problems with a virtual machine as the template for machines with these Kubernetes versions."""
    template = answers.templates.get(path)
    if template is None:
        return
    finding = f"spec.template: {path}"
    if not template.is_template and not template.has_snapshot:
        yield f"{finding} is a virtual machine, not a template; convert it, or name a template"
    if spec.clone_mode == "linkedClone" and not template.has_snapshot:
        yield f"spec.cloneMode: found linkedClone, but {path} has no snapshot; create one, or use fullClone"
    largest = max(template.disks, default=0)
    if spec.disk_gi_b is not None and spec.disk_gi_b * GIB < largest:
        least = -(-largest // GIB)
        yield f"spec.diskGiB: found {spec.disk_gi_b}, but the disk of {path} has {least} GiB; set {least} or more"
    if spec.os == BOTTLEROCKET and template.disks and sorted(template.disks) not in _DISKS_OF_BOTTLEROCKET:
        sizes = first([f"{-(-size // GIB)} GiB" for size in template.disks], MOST_SHOWN)
        yield (
            f"{finding} has disks of {sizes}, but Bottlerocket has one of 22 GiB, or two of 2 and 20 GiB; import "
            "the template again"
        )
    if (tag := f"os:{spec.os}") not in template.tags:
        yield f"{finding} lacks tag {tag}; tag it, or correct spec.osFamily"
    for minor in sorted(set(versions)):
        release = _release(minor)
        if not any(tag.startswith(release) for tag in template.tags):
            yield f"{finding} lacks a tag that begins with {release}, for Kubernetes {minor}; tag it, or name another"


def judge_policy_and_tags(spec: VSphereMachineConfigSpec, answers: Answers) -> Iterator[str]:
    """Objects that machines get and that are in no folder of the inventory."""
    if (policy := spec.storage_policy_name) in answers.unknown_policies:
        yield (
            f"spec.storagePolicyName: found {policy}, but the vCenter has no such storage policy, or the account may "
            "not read it (privilege StorageProfile.View); correct the field, create it, or grant that"
        )
    for index, tag in enumerate(spec.tags):
        if tag in answers.unknown_tags:
            yield (
                f"spec.tags[{index}]: found {tag}, but no tag that the account may read has this ID (not a name); "
                "correct the field, create the tag, or grant that"
            )


def _remedy(object_type: ObjectType) -> str:
    return "import it" if object_type is ObjectType.TEMPLATE else "create it in vSphere"
