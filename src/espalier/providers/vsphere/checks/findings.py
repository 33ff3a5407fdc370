"""Judgement of a vCenter's answers: what a spec names and the vCenter lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from espalier.api.eksa import cluster as eksa
from espalier.providers.vsphere.checks.questions import Answers, Question, Sort
from espalier.providers.vsphere.kinds import Resolved, VSphereDatacenterConfigSpec, VSphereMachineConfigSpec

GIB = 1024**3
MOST_SHOWN = 5


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
        *([("spec.template", Sort.TEMPLATE, spec.template)] if spec.template else []),
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


def judge_template(
    spec: VSphereMachineConfigSpec, path: str, answers: Answers, users: Iterable[eksa.Cluster]
) -> Iterator[str]:
    """What a virtual machine lacks to be cloned for the machines of these Clusters."""
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
    for minor in sorted({cluster.spec.kubernetes_version for cluster in users}):
        release = f"eksdRelease:kubernetes-{minor.replace('.', '-')}-"
        if minor and not any(tag.startswith(release) for tag in template.tags):
            yield f"{found} lacks a tag that begins with {release}, for Kubernetes {minor}; tag it, or name another"


def _to_have_it(sort: Sort) -> str:
    return "import it" if sort is Sort.TEMPLATE else "create it in vSphere"
