"""`core.gardener.cloud/v1beta1 Project`: people, and the namespace of the garden in which their shoots are."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot import GROUP, VERSION
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource


class Subject(Part):
    """A user, a group or a service account."""

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""


class Member(Subject):
    """A member of a project: admin, viewer, or a role of an extension."""

    role: str = ""
    roles: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class ProjectSpec(Part):
    """People of a project and its namespace."""

    namespace: Annotated[str | None, Meta(description="garden-<name of the project> if absent.")] = None
    owner: Subject | None = None
    created_by: Subject | None = None
    description: str = ""
    purpose: str = ""
    members: Annotated[list[Member], Meta(extra_json_schema=ATOMIC)] = []


class ProjectStatus(Observed, frozen=True):
    """Observed state of a project."""

    observed_generation: int = 0
    phase: str = ""


@kind(
    Resource(GROUP, VERSION, "projects", "Project", namespaced=False),
    columns=(
        Column("Namespace", ".spec.namespace", "string", "Namespace of its shoots"),
        Column("Status", ".status.phase", "string", "Phase of the project"),
        Column("Owner", ".spec.owner.name", "string", "Owner of the project"),
        AGE,
    ),
    status=True,
    partly=True,
)
class Project(KubeObject):
    """People, and the namespace in which their shoots are."""

    spec: ProjectSpec = msgspec.field(default_factory=ProjectSpec)
    status: ProjectStatus = ProjectStatus()


def project_of(namespace: str, projects: Iterable[Project]) -> str:
    """The project of a namespace of the garden: the first by name of those that name it; else the one that has it by
    default, or the namespace itself."""
    owners = [project.metadata.name for project in projects if project.spec.namespace == namespace]
    return min(owners, default="") or names.project_of(namespace) or namespace


def namespace_of(project: Project) -> str:
    """The namespace of a project's shoots."""
    return project.spec.namespace or names.project_namespace(project.metadata.name)
