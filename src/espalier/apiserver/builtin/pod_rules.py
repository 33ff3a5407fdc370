"""Validation of pods beyond schemas, like kube-apiserver's, as far as it matters here.

Names and paths of a pod become names and paths of files where it runs. So nothing may lead out of its folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from espalier.api.meta import Tree
from espalier.api.text.quantities import amount
from espalier.apiserver.schema import names
from espalier.apiserver.schema.metadata import name_part_problems
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause

Causes = Iterator[StatusCause]

MAX_PORT = 65535
MAX_MODE = 0o777
MAX_INT32 = 2**31 - 1
CONTAINERS = ("initContainers", "containers")
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^']+'\]|"
    r"spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
)
_VOLUME_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|labels|annotations)|metadata\.(labels|annotations)\['[^']+'\]"
)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_UPDATABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check(new: Tree, old: Tree | None) -> Causes:
    """Violations of a pod."""
    spec = new.get("spec") or {}
    if old is None:
        yield from spec_problems(spec, "spec")
        return
    before = old.get("spec") or {}
    if spec == before:
        return
    for kind in CONTAINERS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield from _image(container, f"spec.{kind}[{index}].image")
    if _immutable_fields(spec) != _immutable_fields(before):
        yield failures.forbidden_field("spec", _IMMUTABLE)


def template_problems(template: Tree, field: str) -> Causes:
    """Violations of a template of pods that are to run for ever."""
    spec = template.get("spec") or {}
    yield from spec_problems(spec, f"{field}.spec")
    policy = spec.get("restartPolicy", "Always")
    if policy != "Always":
        yield failures.unsupported(f"{field}.spec.restartPolicy", policy, ("Always",))


def _immutable_fields(spec: Tree) -> Tree:
    """The fields of a pod's spec that an update must not change. `nodeName` is left out, because `binding` sets it."""
    fixed = {name: part for name, part in spec.items() if name not in (*_UPDATABLE, "nodeName")}
    for kind in CONTAINERS:
        fixed[kind] = [{**container, "image": ""} for container in spec.get(kind) or ()]
    return fixed


def spec_problems(spec: Tree, field: str) -> Causes:
    """Violations of the spec of a pod."""
    volumes = spec.get("volumes") or []
    yield from _volumes(volumes, f"{field}.volumes")
    volume_names = {volume.get("name") for volume in volumes}
    seen: set[str] = set()
    if not spec.get("containers"):
        yield failures.required(f"{field}.containers")
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            container_path = f"{field}.{kind}[{index}]"
            yield from _name(container, f"{container_path}.name", seen)
            yield from _image(container, f"{container_path}.image")
            yield from _container(container, container_path, volume_names)
    yield from _numbers(spec, field)
    if node := spec.get("nodeName"):
        yield from names.subdomain(f"{field}.nodeName", node)
    if account := spec.get("serviceAccountName"):
        yield from names.subdomain(f"{field}.serviceAccountName", account)
    for name in ("hostname", "subdomain"):
        if text := spec.get(name):
            yield from names.label(f"{field}.{name}", text)
    for label in spec.get("nodeSelector") or {}:
        yield from name_part_problems(f"{field}.nodeSelector", label)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            detail = "value must be empty when `operator` is 'Exists'"
            yield failures.invalid(f"{field}.tolerations[{index}].operator", toleration["value"], detail)


def _numbers(spec: Tree, field: str) -> Causes:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        yield from names.number(f"{field}.activeDeadlineSeconds", deadline, 1, MAX_INT32)


def _name(container: Tree, field: str, seen: set[str]) -> Causes:
    name = container.get("name") or ""
    if not name:
        yield failures.required(field)
        return
    yield from names.label(field, name)
    if name in seen:
        yield failures.duplicate(field, name)
    seen.add(name)


def _image(container: Tree, field: str) -> Causes:
    image = container.get("image") or ""
    if not image:
        yield failures.required(field)
    elif image != image.strip():
        yield failures.invalid(field, image, "must not have leading or trailing whitespace")


