"""What of a difference between a machine and what it should be can be made where it stands. Pure.

A machine that is upgraded in place gets another Kubernetes version, and with it what kubeadm applies by itself; nothing
that only a machine made anew would have. So every field that differs is named, and none is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from espalier.api.capi.machine import MachineTemplate
from espalier.api.meta import Tree
from espalier.clusterapi import in_place_fields
from espalier.clusterapi.in_place_fields import CONTROL_PLANE_FIELDS, WORKER_FIELDS, ignored_fields
from espalier.clusterapi.infrastructure import Infrastructure, Infrastructures
from espalier.clusterapi.machine_change import (
    ChangeKind,
    MachineChange,
    MachineParts,
    Template,
    differences,
    machine_change,
    of_machine_template,
)

_TEMPLATE = "template.spec."


class Verdict(NamedTuple):
    """What of a difference can be made in place, and what not. Both empty: the machine is as it should be."""

    accepted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self.refused)


def verdict(
    current: MachineParts,
    desired: MachineParts,
    infrastructures: Infrastructures,
    templates: tuple[Tree | None, Tree | None] = (None, None),
    rows: tuple[str, ...] = CONTROL_PLANE_FIELDS,
) -> Verdict:
    """Classify what asks for another machine; `templates` are those of both, before and after, by content.

    `rows` is the part of the table of fields for machines of this kind.
    """
    change: MachineChange = machine_change(current, desired)
    if change.kind is not ChangeKind.REPLACE:
        return Verdict()
    found = list(change.fields)
    if "infrastructure" in found:
        found += _of_templates(current.infrastructure, desired.infrastructure, infrastructures, templates)
    refused = in_place_fields.refused(found, rows, None)
    return Verdict(tuple(field for field in found if field not in refused), refused)


def verdict_of_sets(
    before: MachineTemplate,
    after: MachineTemplate,
    infrastructures: Infrastructures,
    templates: tuple[Tree | None, Tree | None],
    configs: tuple[Tree | None, Tree | None],
) -> Verdict:
    """Classify the difference between two templates of machines, as MachineSets and MachineDeployments have them.

    `configs` are the KubeadmConfigTemplates by content: another one by name is none, if its content is the same.
    """
    found = verdict(of_machine_template(before), of_machine_template(after), infrastructures, templates, WORKER_FIELDS)
    reference = "bootstrap.configRef.name"
    if reference not in found.accepted:
        return found
    if None in configs:
        return Verdict(tuple(one for one in found.accepted if one != reference), (*found.refused, reference))
    differing = bootstrap_differences(*configs)
    refused = in_place_fields.refused(differing, WORKER_FIELDS, None)
    accepted = [field for field in differing if field not in refused]
    return Verdict((*found.accepted, *accepted), (*found.refused, *refused))


def of_templates(infrastructure: Infrastructure | None, before: Tree | None, after: Tree | None) -> list[str]:
    """The fields in which two infrastructure templates differ for a machine that runs, beyond its image.

    One that is gone is not compared.
    """
    if before is None or after is None:
        return []
    ignored = ignored_fields(infrastructure)
    fields = [field for field in sorted(differences(before, after)) if field not in ignored]
    return [f"infrastructure.{field.removeprefix(_TEMPLATE)}" for field in fields]


def _of_templates(
    before: Template | None,
    after: Template | None,
    infrastructures: Infrastructures,
    templates: tuple[Tree | None, Tree | None],
) -> Iterator[str]:
    if before is not None and after is not None and before.group_kind != after.group_kind:
        yield "infrastructure.kind"
        return
    kind = after.group_kind.partition(".")[0] if after else ""
    yield from of_templates(infrastructures.of_template(kind), *templates)


def bootstrap_differences(before: Tree | None, after: Tree | None) -> list[str]:
    """The fields in which two KubeadmConfigTemplates differ."""
    if before is None or after is None:
        return []
    return [f"bootstrap.{field.removeprefix(_TEMPLATE)}" for field in sorted(differences(before, after))]
