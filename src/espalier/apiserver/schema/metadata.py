"""Object metadata: values set by the server, and validation."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from uuid import UUID

from espalier.api.meta import SUFFIX_LETTERS, Tree
from espalier.api.resource import Resource
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause

SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

MAX_ANNOTATIONS = 256 * 1024
"""The maximum bytes of all annotations of an object."""

GENERATED_SUFFIX = 5
MAX_GENERATED_BASE = 63 - GENERATED_SUFFIX

SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
"""Fields that clients can't change."""

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN, FOREGROUND})

_subdomain, _label = re.compile(SUBDOMAIN), re.compile(LABEL)
_name_part, _label_value = re.compile(NAME_PART), re.compile(LABEL_VALUE)

# Names of these may have any characters that a path segment can have.
_PATH_SEGMENT_NAMES = frozenset({"rbac.authorization.k8s.io"})
_LABEL_NAMES = frozenset({("", "namespaces"), ("", "services")})

BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"
)
BAD_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
)
_BAD_NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME_PART}')"
)
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{LABEL_VALUE}')"
)


def new_uid(rng: random.Random) -> str:
    """A random UUID."""
    return str(UUID(int=rng.getrandbits(128), version=4))


def generated_name(base: str, rng: random.Random) -> str:
    """A name from `generateName`."""
    return base[:MAX_GENERATED_BASE] + "".join(rng.choices(SUFFIX_LETTERS, k=GENERATED_SUFFIX))


def problems(resource: Resource, metadata: Tree, *, built_in: bool = False) -> Iterator[StatusCause]:
    """Violations of the metadata of an object; finalizers of built-in kinds must be qualified names."""
    name = metadata.get("name", "")
    if not name:
        yield failures.required("metadata.name", "name or generateName is required")
    else:
        yield from (failures.invalid("metadata.name", name, problem) for problem in name_problems(resource, name))
    if base := metadata.get("generateName"):
        # A dash at the end is valid, because letters follow it.
        tried = f"{base[:-1]}a" if base.endswith("-") else base
        name_causes = name_problems(resource, tried)
        yield from (failures.invalid("metadata.generateName", base, problem) for problem in name_causes)
    yield from label_problems("metadata.labels", metadata.get("labels") or {})
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        yield from _key_problems("metadata.annotations", key.lower())
    if sum(len(key) + len(value) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        message = f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"
        yield failures.cause("FieldValueTooLong", "metadata.annotations", message)
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        yield from _key_problems("metadata.finalizers", finalizer)
        if built_in and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield failures.invalid(f"metadata.finalizers[{index}]", finalizer, detail)
    yield from _owner_problems(metadata.get("ownerReferences") or ())


def name_problems(resource: Resource, name: str) -> Iterator[str]:
    """Why objects of a resource can't have a name."""
    if resource.group in _PATH_SEGMENT_NAMES:
        if name in (".", ".."):
            yield f"may not be '{name}'"
        yield from (f"may not contain '{sign}'" for sign in "/%" if sign in name)
    elif (resource.group, resource.plural) in _LABEL_NAMES:
        if len(name) > 63:
            yield "must be no more than 63 characters"
        if not _label.fullmatch(name):
            yield label_problem(name)
    else:
        if len(name) > 253:
            yield "must be no more than 253 characters"
        if not _subdomain.fullmatch(name):
            yield BAD_SUBDOMAIN


def label_problem(name: str) -> str:
    """Why a text is not a DNS label. As upstream, dots get a message of their own."""
    dotted = "." in name and _subdomain.fullmatch(name)
    return "must not contain dots" if dotted else BAD_LABEL


def label_problems(field: str, labels: Tree) -> Iterator[StatusCause]:
    """Violations of labels."""
    for key, value in labels.items():
        yield from _key_problems(field, key)
        yield from value_problems(field, value)


def value_problems(field: str, value: str) -> Iterator[StatusCause]:
    """Violations of the value of a label."""
    if len(value) > 63:
        yield failures.invalid(field, value, "must be no more than 63 bytes")
    if not _label_value.fullmatch(value):
        yield failures.invalid(field, value, _BAD_VALUE)


def name_part_problems(field: str, key: str) -> Iterator[StatusCause]:
    """Violations of the key of a label."""
    yield from _key_problems(field, key)


def _key_problems(field: str, key: str) -> Iterator[StatusCause]:
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        yield failures.invalid(field, key, "prefix part must be non-empty")
    elif slash:
        if len(prefix) > 253:
            yield failures.invalid(field, key, "prefix part must be no more than 253 bytes")
        if not _subdomain.fullmatch(prefix):
            yield failures.invalid(field, key, f"prefix part {BAD_SUBDOMAIN}")
    if not name:
        yield failures.invalid(field, key, "name part must be non-empty")
    elif len(name) > 63:
        yield failures.invalid(field, key, "name part must be no more than 63 bytes")
    if not _name_part.fullmatch(name):
        yield failures.invalid(field, key, _BAD_NAME_PART)


def _owner_problems(owners: list[Tree] | tuple[()]) -> Iterator[StatusCause]:
    field = "metadata.ownerReferences"
    for owner in owners:
        if not owner.get("apiVersion"):
            yield failures.invalid(f"{field}.apiVersion", "", "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield failures.invalid(f"{field}.{name}", "", "must not be empty")
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        named = " and ".join(f"{owner.get('kind', '')}/{owner.get('name', '')}" for owner in controllers[:2])
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {named}'
        yield failures.invalid(field, owners, detail)


def immutable_problems(old: Tree, new: Tree) -> Iterator[StatusCause]:
    """Violations of immutable metadata."""
    for name in ("name", "namespace", "uid"):
        if new.get(name) != old.get(name):
            yield failures.immutable(f"metadata.{name}", new.get(name))
    if old.get("deletionTimestamp"):
        added = [
            finalizer for finalizer in new.get("finalizers") or () if finalizer not in (old.get("finalizers") or ())
        ]
        if added:
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            yield failures.forbidden_field("metadata.finalizers", detail)
