"""All rules of a Shoot together, for writes and for controllers that act on a Shoot without webhooks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from espalier.api.gardener import names
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.project import project_of
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import FINALIZER
from espalier.api.gardener.responsibility import migrating, seed_of
from espalier.api.text.violations import Violation
from espalier.kube.objects import Object
from espalier.kube.transports.wire import User
from espalier.shoots.admission import messages, seeds, users
from espalier.shoots.admission.shoot_rules import epochs, moves, specs


class Garden(msgspec.Struct, frozen=True):
    """The lookups of the rules in the garden."""

    seed: Callable[[str], Seed | None]
    profile: Callable[[str], CloudProfile | None] = lambda _name: None
    placed: Callable[[str], int] = lambda _seed: 0
    """Shoots that a seed has, or that are assigned to it."""
    project: Callable[[str], str] = lambda namespace: project_of(namespace, ())
    """The project of a namespace."""
    is_taken: Callable[[Shoot, str], bool] = lambda _shoot, _technical_id: False
    """True if another shoot than this one has a technical ID."""

    def technical_id(self, shoot: Shoot) -> str:
        """The technical ID that follows from the names of project and shoot."""
        return names.technical_id(self.project(shoot.metadata.namespace), shoot.metadata.name)


def violations(old: Object | None, new: Object, user: User, garden: Garden) -> Iterator[Violation]:
    """The problems of a write of a Shoot."""
    shoot = new.decode(Shoot)
    before = old.decode(Shoot) if old is not None else None
    yield from specs.violations(before, shoot, garden.profile(shoot.spec.profile))
    yield from epochs.violations(old.metadata.annotations if old else {}, new.metadata.annotations, user)
    if before is None or old is None:
        yield from _name(shoot, garden.project(shoot.metadata.namespace), garden.is_taken)
    else:
        if (writer := users.seed_of(user)) is not None:
            yield from _of_gardenlet(old, new, is_responsible=seed_of(before) == writer)
        yield from moves.changes_beside_seed(before, old.tree, shoot, new.tree, may_unblock=users.is_garden(user))
    wanted = shoot.spec.seed_name
    present = before.spec.seed_name if before is not None else None
    if wanted == present:
        return
    if before is not None:
        if present and not users.may_move(user):
            yield Violation(seeds.FIELD, wanted or "nothing", present, messages.MAY_NOT_MOVE)
            return
        source = garden.seed(before.status.seed_name) if before.status.seed_name else None
        problems = list(moves.violations(before, shoot, source, garden.seed(present) if present else None))
        yield from problems
        if problems:
            return
    if wanted and not (before is not None and wanted == before.status.seed_name):  # it stays where it is
        yield from unfit(shoot, wanted, garden)


def _of_gardenlet(old: Object, new: Object, *, is_responsible: bool) -> Iterator[Violation]:
    """The fields of a Shoot that a gardenlet changes without being allowed to. Annotations are reviewed separately."""
    if _spec(old) != _spec(new):
        yield Violation("spec", "", "", messages.SPEC_OF_GARDENLET)
    before, after = old.metadata, new.metadata
    for name, is_unchanged in (
        ("labels", before.labels == after.labels),
        ("ownerReferences", before.owner_references == after.owner_references),
    ):
        if not is_unchanged:
            yield Violation(f"metadata.{name}", "", "", messages.SPEC_OF_GARDENLET)
    changed = set(before.finalizers) ^ set(after.finalizers)
    if changed - {FINALIZER} or (FINALIZER in set(before.finalizers) - set(after.finalizers) and not is_responsible):
        finalizers, allowed = (", ".join(metadata.finalizers) or "none" for metadata in (after, before))
        yield Violation("metadata.finalizers", finalizers, allowed, messages.FINALIZERS_OF_GARDENLET)


def _spec(shoot: Object) -> Any:
    return shoot.tree.get("spec") or {}


def unmovable(shoot: Shoot, garden: Garden) -> list[Violation]:
    """The reasons why a shoot that is to migrate can't go to its seed, for the garden's controllers before they start.

    It applies the rules of admission to a stored object, as far as they can be applied afterwards.
    """
    wanted = shoot.spec.seed_name
    if not migrating(shoot) or wanted is None:
        return []
    source = garden.seed(shoot.status.seed_name) if shoot.status.seed_name else None
    stayed = msgspec.structs.replace(shoot, spec=msgspec.structs.replace(shoot.spec, seed_name=shoot.status.seed_name))
    problems = [] if moves.has_begun(shoot) else list(moves.violations(stayed, shoot, source, None))
    return [*problems, *unfit(shoot, wanted, garden)]


def unfit(shoot: Shoot, seed: str, garden: Garden) -> Iterator[Violation]:
    """The reason why a seed can't have a shoot."""
    profile = garden.profile(shoot.spec.profile)
    yield from seeds.unfit(shoot, seed, garden.seed(seed), profile, garden.placed(seed))


def _name(shoot: Shoot, project: str, is_taken: Callable[[Shoot, str], bool]) -> Iterator[Violation]:
    """The problems of the name of a new shoot, or of its project.

    A technical ID is `shoot--<project>--<shoot>`: with `--` in either, two shoots could have the same one. They could
    also if a project has another namespace than `garden-<project>`: then the first shoot keeps it.
    """
    metadata = shoot.metadata
    if "--" in metadata.name or metadata.name.startswith("-"):
        yield Violation("metadata.name", metadata.name, "a name without --", messages.DOUBLE_HYPHEN)
    if "--" in project or project.startswith("-") or project.endswith("-"):
        value = f"{metadata.namespace} of project {project}"
        yield Violation("metadata.namespace", value, "a project without --", messages.DOUBLE_HYPHEN)
    technical_id = names.technical_id(project, metadata.name)
    if len(technical_id) > names.LONGEST_NAMESPACE:
        most = names.LONGEST_NAMESPACE - len(technical_id) + len(metadata.name)
        value = f"{metadata.name}: {len(metadata.name)} characters"
        yield Violation("metadata.name", value, f"{max(most, 0)} characters in this project", messages.TOO_LONG)
    if is_taken(shoot, technical_id):
        yield Violation("metadata.name", f"{metadata.name}, which gives {technical_id}", "", messages.NAME_TAKEN)
