"""Ordinary requests get the bodies of kube-apiserver, in whichever minor version the row of versions has.

Both servers are asked, and whole bodies are compared without what differs from run to run and without `description`s,
which are kube-apiserver's text. `known_bodies.py` names the rest.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from espalier.assets.recipes import ROW
from tests.contracts.edge_cases.requests import GROUP
from tests.contracts.known_bodies import NOT_SERVED, OTHER_BODIES
from tests.contracts.ordinary_requests import ORDINARY
from tests.contracts.send_edge_cases import Answer, asking
from tests.contracts.tried_server import embedded, trusting
from tests.support.environments.control_plane import ControlPlane

LEAST = 86
"""Requests that are compared, at least; of these, so many bodies may differ."""
OTHERS = 0.07


def test_no_two_ordinary_requests_have_one_name() -> None:
    assert len({ask.name for ask in ORDINARY}) == len(ORDINARY) >= LEAST


@pytest.mark.envtest
async def test_ordinary_requests_get_kube_apiservers_bodies(control_plane: ControlPlane) -> None:
    certificate = control_plane.authority.issue_client("admin", groups=["system:masters"], now=datetime.now(UTC))
    async with asking(control_plane.url, trusting(control_plane.ca, certificate)) as server:
        wanted = await server.answers(ORDINARY)
    async with embedded(f"v{ROW.kubernetes}") as (url, context), asking(url, context) as server:
        answers = await server.answers(ORDINARY)
    other_statuses = {
        name: (answers[name].status, answer.status)
        for name, answer in wanted.items()
        if answers[name].status != answer.status
    }
    assert other_statuses == {}
    other_bodies = {name for name, answer in wanted.items() if comparable(answers[name]) != comparable(answer)}
    print(f"{len(ORDINARY)} ordinary requests: {len(ORDINARY) - len(other_bodies)} bodies are kube-apiserver's")
    assert other_bodies == OTHER_BODIES.keys()
    assert len(other_bodies) <= OTHERS * len(ORDINARY)


def comparable(answer: Answer) -> Any:
    """The body of an answer without texts that describe fields, and without ages."""
    try:
        tree = json.loads(answer.body)
    except ValueError:
        tree = yaml.safe_load(answer.body)
    return _comparable(tree)


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(part) for part in value if not _is_not_served(part)]
    if not isinstance(value, dict):
        return value
    parts = {name: part for name, part in value.items() if name != "description" or not isinstance(part, str)}
    parts |= {name: "N" for name in ("resourceVersion", "remainingItemCount", "continue") if parts.get(name)}
    if "cells" in parts:
        parts["cells"] = ["AGE" if _is_age(cell) else cell for cell in parts["cells"]]
    if isinstance(parts.get("managedFields"), list):
        parts["managedFields"] = sorted(parts["managedFields"], key=json.dumps)
    if "serverAddress" in parts:
        parts["serverAddress"] = "ADDRESS"
    bare = {name: _comparable(part) for name, part in parts.items()}
    return {name: part for name, part in bare.items() if name != "subresources" or part}


def _is_not_served(part: Any) -> bool:
    """True for a group, resource or subresource of a discovery document that the embedded server does not have,
    or that another test has defined in the real one.
    """
    if not isinstance(part, dict):
        return False
    metadata = part.get("metadata") or {}
    name = part.get("resource") or part.get("subresource") or part.get("name") or metadata.get("name") or ""
    other_test = "versions" in part and "." in name and name != GROUP and not name.endswith(".k8s.io")
    return other_test or not NOT_SERVED.isdisjoint(name.split("/"))


def _is_age(cell: object) -> bool:
    return isinstance(cell, str) and cell[:-1].isdecimal() and cell[-1] == "s"
