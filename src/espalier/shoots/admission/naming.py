"""Names of shoots, from which the names of namespaces in seeds are made. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from espalier.api.gardener import names
from espalier.api.gardener.shoot import Shoot
from espalier.api.violations import Violation
from espalier.shoots.admission import messages


def violations(shoot: Shoot, project: str, is_taken: Callable[[Shoot, str], bool]) -> Iterator[Violation]:
    """The problems of the name of a new shoot, or of its project.

    A technical ID is `shoot--<project>--<shoot>`: with `--` in either, two shoots could have the same one. They could
    also if a project has another namespace than `garden-<project>`: then the first shoot keeps it.
    """
    metadata = shoot.metadata
    if "--" in metadata.name or metadata.name.startswith("-"):
        yield Violation("metadata.name", metadata.name, "a name without --", messages.DOUBLE_HYPHEN)
    if "--" in project or project.startswith("-") or project.endswith("-"):
        found = f"{metadata.namespace} of project {project}"
        yield Violation("metadata.namespace", found, "a project without --", messages.DOUBLE_HYPHEN)
    technical_id = names.technical_id(project, metadata.name)
    if len(technical_id) > names.LONGEST_NAMESPACE:
        most = names.LONGEST_NAMESPACE - len(technical_id) + len(metadata.name)
        found = f"{metadata.name}: {len(metadata.name)} characters"
        yield Violation("metadata.name", found, f"{max(most, 0)} characters in this project", messages.TOO_LONG)
    if is_taken(shoot, technical_id):
        yield Violation("metadata.name", f"{metadata.name}, which gives {technical_id}", "", messages.NAME_TAKEN)
