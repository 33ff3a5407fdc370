"""Reference pages, generated from the declarations of typed kinds: every field, its type and its purpose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from espalier.api.definitions.structural import Schema, object_schema
from espalier.api.kinds import KubeObject
from espalier.api.text import patterns


def page(cls: type[KubeObject]) -> str:
    """The page of a kind, as Markdown."""
    declaration = cls.declaration
    resource = declaration.resource
    names = ", ".join(f"`{name}`" for name in (resource.group_resource, *declaration.short_names))
    scope = "in a namespace" if resource.namespaced else "for the whole cluster"
    schema = object_schema(cls)
    lines = [
        f"# {resource.kind}",
        "",
        f"`{resource.api_version}`, {scope}; {names} to kubectl. {(cls.__doc__ or '').strip()}",
        "",
        "| field | type | |",
        "|---|---|---|",
        *(f"| | rule | {rule['message']} |" for rule in schema.get("x-kubernetes-validations", [])),
        *_rows(schema, ""),
    ]
    return "\n".join(lines) + "\n"


def _rows(schema: Schema, path: str) -> Iterator[str]:
    required = schema.get("required", [])
    for name, child in schema.get("properties", {}).items():
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        field = f"{path}.{name}".lstrip(".")
        kind, inner, suffix = _type(child)
        text = child.get("description", "").replace("|", "\\|")
        marked = "**required**; " if name in required else ""
        yield f"| `{field}` | {kind} | {marked}{text}{_limits(child)} |"
        yield from _rows(inner, field + suffix)
        for rule in inner.get("x-kubernetes-validations", []):
            yield f"| `{field}{suffix}` | rule | {rule['message']} |"


def _type(schema: Schema) -> tuple[str, Schema, str]:
    """The name of a type, the schema with its fields, and the suffix of their path."""
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or percentage", {}, ""
    if schema.get("type") == "array":
        kind, inner, suffix = _type(schema["items"])
        return f"list of {kind}", inner, f"[]{suffix}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])[0]}", {}, ""
    if schema.get("type") == "object" or "type" not in schema:
        return ("object" if "properties" in schema else "anything"), schema, ""
    return str(schema["type"]), {}, ""


def _limits(schema: Schema) -> str:
    limits = [f"one of {', '.join(value or '(empty)' for value in schema['enum'])}"] if "enum" in schema else []
    if "minimum" in schema:
        limits.append(f"{schema['minimum']} or more")
    if "maximum" in schema:
        limits.append(f"{schema['maximum']} or less")
    if "pattern" in schema:
        limits.append(patterns.words(schema["pattern"]) or f"matches `{schema['pattern']}`")
    return f" ({'; '.join(limits)})" if limits else ""


def write(folder: Path, kinds: Iterable[type[KubeObject]]) -> None:
    """Write a page for each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for cls in kinds:
        (folder / f"{cls.declaration.singular}.md").write_text(page(cls))
