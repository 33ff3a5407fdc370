"""Structural schemas (the OpenAPI v3 subset that CRDs carry) out of typed structs."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from espalier.api.kinds import PRESERVE, KubeObject, Rule
from espalier.api.meta import ObjectMeta

Schema = dict[str, Any]

INT_OR_STRING_SCHEMA: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}


@cache
def schema_of(cls: type[msgspec.Struct], *, partly: bool = False) -> Schema:
    """The schema of a struct. `partly` keeps unknown fields at every level, for kinds that are not fully typed.

    A field is required when it has no default. Defaults never become `default:` (schemas only widen); the one in a
    schema, for a status that nobody has written, is `eksa.cluster.UNOBSERVED` (decision 0188).
    The result is shared: do not change it. Raises `TypeError` for types that have no structural schema.
    """
    return _Structural(partly).of(inspect.type_info(cls))


def object_schema(cls: type[KubeObject]) -> Schema:
    """The schema of a kind as its CRD has it: the server knows `metadata` itself."""
    schema = schema_of(cls, partly=cls.declaration.partly)
    named = any(rule.field == ".metadata.name" for rule in getattr(cls, "validations", ()))
    metadata: Schema = {"type": "object"}
    if named:  # a rule can only blame a field that is declared; of metadata, the server allows this one to be
        metadata["properties"] = {"name": {"type": "string", "description": "Name of the object."}}
    properties = {**schema["properties"], "metadata": metadata}
    return {**schema, "properties": properties}


def lacking_fields(cls: type[KubeObject], definition: dict[str, Any]) -> list[str]:
    """The fields of the spec of a kind that a CustomResourceDefinition lacks in this version, as one of an earlier
    release: its API server stores and answers none of them."""
    version = cls.declaration.resource.version
    schemas = [item.get("schema") or {} for item in definition["spec"]["versions"] if item["name"] == version]
    present = {} if not schemas else schemas[0].get("openAPIV3Schema") or {}
    spec = object_schema(cls)["properties"]["spec"]
    return list(_lacking(spec, (present.get("properties") or {}).get("spec") or {}, "spec"))


def _lacking(known: Schema, present: Schema, path: str) -> Iterator[str]:
    if present.get("x-kubernetes-preserve-unknown-fields"):
        return
    for key, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(inner := known.get(key), dict):
            yield from _lacking(inner, present.get(key) or {}, f"{path}{suffix}")
    properties = present.get("properties") or {}
    for name, inner in known.get("properties", {}).items():
        if name not in properties:
            yield f"{path}.{name}"
        else:
            yield from _lacking(inner, properties[name], f"{path}.{name}")


def metadata_schema() -> Schema:
    """The schema of `metadata`, for checks without an API server."""
    return schema_of(ObjectMeta)


class _Structural:
    """Walks types; one method for each group of them."""

    def __init__(self, partly: bool) -> None:
        self._partly = partly

    def of(self, type_: inspect.Type) -> Schema:
        match type_:
            case inspect.Metadata(type=inner, extra_json_schema=extra):
                return {**self.of(inner), **(extra or {})}
            case inspect.StructType():
                return self._struct(type_)
            case inspect.UnionType(types=types):
                return self._union([t for t in types if not isinstance(t, inspect.NoneType)])
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                return _given(type="array", items=self.of(item), minItems=type_.min_length, maxItems=type_.max_length)
            case inspect.DictType(value_type=inspect.AnyType()):
                return {"type": "object", **PRESERVE}
            case inspect.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self.of(value)}
            case inspect.AnyType() | inspect.RawType():
                return dict(PRESERVE)
        return _scalar(type_)

    def _struct(self, type_: inspect.StructType) -> Schema:
        properties = {field.encode_name: self.of(field.type) for field in type_.fields}
        schema: Schema = {"type": "object"}
        if type_.cls.__doc__:
            schema["description"] = type_.cls.__doc__.strip().split("\n\n")[0]
        if properties:
            schema["properties"] = properties
        if required := [field.encode_name for field in type_.fields if field.required]:
            schema["required"] = required
        rules: tuple[Rule, ...] = getattr(type_.cls, "validations", ())
        if rules:
            schema["x-kubernetes-validations"] = [_rule(rule) for rule in rules]
        if self._partly:
            schema |= PRESERVE
        return schema

    def _union(self, types: list[inspect.Type]) -> Schema:
        if len(types) == 1:
            return self.of(types[0])
        if {type(t) for t in types} == {inspect.IntType, inspect.StrType}:
            return dict(INT_OR_STRING_SCHEMA)
        raise TypeError(f"a union of {types} has no structural schema")


def _scalar(type_: inspect.Type) -> Schema:
    match type_:
        case inspect.StrType(min_length=min_length, max_length=max_length, pattern=pattern):
            return _given(type="string", minLength=min_length, maxLength=max_length, pattern=pattern)
        case inspect.IntType(ge=minimum, le=maximum):
            return _given(type="integer", format="int64", minimum=minimum, maximum=maximum)
        case inspect.FloatType(ge=minimum, le=maximum):
            return _given(type="number", minimum=minimum, maximum=maximum)
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.LiteralType(values=values) if all(isinstance(value, str) for value in values):
            return {"type": "string", "enum": [*values]}
        case inspect.BytesType():
            return {"type": "string", "format": "byte"}
    raise TypeError(f"{type_} has no structural schema")


def _rule(rule: Rule) -> Schema:
    parts = [rule.message, *([f"allowed: {rule.allowed}"] if rule.allowed else [])]
    schema: Schema = {"rule": rule.rule, "message": "; ".join(parts)}
    if rule.found:
        text = "; ".join([rule.message, "found %s", *parts[1:], *(["allowed: %s"] if rule.allows else [])])
        values = ", ".join(filter(None, [rule.found, rule.allows]))
        # Not concatenated: Kubernetes assumes unbounded length for a number's text, so the expression costs too much.
        schema["messageExpression"] = f"{_quoted(text)}.format([{values}])"
    if rule.field:
        schema["fieldPath"] = rule.field
    if rule.creation:
        schema["optionalOldSelf"] = True
    return schema


def _quoted(text: str) -> str:
    """A CEL string literal in which `%s` is the only placeholder."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("%", "%%").replace("%%s", "%s")
    return f"'{escaped}'"


def _given(**facts: Any) -> Schema:
    return {name: value for name, value in facts.items() if value is not None}
