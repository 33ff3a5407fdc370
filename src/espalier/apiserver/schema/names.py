"""Validation of names other than those of objects, with Kubernetes' messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from espalier.apiserver.schema.metadata import BAD_SUBDOMAIN, LABEL, SUBDOMAIN, label_problem
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause

MAX_LABEL, MAX_SUBDOMAIN = 63, 253
PARENT = ".."
_label, _subdomain = re.compile(LABEL), re.compile(SUBDOMAIN)
_key = re.compile(r"[-._a-zA-Z0-9]+")
_variable = re.compile(r"[ -<>-~]+")
_BAD_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_BAD_VARIABLE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def _no_longer_than(limit: int) -> str:
    return f"must be no more than {limit} characters"


def label(field: str, name: str) -> Iterator[StatusCause]:
    """Violations of a DNS label."""
    if len(name) > MAX_LABEL:
        yield failures.invalid(field, name, _no_longer_than(MAX_LABEL))
    if not _label.fullmatch(name):
        yield failures.invalid(field, name, label_problem(name))


def subdomain(field: str, name: str) -> Iterator[StatusCause]:
    """Violations of a DNS subdomain."""
    if len(name) > MAX_SUBDOMAIN:
        yield failures.invalid(field, name, _no_longer_than(MAX_SUBDOMAIN))
    if not _subdomain.fullmatch(name):
        yield failures.invalid(field, name, BAD_SUBDOMAIN)


def key(field: str, name: str) -> Iterator[StatusCause]:
    """Violations of a key of a ConfigMap or Secret: it becomes the name of a file."""
    if len(name) > MAX_SUBDOMAIN:
        yield failures.invalid(field, name, _no_longer_than(MAX_SUBDOMAIN))
    if not _key.fullmatch(name):
        yield failures.invalid(field, name, _BAD_KEY)
    yield from _no_parent(field, name)


def _no_parent(field: str, name: str) -> Iterator[StatusCause]:
    if name in (".", PARENT):
        yield failures.invalid(field, name, f"must not be '{name}'")
    elif name.startswith(PARENT):
        yield failures.invalid(field, name, f"must not start with '{PARENT}'")


def variable(field: str, name: str) -> Iterator[StatusCause]:
    """Violations of the name of an environment variable."""
    if not _variable.fullmatch(name):
        yield failures.invalid(field, name, _BAD_VARIABLE)


def parent_segment_problems(field: str, path: str) -> Iterator[StatusCause]:
    """Violations of a path that must not contain `..`."""
    if PARENT in path.split("/"):
        yield failures.invalid(field, path, f"must not contain '{PARENT}'")


def inner_path(field: str, path: str) -> Iterator[StatusCause]:
    """Violations of a path that must stay within a folder."""
    if path.startswith("/"):
        yield failures.invalid(field, path, "must be a relative path")
    yield from parent_segment_problems(field, path)


def file_path(field: str, path: str) -> Iterator[StatusCause]:
    """Violations of the path of a file that a volume makes."""
    if not path:
        yield failures.required(field)
        return
    yield from inner_path(field, path)
    if path.startswith(PARENT) and not path.startswith("../"):
        yield failures.invalid(field, path, f"must not start with '{PARENT}'")


def number(field: str, value: int, least: int, most: int) -> Iterator[StatusCause]:
    """Violations of a number."""
    if not least <= value <= most:
        yield failures.invalid(field, value, f"must be between {least} and {most}, inclusive")
