"""CustomResourceDefinitions: validation, defaults, status, and the kinds that they define."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from espalier.api import conditions as condition_list
from espalier.api import core
from espalier.api.kinds import Column, Scale
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.trees.json_path import compiled
from espalier.apiserver.builtin import builtin
from espalier.apiserver.schema import default_problems, rule_problems
from espalier.apiserver.schema.pruning import Pruner
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.apiserver.schema.validation import validator_of
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause
from espalier.kube.objects import encode_json
from espalier.kube.server_side_apply.structure import LIST_KEYS, LIST_TYPE, PRESERVE, SCHEMAS, Node, node_of

TABLE = core.CUSTOM_RESOURCE_DEFINITION.group_resource
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a deleted definition while its objects are deleted."""

RULES_EVALUATED = "RulesEvaluated"
"""Our own condition: False on definitions with CEL rules that need unsupported functions."""

_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean"})
_SCOPES = ("Cluster", "Namespaced")
_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def complete(new: Tree) -> None:
    """Set the defaults of a definition, in place."""
    spec = new.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.setdefault("names", {})
    names.setdefault("singular", str(names.get("kind", "")).lower())
    names.setdefault("listKind", f"{names.get('kind', '')}List")
    spec.setdefault("conversion", {"strategy": "None"})
    for version in spec.get("versions") or ():
        _prune_schema(_schema_of(version))


_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_SCHEMAS_OR_OTHERS = {"items": list, "additionalProperties": bool, "additionalItems": bool}
"""Fields of a schema that may be a schema or another type."""


def _prune_schema(schema: Tree) -> None:
    """Prune and validate schemas in such fields, in place; unknown fields are dropped silently."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        for name, otherwise in _SCHEMAS_OR_OTHERS.items():
            below = part.get(name)
            if isinstance(below, dict):
                pruner = Pruner(builtin.node(_PROPS), typed=True)
                pruner.object(below, pruner.root)
                if pruner.mistyped:
                    raise failures.mistyped(core.CUSTOM_RESOURCE_DEFINITION, f"{pruner.mistyped} (in {name})")
                waiting.append(below)
            elif below is None:
                part.pop(name, None)
            elif not isinstance(below, otherwise):
                message = f"json: cannot unmarshal into Go struct field .{name} of type JSONSchemaProps"
                raise failures.mistyped(core.CUSTOM_RESOURCE_DEFINITION, message)
        for name in ("properties", "patternProperties", "definitions"):
            waiting += (part.get(name) or {}).values()
        for name in ("allOf", "anyOf", "oneOf"):
            waiting += part.get(name) or ()
        if part.get("not"):
            waiting.append(part["not"])


def establish(new: Tree, old: Tree | None, registry: Registry, now: str) -> None:
    """Set accepted names and conditions in a definition's status; in place.

    It is served at once, and the response has the condition already.
    """
    spec, before = new["spec"], (old or {}).get("status") or {}
    status = dict(new.get("status") or before)
    conflicting = sorted(_conflicting_names(new, registry))
    conditions = {condition.get("type", ""): condition for condition in status.get("conditions") or ()}

    def set_condition(type_: str, value: bool, reason: str, message: str) -> None:
        was = conditions.get(type_, {})
        status = "True" if value else "False"
        since = was.get("lastTransitionTime", now) if was.get("status") == status else now
        conditions[type_] = {
            "type": type_,
            "status": status,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }

    if conflicting:
        set_condition("NamesAccepted", False, "NameConflict", f"{', '.join(conflicting)} is already in use")
        if conditions.get("Established", {}).get("status") != "True":
            set_condition("Established", False, "NotAccepted", "not all names are accepted")
    else:
        status["acceptedNames"] = dict(spec["names"])
        set_condition("NamesAccepted", True, "NoConflicts", "no conflicts found")
        set_condition("Established", True, "InitialNamesAccepted", "the initial names have been accepted")
    missing = sorted(
        {name for version in spec["versions"] for name in rule_problems.unsupported_features(_schema_of(version))}
    )
    if missing:
        message = f"rules that need {', '.join(missing)} are stored; this API server does not evaluate them"
        set_condition(RULES_EVALUATED, False, "NotSupported", message)
    else:
        conditions.pop(RULES_EVALUATED, None)
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    storage = [version["name"] for version in spec["versions"] if version.get("storage")]
    stored = list(status.get("storedVersions") or before.get("storedVersions") or ())
    status["storedVersions"] = stored + [name for name in storage if name not in stored]
    status["conditions"] = list(conditions.values())
    new["status"] = status


def terminate(tree: Tree, now: str) -> None:
    """Set the condition Terminating in a definition's status; in place."""
    status = dict(tree.get("status") or {})
    conditions = [condition for condition in status.get("conditions") or () if condition.get("type") != "Terminating"]
    terminating = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }
    tree["status"] = {**status, "conditions": [*conditions, terminating]}


