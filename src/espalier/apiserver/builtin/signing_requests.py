"""Rules of CertificateSigningRequests: what a request must have, and which path may change which conditions.

As in kube-apiserver: the spec is written once, path `approval` decides (`Approved`, `Denied`, and whatever else stands
in the conditions), path `status` has the certificate and all other conditions. A decision is never taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from espalier.api.core import LEAST_VALIDITY
from espalier.api.meta import Tree
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause
from espalier.kube.transports.wire import User

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"

_SIGNER = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[^/]+")
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_FINAL = (APPROVED, DENIED, FAILED)


def with_requester(new: Tree, user: User) -> None:
    """Enter the user who makes a request into its spec, whatever the body has there. A mistyped spec stays."""
    new["status"] = {}
    if new.get("spec") is None:
        new["spec"] = {}
    spec = new["spec"]
    if not isinstance(spec, dict):
        return
    for name in ("uid", "extra"):
        spec.pop(name, None)
    spec["username"] = user.name
    spec["groups"] = list(user.groups)


def conditions_by_approval(before: Tree, new: Tree) -> Tree:
    """The status after a write to path `approval`: its conditions, everything else as before."""
    return _with_conditions(before, list((new.get("status") or {}).get("conditions") or ()))


def status_by_status(before: Tree, new: Tree) -> Tree:
    """The status after a write to path `status`: decisions as before, everything else as written."""
    decided = (APPROVED, DENIED)
    decisions = [condition for condition in _conditions(before) if condition.get("type") in decided]
    others = [condition for condition in _conditions(new) if condition.get("type") not in decided]
    return _with_conditions(new, decisions + others)


def decided_beside(before: Tree, new: Tree) -> Iterator[StatusCause]:
    """Decisions that a write to path `status` would add."""
    present = {condition.get("type") for condition in _conditions(before)}
    for condition in _conditions(new):
        if condition.get("type") in (APPROVED, DENIED) and condition["type"] not in present:
            detail = f"updates may not add a condition of type {failures.shown(condition['type'])}"
            yield failures.forbidden_field("status.conditions", detail)


def timed(status: Tree, before: Tree, now: str) -> Tree:
    """A status whose new and changed conditions have times."""
    old = {condition.get("type"): condition for condition in _conditions(before)}
    conditions = []
    for condition in status.get("conditions") or ():
        earlier = old.get(condition.get("type"))
        same = earlier is not None and earlier.get("status") == condition.get("status")
        since = earlier.get("lastTransitionTime") if same and earlier is not None else now
        conditions.append({"lastUpdateTime": now, **condition, "lastTransitionTime": since or now})
    return {**status, "conditions": conditions} if conditions else status


def check(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    """Violations of a CertificateSigningRequest."""
    if old is None:
        yield from _check_spec(new.get("spec") or {})
    yield from _check_conditions(new, old)
    if old is not None:
        before, after = (tree.get("status") or {} for tree in (old, new))
        if before.get("certificate") and before["certificate"] != after.get("certificate"):
            yield failures.invalid("status.certificate", "...", "updates may not modify existing certificate content")


def _check_spec(spec: Tree) -> Iterator[StatusCause]:
    from espalier.apiserver.builtin import certificate_requests  # noqa: PLC0415  loads much, and is seldom needed

    try:
        certificate_requests.check_signature(spec)
    except ValueError as error:
        yield failures.invalid("spec.request", str(spec.get("request") or ""), str(error))
    usages = spec.get("usages") or []
    if not usages:
        yield failures.required("spec.usages")
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield failures.unsupported(f"spec.usages[{index}]", usage, _USAGES)
        if usage in seen:
            yield failures.duplicate(f"spec.usages[{index}]", usage)
        seen.add(usage)
    signer = spec.get("signerName") or ""
    if not signer:
        yield failures.required("spec.signerName")
    elif not _SIGNER.fullmatch(signer):
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield failures.invalid("spec.signerName", signer, detail)
    elif signer == "kubernetes.io/legacy-unknown":
        yield failures.invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < LEAST_VALIDITY:
        detail = f"may not specify a duration less than {LEAST_VALIDITY} seconds (10 minutes)"
        yield failures.invalid("spec.expirationSeconds", seconds, detail)


def _check_conditions(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    conditions = _conditions(new)
    types = [condition.get("type") for condition in conditions]
    seen: set[object] = set()
    for index, condition in enumerate(conditions):
        field = f"status.conditions[{index}]"
        if not condition.get("type"):
            yield failures.required(f"{field}.type")
        elif condition["type"] in seen:
            yield failures.duplicate(f"{field}.type", condition["type"])
        seen.add(condition.get("type"))
        if condition.get("type") in _FINAL and condition.get("status") != "True":
            yield failures.unsupported(f"{field}.status", condition.get("status") or "", ("True",))
    if APPROVED in types and DENIED in types:
        index = max(types.index(APPROVED), types.index(DENIED))
        detail = "Approved and Denied conditions are mutually exclusive"
        yield failures.invalid(f"status.conditions[{index}].type", types[index], detail)
    for condition in _conditions(old or {}):
        if condition.get("type") in _FINAL and condition.get("type") not in types:
            detail = f"updates may not remove a condition of type {failures.shown(condition['type'])}"
            yield failures.forbidden_field("status.conditions", detail)


def _conditions(tree: Tree) -> list[dict[str, Any]]:
    conditions = (tree.get("status") or {}).get("conditions") or []
    return [condition for condition in conditions if isinstance(condition, dict)]


def _with_conditions(tree: Tree, conditions: list[Any]) -> Tree:
    status = {name: part for name, part in (tree.get("status") or {}).items() if name != "conditions"}
    return {**status, "conditions": conditions} if conditions else status