def _container(container: Tree, field: str, volumes: set[Any]) -> Causes:
    for index, port in enumerate(container.get("ports") or ()):
        yield from _port(port, f"{field}.ports[{index}]")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _variable(variable, f"{field}.env[{index}]")
    for index, source in enumerate(container.get("envFrom") or ()):
        yield from _variables(source, f"{field}.envFrom", index)
    mount_paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        yield from _mount(mount, f"{field}.volumeMounts", index, volumes, mount_paths)
    yield from _resources(container.get("resources") or {}, f"{field}.resources")


def _port(port: Tree, field: str) -> Causes:
    name = port.get("name")
    if name and not re.fullmatch(r"[a-z0-9-]+", name):
        yield failures.invalid(
            f"{field}.name", name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        )
    yield from names.number(f"{field}.containerPort", port.get("containerPort", 0), 1, MAX_PORT)


def _variable(variable: Tree, field: str) -> Causes:
    name = variable.get("name") or ""
    if name:
        yield from names.variable(f"{field}.name", name)
    else:
        yield failures.required(f"{field}.name")
    source = variable.get("valueFrom")
    if source is None:
        return
    source_path = f"{field}.valueFrom"
    chosen = [source_kind for source_kind in _SOURCES if source.get(source_kind) is not None]
    if not chosen:
        listed = ", ".join(f"`{source_kind}`" for source_kind in _SOURCES[:-1])
        yield failures.invalid(source_path, "", f"must specify one of: {listed} or `{_SOURCES[-1]}`")
    elif variable.get("value"):
        yield failures.invalid(source_path, "", "may not be specified when `value` is not empty")
    elif len(chosen) > 1:
        yield failures.invalid(source_path, "", "may not have more than one field specified at a time")
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if (chosen_key := source.get(kind)) is not None:
            yield from _key(chosen_key, f"{source_path}.{kind}")
    if (reference := source.get("fieldRef")) is not None:
        yield from _field(reference, f"{source_path}.fieldRef", _FIELDS)


def _key(chosen: Tree, field: str) -> Causes:
    key = chosen.get("key") or ""
    if key:
        yield from names.key(f"{field}.key", key)
    else:
        yield failures.required(f"{field}.key")


def _field(reference: Tree, field: str, fields: re.Pattern[str]) -> Causes:
    path = reference.get("fieldPath") or ""
    if not path:
        yield failures.required(f"{field}.fieldPath")
    elif not fields.fullmatch(path):
        detail = f"error converting fieldPath: field label not supported: {path}"
        yield failures.invalid(f"{field}.fieldPath", path, detail)


def _variables(source: Tree, field: str, index: int) -> Causes:
    if prefix := source.get("prefix"):
        yield from names.variable(f"{field}[{index}].prefix", prefix)
    if source.get("configMapRef") is None and source.get("secretRef") is None:
        yield failures.invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")


def _mount(mount: Tree, field: str, index: int, volumes: set[Any], mount_paths: set[str]) -> Causes:
    mount_field = f"{field}[{index}]"
    name, path = mount.get("name") or "", mount.get("mountPath") or ""
    if not name:
        yield failures.required(f"{mount_field}.name")
    elif name not in volumes:
        yield failures.value_not_found(f"{mount_field}.name", name)
    if not path:
        yield failures.required(f"{mount_field}.mountPath")
    elif path in mount_paths:
        yield failures.invalid(f"{mount_field}.mountPath", path, "must be unique")
    mount_paths.add(path)
    for inner in ("subPath", "subPathExpr"):
        if mount.get(inner):
            yield from names.inner_path(f"{field}.{inner}", mount[inner])