def is_true(tree: Tree, type_: str) -> bool:
    """True if a condition of a definition is True."""
    return condition_list.is_true_in(tree.get("status"), type_)


def _conflicting_names(new: Tree, registry: Registry) -> Iterator[str]:
    spec, name = new["spec"], new["metadata"]["name"]
    names = spec["names"]
    wanted = {names["plural"], names["singular"], names["kind"], names["listKind"], *(names.get("shortNames") or ())}
    for kind in registry.kinds():
        if kind.resource.group == spec["group"] and kind.table != name:
            used = {kind.resource.plural, kind.singular, kind.resource.kind, kind.list_kind, *kind.short_names}
            yield from (f'"{taken}"' for taken in wanted & used)


def kinds_of(tree: Tree) -> list[ServedKind]:
    """The kinds of an established definition, one for each served version."""
    if not is_true(tree, "Established"):
        return []
    spec = tree["spec"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return [_kind(tree, version, storage) for version in spec["versions"] if version.get("served")]


def _kind(tree: Tree, version: Tree, storage: str) -> ServedKind:
    spec = tree["spec"]
    names, group = (tree["status"].get("acceptedNames") or spec["names"]), spec["group"]
    subresources = version.get("subresources") or {}
    schema = _schema_of(version)
    scale = subresources.get("scale")
    columns = version.get("additionalPrinterColumns")
    resource = Resource(group, version["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced")
    return ServedKind(
        resource=resource,
        singular=names["singular"],
        list_kind=names["listKind"],
        table=tree["metadata"]["name"],
        storage_version=f"{group}/{storage}",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("scale", "status") if name in subresources),
        columns=tuple(map(_column, columns)) if columns else (_AGE,),
        scale=scale
        and Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")),
        custom=True,
        selectable={
            field["jsonPath"].lstrip("."): field["jsonPath"].lstrip(".")
            for field in version.get("selectableFields") or ()
        },
        make_schema=lambda: schema,
        make_node=lambda: _node(encode_json(schema)),
    )


def _column(column: Tree) -> Column:
    return Column(
        column["name"], column["jsonPath"], column["type"], column.get("description", ""), column.get("priority", 0)
    )


@lru_cache(maxsize=SCHEMAS)
def _node(schema: bytes) -> Node:
    node = node_of(msgspec.json.decode(schema))
    own = {
        "metadata": builtin.node(builtin.OBJECT_META),
        "apiVersion": Node(type="string"),
        "kind": Node(type="string"),
    }
    node.properties = {**node.properties, **own}
    return node


def _schema_of(version: Tree) -> Tree:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema if isinstance(schema, dict) else {}


def problems(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    """Violations of a definition."""
    spec = new.get("spec") or {}
    if old is not None and old.get("spec") == spec:
        return
    names, group = spec.get("names") or {}, spec.get("group", "")
    name, expected = new["metadata"].get("name", ""), f"{names.get('plural', '')}.{group}"
    if name != expected:
        yield failures.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if "." not in group:
        yield failures.invalid("spec.group", group, "should be a domain with at least one dot")
    if spec.get("scope") not in _SCOPES:
        yield failures.unsupported("spec.scope", spec.get("scope", ""), _SCOPES)
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy", "None") != "None":
        detail = "this API server supports only conversion strategy None"
        yield failures.invalid("spec.conversion.strategy", conversion.get("strategy"), detail)
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield failures.invalid("spec.versions", "", "must have exactly one version marked as storage version")
    alike = all(_schema_of(version) == _schema_of(versions[0]) for version in versions)
    for index, version in enumerate(versions[:1] if alike else versions):
        field = "spec.validation" if alike else f"spec.versions[{index}].schema"
        yield from _schema_causes(field, encode_json(_schema_of(version)))
    for index, version in enumerate(versions):
        yield from _column_problems(f"spec.versions[{index}]", version)
    if old is not None:
        before = old.get("spec") or {}
        for field in ("group", "scope"):
            if before.get(field) != spec.get(field):
                yield failures.immutable(f"spec.{field}", spec.get(field))
        for field in ("plural", "kind"):
            if (before.get("names") or {}).get(field) != names.get(field):
                yield failures.immutable(f"spec.names.{field}", names.get(field))


@lru_cache(maxsize=SCHEMAS)
def _schema_causes(field: str, encoded: bytes) -> list[StatusCause]:
    """Paths as in kube-apiserver, which reports a schema that all versions share only once."""
    schema: Tree = msgspec.json.decode(encoded)
    root = f"{field}.openAPIV3Schema"
    if not schema:
        return [failures.required(root, "schemas are required")]
    causes = list(_schema_problems(root, schema))
    if not causes:
        try:
            validator_of(schema)
        except ValueError as error:
            causes.append(failures.invalid(root, "", f"can't be compiled: {error}"))
        causes += rule_problems.problems(schema, root)
        if not causes:
            causes += default_problems.problems(schema, root)
    if schema.get("type") != "object":
        causes.insert(0, failures.invalid(f"{root}.type", schema.get("type", ""), "must be object at the root"))
    return causes


def _column_problems(field: str, version: Tree) -> Iterator[StatusCause]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        try:
            compiled(column.get("jsonPath", ""))
        except ValueError as error:
            path = f"{field}.additionalPrinterColumns[{index}].jsonPath"
            yield failures.invalid(path, column.get("jsonPath", ""), str(error))


def _schema_problems(field: str, schema: Tree) -> Iterator[StatusCause]:
    """Violations of structural schemas, as far as this server depends on them."""
    type_ = schema.get("type")
    if type_ is None:
        if not schema.get("x-kubernetes-int-or-string") and not schema.get(PRESERVE):
            yield failures.required(f"{field}.type", "must not be empty for specified object fields")
    elif type_ not in _TYPES:
        yield failures.unsupported(f"{field}.type", type_, sorted(_TYPES))
    for name in ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "uniqueItems"):
        if schema.get(name):
            yield failures.forbidden_field(f"{field}.{name}", f"{name} is not supported")
    for name, part in (schema.get("properties") or {}).items():
        yield from _schema_problems(f"{field}.properties[{name}]", part)
    if schema.get("properties") and schema.get("additionalProperties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield failures.forbidden_field(f"{field}.additionalProperties", detail)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _schema_problems(f"{field}.additionalProperties", schema["additionalProperties"])
    if type_ == "array":
        if not isinstance(schema.get("items"), dict):
            yield failures.required(f"{field}.items", "must be specified")
        else:
            yield from _schema_problems(f"{field}.items", schema["items"])
            yield from _list_problems(field, schema)


def _list_problems(field: str, schema: Tree) -> Iterable[StatusCause]:
    list_type, keys = schema.get(LIST_TYPE, "atomic"), schema.get(LIST_KEYS) or []
    items = schema["items"]
    if list_type not in ("atomic", "set", "map"):
        yield failures.unsupported(f"{field}.{LIST_TYPE}", list_type, ("atomic", "map", "set"))
    if list_type != "map":
        return
    if not keys:
        yield failures.required(f"{field}.{LIST_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    for index, key in enumerate(keys):
        part = (items.get("properties") or {}).get(key)
        if part is None:
            yield failures.invalid(f"{field}.{LIST_KEYS}[{index}]", key, "entries must be names of item properties")
        elif key not in (items.get("required") or ()) and "default" not in part:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            yield failures.required(f"{field}.items.properties[{key}].default", detail)
