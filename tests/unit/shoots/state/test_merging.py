"""Entries out of entries and found states, in any order of events."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ExtensionState
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.shoots.state import pieces
from espalier.shoots.state.document import Entry, digested_state
from espalier.shoots.state.limits import LARGEST_SHOOT_STATE
from espalier.shoots.state.merging import Mode, SeedStates, Task, is_current, merged, task_of
from espalier.shoots.state.resource_states import ResourceState, StateKey
from tests.support.gardens.gardenlet_scopes import shoot

KEYS = st.builds(StateKey, st.sampled_from(["Infrastructure", "Worker", "Other"]), st.sampled_from(["", "a", "b"]))
TEXTS = st.sampled_from([b"", b"1", b'{"a":null}', b'{"a":1.0}', b'"' + b"x" * 300_000 + b'"'])
STATES = st.builds(ResourceState, KEYS, TEXTS, st.sampled_from(["", "too large"]), st.booleans())
PRESENT = st.lists(STATES, max_size=6, unique_by=lambda item: item.key).map(
    lambda states: SeedStates(tuple(states), frozenset({"Infrastructure", "Worker"}))
)
MODES = st.sampled_from(Mode)


def cached(entries: list[Entry]) -> list[ExtensionState]:
    return [digested_state(entry.state) for entry in entries]


@given(st.lists(st.tuples(PRESENT, MODES), min_size=1, max_size=5))
def test_merging_twice_changes_nothing(steps: list[tuple[SeedStates, Mode]]) -> None:
    """G32: whatever was there before."""
    entries: list[Entry] = []
    for seed_states, mode in steps:
        entries, _ = merged(entries, seed_states, Task(mode, 1), "uid", 1000)
        assert is_current(cached(entries), seed_states, mode)
        again, secrets = merged(entries, seed_states, Task(mode, 2), "uid", 1000)
        assert (again, secrets) == (entries, [])


@given(PRESENT, PRESENT)
def test_merging_without_being_settled_forgets_nothing(before: SeedStates, after: SeedStates) -> None:
    entries, _ = merged([], before, Task(Mode.EXACT, 1), "uid", 1000)
    merged_entries, _ = merged(entries, after, Task(Mode.MERGE, 1), "uid", 1000)
    assert {entry.key for entry in entries} <= {entry.key for entry in merged_entries}


@pytest.mark.soak
@given(st.lists(st.integers(0, 900_000), max_size=12), st.integers(0, 100_000))
def test_stored_state_fits_in_object_and_is_complete(sizes: list[int], others: int) -> None:
    rng = random.Random(1)
    states = tuple(
        ResourceState(StateKey("Worker", str(place)), msgspec.json.encode(rng.randbytes(size // 2).hex()))
        for place, size in enumerate(sizes)
    )
    entries, secrets = merged([], SeedStates(states, frozenset()), Task(Mode.EXACT, 1), "uid", others)
    assert sum(len(entry.raw) for entry in entries) + others < LARGEST_SHOOT_STATE
    by_name = {secret["metadata"]["name"]: secret for secret in secrets}
    for entry, state in zip(entries, states, strict=True):
        reference = entry.state.state_ref
        if reference is None:
            assert bytes(entry.state.state) == state.text
        else:
            assert pieces.join(reference, [by_name[name] for name in reference.secrets]) == state.text


def test_an_entry_that_nobody_can_read_is_replaced() -> None:
    """Somebody wrote it by hand."""
    deep = ExtensionState(kind="Worker", name="a", state=msgspec.Raw(b"[" * 200 + b"]" * 200))
    seed_states = SeedStates((ResourceState(StateKey("Worker", "a"), b"1"),), frozenset({"Worker"}))
    (entry,), _ = merged([Entry.of(deep)], seed_states, Task(Mode.EXACT, 1), "uid", 0)
    assert bytes(entry.state.state) == b"1"


EPOCHS = Ownership().add("a", "bucket-a").start(1, "a")


@pytest.mark.parametrize(
    ("wanted", "has", "epochs", "expected"),
    [
        ("a", "a", EPOCHS.render(), Task(Mode.EXACT, 1)),
        ("b", "a", EPOCHS.render(), Task(Mode.MERGE, 1)),
        ("a", "b", EPOCHS.render(), None),
        ("a", "a", EPOCHS.add("b", "bucket-b").render(), None),
        ("a", "a", "no epochs", None),
    ],
    ids=["settled", "leaving", "another seed has it", "the garden counted another seed", "nobody can tell"],
)
def test_the_seed_that_has_a_shoot_keeps_its_state(wanted: str, has: str, epochs: str, expected: Task | None) -> None:
    live = shoot(wanted, has, **{metadata_keys.OWNERSHIP: epochs})
    assert task_of(live.decode(Shoot), "a") == expected