def _resources(resources: Tree, field: str) -> Causes:
    limits = resources.get("limits") or {}
    for name, requested in (resources.get("requests") or {}).items():
        most = limits.get(name)
        if most is not None and amount(str(requested)) > amount(str(most)):
            detail = f"must be less than or equal to {name} limit of {most}"
            yield failures.invalid(f"{field}.requests", str(requested), detail)


def _volumes(volumes: Iterable[Tree], field: str) -> Causes:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        volume_path = f"{field}[{index}]"
        yield from _source(volume, volume_path)
        name = volume.get("name") or ""
        if not name:
            yield failures.required(f"{volume_path}.name")
            continue
        yield from names.label(f"{volume_path}.name", name)
        if name in seen:
            yield failures.duplicate(f"{volume_path}.name", name)
        seen.add(name)


def _source(volume: Tree, field: str) -> Causes:
    chosen = [name for name, part in volume.items() if name != "name" and part is not None]
    yield from (
        failures.forbidden_field(f"{field}.{name}", "may not specify more than 1 volume type") for name in chosen[1:]
    )
    for name in chosen[:1]:
        source, source_path = volume[name], f"{field}.{name}"
        match name:
            case "hostPath":
                yield from _host_path(source, source_path)
            case "configMap":
                yield from _named(source, source_path, "name")
                yield from _files(source, source_path)
            case "secret":
                yield from _named(source, source_path, "secretName")
                yield from _files(source, source_path)
            case "downwardAPI":
                yield from _downward(source, source_path)
            case "projected":
                yield from _projected(source, source_path)


def _named(source: Tree, field: str, name: str) -> Causes:
    if not source.get(name):
        yield failures.required(f"{field}.{name}")


def _host_path(source: Tree, field: str) -> Causes:
    path = source.get("path") or ""
    if not path:
        yield failures.required(f"{field}.path")
        return
    yield from names.parent_segment_problems(f"{field}.path", path)
    type_ = source.get("type") or ""
    if type_ not in _HOST_PATH_TYPES:
        yield failures.unsupported(f"{field}.type", type_, _HOST_PATH_TYPES)


def _files(source: Tree, field: str) -> Causes:
    yield from _mode(source, field, "defaultMode")
    for index, item in enumerate(source.get("items") or ()):
        item_path = f"{field}.items[{index}]"
        if not item.get("key"):
            yield failures.required(f"{item_path}.key")
        yield from names.file_path(f"{item_path}.path", item.get("path") or "")
        yield from _mode(item, item_path, "mode")


def _mode(source: Tree, field: str, name: str) -> Causes:
    mode = source.get(name)
    if mode is not None and not 0 <= mode <= MAX_MODE:
        yield failures.invalid(f"{field}.{name}", mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _downward(source: Tree, field: str) -> Causes:
    for item in source.get("items") or ():
        yield from names.file_path(f"{field}.path", item.get("path") or "")
        if (reference := item.get("fieldRef")) is not None:
            yield from _field(reference, f"{field}.fieldRef", _VOLUME_FIELDS)


def _projected(source: Tree, field: str) -> Causes:
    yield from _mode(source, field, "defaultMode")
    used_paths: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        source_path = f"{field}.sources[{index}]"
        for kind in ("configMap", "secret"):
            if (files := part.get(kind)) is not None:
                yield from _named(files, f"{source_path}.{kind}", "name")
                yield from _files(files, f"{source_path}.{kind}")
                yield from _taken(field, files.get("name") or "", files, used_paths)
        if (downward := part.get("downwardAPI")) is not None:
            yield from _downward(downward, f"{source_path}.downwardAPI")
            yield from _taken(field, "downwardAPI", downward, used_paths)
        if (token := part.get("serviceAccountToken")) is not None:
            path = token.get("path") or ""
            yield from names.file_path(f"{field}.path", path)


def _taken(field: str, whose: str, source: Tree, used_paths: set[str]) -> Causes:
    paths = {item.get("path") for item in source.get("items") or ()}
    if paths & used_paths:
        yield failures.invalid(field, whose, "conflicting duplicate paths")
    used_paths |= paths
