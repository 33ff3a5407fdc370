"""Deletion: at once, or by deletionTimestamp until finalizers (and kubelets of pods) are done."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from espalier.api import conditions as condition_list
from espalier.api import core as builtin
from espalier.api.meta import Tree
from espalier.apiserver.core.admission import AdmissionWebhooks
from espalier.apiserver.core.core import (
    Answer,
    Core,
    RequestStep,
    RequestSteps,
    item_of_list,
    put,
    raw_in_served_version,
)
from espalier.apiserver.documents import definitions
from espalier.apiserver.requests import bodies
from espalier.apiserver.requests.bodies import DeleteOptions
from espalier.apiserver.requests.requests import RequestInfo
from espalier.apiserver.requests.selectors import selector_of
from espalier.apiserver.schema.metadata import FOREGROUND, ORPHAN
from espalier.apiserver.wire import failures
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object, encode_json

ATTEMPTS = 10
POD_GRACE = 30
"""The default grace period of pods."""

PROTECTED_NAMESPACES = frozenset({"default", "kube-public", "kube-system"})
"""Namespaces that can't be deleted."""

_ENDED = frozenset({"Succeeded", "Failed"})

Deleting: TypeAlias = Generator[RequestStep, Any, Answer | None]
"""The steps of a deletion; None: another request has changed the object."""


