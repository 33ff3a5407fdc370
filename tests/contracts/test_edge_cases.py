"""Strange requests get the answers of kube-apiserver: the same status, and a Status of the same words.

`edge_case_answers.json` has what kube-apiserver says; every server is held to it, a real one first of all. When a newer
one says something else, `ESPALIER_RECORD_ANSWERS=1` and this file alone write down what it says.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.contracts.edge_cases.table import TABLE
from tests.contracts.known_differences import OTHER_ANSWERS, OTHER_WORDS
from tests.contracts.send_edge_cases import Answer, asking
from tests.contracts.tried_server import embedded, trusting
from tests.support.environments.control_plane import ControlPlane

FILE = Path(__file__).with_name("edge_case_answers.json")


def recorded() -> dict[str, tuple[int, dict[str, object]]]:
    return {name: (status, expected) for name, (status, expected) in json.loads(FILE.read_text()).items()}


def comparable(answers: dict[str, Answer]) -> dict[str, tuple[int, dict[str, object]]]:
    return {name: (answer.status, answer.body_status) for name, answer in answers.items()}


@pytest.mark.soak
@pytest.mark.embedded
async def test_embedded_server_answers_as_kube_apiserver() -> None:
    async with embedded() as (url, context), asking(url, context) as server:
        result = comparable(await server.answers())
    wanted = recorded()
    statuses = {name for name in wanted if result[name][0] == wanted[name][0]}
    words = {name for name in statuses if result[name] == wanted[name]}
    print(f"{len(TABLE)} strange requests: {len(statuses)} statuses and {len(words)} bodies are kube-apiserver's")
    assert wanted.keys() == {ask.name for ask in TABLE}
    assert {name: (result[name], wanted[name]) for name in wanted.keys() - statuses - OTHER_ANSWERS} == {}
    assert {name: (result[name], wanted[name]) for name in statuses - words - OTHER_WORDS} == {}
    assert not OTHER_ANSWERS & statuses, "what is alike by now needs no exception"
    assert not OTHER_WORDS & words, "what is alike by now needs no exception"


@pytest.mark.soak
@pytest.mark.envtest
async def test_kube_apiserver_answers_as_recorded(control_plane: ControlPlane) -> None:
    client = control_plane.authority.issue_client("admin", groups=["system:masters"], now=datetime.now(UTC))
    context = trusting(control_plane.ca, client)
    async with asking(control_plane.url, context) as server:
        result = comparable(await server.answers())
    if os.environ.get("ESPALIER_RECORD_ANSWERS"):
        lines = (f"{json.dumps(name)}: {json.dumps(result[name], sort_keys=True)}" for name in result)
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    wanted = recorded()
    assert {name: (result[name], wanted.get(name)) for name in result if result[name] != wanted.get(name)} == {}


def test_no_two_strange_requests_have_one_name() -> None:
    assert len({ask.name for ask in TABLE}) == len(TABLE)
