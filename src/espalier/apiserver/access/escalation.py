"""Prevents privilege escalation: roles and bindings must not grant rights that their writer lacks.

As in kube-apiserver: verb `escalate` allows any rule in a role, verb `bind` allows binding it, and administrators may
do both. Only changed rules are checked, so every writer of a role may change its labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import msgspec

from espalier.api import core as builtin
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.apiserver.access.authorization import MASTERS
from espalier.apiserver.access.rbac import Binding, PolicyRule, Role
from espalier.apiserver.requests.requests import Attributes, Authorizer, RequestInfo
from espalier.apiserver.storage.store import Store
from espalier.apiserver.wire import failures
from espalier.kube.errors import ApiError
from espalier.kube.transports.wire import User

RulesFor = Callable[[User, str], Sequence[PolicyRule]]
"""The rules of a user in a namespace."""

MAX_SHOWN = 10
"""The maximum number of rights in a message."""

MAX_SINGLE_RULES = 20_000
"""The maximum number of single rights to compare: a rule of a few hundred bytes may expand to billions."""

_EVERYTHING = (
    PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"]),
    PolicyRule(verbs=["*"], non_resource_urls=["*"]),
)
"""The rules that an aggregated role may get."""


def check(
    info: RequestInfo, new: Tree, old: Tree | None, store: Store, authorizer: Authorizer, rules_for: RulesFor
) -> None:
    """Raise `Forbidden` when a write would grant rights that its writer lacks. `old` is None for a new object."""
    resource = info.kind.resource
    if MASTERS in info.user.groups:
        return
    wanted: list[PolicyRule] | None
    if resource in (builtin.ROLE, builtin.CLUSTER_ROLE):
        if old is not None and all(old.get(field) == new.get(field) for field in ("rules", "aggregationRule")):
            return
        role, name, verb = resource, info.name, "escalate"
        wanted = _rules(msgspec.convert(new, Role))
    elif resource in (builtin.ROLE_BINDING, builtin.CLUSTER_ROLE_BINDING):
        if old is not None and all(old.get(field) == new.get(field) for field in ("roleRef", "subjects")):
            return
        reference = msgspec.convert(new, Binding).role_ref
        role = builtin.CLUSTER_ROLE if reference.kind == builtin.CLUSTER_ROLE.kind else builtin.ROLE
        name, verb = reference.name, "bind"
        referenced = store.table(role.group_resource).objects.get(Key(info.namespace if role.namespaced else "", name))
        wanted = None if referenced is None else list(referenced.decode(Role).rules or ())
    else:
        return
    if authorizer(Attributes(verb, role.group, role.plural, namespace=info.namespace, name=name), info.user):
        return
    if wanted is None:
        raise failures.not_found(role, name)
    missing = list(_uncovered(wanted, rules_for(info.user, info.namespace)))
    if missing:
        raise _refusal(info, missing)


def _rules(role: Role) -> list[PolicyRule]:
    return [*(role.rules or ()), *(_EVERYTHING if role.aggregation_rule is not None else ())]


def _uncovered(wanted: Sequence[PolicyRule], held: Sequence[PolicyRule]) -> Iterator[PolicyRule]:
    """The wanted single rights that no held rule covers."""
    for count, single in enumerate(single for rule in wanted for single in _break_down(rule)):
        if count == MAX_SINGLE_RULES:
            raise failures.bad_request(f"the rules grant more than {MAX_SINGLE_RULES} rights; use * or fewer names")
        if not any(_covers(rule, single) for rule in held):
            yield single


def _break_down(rule: PolicyRule) -> Iterator[PolicyRule]:
    """A rule as rules of one verb on one resource (of one name) each."""
    for verb, group, resource in product(rule.verbs, rule.api_groups, rule.resources):
        for names in [[name] for name in rule.resource_names] or [[]]:
            yield PolicyRule(verbs=[verb], api_groups=[group], resources=[resource], resource_names=names)
    for verb, url in product(rule.verbs, rule.non_resource_urls):
        yield PolicyRule(verbs=[verb], non_resource_urls=[url])


def _covers(held: PolicyRule, single: PolicyRule) -> bool:
    if not _has(held.verbs, single.verbs[0]):
        return False
    if single.non_resource_urls:
        wanted = single.non_resource_urls[0]
        urls = held.non_resource_urls
        return wanted in urls or any(url.endswith("*") and wanted.startswith(url[:-1]) for url in urls)
    resource = single.resources[0]
    subresource = resource.partition("/")[2]
    names = held.resource_names
    return (
        _has(held.api_groups, single.api_groups[0])
        and (_has(held.resources, resource) or (bool(subresource) and f"*/{subresource}" in held.resources))
        and (not names or (bool(single.resource_names) and single.resource_names[0] in names))
    )


def _has(held: Sequence[str], wanted: str) -> bool:
    return "*" in held or wanted in held


def _refusal(info: RequestInfo, missing: Sequence[PolicyRule]) -> ApiError:
    groups = ", ".join(f'"{group}"' for group in info.user.groups)
    who = f'user "{info.user.name}" (groups=[{groups}])'
    rights = first([*map(_rule_text, missing)], MAX_SHOWN, separator="\n")
    sentence = f"{who} is attempting to grant RBAC permissions not currently held:\n{rights}"
    return failures.refused(info.kind.resource, info.name, sentence)


def _rule_text(rule: PolicyRule) -> str:
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.resource_names),
        ("NonResourceURLs", rule.non_resource_urls),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{failures.shown(values)}" for name, values in parts if values) + "}"
