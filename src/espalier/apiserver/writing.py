"""Create, replace, patch and apply: from the body of a request to a draft of what is to be stored.

While webhooks are asked other requests run; whoever finds
another object than the one it started from begins again (patches) or fails (writes that name a resource version).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import msgspec

from espalier.api import core as builtin
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver import bodies, definitions, failures, managers, metadata, patches
from espalier.apiserver.admitting import Admitting
from espalier.apiserver.content import UnsupportedMediaType
from espalier.apiserver.core import Core, Steps, inward, is_sound, outward
from espalier.apiserver.finishing import Draft, Finisher, manager_of
from espalier.apiserver.managers import Managers
from espalier.apiserver.registry import ServedKind
from espalier.apiserver.requests import APPLY, Ask, attributes_of
from espalier.apiserver.scaling import scale_of, set_replicas
from espalier.apiserver.tidying import Tidying
from espalier.kube.errors import ServerFailure, Status
from espalier.kube.objects import Object, encode_json

ATTEMPTS = 10
"""How often a patch is tried again when the object changes while webhooks are asked."""

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_KEEPS_STATUS = frozenset({builtin.NODE})
"""Created with their status, unlike others that have a status subresource."""

Change: TypeAlias = Callable[[Tree], Tree]


class Writer:
    """Carries out writes."""

    def __init__(self, core: Core, admitting: Admitting) -> None:
        self._core = core
        self._finisher = Finisher(core, admitting)

    def create(self, ask: Ask) -> Steps:
        """POST of an object."""
        tree = inward(bodies.object_of(ask), ask.kind)
        if tree["metadata"].get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise ServerFailure(Status(message=message, code=500))
        base = "" if tree["metadata"].get("name") else str(tree["metadata"].get("generateName") or "")
        for _ in range(ATTEMPTS):
            draft = self._created(ask, dict(tree), base)
            answer = yield from self._finisher.finish(draft)
            if answer is not None:
                return answer
            if not base:
                break
        raise failures.already_exists(ask.kind.resource, draft.ask.name)

    def update(self, ask: Ask) -> Steps:
        """PUT of an object, or of a subresource."""
        if ask.subresource == "scale":
            body = bodies.decoded(ask.request.body, "the object provided is unrecognized (must be of type Scale)")
            return (yield from self.modify(ask, self._scaled(ask, lambda _: body)))
        tree = inward(bodies.object_of(ask), ask.kind)
        if ask.kind.custom and not tree["metadata"].get("resourceVersion"):
            cause = failures.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise failures.invalid_object(ask.kind.resource.kind, ask.kind.resource.group, ask.name, [cause])
        return (yield from self.modify(ask, lambda _: tree))

    def patch(self, ask: Ask) -> Steps:
        """PATCH of an object, or of a subresource."""
        if ask.content_type == APPLY:
            return (yield from self._apply(ask))
        what = "error decoding patch"
        change = self._patching(ask, bodies.decoded(ask.request.body, what))
        return (yield from self.modify(ask, self._scaled(ask, change) if ask.subresource == "scale" else change))

    def modify(self, ask: Ask, change: Change) -> Steps:
        """Change an object that is there, by a function from what it is to what it shall be."""
        for _ in range(ATTEMPTS):
            old = self._stored(ask)
            before, owned = self._opened(old, ask.kind)
            new = change(before)
            reset = (new.get("metadata") or {}).pop("managedFields", None) in ([], [{}])
            draft = Draft(ask, old, before, self._merged(ask, before, new), {} if reset else owned)
            self._check_preconditions(ask, old, new)
            answer = yield from self._finisher.finish(draft)
            if answer is not None:
                return answer
            if new["metadata"].get("resourceVersion") and ask.verb == "update":
                break
        raise failures.conflict(ask.kind.resource, ask.name, failures.MODIFIED)

    def _apply(self, ask: Ask) -> Steps:
        if not ask.query.get("fieldManager"):
            cause = failures.required("fieldManager", "is required for apply patch")
            raise failures.invalid_object("PatchOptions", "meta.k8s.io", "", [cause])
        if ask.subresource == "scale":
            raise failures.bad_request("the scale subresource takes merge and JSON patches")
        config = bodies.object_of(ask)
        config = _config(ask, inward(config, ask.kind))
        self._check_config(ask, config)
        for _ in range(ATTEMPTS):
            table = self._core.store.table(ask.kind.table)
            old = table.objects.get(ask.key)
            if old is None and ask.subresource:
                raise failures.not_found(ask.kind.resource, ask.name)
            if old is None and config["metadata"].get("uid"):
                uid = config["metadata"]["uid"]
                sentence = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise failures.conflict(ask.kind.resource, ask.name, sentence)
            if old is None:
                self._require_right_to_create(ask)
            before, owned = self._opened(old, ask.kind) if old is not None else ({}, {})
            new, after = managers.applied(
                before,
                config,
                owned,
                manager_of(ask, "Apply"),
                ask.kind.node,
                metadata.timestamp(self._core.now()),
                force=ask.flag("force"),
            )
            if old is None:
                draft = self._created(ask, new, "")
            else:
                self._check_preconditions(ask, old, config)
                draft = Draft(ask, old, before, self._merged(ask, before, new), owned)
            draft.managers = after
            answer = yield from self._finisher.finish(draft, applied=True)
            if answer is not None:
                if old is None:
                    answer.status = 201
                return answer
        raise failures.conflict(ask.kind.resource, ask.name, failures.MODIFIED)

    def _require_right_to_create(self, ask: Ask) -> None:
        """Who may patch may not for that reason make what is not there."""
        if not self._core.authorizer(replace(attributes_of(ask), verb="create"), ask.user):
            raise failures.forbidden(ask.user, "create", ask.kind.resource, "", ask.namespace, ask.name)

    # What a new object starts from.

    def _created(self, ask: Ask, new: Tree, base: str) -> Draft:
        kind = ask.kind
        new["apiVersion"], new["kind"] = kind.storage_version, kind.resource.kind
        new["metadata"] = system = dict(new.get("metadata") or {})
        self._require_namespace(ask)
        if kind.custom and not self._serving(kind):
            message = "create not allowed while custom resource definition is terminating"
            raise failures.MethodNotAllowed.of(message)
        for name in (*metadata.SYSTEM, "managedFields", "resourceVersion"):
            system.pop(name, None)
        if "status" in kind.subresources and kind.resource not in _KEEPS_STATUS:
            new.pop("status", None)
        if base:
            system["name"] = metadata.generated_name(base, self._core.entropy)
        if kind.resource.namespaced:
            system["namespace"] = ask.namespace
        system["uid"] = metadata.new_uid(self._core.entropy)
        system["creationTimestamp"] = metadata.timestamp(self._core.now())
        if kind.generation:
            system["generation"] = 1
        named = replace(ask, name=str(system.get("name") or ""))
        return Draft(named, None, {}, new, {})

    def _require_namespace(self, ask: Ask) -> None:
        if not ask.namespace:
            return
        resource = builtin.NAMESPACE
        namespace = self._core.store.table(resource.group_resource).objects.get(Key("", ask.namespace))
        if namespace is None:
            raise failures.not_found(resource, ask.namespace)
        if namespace.head.metadata.deletion_timestamp:
            cause = failures.cause(
                "NamespaceTerminating", "metadata.namespace", f"namespace {ask.namespace} is being terminated"
            )
            sentence = f"unable to create new content in namespace {ask.namespace} because it is being terminated"
            raise failures.refused(ask.kind.resource, ask.name, sentence, [cause])

    def _serving(self, kind: ServedKind) -> bool:
        definition = self._core.store.table(definitions.TABLE).objects.get(Key("", kind.table))
        return definition is not None and definition.head.metadata.deletion_timestamp is None

    # What a change starts from.

    def _stored(self, ask: Ask) -> Object:
        old = self._core.store.table(ask.kind.table).objects.get(ask.key)
        if old is None:
            raise failures.not_found(ask.kind.resource, ask.name)
        return old

    def _opened(self, old: Object, kind: ServedKind) -> tuple[Tree, Managers]:
        """The tree of a stored object by the schema as it is now, and apart from it who owns its fields."""
        entries = bytes(old.head.metadata.managed_fields or b"[]")
        # Metadata stands before all that clients fill in freely, and in text quotes are escaped: nothing else is found.
        tree: Tree = msgspec.json.decode(old.raw.replace(entries, b"[]", 1))
        tree["apiVersion"] = kind.storage_version
        tree["metadata"].pop("managedFields", None)
        if not is_sound(old, kind):
            Tidying(typed=False).object(tree, kind.node)
        return tree, managers.decode(entries)

    def _merged(self, ask: Ask, before: Tree, new: Tree) -> Tree:
        """What a write through this path may change; all else stays as it was."""
        kept = dict(before["metadata"])
        if ask.subresource == "status":
            return {**before, "metadata": kept, **({"status": new["status"]} if "status" in new else {})}
        if ask.subresource == "finalize":
            return {**before, "metadata": kept, "spec": new.get("spec") or {}}
        merged = dict(new)
        merged["metadata"] = {
            **{name: part for name, part in new["metadata"].items() if name not in metadata.SYSTEM},
            **{name: kept[name] for name in metadata.SYSTEM if name in kept},
            "resourceVersion": kept["resourceVersion"],
        }
        if "status" in ask.kind.subresources:
            merged.pop("status", None)
            if "status" in before:
                merged["status"] = before["status"]
        return merged

    def _check_preconditions(self, ask: Ask, old: Object, new: Tree) -> None:
        resource, wanted = ask.kind.resource, new.get("metadata") or {}
        version = wanted.get("resourceVersion")
        if version and version != old.head.metadata.resource_version:
            raise failures.conflict(resource, ask.name, failures.MODIFIED)
        uid = wanted.get("uid")
        if uid and uid != old.head.metadata.uid:
            if ask.verb == "patch" and ask.content_type != APPLY:
                cause = failures.immutable("metadata.uid", uid)
                raise failures.invalid_object(resource.kind, resource.group, ask.name, [cause])
            sentence = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.head.metadata.uid}"
            raise failures.conflict(resource, ask.name, sentence)

    def _patching(self, ask: Ask, patch: object) -> Change:
        kind, media = ask.kind, ask.content_type
        if media == MERGE:
            if not isinstance(patch, dict):
                raise failures.bad_request("error decoding patch: a merge patch is an object")
            apply: Change = lambda tree: patches.merge(tree, patch)  # noqa: E731
        elif media == JSON_PATCH:
            apply = lambda tree: patches.json_patch(tree, patch)  # noqa: E731
        elif media == STRATEGIC and not kind.custom:
            if not isinstance(patch, dict):
                raise failures.bad_request("error decoding patch: a strategic merge patch is an object")
            apply = lambda tree: patches.strategic(tree, patch, kind.node)  # noqa: E731
        else:
            accepted = [JSON_PATCH, MERGE, *(() if kind.custom else (STRATEGIC,)), APPLY]
            raise UnsupportedMediaType.of(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(accepted)
            )
        if ask.subresource == "scale":
            return apply

        def change(tree: Tree) -> Tree:
            patched = apply(outward(tree, kind))
            bodies.hold_to_url(ask, patched)
            return inward(patched, kind)

        return change

    def _scaled(self, ask: Ask, change: Change) -> Change:
        """A change of the scale as a change of the object."""

        def on_object(tree: Tree) -> Tree:
            scale = change(scale_of(ask.kind, tree))
            result = set_replicas(ask.kind, tree, scale)
            wanted = scale.get("metadata") or {}
            result["metadata"] = {**result["metadata"], "resourceVersion": wanted.get("resourceVersion", "")}
            return result

        return on_object

    def _check_config(self, ask: Ask, config: Tree) -> None:
        """Applying what the schema does not know is refused, whatever fieldValidation says: nobody could own it."""
        tidying = Tidying(typed=False)
        tidying.object(_copied(config), ask.kind.node)
        resource = ask.kind.resource
        if tidying.unknown:
            found = f".{tidying.unknown[0]}: field not declared in schema"
        elif tidying.causes:
            found = f".{tidying.causes[0].field}: duplicate entries"
        else:
            return
        which = f"{ask.namespace}/{ask.name}; {resource.api_version}, Kind={resource.kind}"
        message = f"failed to create typed patch object ({which}): {found}"
        raise ServerFailure(Status(message=message, code=500))


def _config(ask: Ask, tree: Tree) -> Tree:
    """The part of an applied configuration that its path takes."""
    if ask.subresource == "status":
        named = {name: part for name, part in tree["metadata"].items() if name in _IDENTITY}
        return {"metadata": named, **({"status": tree["status"]} if "status" in tree else {})}
    if "managedFields" in tree["metadata"]:
        raise failures.bad_request("metadata.managedFields must be nil")
    without = {"apiVersion", "kind"} | ({"status"} if "status" in ask.kind.subresources else set())
    return {name: part for name, part in tree.items() if name not in without}


_IDENTITY = frozenset({"name", "namespace", "uid", "resourceVersion"})


def _copied(tree: Tree) -> Tree:
    """A copy that may be changed wherever JSON may be."""
    copied: Tree = msgspec.json.decode(encode_json(tree))
    return copied
