"""Changes of a Shoot's `spec.seedName`: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from espalier.api.gardener import ownership
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import created, migrating, restoring
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.api.text import paths
from espalier.api.text.violations import Violation, shown
from espalier.shoots.admission import messages
from espalier.shoots.admission.seeds import FIELD, is_lost

Tree = Mapping[str, Any]


def has_begun(shoot: Shoot) -> bool:
    """True if a move can't be cancelled by naming the present seed again: resources are being deleted, or are gone."""
    last = shoot.status.last_operation
    is_pending = last is not None and last.state == OperationState.PENDING  # nothing is stopped yet
    if last is not None and last.type == OperationType.MIGRATE and not last.finished and not is_pending:
        return True
    try:
        current = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP)).current
    except OwnershipError:
        return True
    return current is not None and shoot.status.seed_name is not None and current.seed != shoot.status.seed_name


def violations(old: Shoot, new: Shoot, source: Seed | None, destination: Seed | None) -> Iterator[Violation]:
    """The reason why `spec.seedName` can't be changed.

    `source` is the Seed that has it, `destination` the one to which it was moving before this write.
    """
    before, after = old.spec.seed_name, new.spec.seed_name
    if before == after:
        return
    if before and not after:
        yield Violation(FIELD, "nothing", before, messages.SEED_STAYS_SET)
        return
    if not before:
        return
    if old.metadata.deletion_timestamp is not None and not (old.status.seed_name and is_lost(source)):
        yield Violation(FIELD, str(after), before, messages.DELETED)
        return
    is_cancelled = after == old.status.seed_name and migrating(old)
    if not created(old) and not restoring(old) and (has_begun(old) or not is_cancelled):
        last = old.status.last_operation
        state = f"{last.type} {last.state}" if last is not None else "nothing yet"
        yield Violation(FIELD, f"{after}, while the last operation is {state}", before, messages.NOT_CREATED)
        return
    is_moving = migrating(old) or restoring(old)
    if is_moving and (has_begun(old) or restoring(old)) and (is_cancelled or not is_lost(destination)):
        yield Violation(FIELD, str(after), before, messages.MOVING)
        return
    if source is not None and source.spec.backup is None and not is_cancelled:
        yield Violation(FIELD, f"{after}, from {source.metadata.name}", "", messages.SOURCE_WITHOUT_BACKUP)


def changes_beside_seed(
    old: Shoot, old_tree: Tree, new: Shoot, new_tree: Tree, *, may_unblock: bool = False
) -> Iterator[Violation]:
    """The violations of other fields of spec that change in the write that moves the shoot, or while it moves.

    `may_unblock`: the user may change them while the shoot moves, as one of them may block the move.
    """
    if old.metadata.deletion_timestamp is not None:
        return
    is_requested = bool(old.spec.seed_name) and old.spec.seed_name != new.spec.seed_name
    if not is_requested and (may_unblock or not (migrating(old) or restoring(old))):
        return
    message = messages.ONLY_THE_SEED if is_requested else messages.FROZEN
    for path, before, after in paths.differences(_spec(old_tree), _spec(new_tree), ("spec",)):
        if path != ("spec", "seedName"):
            yield Violation(paths.render(path), _text(after), _text(before), message)


def _spec(tree: Tree) -> Any:
    return tree.get("spec") or {}


def _text(value: Any) -> str:
    return "nothing" if value is None else shown(value)
