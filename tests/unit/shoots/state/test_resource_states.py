from __future__ import annotations

import pytest

from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.operating_system_config import OperatingSystemConfig
from espalier.kube.objects import Object
from espalier.shoots.state.kinds import kinds_of
from espalier.shoots.state.resource_states import StateKey, state_of


def resource(status: bytes, spec: bytes = b'{"type":"local"}', annotations: bytes = b"{}") -> Object:
    metadata = b'{"name":"x","namespace":"n","annotations":' + annotations + b"}"
    return Object(
        b'{"kind":"Infrastructure","metadata":' + metadata + b',"spec":' + spec + b',"status":' + status + b"}"
    )


@pytest.mark.demand("G16")
def test_a_state_is_the_bytes_that_the_extension_wrote() -> None:
    state = state_of(resource(b'{"state":{"b":1.0,"a":null, "n":9223372036854775807}}'), Infrastructure)
    assert state.text == b'{"b":1.0,"a":null, "n":9223372036854775807}'
    assert state.key == StateKey("Infrastructure", "x")


@pytest.mark.parametrize("status", [b"{}", b'{"state":null}'])
def test_no_state_is_none(status: bytes) -> None:
    assert state_of(resource(status), Infrastructure).text == b""


@pytest.mark.demand("G15")
def test_a_purpose_tells_resources_of_a_kind_apart() -> None:
    state = state_of(resource(b"{}", b'{"type":"local","purpose":"provision"}'), OperatingSystemConfig)
    assert state.key == StateKey("OperatingSystemConfig", "x", "provision")


@pytest.mark.parametrize("order", [b"restore", b"wait-for-state"])
def test_resource_to_be_restored_reports_no_state(order: bytes) -> None:
    annotations = b'{"gardener.cloud/operation":"' + order + b'"}'
    assert state_of(resource(b'{"state":1}', annotations=annotations), Infrastructure).waits


@pytest.mark.demand(G16="what can't be carried is told")
@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (b'{"state":' + b"[" * 200 + b"]" * 200 + b"}", "its state can't be carried: it is nested more than"),
        (b'{"state":[1e999]}', "its state can't be carried"),
        (b'{"lastOperation":7}', "the resource can't be read"),
        (b'{"state":' + b"[" * 100_000 + b"]" * 100_000 + b"}", ""),
    ],
)
def test_uncarried_state_has_a_problem_in_words(status: bytes, problem: str) -> None:
    try:
        hostile = resource(status)
    except ValueError:
        return  # it does not even get into a cache
    state = state_of(hostile, Infrastructure)
    assert state.problem.startswith(problem)
    assert state.problem
    assert len(state.problem) < 400


@pytest.mark.parametrize(
    "spec",
    [
        b"{}",
        b'{"group":7}',
        b'{"group":"extensions.gardener.cloud","scope":"Cluster","names":{"plural":"xs"},"versions":[{"served":true}]}',
        b'{"group":"extensions.gardener.cloud","scope":"Namespaced","names":{"plural":"xs"},"versions":[]}',
        b'{"group":"example.com","scope":"Namespaced","names":{"plural":"xs"},"versions":[{"served":true}]}',
    ],
)
def test_other_definitions_are_no_kinds_of_extensions(spec: bytes) -> None:
    assert list(kinds_of(Object(b'{"metadata":{"name":"x"},"spec":' + spec + b"}"))) == []
