"""The common part of all writes: from a draft to the stored object.

The order is that of kube-apiserver: prune and default, set what the system sets, call mutating webhooks, validate,
call validating webhooks, compare with what is stored, store.

create, update, patch and apply differ in how they make a draft (`writing.py`); from there on `StoragePipeline.finish`
is the only way into the store. It is a generator: it yields what has to be done outside (calls of webhooks, a commit)
and is resumed with the result, so the core does no I/O.

1. Prune and default: fields without a schema go, with a warning or an error by `fieldValidation`. A wrong type in a
   built-in kind or in metadata is an error here; in a custom kind, when it is validated. Defaults come from the schema,
   and for some built-in kinds from code (`ServedKind.complete`).
2. Managers of fields follow from the difference to the version before; server-side apply has set them already.
3. Mutating webhooks. What they change is pruned and defaulted again, and gets no manager, nor does what the server
   assigns (`ServedKind.assign`).
4. The generation grows if anything but metadata and status differs.
5. Validate: rights that a role would give, metadata, schema and CEL, rules of the kind. Parts that are equal to a
   valid stored version are not judged again (`Draft.settled`), so an object that a stricter schema would refuse can
   still be written elsewhere.
6. Validating webhooks.
7. Compare: webhooks take time. If the stored object is another by now the result is None, and the caller makes a new
   draft from that, or reports a conflict. If nothing differs, the stored object is the answer and no revision is used.
8. Store, unless it is a dry run. An object that is being deleted and has lost its last finalizer is removed instead.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from espalier.api import conditions as condition_list
from espalier.api import core as builtin
from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.apiserver.access import escalation, signing_rights
from espalier.apiserver.access.rbac import Rbac
from espalier.apiserver.builtin.scaling import scale_of
from espalier.apiserver.core.admission import AdmissionWebhooks
from espalier.apiserver.core.core import (
    Answer,
    Core,
    RequestStep,
    Writing,
    encode_stored,
    is_valid,
    put,
    raw_in_served_version,
    to_served_version,
)
from espalier.apiserver.documents import custom_objects, definitions
from espalier.apiserver.fields import patches
from espalier.apiserver.requests import bodies
from espalier.apiserver.requests.requests import APPLY, RequestInfo
from espalier.apiserver.schema import metadata
from espalier.apiserver.schema.pruning import Pruner
from espalier.apiserver.schema.registry import ServedKind
from espalier.apiserver.wire import failures
from espalier.kube.errors import ApiError
from espalier.kube.objects import Object, encode_json
from espalier.kube.server_side_apply import managed_fields
from espalier.kube.server_side_apply.managed_fields import Manager, Managers

Written: TypeAlias = Generator[RequestStep, Any, Answer | None]


@dataclass(slots=True)
class Draft:
    """A write in progress. Trees are in the stored version, without managedFields; `before` follows the present
    schema.
    """

    info: RequestInfo
    old: Object | None
    before: Tree
    new: Tree
    owned: Managers
    """Managers before the write."""
    submitted_managers: Managers | None = None
    """Managers before the write by the `managedFields` in the request; None if it has none."""
    managers: Managers = field(default_factory=dict)
    """Managers after the write."""
    warnings: list[str] = field(default_factory=list)
    valid: bool = True
    """True if the object violates nothing, not even in unchanged parts."""

    @property
    def settled(self) -> Tree:
        """The previous version if it is valid, because identical parts need no validation; otherwise empty."""
        return self.before if self.old is not None and is_valid(self.old, self.kind) else {}

    @property
    def kind(self) -> ServedKind:
        """The served kind of the object."""
        return self.info.kind

    @property
    def operation(self) -> str:
        """The operation's name in webhooks."""
        return "create" if self.old is None else "update"


