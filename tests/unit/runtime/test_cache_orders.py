"""Whatever the order in which a list, events and answers to own writes arrive: in the end a cache shows what there is.

The model is a server with one object and a history, a reader that lists and watches as reflectors do, and answers to
own writes that are under way for as long as they like.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.api.core import CONFIG_MAP
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.caches.reflector import Source

KEY = Key("default", "a")

OWN, FOREIGN, DELETED = "own write", "foreign write", "deletion"
BEGIN, READ, PAGE, END, DELIVER, ANSWER = "list begins", "list is read", "page", "list ends", "event", "answer"
LISTING = (BEGIN, READ, PAGE, END)


def version_of(number: int) -> Object:
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "resourceVersion": str(number), "uid": "u"}
    return Object(msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))


@dataclass
class Environment:
    """One order, step by step. `program` is what happens on the server."""

    program: tuple[str, ...]
    revision: int = 10
    present: Object | None = None
    happened: int = 0
    history: list[tuple[str, Object]] = field(default_factory=list)
    answers: list[Object] = field(default_factory=list)
    listing: int = 0
    lists: int = 0
    page: Object | None = None
    moment: int = 10
    delivered: int = 0

    def __post_init__(self) -> None:
        self.cache = Cache(Source(CONFIG_MAP))
        self.cache.begin_list()
        self.cache.end_list("10")

    @property
    def next_steps(self) -> list[str]:
        steps = []
        if self.happened < len(self.program):
            steps.append(self.program[self.happened])
        if self.answers:
            steps.append(ANSWER)
        if self.listing or self.lists < 1:
            steps.append(LISTING[self.listing])
        if not self.listing and self.delivered < len(self.history):
            steps.append(DELIVER)
        return steps

    def take(self, step: str) -> None:
        match step:
            case "own write" | "foreign write":
                self.happened, self.revision = self.happened + 1, self.revision + 1
                self.history.append(("MODIFIED" if self.present else "ADDED", version_of(self.revision)))
                self.present = self.history[-1][1]
                if step == OWN:
                    self.answers.append(self.present)
            case "deletion":
                self.happened += 1
                if self.present is not None:
                    self.revision += 1
                    self.history.append(("DELETED", version_of(self.revision)))
                    self.present = None
            case "answer":
                self.cache.wrote(self.answers.pop(0))
            case "event":
                type_, object_ = self.history[self.delivered]
                self.delivered += 1
                self.cache.happened(type_, object_)  # type: ignore[arg-type]
            case "list begins":
                self.cache.begin_list()
            case "list is read":
                self.page, self.moment = self.present, self.revision
            case "page":
                self.cache.listed([self.page] if self.page is not None else [])
            case "list ends":
                self.cache.end_list(str(self.moment))
                self.lists += 1
                self.delivered = len([entry for entry in self.history if int(entry[1].resource_version) <= self.moment])
        if step in LISTING:
            self.listing = (self.listing + 1) % len(LISTING)


def orders(program: tuple[str, ...], taken: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every order in which everything happens, and everything arrives."""
    env = Environment(program)
    for step in taken:
        env.take(step)
    if not env.next_steps:
        yield taken
    for step in env.next_steps:
        yield from orders(program, (*taken, step))


def check(program: tuple[str, ...], order: tuple[str, ...]) -> None:
    env = Environment(program)
    for step in order:
        env.take(step)
        if step == ANSWER and not env.listing and env.cache.get(KEY) is None:
            # Never behind this process: it is not there only if it was seen to be gone.
            assert env.delivered or env.lists, order
    assert env.cache.get(KEY) == env.present, order


@pytest.mark.parametrize("program", list(product((OWN, FOREIGN, DELETED), repeat=2)))
def test_every_order_of_two_writes_ends_in_the_truth(program: tuple[str, ...]) -> None:
    for order in orders(program):
        check(program, order)


@pytest.mark.soak
@given(st.lists(st.sampled_from((OWN, FOREIGN, DELETED)), min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_any_order_of_many_writes_ends_in_the_truth(program: list[str], rng: random.Random) -> None:
    _any_order(tuple(program), rng)


@pytest.mark.soak
def test_writes_in_any_order_end_in_the_truth() -> None:
    seconds = float(os.environ.get("ESPALIER_SOAK_SECONDS", "60"))
    for seed in range(int(seconds * 2000)):
        rng = random.Random(seed)
        _any_order(tuple(rng.choices((OWN, FOREIGN, DELETED), k=rng.randint(1, 10))), rng)


def _any_order(program: tuple[str, ...], rng: random.Random) -> None:
    env, order = Environment(program), list[str]()
    while steps := env.next_steps:
        order.append(rng.choice(steps))
        env.take(order[-1])
    assert env.cache.get(KEY) == env.present, (program, order)
