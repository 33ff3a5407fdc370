"""Judgement of a vCenter's answers: what a spec names and the vCenter lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from espalier.providers.vsphere.checks.questions import Answers, Question, Sort, Template
from espalier.providers.vsphere.kinds import Resolved, VSphereDatacenterConfigSpec, VSphereMachineConfigSpec

GIB = 1024**3
MOST_SHOWN = 5

TEMPLATES = "Templates/*"
"""Where templates are looked for that no spec names: in the folder into which EKS Anywhere imports them."""


class Named(NamedTuple):
    """A field of a spec and the inventory object that it names."""

    field: str
    question: Question


def of_datacenter(spec: VSphereDatacenterConfigSpec) -> tuple[Named, ...]:
    """All that a VSphereDatacenterConfig names, its datacenter first."""

    def named(field: str, sort: Sort, name: str) -> Named:
        return Named(field, Question(sort, spec.datacenter, name))

    return (
        named("spec.datacenter", Sort.DATACENTER, spec.datacenter),
        named("spec.network", Sort.NETWORK, spec.network),
        *(
            named(f"spec.failureDomains[{index}].{field}", sort, name)
            for index, domain in enumerate(spec.failure_domains)
            for field, sort, name in (
                ("computeCluster", Sort.COMPUTE_CLUSTER, domain.compute_cluster),
                ("resourcePool", Sort.RESOURCE_POOL, domain.resource_pool),
                ("datastore", Sort.DATASTORE, domain.datastore),
                ("folder", Sort.FOLDER, domain.folder),
                ("network", Sort.NETWORK, domain.network),
            )
        ),
    )


def of_machines(spec: VSphereMachineConfigSpec, datacenter: str) -> tuple[Named, ...]:
    """All that a VSphereMachineConfig names in a datacenter, the datacenter first."""
    fields = (
        ("spec.datacenter", Sort.DATACENTER, datacenter),
        ("spec.datastore", Sort.DATASTORE, spec.datastore),
        ("spec.folder", Sort.FOLDER, spec.folder),
        ("spec.resourcePool", Sort.RESOURCE_POOL, spec.resource_pool),
        *((f"spec.networks[{index}]", Sort.NETWORK, name) for index, name in enumerate(spec.networks)),
        ("spec.template", Sort.TEMPLATE, spec.template or TEMPLATES),
    )
    return tuple(Named(field, Question(sort, datacenter, name)) for field, sort, name in fields)


def judge(named: Sequence[Named], answers: Answers, pinned: Iterable[str] = ()) -> Iterator[str]:
    """What is not there, not unique, or not allowed. Of several matches the `pinned` one is taken."""
    kept = frozenset(pinned)
    datacenter = named[0]
    if not answers.paths.get(datacenter.question):
        name = datacenter.question.name
        yield f"{datacenter.field}: found {name}; the vCenter has no such datacenter, or the account may not read it"
        return
    for field, question in named:
        paths = answers.paths.get(question, ())
        found = f"{field}: found {question.name or question.path}"
        if question.name == TEMPLATES:
            continue  # `choose_templates` says what is missing
        if not paths:
            yield (
                f"{found}, and datacenter {question.datacenter} has no such {question.sort.label}; "
                f"correct the field, or {_to_have_it(question.sort)}"
            )
        elif len(paths) > 1 and not kept & set(paths):
            shown = ", ".join(paths[:MOST_SHOWN]) + (", ..." if len(paths) > MOST_SHOWN else "")
            yield f"{found}, which is {len(paths)} of the datacenter ({shown}); name one by its path"
        for path in paths:
            if lacking := answers.lacking.get(path):
                yield f"{field}: the account lacks privileges on {path}: {', '.join(lacking)}; grant them to it"


def resolved(spec: VSphereMachineConfigSpec, datacenter: str, answers: Answers, before: Resolved) -> Resolved:
    """The paths of what a spec names; the earlier ones while they still match, so that a new match changes nothing."""

    def path(sort: Sort, name: str, earlier: str) -> str:
        paths = answers.paths.get(Question(sort, datacenter, name), ())
        return earlier if earlier in paths else paths[0] if len(paths) == 1 else ""

    return Resolved(
        datastore=path(Sort.DATASTORE, spec.datastore, before.datastore),
        folder=path(Sort.FOLDER, spec.folder, before.folder),
        resource_pool=path(Sort.RESOURCE_POOL, spec.resource_pool, before.resource_pool),
        template=path(Sort.TEMPLATE, spec.template, before.template) if spec.template else "",
        templates=before.templates,
    )


def choose_templates(
    spec: VSphereMachineConfigSpec, datacenter: str, answers: Answers, versions: Iterable[str], before: Resolved
) -> tuple[dict[str, str], list[str]]:
    """A template for each Kubernetes version, where the spec names none, and what is missing. The earlier one while it
    still fits; else of several the last by name.
    """
    chosen, wrong = {}, []
    if spec.template:
        return {}, []
    paths = answers.paths.get(Question(Sort.TEMPLATE, datacenter, TEMPLATES), ())
    for minor in sorted(set(versions)):
        fitting = [path for path in paths if _fits(spec, minor, answers.templates.get(path))]
        earlier = before.templates.get(minor, "")
        if fitting:
            chosen[minor] = earlier if earlier in fitting else fitting[-1]
        else:
            wrong.append(
                f"spec.template: found nothing, and folder Templates of datacenter {datacenter} has no template with "
                f"tags os:{spec.os} and {_release(minor)}..., for Kubernetes {minor}; import one, or name one"
            )
    return chosen, wrong


def _fits(spec: VSphereMachineConfigSpec, minor: str, template: Template | None) -> bool:
    """True of a template that nothing is known about: the vCenter told that it is there."""
    if template is None:
        return True
    is_of_release = any(tag.startswith(_release(minor)) for tag in template.tags)
    return template.is_template and f"os:{spec.os}" in template.tags and is_of_release


def _release(minor: str) -> str:
    """What tags begin with that tell a release of EKS Distro."""
    return f"eksdRelease:kubernetes-{minor.replace('.', '-')}-"


def judge_template(
    spec: VSphereMachineConfigSpec, path: str, answers: Answers, versions: Iterable[str]
) -> Iterator[str]:
    """What a virtual machine lacks to be cloned for machines with these Kubernetes versions."""
    template = answers.templates.get(path)
    if template is None:
        return
    found = f"spec.template: {path}"
    if not template.is_template and not template.has_snapshot:
        yield f"{found} is a virtual machine, not a template; convert it, or name a template"
    if spec.clone_mode == "linkedClone" and not template.has_snapshot:
        yield f"spec.cloneMode: found linkedClone, and {path} has no snapshot; make one, or ask for fullClone"
    largest = max(template.disks, default=0)
    if spec.disk_gi_b is not None and spec.disk_gi_b * GIB < largest:
        least = -(-largest // GIB)
        yield f"spec.diskGiB: found {spec.disk_gi_b}, and the disk of {path} has {least}; ask for {least} or more"
    if (tag := f"os:{spec.os}") not in template.tags:
        yield f"{found} lacks tag {tag}; tag it, or correct spec.osFamily"
    for minor in sorted(set(versions)):
        release = _release(minor)
        if not any(tag.startswith(release) for tag in template.tags):
            yield f"{found} lacks a tag that begins with {release}, for Kubernetes {minor}; tag it, or name another"


def _to_have_it(sort: Sort) -> str:
    return "import it" if sort is Sort.TEMPLATE else "create it in vSphere"