class StoragePipeline:
    """Completes and stores drafts."""

    def __init__(self, core: Core, webhooks: AdmissionWebhooks) -> None:
        self._core = core
        self._webhooks = webhooks
        authorizer = core.authorizer
        self._rights = (authorizer if isinstance(authorizer, Rbac) else Rbac(core.store)).rules_for

    def finish(self, draft: Draft, *, applied: bool = False) -> Written:
        """Store a draft, unless it changes nothing; returns None when the object changed meanwhile.

        `applied`: server-side apply has set the managers already.
        """
        info, kind = draft.info, draft.kind
        self._prune_and_default(draft)
        if not applied:
            draft.managers = self._update_managers(draft)
        draft.new["metadata"].pop("managedFields", None)
        mutated = yield from self._webhooks.mutate(
            info, draft.operation, draft.new, draft.before or None, draft.warnings
        )
        if mutated is not None and mutated is not draft.new:
            # As upstream, values set by webhooks have no manager: a later apply has no conflict.
            draft.new = mutated
            self._prune_and_default(draft)
            draft.new["metadata"].pop("managedFields", None)
        if kind.assign is not None:
            kind.assign(draft.new, draft.before or None)
        self._count_generation(draft)
        self._validate(draft)
        yield from self._webhooks.validate(info, draft.operation, draft.new, draft.before or None, draft.warnings)
        table = self._core.store.table(kind.table)
        if table.objects.get(info.key) is not draft.old:
            return None
        if draft.old is not None and self._is_unchanged(draft):
            return self._answer(draft, draft.old)
        if entries := managed_fields.encode(draft.managers):
            draft.new["metadata"]["managedFields"] = entries
        if info.dry_run:
            return self._answer(draft, Object(encode_stored(draft.new, kind)))
        stored = yield from self._store(draft)
        return self._answer(draft, stored) if stored is not None else None

    def _prune_and_default(self, draft: Draft) -> None:
        kind, new, valid = draft.kind, draft.new, draft.settled
        managed = new["metadata"].pop("managedFields", None)
        pruner = Pruner(kind.node, typed=True)
        if kind.custom:
            node = kind.node.properties["metadata"]
            pruner.object(new["metadata"], node, ("metadata", ()), valid.get("metadata", {}))
            pruner.typed, valid = False, {**valid, "metadata": new["metadata"]}
        pruner.object(new, kind.node, valid=valid)
        resource = kind.resource
        if pruner.mistyped:
            raise _unhandled(draft, pruner.mistyped)
        self._report_unknown_fields(draft, pruner.unknown)
        if pruner.causes:
            raise failures.invalid_object(resource.kind, resource.group, draft.info.name, pruner.causes)
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        if kind.complete is not None:
            kind.complete(new, draft.before or None)
        if resource == builtin.CUSTOM_RESOURCE_DEFINITION:
            definitions.complete(new)

    def _report_unknown_fields(self, draft: Draft, unknown: list[str]) -> None:
        if not unknown:
            return
        level = draft.info.query.get("fieldValidation") or "Warn"
        sentences = [f'unknown field "{name}"' for name in sorted(unknown)]
        if level == "Strict":
            raise _unhandled(draft, f"strict decoding error: {', '.join(sentences)}")
        if level == "Warn":
            draft.warnings += sentences

    def _update_managers(self, draft: Draft) -> Managers:
        me = manager_of(draft.info, "Update")
        owned, now = (
            draft.owned if draft.submitted_managers is None else draft.submitted_managers,
            condition_list.timestamp(self._core.now()),
        )
        return managed_fields.update(draft.before, draft.new, owned, me, draft.kind.node, now)

    def _count_generation(self, draft: Draft) -> None:
        if draft.old is None or not draft.kind.generation or draft.info.subresource == "status":
            return
        aside = {"metadata", "status"} if not draft.kind.custom or "status" in draft.kind.subresources else {"metadata"}
        old, new = draft.before, draft.new
        if not all(json_trees.same(old.get(name), new.get(name)) for name in (old.keys() | new.keys()) - aside):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _validate(self, draft: Draft) -> None:
        kind, new = draft.kind, draft.new
        escalation.check(
            draft.info,
            new,
            draft.before if draft.old is not None else None,
            self._core.store,
            self._core.authorizer,
            self._rights,
        )
        signing_rights.check(draft.info, new, draft.before if draft.old is not None else None, self._core.authorizer)
        causes = list(metadata.problems(kind.resource, new["metadata"], built_in=not kind.custom))
        if draft.old is not None:
            causes += metadata.immutable_problems(draft.before["metadata"], new["metadata"])
        if kind.custom:
            validated = custom_objects.validate(kind, new, draft.before or None, settled=bool(draft.settled))
            draft.warnings += validated.warnings
            draft.valid = draft.valid and validated.is_valid
            causes += validated.causes
        definition = kind.resource == builtin.CUSTOM_RESOURCE_DEFINITION
        if definition and not causes:
            causes += definitions.problems(new, draft.before or None)
        if kind.check is not None and not causes:
            causes += kind.check(new, draft.before or None)
        if causes:
            raise failures.invalid_object(kind.resource.kind, kind.resource.group, draft.info.name, causes)
        if definition and not new["metadata"].get("deletionTimestamp"):
            self._establish(draft)

    def _establish(self, draft: Draft) -> None:
        """Report in the status of a definition whether it is served. The server itself owns what it reports."""
        new, now = draft.new, condition_list.timestamp(self._core.now())
        reported = new.get("status") or {}
        definitions.establish(new, draft.before or None, self._core.registry, now)
        before = {"conditions": [], **reported, "storedVersions": new["status"]["storedVersions"]}
        me = Manager("kube-apiserver", "Update", draft.kind.resource.api_version, "status")
        draft.managers = managed_fields.update({**new, "status": before}, new, draft.managers, me, draft.kind.node, now)

    def _is_unchanged(self, draft: Draft) -> bool:
        if draft.new != draft.before or draft.managers != draft.owned:
            return False
        # The stored object may have the form of an earlier schema.
        stored = draft.old.tree if draft.old is not None else {}
        stored["metadata"].pop("managedFields", None)
        return json_trees.same(draft.new, {**stored, "apiVersion": draft.kind.storage_version})

    def _store(self, draft: Draft) -> Writing:
        system = draft.new["metadata"]
        terminated = (
            draft.old is not None
            and system.get("deletionTimestamp")
            and not system.get("finalizers")
            and not system.get("deletionGracePeriodSeconds")
            and not (draft.kind.resource == builtin.NAMESPACE and (draft.new.get("spec") or {}).get("finalizers"))
        )
        kind, key = draft.kind, draft.info.key
        return put(kind, key, draft.old, draft.new, deleted=bool(terminated), valid=draft.valid)

    def _answer(self, draft: Draft, stored: Object) -> Answer:
        info = draft.info
        raw = raw_in_served_version(stored.raw, info.kind)
        if info.subresource == "scale":
            raw = encode_json(scale_of(info.kind, stored.tree))
        revision = self._core.store.revision if info.dry_run else int(stored.head.metadata.resource_version)
        return Answer(raw, revision, 201 if info.verb == "create" else 200, draft.warnings)


def _unhandled(draft: Draft, problem: str) -> ApiError:
    """The error for an object that can't be decoded as its kind; for a patch, with the patched object."""
    resource, info = draft.kind.resource, draft.info
    if info.verb == "patch" and info.content_type != APPLY:
        if info.content_type == patches.STRATEGIC:
            shown = patches.as_go(msgspec.json.decode(info.request.body))
        else:
            shown = failures.shown(to_served_version(draft.new, draft.kind))
        cause = failures.invalid("patch", shown, problem)
        return failures.invalid_object("", "", "", [cause])
    return bodies.unhandled(resource.kind, resource.api_version, resource.kind, problem)


def manager_of(info: RequestInfo, operation: str) -> Manager:
    """The field manager of a request."""
    return Manager(info.field_manager, operation, info.kind.resource.api_version, info.subresource)
