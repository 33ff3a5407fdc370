from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.gardener import ownership
from espalier.api.gardener.ownership import Epoch, Ownership, OwnershipError

SEEDS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(SEEDS, st.booleans()), max_size=60)


def history(steps: list[tuple[str, bool]]) -> Ownership:
    """Each step gives the shoot to a seed, and has its etcd started or not."""
    owned = Ownership()
    for seed, starts in steps:
        if owned.current is None or owned.current.seed != seed:
            owned = owned.add(seed, f"bucket-{seed}")
        assert owned.current is not None
        if starts:
            owned = owned.start(owned.current.epoch, seed)
    return owned


def test_the_first_epoch_founds_and_has_no_predecessor() -> None:
    owned = Ownership().add("a", "bucket-a")
    assert owned.current == Epoch(1, "a", "bucket-a")
    assert (owned.predecessor, owned.last_started) == (None, None)


def test_destination_follows_the_last_started_epoch() -> None:
    """B never came up: what A's etcd has is the newest."""
    owned = Ownership().add("a", "x").start(1, "a").add("b", "y").add("c", "z")
    assert owned.predecessor == Epoch(1, "a", "x", started=True)


def test_epoch_that_shoot_has_left_can_not_start() -> None:
    """Whichever write comes first decides: B did not start, so C will not look at its container."""
    owned = Ownership().add("a", "x").start(1, "a").add("b", "y").add("c", "z")
    with pytest.raises(OwnershipError, match="epoch 2 of seed b can't start: the shoot's epoch is epoch 3 of seed c"):
        owned.start(2, "b")


def test_a_seed_starts_no_epoch_of_another_seed() -> None:
    with pytest.raises(OwnershipError, match="of seed a"):
        Ownership().add("a", "x").start(1, "b")


def test_starting_again_changes_nothing() -> None:
    owned = Ownership().add("a", "x").start(1, "a")
    assert owned.start(1, "a") == owned


def test_moving_back_gives_a_seed_a_new_epoch() -> None:
    owned = history([("a", True), ("b", True), ("a", False)])
    assert owned.current == Epoch(3, "a", "bucket-a")
    assert owned.predecessor == Epoch(2, "b", "bucket-b", started=True)


def test_seed_that_has_shoot_gets_no_second_epoch() -> None:
    with pytest.raises(OwnershipError, match="seed a already has the shoot, in epoch 1"):
        Ownership().add("a", "x").add("a", "x")


@given(STEPS)
def test_rendering_and_parsing_give_the_same(steps: list[tuple[str, bool]]) -> None:
    owned = history([("a", False), *steps])
    assert ownership.parse(owned.render()) == owned


@given(STEPS)
def test_forgotten_epochs_never_change_who_hands_over(steps: list[tuple[str, bool]]) -> None:
    """The same history with all epochs remembered has the same current epoch and the same predecessor."""
    owned = history(steps)
    assert len(owned.epochs) <= ownership.REMEMBERED
    epochs: list[Epoch] = []
    for seed, starts in steps:
        if not epochs or epochs[-1].seed != seed:
            epochs.append(Epoch(len(epochs) + 1, seed, f"bucket-{seed}"))
        if starts:
            epochs[-1] = msgspec.structs.replace(epochs[-1], started=True)
    assert owned.current == (epochs[-1] if epochs else None)
    assert owned.predecessor == next((epoch for epoch in reversed(epochs[:-1]) if epoch.started), None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        "[]",
        "[1]",
        '[{"epoch":0,"seed":"a","bucket":"b"}]',
        '[{"epoch":-1,"seed":"a","bucket":"b"}]',
        '[{"epoch":1.5,"seed":"a","bucket":"b"}]',
        '[{"epoch":1e400,"seed":"a","bucket":"b"}]',
        '[{"epoch":99999999999999999999,"seed":"a","bucket":"b"}]',
        '[{"epoch":true,"seed":"a","bucket":"b"}]',
        '[{"epoch":1,"seed":"","bucket":"b"}]',
        '[{"epoch":1,"seed":"../a","bucket":"b"}]',
        '[{"epoch":1,"seed":"a\\n","bucket":"b"}]',
        '[{"epoch":1,"seed":"a","bucket":"b","started":"yes"}]',
        '[{"epoch":1,"seed":"a"}]',
        '[{"epoch":1,"seed":"a","bucket":"b"},{"epoch":1,"seed":"c","bucket":"d"}]',
        '[{"epoch":2,"seed":"a","bucket":"b"},{"epoch":1,"seed":"c","bucket":"d"}]',
        "[" * 100_000,
        "[" * 5000,
        "\ud800",
        f'[{{"epoch":1,"seed":"a","bucket":"b","x":"{"y" * ownership.LARGEST}"}}]',
    ],
)
def test_invalid_list_of_epochs_is_refused(text: str) -> None:
    with pytest.raises(OwnershipError) as caught:
        ownership.parse(text)
    assert len(str(caught.value)) < 500


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_epochs_or_refused(text: str) -> None:
    with suppress(OwnershipError):
        assert ownership.parse(text).epochs


def test_a_shoot_without_the_annotation_has_no_epochs() -> None:
    assert ownership.parse(None) == Ownership()


def test_names_that_are_none_are_not_written() -> None:
    with pytest.raises(OwnershipError, match="invalid epoch"):
        Ownership().add("A seed", "x")
