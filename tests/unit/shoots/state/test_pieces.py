from __future__ import annotations

import base64
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.gardener.garden.shoot_state import StateReference
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.kube.objects import Object
from espalier.shoots.state import digests, pieces
from espalier.shoots.state.limits import LARGEST_STATE, PIECE
from espalier.shoots.state.pieces import TruncatedState
from espalier.shoots.state.stored import StaleState, StoredState
from tests.support.gardens.shoot_states import json_of

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.binary(max_size=2000))
def test_split_pieces_join_to_the_same_state(text: bytes) -> None:
    reference, secrets = pieces.split(text, "uid")
    assert pieces.join(reference, secrets) == text


@pytest.mark.soak
def test_large_state_has_several_small_pieces() -> None:
    reference, secrets = pieces.split(msgspec.json.encode(json_of(5_000_000)), "uid")
    assert len(secrets) == len(reference.secrets) > 4
    assert all(len(base64.b64decode(secret["data"]["state"])) <= PIECE for secret in secrets)
    assert pieces.join(reference, secrets) == msgspec.json.encode(json_of(5_000_000))


def damaged(secret: dict[str, Any], data: str) -> dict[str, Any]:
    return {**secret, "data": {"state": data}}


@pytest.mark.demand(G20="never a stale or truncated one")
def test_incomplete_or_foreign_pieces_are_refused() -> None:
    text = msgspec.json.encode(json_of(2_000_000))
    reference, secrets = pieces.split(text, "uid")
    _, others = pieces.split(msgspec.json.encode(json_of(2_000_002)), "uid")
    first = secrets[0]
    cases: list[list[Any]] = [
        [None, *secrets[1:]],
        [*secrets[:-1], None],
        [secrets[1], first, *secrets[2:]],
        [others[0], *secrets[1:]],
        others,
        [damaged(first, "no base64!"), *secrets[1:]],
        [damaged(first, ""), *secrets[1:]],
        [{"metadata": {}}, *secrets[1:]],
        [{"data": None}, *secrets[1:]],
    ]
    for case in cases:
        with pytest.raises(TruncatedState):
            pieces.join(reference, case)


@pytest.mark.soak
def test_secret_that_unpacks_to_gigabytes_is_refused() -> None:
    bomb = base64.b64encode(zlib.compress(b"0" * 50_000_000, 9)).decode()
    reference = StateReference(secrets=["a"], size=10, sha256=digests.of_text(b"0" * 10))
    with pytest.raises(TruncatedState):
        pieces.join(reference, [{"data": {"state": bomb}}])
    too_large = StateReference(secrets=["a"], size=LARGEST_STATE + 1, sha256="")
    with pytest.raises(TruncatedState, match="more than"):
        pieces.join(too_large, [{"data": {"state": bomb}}])


@pytest.mark.soak
@given(JSON)
def test_digest_is_that_of_value_however_it_is_written(value: Any) -> None:
    text = msgspec.json.encode(value)
    blanks = msgspec.json.format(text, indent=3)
    assert digests.of_value(text) == digests.of_value(blanks)


def test_numbers_are_the_same_as_for_go() -> None:
    assert digests.of_value(b'{"a":1.0,"b":[2]}') == digests.of_value(b'{"b":[2e0],"a":1}')
    assert digests.of_value(b"9223372036854775807") != digests.of_value(b"9223372036854775806")
    assert digests.of_value(b"1") != digests.of_value(b"true")
    assert digests.of_value(b"null") != digests.of_value(b"{}")


def test_state_of_a_later_epoch_restores_nothing() -> None:
    """Somebody has restored one part of the garden from a backup, and not the other."""

    def stored(epoch: int) -> StoredState:
        entry = {"kind": "Infrastructure", "name": "apple", "state": {"id": 7}, "epoch": epoch}
        metadata = {"name": "apple", "annotations": {metadata_keys.EPOCH: "1"}}
        return StoredState(Object(msgspec.json.encode({"metadata": metadata, "extensions": [entry]})), {})

    assert stored(1).state_for("Infrastructure", "apple") == b'{"id":7}'
    with pytest.raises(StaleState, match="was written in epoch 2, after epoch 1"):
        stored(2).state_for("Infrastructure", "apple")
