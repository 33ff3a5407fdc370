"""Rules of workloads, Services and PodDisruptionBudgets: those of kube-apiserver beyond schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import Tree
from espalier.apiserver.builtin.pod_rules import MAX_PORT, template_problems
from espalier.apiserver.schema import names
from espalier.apiserver.schema.metadata import label_problems
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause

Causes = Iterator[StatusCause]

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_ROLLING = "spec.strategy.rollingUpdate"
_BAD_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
NOT_NEGATIVE = "must be greater than or equal to 0"


def check(new: Tree, old: Tree | None) -> Causes:
    """Violations of a workload."""
    spec = new.get("spec") or {}
    yield from _selector_causes(spec)
    replicas = spec.get("replicas")
    if replicas is not None and replicas < 0:
        yield failures.invalid("spec.replicas", replicas, NOT_NEGATIVE)
    yield from _strategy(spec.get("strategy") or {})
    yield from template_problems(_with_claims(spec), "spec.template")
    if old is not None and (old.get("spec") or {}).get("selector") != spec.get("selector"):
        yield failures.immutable("spec.selector", spec.get("selector"))


def _with_claims(spec: Tree) -> Tree:
    """The pod template, with the volumes that the pods of a StatefulSet get from its claims."""
    template: Tree = spec.get("template") or {}
    claims = spec.get("volumeClaimTemplates") or ()
    if not claims:
        return template
    named = [str((claim.get("metadata") or {}).get("name", "")) for claim in claims]
    volumes: list[Tree] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in named]
    pod = template.get("spec") or {}
    present = [volume for volume in pod.get("volumes") or () if volume.get("name") not in named]
    return {**template, "spec": {**pod, "volumes": [*present, *volumes]}}


def _selector_causes(spec: Tree) -> Causes:
    """The selector of a workload matches its pods."""
    selector = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    problems = list(selector_problems(selector or {}, "spec.selector"))
    yield from problems
    if selector is None:
        yield failures.required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield failures.invalid("spec.selector", selector, "empty selector is invalid for deployment")
    if problems:
        yield failures.invalid("spec.selector", selector, "invalid label selector")
    elif selector is None or not msgspec.convert(selector, LabelSelector).selects(labels or {}):
        yield failures.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def selector_problems(selector: Tree, field: str) -> Causes:
    """Violations of a label selector."""
    yield from label_problems(f"{field}.matchLabels", selector.get("matchLabels") or {})
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        term_path, operator = f"{field}.matchExpressions[{index}]", term.get("operator", "")
        values = term.get("values") or []
        if operator not in OPERATORS:
            yield failures.invalid(f"{term_path}.operator", operator, "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield failures.required(f"{term_path}.values", detail)
        elif operator in ("Exists", "DoesNotExist") and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield failures.forbidden_field(f"{term_path}.values", detail)


def _strategy(strategy: Tree) -> Causes:
    kind = strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    if kind not in (None, "Recreate", "RollingUpdate"):
        shown = {"Type": kind, "RollingUpdate": None}
        yield failures.unsupported("spec.strategy", shown, ("Recreate", "RollingUpdate"))
    elif kind == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield failures.forbidden_field(_ROLLING, detail)
    elif rolling is not None:
        for name in ("maxUnavailable", "maxSurge"):
            yield from amount(rolling.get(name), f"{_ROLLING}.{name}")
        if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
            detail = "may not be 0 when `maxSurge` is 0"
            yield failures.invalid(f"{_ROLLING}.maxUnavailable", rolling["maxUnavailable"], detail)


def amount(value: Any, field: str, *, at_most_all: bool = False) -> Causes:
    """Violations of a number or a share of something."""
    if isinstance(value, int) and value < 0:
        yield failures.invalid(field, value, NOT_NEGATIVE)
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+%", value):
            yield failures.invalid(field, value, _BAD_PERCENT)
        elif at_most_all and int(value[:-1]) > 100:
            yield failures.invalid(field, value, "must not be greater than 100%")


def check_service(new: Tree, old: Tree | None) -> Causes:
    """Violations of a Service."""
    spec = new.get("spec") or {}
    ports = spec.get("ports") or []
    headless, external = spec.get("clusterIP") == "None", spec.get("type") == "ExternalName"
    if not ports and not headless and not external:
        yield failures.required("spec.ports")
    seen: set[str] = set()
    for index, port in enumerate(ports):
        port_path, name, number = f"spec.ports[{index}]", port.get("name") or "", port.get("port", 0)
        if len(ports) > 1 and not name:
            yield failures.required(f"{port_path}.name")
        elif name:
            yield from names.label(f"{port_path}.name", name)
            if name in seen:
                yield failures.duplicate(f"{port_path}.name", name)
            seen.add(name)
        yield from names.number(f"{port_path}.port", number, 1, MAX_PORT)
        target = port.get("targetPort", number)
        if isinstance(target, int):
            yield from names.number(f"{port_path}.targetPort", target or number, 1, MAX_PORT)


def check_budget(new: Tree, old: Tree | None) -> Causes:
    """Violations of a PodDisruptionBudget."""
    spec = new.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {"MinAvailable": least, "Selector": spec.get("selector"), "MaxUnavailable": most}
        shown["UnhealthyPodEvictionPolicy"] = spec.get("unhealthyPodEvictionPolicy")
        yield failures.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        yield from amount(spec.get(name), f"spec.{name}", at_most_all=True)
    yield from selector_problems(spec.get("selector") or {}, "spec.selector")