class Deleter:
    """Carries out deletions."""

    def __init__(self, core: Core, webhooks: AdmissionWebhooks) -> None:
        self._core = core
        self._webhooks = webhooks

    def delete(self, info: RequestInfo) -> RequestSteps:
        """DELETE of one object."""
        return (yield from self.delete_with(info, bodies.delete_options(info)))

    def delete_with(self, info: RequestInfo, options: DeleteOptions) -> RequestSteps:
        """Delete with given options."""
        return (yield from self._delete(info, options))

    def delete_collection(self, info: RequestInfo) -> RequestSteps:
        """DELETE of all objects of a kind in a namespace that selectors select."""
        options = bodies.delete_options(info)
        selector = selector_of(info.kind, info.query)
        table = self._core.store.table(info.kind.table)
        chosen = [key for key in table.within(info.namespace or None) if selector.selects(table.objects[key])]
        items: list[bytes] = []
        warnings: list[str] = []
        for key in chosen:
            present = table.objects.get(key)
            if present is None:
                continue
            try:
                answer = yield from self._delete(replace(info, namespace=key.namespace, name=key.name), options)
            except NotFound:
                continue
            items.append(item_of_list(table.objects.get(key, present).raw, info.kind))
            warnings += answer.warnings
        revision = self._core.store.revision
        body: Tree = {
            "kind": info.kind.list_kind,
            "apiVersion": info.kind.resource.api_version,
            "metadata": {"resourceVersion": str(revision)},
            "items": [msgspec.Raw(item) for item in items],
        }
        return Answer(encode_json(body), revision, warnings=warnings)

    def _delete(self, info: RequestInfo, options: DeleteOptions) -> RequestSteps:
        table = self._core.store.table(info.kind.table)
        for _ in range(ATTEMPTS):
            old = table.objects.get(info.key)
            if old is None:
                raise failures.not_found(info.kind.resource, info.name)
            if self._is_namespace(info) and info.name in PROTECTED_NAMESPACES:
                raise failures.refused(info.kind.resource, info.name, "this namespace may not be deleted")
            self._check_preconditions(info, old, options)
            warnings: list[str] = []
            yield from self._admit(info, old, warnings)
            if table.objects.get(info.key) is old:
                answer = yield from self._delete_or_mark(info, old, options, warnings)
                if answer is not None:
                    return answer
        raise failures.conflict(info.kind.resource, info.name, failures.MODIFIED)

    def _admit(self, info: RequestInfo, old: Object, warnings: list[str]) -> Generator[RequestStep, Any, None]:
        tree = old.tree
        yield from self._webhooks.mutate(info, "delete", None, tree, warnings)
        yield from self._webhooks.validate(info, "delete", None, tree, warnings)

    def _check_preconditions(self, info: RequestInfo, old: Object, options: DeleteOptions) -> None:
        wanted = options.preconditions or {}
        live = old.head.metadata
        uid, version = wanted.get("uid"), wanted.get("resourceVersion")
        # kube-apiserver calls the object by its kind here, where it calls it by its resource elsewhere.
        resource = info.kind.resource
        called = resource._replace(plural=resource.kind)
        if uid and uid != live.uid:
            raise failures.conflict(
                called,
                info.name,
                f"the UID in the precondition ({uid}) does not match the UID in record ({live.uid}). The object might "
                "have been deleted and then recreated",
            )
        if version and version != live.resource_version:
            raise failures.conflict(
                called,
                info.name,
                f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
                f"({live.resource_version}). The object might have been modified",
            )

    def _delete_or_mark(self, info: RequestInfo, old: Object, options: DeleteOptions, warnings: list[str]) -> Deleting:
        kind, tree = info.kind, old.tree
        tree["apiVersion"] = kind.storage_version
        system = tree["metadata"]
        finalizers = self._finalizers(info, tree, options)
        grace = self._grace(info, tree, options)
        held_by_namespace = self._is_namespace(info) and (tree.get("spec") or {}).get("finalizers")
        if not finalizers and not grace and not held_by_namespace:
            return (yield from self._remove(info, old, tree, options, warnings))
        changed = list(system.get("finalizers") or ()) != finalizers
        if finalizers:
            system["finalizers"] = finalizers
        else:
            system.pop("finalizers", None)
        before = system.get("deletionGracePeriodSeconds")
        if not system.get("deletionTimestamp") or (before is not None and grace < before):
            changed = True
            system["deletionTimestamp"] = condition_list.timestamp(self._core.now() + timedelta(seconds=grace))
            system["deletionGracePeriodSeconds"] = grace
            if kind.generation:
                system["generation"] = system.get("generation", 0) + 1
            if self._is_namespace(info):
                tree["status"] = {**(tree.get("status") or {}), "phase": "Terminating"}
            if kind.resource == builtin.CUSTOM_RESOURCE_DEFINITION:
                definitions.terminate(tree, condition_list.timestamp(self._core.now()))
        if not changed:
            return Answer(
                raw_in_served_version(old.raw, kind), int(old.head.metadata.resource_version), warnings=warnings
            )
        if options.dry_run:
            return Answer(encode_json(tree), self._core.store.revision, warnings=warnings)
        stored = yield from put(kind, info.key, old, tree)
        if stored is None:
            return None
        return Answer(raw_in_served_version(stored.raw, kind), self._core.store.revision, warnings=warnings)

    def _finalizers(self, info: RequestInfo, tree: Tree, options: DeleteOptions) -> list[str]:
        """The finalizers of a deleted object: its own, and that of the propagation policy."""
        present = list(tree["metadata"].get("finalizers") or ())
        policy = options.propagation_policy
        if policy is not None:
            wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy)
            present = [
                finalizer for finalizer in present if finalizer not in (ORPHAN, FOREGROUND) or finalizer == wanted
            ]
            if wanted and wanted not in present:
                present.append(wanted)
        definition = info.kind.resource == builtin.CUSTOM_RESOURCE_DEFINITION
        if definition and definitions.CLEANUP not in present and not tree["metadata"].get("deletionTimestamp"):
            present.append(definitions.CLEANUP)
        return present

    def _grace(self, info: RequestInfo, tree: Tree, options: DeleteOptions) -> int:
        """The grace period of the object; 0 except for pods on a node."""
        if info.kind.resource != builtin.POD:
            return 0
        spec, status = tree.get("spec") or {}, tree.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in _ENDED:
            return 0
        requested = options.grace_period_seconds
        grace = spec.get("terminationGracePeriodSeconds", POD_GRACE) if requested is None else max(requested, 0)
        running = tree["metadata"].get("deletionGracePeriodSeconds")
        return int(grace if running is None else min(grace, running))

    def _is_namespace(self, info: RequestInfo) -> bool:
        return info.kind.resource == builtin.NAMESPACE

    def _remove(
        self, info: RequestInfo, old: Object, tree: Tree, options: DeleteOptions, warnings: list[str]
    ) -> Deleting:
        if not options.dry_run:
            tree["metadata"].pop("finalizers", None)
            if (yield from put(info.kind, info.key, old, tree, deleted=True)) is None:
                return None
        resource = info.kind.resource
        details = {"name": info.name, "kind": resource.plural, "uid": old.head.metadata.uid}
        if resource.group:
            details["group"] = resource.group
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Answer(encode_json(body), self._core.store.revision, warnings=warnings)
