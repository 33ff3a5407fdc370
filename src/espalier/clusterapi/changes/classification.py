"""The effect of a change on a machine, decided from specs and templates before anything is written. Pure.

Admission, plans, the Cluster controller, the controllers of in-place upgrades and the runtime hooks all ask `classify`,
so all of them agree with what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import TypeAlias

import msgspec

from espalier.api.meta import Tree
from espalier.clusterapi.changes import in_place_fields
from espalier.clusterapi.changes.bootstrap_changes import only_new
from espalier.clusterapi.changes.machine_change import ChangeKind, MachineParts, differences, machine_change
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures

Contents: TypeAlias = Callable[[str, str], Tree | None]
"""The spec of a template by kind and name; None if it does not exist."""

BOOTSTRAP_TEMPLATE = "KubeadmConfigTemplate"


class UpdateStrategy(Enum):
    """How outdated machines are updated (`upgradeRolloutStrategy` of a Cluster)."""

    ROLLING = "RollingUpdate"
    IN_PLACE = "InPlace"
    FALLBACK = "InPlace, else RollingUpdate"

    @staticmethod
    def of(type_: str | None, fallback: str | None) -> UpdateStrategy:
        """The strategy of this type and fallback."""
        if type_ != "InPlace":
            return UpdateStrategy.ROLLING
        return UpdateStrategy.FALLBACK if fallback == "RollingUpdate" else UpdateStrategy.IN_PLACE


class MachineEffect(Enum):
    """The effect on a machine."""

    NOTHING = "Nothing"
    METADATA = "Metadata"
    """Labels, annotations and the like are updated in place; the node is not touched."""
    IN_PLACE = "InPlace"
    """Its node is upgraded."""
    REPLACED = "Replaced"
    REFUSED = "Refused"
    """The machine stays unchanged until somebody acts."""


class Classification(msgspec.Struct, frozen=True):
    """The effect on a machine, the fields that cause it, and those that can't be changed in place."""

    effect: MachineEffect = MachineEffect.NOTHING
    fields: tuple[str, ...] = ()
    """A different template is listed by the fields that differ: `infrastructure.X`, `bootstrap.X`."""
    refused: tuple[str, ...] = ()
    """Also set for a machine that is replaced by the fallback: these fields are the cause."""

    @property
    def accepted(self) -> tuple[str, ...]:
        """The fields that can be changed in place."""
        return tuple(field for field in self.fields if field not in self.refused)

    @property
    def is_outdated(self) -> bool:
        """True if Cluster API would replace the machine unless prevented."""
        return self.effect in (MachineEffect.IN_PLACE, MachineEffect.REPLACED, MachineEffect.REFUSED)


def classify(
    current: MachineParts,
    desired: MachineParts,
    update_strategy: UpdateStrategy,
    infrastructures: Infrastructures,
    contents: Contents,
) -> Classification:
    """Classify the change from the present machine to the desired one.

    A deleted infrastructure template is not compared. A deleted bootstrap template can't be compared, so a different
    one is refused.
    """
    change = machine_change(current, desired)
    if change.kind is ChangeKind.NOTHING:
        return Classification()
    if change.kind is ChangeKind.IN_PLACE:
        return Classification(MachineEffect.METADATA, change.fields)
    fields = tuple(dict.fromkeys(_explained(change.fields, current, desired, contents)))
    if update_strategy is UpdateStrategy.ROLLING:
        return Classification(MachineEffect.REPLACED, fields)
    rows = in_place_fields.WORKER_FIELDS if desired.is_of_group else in_place_fields.CONTROL_PLANE_FIELDS
    kind = desired.infrastructure.group_kind.partition(".")[0] if desired.infrastructure else ""
    refused = in_place_fields.refused(fields, rows, infrastructures.of_template(kind))
    if not refused:
        return Classification(MachineEffect.IN_PLACE, fields)
    return Classification(
        MachineEffect.REPLACED if update_strategy is UpdateStrategy.FALLBACK else MachineEffect.REFUSED, fields, refused
    )


def _explained(
    fields: tuple[str, ...], current: MachineParts, desired: MachineParts, contents: Contents
) -> Iterator[str]:
    """The fields of a change; a template's name is replaced by the differences in its content."""
    for field in fields:
        if field == in_place_fields.INFRASTRUCTURE:
            yield from _of_infrastructure(current, desired, contents)
        elif field == in_place_fields.BOOTSTRAP_TEMPLATE_NAME:
            yield from _of_bootstrap(current, desired, contents)
        else:
            yield field
    before, after = (_bootstrap(machine, contents) for machine in (current, desired))
    if before is not None and after is not None and before != after:
        yield from (f"bootstrap.{item}" for item in only_new(before, after))


def _bootstrap(parts: MachineParts, contents: Contents) -> Tree | None:
    """The spec of the KubeadmConfig that a machine has or gets; None if unknown."""
    if not parts.is_of_group:
        return parts.bootstrap
    template = contents(BOOTSTRAP_TEMPLATE, parts.bootstrap_template)
    return ((template.get("template") or {}).get("spec") or {}) if template is not None else None


def _of_infrastructure(current: MachineParts, desired: MachineParts, contents: Contents) -> Iterator[str]:
    before, after = current.infrastructure, desired.infrastructure
    if before is None or after is None:
        return
    if before.group_kind != after.group_kind:
        yield "infrastructure.kind"
        return
    trees = [contents(template.group_kind.partition(".")[0], template.name) for template in (before, after)]
    yield from _in_template("infrastructure", *trees) or [in_place_fields.INFRASTRUCTURE]


def _of_bootstrap(current: MachineParts, desired: MachineParts, contents: Contents) -> Iterator[str]:
    trees = [contents(BOOTSTRAP_TEMPLATE, machine.bootstrap_template) for machine in (current, desired)]
    if None in trees:
        yield in_place_fields.BOOTSTRAP_TEMPLATE
    else:
        yield from _in_template("bootstrap", *trees) or [in_place_fields.BOOTSTRAP_TEMPLATE_NAME]


def _in_template(prefix: str, before: Tree | None, after: Tree | None) -> list[str]:
    if before is None or after is None:
        return []
    return [f"{prefix}.{field.removeprefix(in_place_fields.TEMPLATE)}" for field in sorted(differences(before, after))]
