"""Classifies the changes in a request, and returns JSON patches for those that can be made in place. Pure.

Cluster API applies the patches and compares: it keeps a machine only if no difference is left. So every difference
that the classification does not accept is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from espalier.api.capi.machine import MachineTemplate
from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.clusterapi import kubernetes_versions
from espalier.clusterapi.changes import in_place_fields, machine_change
from espalier.clusterapi.changes.classification import BOOTSTRAP_TEMPLATE, Classification, UpdateStrategy, classify
from espalier.clusterapi.changes.in_place_fields import is_within
from espalier.clusterapi.changes.machine_change import MachineParts, Template, differences
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure, Infrastructures
from espalier.upgrades.hooks.wire import MachineObjects, Operation, SetObjects

UNCOMPARED = frozenset(
    {
        "bootstrap",
        "clusterName",
        "deletion",
        "infrastructureRef",
        "minReadySeconds",
        "providerID",
        "readinessGates",
        "taints",
    }
)
"""Fields of a machine's spec that Cluster API does not compare: they never require another machine."""

_TEMPLATE = ("template", "spec")


class InPlaceChanges(NamedTuple):
    """Patches by object for all that can be changed in place; fields that can't, and a sentence about versions."""

    patches: dict[str, list[Operation]]
    refused: tuple[str, ...] = ()
    obstacle: str = ""

    @property
    def is_refused(self) -> bool:
        """True if anything can't be changed in place."""
        return bool(self.refused or self.obstacle)

    def sentence(self, subject: str) -> str:
        """A sentence on why `subject` can't be upgraded in place; empty if it can."""
        reasons = [in_place_fields.sentence(self.refused, subject)] if self.refused else []
        return "; ".join(reasons + ([f"{subject}: {self.obstacle}"] if self.obstacle else []))


class _Part(NamedTuple):
    """One object of a request: its spec before and after, the prefix of its fields in messages, and its path."""

    name: str
    before: Tree
    after: Tree
    field: tuple[str, ...]
    place: tuple[str, ...]


def of_machine(current: MachineObjects, desired: MachineObjects, infrastructures: Infrastructures) -> InPlaceChanges:
    """The changes of one control plane machine. Raises `msgspec.ValidationError` if a machine is invalid."""
    before, after = _spec(current.machine), _spec(desired.machine)
    configs = _spec(current.bootstrap_config), _spec(desired.bootstrap_config)
    infrastructure = _spec(current.infrastructure_machine), _spec(desired.infrastructure_machine)
    kind = f"{(desired.infrastructure_machine or {}).get('kind', '')}Template"
    contents = {
        (kind, name): {"template": {"spec": spec}} for name, spec in zip(("0", "1"), infrastructure, strict=True)
    }
    change = classify(
        _machine(before, configs[0], Template(kind, "0")),
        _machine(after, configs[1], Template(kind, "1")),
        UpdateStrategy.IN_PLACE,
        infrastructures,
        lambda kind, name: contents.get((kind, name)),
    )
    parts = (
        _Part("machine", _compared(before), _compared(after), (), ("spec",)),
        _Part("infrastructureMachine", *infrastructure, ("infrastructure",), ("spec",)),
        _Part("bootstrapConfig", *configs, ("bootstrap",), ("spec",)),
    )
    return _in_place_changes(change, infrastructures.of_template(kind), parts)


