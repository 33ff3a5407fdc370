"""The queue, held to its promises by histories that hypothesis makes up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from espalier.runtime.controllers.queue import LOW_PRIORITY, Backoff, WorkQueue

KEYS = st.sampled_from("abcde")
PRIORITIES = st.sampled_from([LOW_PRIORITY, -1, 0, 7])
PAUSES = st.sampled_from([0.0, 0.0, 0.5, 1.0, 20.0])


class QueueMachine(RuleBasedStateMachine):
    """Beside the queue runs a model: what is wanted, from when on, and how urgently."""

    spacing = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.queue: WorkQueue[str] = WorkQueue(spacing=self.spacing)
        self.resting: dict[str, float] = {}
        self.now = 0.0
        self.wanted: dict[str, tuple[int, float]] = {}
        self.taken: dict[str, int] = {}

    @rule(key=KEYS, after=PAUSES, priority=PRIORITIES)
    def add(self, key: str, after: float, priority: int) -> None:
        self.queue.add(key, self.now, after=after, priority=priority)
        self._want(key, priority, self.now + after)

    @rule(key=KEYS, priority=PRIORITIES)
    def retry(self, key: str, priority: int) -> None:
        pause = self.queue.retry(key, self.now, priority=priority)
        self._want(key, priority, self.now + pause)

    @rule()
    def take(self) -> None:
        ready = {
            key: priority for key, (priority, at) in self.wanted.items() if at <= self.now and key not in self.taken
        }
        taken = self.queue.take(self.now)
        if taken is None:
            assert not ready, "a ready key was not handed out"
            return
        assert taken.key in ready, "handed out twice, too early, or never asked for"
        assert taken.priority == max(ready.values()), "a less urgent key went first"
        assert taken.priority == ready[taken.key]
        del self.wanted[taken.key]
        self.taken[taken.key] = taken.priority

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.taken)))
        self.queue.done(key, self.now)
        del self.taken[key]
        self.resting[key] = self.now + self.spacing
        if key in self.wanted:
            priority, at = self.wanted[key]
            self.wanted[key] = (priority, max(at, self.resting[key]))

    @rule(seconds=st.sampled_from([0.001, 0.5, 5.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def nothing_is_lost(self) -> None:
        assert {key for key in "abcde" if key in self.queue} == set(self.wanted)
        assert len(self.queue) == len(self.wanted)

    @invariant()
    def the_alarm_rings_for_the_next_delayed_key(self) -> None:
        delayed = [at for key, (_, at) in self.wanted.items() if at > self.now and key not in self.taken]
        at = self.queue.next_at()
        if delayed:
            assert at is not None
            assert at <= min(delayed)

    def _want(self, key: str, priority: int, at: float) -> None:
        present = self.wanted.get(key)
        at = max(at, self.resting.get(key, 0.0))
        self.wanted[key] = (max(priority, present[0]), min(at, present[1])) if present else (priority, at)


class SpacedQueueMachine(QueueMachine):
    """Keys rest after each reconcile."""

    spacing = 2.0


TestQueue = QueueMachine.TestCase
TestSpacedQueue = SpacedQueueMachine.TestCase


def test_keys_of_one_priority_keep_their_order() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "cab":
        queue.add(key, 0.0)
    queue.add("c", 1.0)
    assert [queue.take(1.0).key for _ in range(3)] == ["c", "a", "b"]  # type: ignore[union-attr]


def test_an_event_overtakes_a_flood_of_resyncs() -> None:
    queue: WorkQueue[int] = WorkQueue()
    for key in range(10_000):
        queue.add(key, 0.0, priority=LOW_PRIORITY)
    queue.add(9_999, 0.0)
    taken = queue.take(0.0)
    assert taken is not None
    assert taken.key == 9_999


def test_depth_counts_ready_keys_by_priority() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 0.0)
    queue.add("b", 0.0, priority=LOW_PRIORITY)
    queue.add("c", 0.0, after=1.0)
    assert queue.depth() == {0: 1, LOW_PRIORITY: 1}


@given(st.integers(0, 200))
def test_pauses_grow_up_to_the_longest(failures: int) -> None:
    backoff = Backoff()
    assert backoff.pause(failures) <= backoff.pause(failures + 1) <= 1000.0


def test_a_pause_doubles_until_the_key_does_well() -> None:
    queue: WorkQueue[str] = WorkQueue()
    pauses = []
    now = 0.0
    for _ in range(20):
        pauses.append(queue.retry("a", now))
        now += pauses[-1]
        assert queue.take(now) is not None
        queue.done("a", now)
    assert pauses[:3] == pytest.approx([0.005, 0.01, 0.02])
    assert pauses[-1] == 1000.0
    queue.forget("a")
    assert queue.retry("a", now) == 0.005
