"""Role-based access control by the stored roles and bindings. `allows` is pure; `Rbac` reads a store."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from espalier.api import core as builtin
from espalier.api.meta import Part, Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.access.authorization import administrators_only
from espalier.apiserver.requests.requests import Attributes
from espalier.apiserver.storage.store import Store
from espalier.kube.transports.wire import User

P = TypeVar("P", bound=Part)

_MAX_DECISIONS = 4096
"""The number of cached decisions. The cache is cleared when a role or binding changes."""


class PolicyRule(Part):
    """Verbs on resources; `*` stands for all, `pods/*` for all subresources of pods."""

    verbs: list[str] = []
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    non_resource_urls: list[str] = msgspec.field(name="nonResourceURLs", default_factory=list)

    def covers(self, attributes: Attributes) -> bool:
        """True if the rule allows the request."""
        return (
            _listed(self.verbs, attributes.verb)
            and _listed(self.api_groups, attributes.group)
            and any(_names(pattern, attributes) for pattern in self.resources)
            and (not self.resource_names or (bool(attributes.name) and attributes.name in self.resource_names))
        )


class Subject(Part):
    """A user, a group or a service account."""

    kind: str = ""
    name: str = ""
    namespace: str = ""

    def is_user(self, user: User) -> bool:
        """True if the user is the subject."""
        match self.kind:
            case "User":
                return user.name == self.name
            case "Group":
                return self.name in user.groups
            case "ServiceAccount":
                return user.name == f"system:serviceaccount:{self.namespace}:{self.name}"
        return False


class RoleRef(Part):
    """The role of a binding."""

    kind: str = ""
    name: str = ""


class Role(Part):
    """A Role or ClusterRole."""

    rules: list[PolicyRule] | None = None
    aggregation_rule: Tree | None = None


class Binding(Part):
    """A RoleBinding or ClusterRoleBinding."""

    role_ref: RoleRef = msgspec.field(default_factory=RoleRef)
    subjects: list[Subject] | None = None


class Grant(NamedTuple):
    """A binding and the rules of its role. A RoleBinding's only applies in its namespace; "" is everywhere."""

    namespace: str
    subjects: Sequence[Subject]
    rules: Sequence[PolicyRule]


def allows(attributes: Attributes, user: User, grants: Iterable[Grant]) -> bool:
    """True if a grant to the user covers the request."""
    return any(
        (not grant.namespace or grant.namespace == attributes.namespace)
        and any(subject.is_user(user) for subject in grant.subjects)
        and any(rule.covers(attributes) for rule in grant.rules)
        for grant in grants
    )


def _listed(allowed: Sequence[str], value: str) -> bool:
    return value in allowed or "*" in allowed


def _names(pattern: str, attributes: Attributes) -> bool:
    if pattern == "*":
        return True
    resource, _, subresource = pattern.partition("/")
    return resource in ("*", attributes.resource) and (
        subresource == attributes.subresource or (subresource == "*" and bool(attributes.subresource))
    )


class Rbac:
    """An `Authorizer` that allows everything to administrators, and to others what the stored roles allow.

    Aggregated ClusterRoles are used as stored: there is no aggregation controller.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read_at: tuple[int, ...] = ()
        self._grants: list[Grant] = []
        self._decisions: dict[tuple[Attributes, User], bool] = {}

    def __call__(self, attributes: Attributes, user: User) -> bool:
        """True if the user may make the request. Decisions are cached, because controllers repeat their requests."""
        if administrators_only(attributes, user):
            return True
        grants = self._current()
        decision = self._decisions.get((attributes, user))
        if decision is None:
            if len(self._decisions) >= _MAX_DECISIONS:
                self._decisions.clear()
            decision = self._decisions[attributes, user] = allows(attributes, user, grants)
        return decision

    def rules_for(self, user: User, namespace: str) -> list[PolicyRule]:
        """All rules of a user in a namespace; "" for cluster-wide ones."""
        return [
            rule
            for grant in self._current()
            if grant.namespace in ("", namespace) and any(subject.is_user(user) for subject in grant.subjects)
            for rule in grant.rules
        ]

    def _current(self) -> list[Grant]:
        now = tuple(self._store.table(resource.group_resource).latest for resource in _RESOURCES)
        if now != self._read_at:
            self._grants = list(self._read())
            self._decisions.clear()
            self._read_at = now
        return self._grants

    def _read(self) -> Iterator[Grant]:
        roles = self._decoded_objects(builtin.ROLE, Role)
        cluster_roles = self._decoded_objects(builtin.CLUSTER_ROLE, Role)
        for resource in (builtin.CLUSTER_ROLE_BINDING, builtin.ROLE_BINDING):
            for key, binding in self._decoded_objects(resource, Binding).items():
                reference = binding.role_ref
                if reference.kind == "ClusterRole":
                    role = cluster_roles.get(Key("", reference.name))
                else:
                    role = roles.get(Key(key.namespace, reference.name))
                if role is not None:
                    yield Grant(key.namespace, binding.subjects or (), role.rules or ())

    def _decoded_objects(self, resource: Resource, type_: type[P]) -> Mapping[Key, P]:
        objects = self._store.table(resource.group_resource).objects
        return {key: item.decode(type_) for key, item in objects.items()}


_RESOURCES = (builtin.ROLE, builtin.CLUSTER_ROLE, builtin.ROLE_BINDING, builtin.CLUSTER_ROLE_BINDING)