def of_set(current: SetObjects, desired: SetObjects, infrastructures: Infrastructures) -> InPlaceChanges:
    """The changes of all machines of a MachineSet. Raises `msgspec.ValidationError` if a MachineSet is invalid."""
    before, after = (_spec(objects.machine_set).get("template") or {} for objects in (current, desired))
    configs = _spec(current.bootstrap_config_template), _spec(desired.bootstrap_config_template)
    infrastructure = _spec(current.infrastructure_machine_template), _spec(desired.infrastructure_machine_template)
    kind = (desired.infrastructure_machine_template or {}).get("kind", "")
    parts_before, parts_after = (
        machine_change.of_machine_template(msgspec.convert(template, MachineTemplate)) for template in (before, after)
    )
    contents: dict[tuple[str, str], Tree] = {}
    for part, config, machine in zip((parts_before, parts_after), configs, infrastructure, strict=True):
        contents[BOOTSTRAP_TEMPLATE, part.bootstrap_template] = config
        contents[kind, part.infrastructure.name if part.infrastructure else ""] = machine
    change = classify(
        parts_before,
        parts_after,
        UpdateStrategy.IN_PLACE,
        infrastructures,
        lambda kind, name: contents.get((kind, name)),
    )
    place = ("spec", *_TEMPLATE)
    parts = (
        _Part("machineSet", _compared(before.get("spec") or {}), _compared(after.get("spec") or {}), (), place),
        _Part(
            "infrastructureMachineTemplate",
            _inner(infrastructure[0]),
            _inner(infrastructure[1]),
            ("infrastructure",),
            place,
        ),
        _Part("bootstrapConfigTemplate", _inner(configs[0]), _inner(configs[1]), ("bootstrap",), place),
    )
    return _in_place_changes(change, infrastructures.of_template(kind), parts)


def _in_place_changes(
    change: Classification, provider: Infrastructure | None, parts: tuple[_Part, ...]
) -> InPlaceChanges:
    old, new = (str(spec.get("version", "")) for spec in parts[0][1:3])
    obstacle = kubernetes_versions.step_obstacle(old, new) if old != new else ""
    accepted = {*change.accepted, *in_place_fields.ignored_fields(provider)}
    accepted -= {in_place_fields.INFRASTRUCTURE}  # the template by name; its differences are judged field by field
    if obstacle:
        accepted -= {"version"}
    patches: dict[str, list[Operation]] = {}
    refused = [*change.refused]
    for part in parts:
        for path, before, after in _in_order(part.before, part.after):
            field = paths.render((*part.field, *path))
            if _are_equivalent(before, after) or all(
                _is_accepted(leaf, accepted, refused) for leaf in _leaves(field, before, after)
            ):
                patches.setdefault(part.name, []).append(_operation((*part.place, *path), after))
            elif field != "version" and not any(
                is_within(field, other) or is_within(other, field) for other in refused
            ):
                refused.append(field)
    return InPlaceChanges(patches, tuple(refused), obstacle)


def _is_accepted(field: str, accepted: Iterable[str], refused: Iterable[str]) -> bool:
    """True if a field can be changed in place with all its items: files and flags are refused individually."""
    return any(is_within(field, path) for path in accepted) and not any(is_within(path, field) for path in refused)


def _machine(spec: Tree, config: Tree, template: Template) -> MachineParts:
    return MachineParts(
        version=spec.get("version", ""),
        bootstrap=config,
        infrastructure=template,
        failure_domain=spec.get("failureDomain", ""),
    )


def _in_order(before: Tree, after: Tree) -> list[tuple[tuple[paths.PathStep, ...], object, object]]:
    """The paths at which two trees differ, in order, with the old and new value; UNSET for none, as null is a value in
    a JSON patch."""
    return sorted(paths.differences(before, after, missing=msgspec.UNSET), key=lambda difference: difference[0])


def _are_equivalent(old: object, new: object) -> bool:
    """True if both are absent or empty, which readers treat alike; Cluster API compares them literally."""
    return _is_empty(old) and _is_empty(new)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_empty(inner) for inner in value.values())
    return value in (msgspec.UNSET, None, "", [])


def _operation(path: tuple[paths.PathStep, ...], value: object) -> Operation:
    pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return Operation("remove", pointer) if value is msgspec.UNSET else Operation("add", pointer, value)


def _leaves(field: str, before: object, after: object) -> Iterator[str]:
    """The inner fields of a map that exists on one side only; otherwise the field itself."""
    for inner in differences(*(None if value is msgspec.UNSET else value for value in (before, after))):
        separator = "." if inner and not inner.startswith("[") else ""
        yield f"{field}{separator}{inner}"


def _compared(spec: Tree) -> Tree:
    return {name: value for name, value in spec.items() if name not in UNCOMPARED}


def _spec(object_: Tree | None) -> Tree:
    return (object_ or {}).get("spec") or {}


def _inner(spec: Tree) -> Tree:
    return (spec.get("template") or {}).get("spec") or {}
