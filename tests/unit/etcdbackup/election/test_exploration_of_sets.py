"""The end of an epoch with several members in all orders of events: nothing breaks, without a rule something does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.etcd.election.page import PAGE
from tests.support.etcd.election.sets import EXPLORED, MOST, RULES, Explored, Rule, explored, row, rule_row, without
from tests.support.sampling import sampled

TEXT = PAGE.read_text()
AGAIN = "write the tables again: make election"


@pytest.mark.parametrize("of", sampled(EXPLORED, *(at for at, of in enumerate(EXPLORED) if not of.large)))
def test_ends_of_a_set_break_no_invariant(of: Explored) -> None:
    exploration = explored(of.bounds, most=MOST)
    print(f"{of.name}: {exploration.states} states, {exploration.transitions} transitions")
    assert exploration.violation is None
    assert exploration.goals > 0
    assert exploration.stuck is None, [event for event, _ in exploration.stuck]
    assert row(of, exploration) in TEXT, AGAIN


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_without_a_rule_of_sets_something_breaks(rule: Rule) -> None:
    exploration = without(rule)
    assert exploration.violation is not None
    assert rule_row(rule, exploration) in TEXT, AGAIN


@pytest.mark.soak
@pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.bounds.undecided], ids=lambda rule: rule.name)
def test_without_a_rule_three_members_break(rule: Rule) -> None:
    exploration = without(replace(rule, bounds=replace(rule.bounds, size=3)))
    assert exploration.violation is not None


def test_events_of_a_set_all_happen() -> None:
    """One that never does would prove nothing."""
    small = [of for of in EXPLORED if not of.large]
    happened = " ".join(event for of in small for event in explored(of.bounds, most=MOST).happened)
    for words in (
        "acknowledges a write",
        "answers m0",
        "gets no answer to its read",
        "is elected",
        "is killed",
        "the put of m0 is lost",
        "goes on without the source",
        "has stored the final snapshot",
        "shuts the proxy",
    ):
        assert words in happened
