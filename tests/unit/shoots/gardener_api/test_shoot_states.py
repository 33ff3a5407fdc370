"""ShootStates in Gardener's form, and back in ours."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.vocabulary.metadata_keys import EPOCH
from espalier.api.meta import Tree
from espalier.kube.bodies import decode_object
from espalier.shoots.gardener_api.shoot_states import OWN_TYPE, from_gardener, to_gardener

REFERENCE = {"secrets": ["a--0"], "size": 300000, "sha256": "ab"}
OURS: Tree = {
    "apiVersion": "core.gardener.cloud/v1alpha1",
    "kind": "ShootState",
    "metadata": {"name": "apple", "namespace": "garden-dev", "annotations": {"a": "b"}},
    "gardenlet": {
        "secrets": [
            {"name": "ca", "data": {"ca.crt": "Y2E="}},
            {"name": "kept", "data": {}, "type": "kubernetes.io/tls", "labels": {"a": "b"}},
        ]
    },
    "extensions": [
        {"kind": "Infrastructure", "name": "apple", "state": {"b": 1.10, "a": None}, "epoch": 2},
        {"kind": "ControlPlane", "name": "apple", "purpose": "normal", "stateRef": REFERENCE, "epoch": 2},
        {"kind": "Worker", "name": "apple", "outdated": "it is too large"},
    ],
}
GARDENERS: Tree = {
    "apiVersion": "core.gardener.cloud/v1beta1",
    "kind": "ShootState",
    "metadata": {"name": "apple", "namespace": "garden-dev"},
    "spec": {
        "gardener": [
            {"name": "ca", "type": "secret", "data": {"ca.crt": "Y2E="}, "labels": {"persist": "true"}},
            {"name": "machine-state", "type": "machine-state", "data": {"state": "H4sI"}},
        ],
        "extensions": [{"kind": "Infrastructure", "name": "apple", "state": {"vpc": "1"}, "resources": []}],
        "resources": [{"apiVersion": "v1", "kind": "Secret", "name": "keys", "data": {}}],
    },
}


def test_our_state_in_gardeners_form_comes_back() -> None:
    text = json.dumps(OURS).encode()
    assert json.loads(from_gardener(to_gardener(text))) == OURS


def test_gardeners_form_has_fields_of_gardener_only() -> None:
    spec = json.loads(to_gardener(json.dumps(OURS).encode()))["spec"]
    assert {field for state in spec["extensions"] for field in state} <= {"kind", "name", "purpose", "state"}
    assert [(entry["name"], entry["type"]) for entry in spec["gardener"]] == [
        ("ca", "secret"),
        ("kept", "secret"),
        (OWN_TYPE, OWN_TYPE),
    ]
    assert all(entry.keys() <= {"name", "type", "data", "labels"} for entry in spec["gardener"])


def test_state_of_gardener_becomes_secrets_and_states() -> None:
    text = json.dumps(GARDENERS, separators=(",", ":")).encode()
    state = decode_object(from_gardener(text)).decode(ShootState)
    assert [secret.name for secret in state.gardenlet.secrets] == ["ca"]
    assert [(entry.kind, bytes(entry.state)) for entry in state.extensions] == [("Infrastructure", b'{"vpc":"1"}')]


def test_what_only_gardener_has_is_kept() -> None:
    ours = from_gardener(json.dumps(GARDENERS).encode())
    back = json.loads(to_gardener(ours))
    assert back["spec"]["resources"] == GARDENERS["spec"]["resources"]
    assert GARDENERS["spec"]["gardener"][1] in back["spec"]["gardener"]
    assert back["spec"]["extensions"] == GARDENERS["spec"]["extensions"]


def test_the_text_of_a_state_is_not_changed() -> None:
    text = b'{"kind":"ShootState","gardenlet":{},"extensions":[{"kind":"Worker","state":{"b":1.10,"a":"\\u2028"}}]}'
    assert b'"state":{"b":1.10,"a":"\\u2028"}' in from_gardener(to_gardener(text))


def test_a_patch_of_metadata_stays_one() -> None:
    patch = {"metadata": {"finalizers": None}}
    assert json.loads(to_gardener(json.dumps(patch).encode())) == patch


@pytest.mark.parametrize("spec", [None, {}, {"gardener": None, "extensions": None}])
def test_an_empty_state_has_no_secrets(spec: Tree | None) -> None:
    ours = json.loads(from_gardener(json.dumps({"kind": "ShootState", "spec": spec}).encode()))
    assert (ours["gardenlet"], ours["extensions"]) == ({"secrets": []}, [])


@pytest.mark.parametrize("spec", [{"gardener": {}}, {"extensions": ["a"]}, {"gardener": [{"type": 3}]}])
def test_another_form_is_refused(spec: Tree) -> None:
    with pytest.raises(msgspec.MsgspecError):
        from_gardener(json.dumps({"kind": "ShootState", "spec": spec}).encode())


@pytest.mark.parametrize("data", [3, {"extensions": 3}, {"extensions": [{"kind": 3}]}, {"secrets": ["ca"]}])
def test_unreadable_additions_make_states_outdated(data: object) -> None:
    changed = json.loads(to_gardener(json.dumps(OURS).encode()))
    changed["spec"]["gardener"][-1]["data"] = data
    states = json.loads(from_gardener(json.dumps(changed).encode()))["extensions"]
    assert [OWN_TYPE in state["outdated"] for state in states] == [True, True, True]


def problems(change: Callable[[list[Tree]], object]) -> list[str]:
    """Why nothing is restored from each state, after somebody has changed `spec.gardener` of a ShootState of ours."""
    metadata = {**OURS["metadata"], "annotations": {EPOCH: "2"}}
    stored = json.loads(to_gardener(json.dumps({**OURS, "metadata": metadata}).encode()))
    change(stored["spec"]["gardener"])
    return [state.get("outdated", "") for state in json.loads(from_gardener(json.dumps(stored).encode()))["extensions"]]


def test_without_additions_states_are_outdated() -> None:
    """Some of them were, and the text of others is elsewhere: without a state, a resource would be created anew."""
    missing = f"entry {OWN_TYPE} of spec.gardener of the ShootState is missing"
    assert [text.partition(";")[0] for text in problems(list.pop)] == [missing] * 3


def test_a_state_without_its_reference_is_outdated() -> None:
    first, second, third = problems(lambda entries: entries[-1]["data"]["extensions"].pop(1))
    assert (first, third) == ("", "it is too large")
    assert second.startswith(f"entry {OWN_TYPE} of spec.gardener of the ShootState has nothing about it")


def test_states_of_gardener_stay_readable_once_claimed() -> None:
    ours = json.loads(from_gardener(json.dumps(GARDENERS).encode()))
    ours["metadata"]["annotations"] = {EPOCH: "1"}
    back = json.loads(from_gardener(to_gardener(json.dumps(ours).encode())))
    assert back["extensions"] == ours["extensions"]
