"""The fragments of a page, and what a browser gets that has seen some of their changes."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.dashboard.feed import MOST_REMOVALS, Feed, Fragment


def fragment(id_: str, html: str = "") -> Fragment:
    return Fragment(id_, "rows", html or f"<tr id={id_}>")


def test_feed_sends_what_changed_since_a_number() -> None:
    feed = Feed()
    feed.put(fragment("a"))
    seen = feed.number
    feed.put(fragment("b"))
    feed.put(fragment("a", "new"))
    feed.put(fragment("b", "newer"))
    changes = feed.since(seen)
    assert changes is not None
    assert changes.put == [fragment("a", "new"), fragment("b", "newer")]
    assert changes.removed == []
    assert changes.number == feed.number


def test_feed_takes_one_byte_for_each_character() -> None:
    feed = Feed()
    feed.put(fragment("a", "<td>\u2013 \U0001f331</td>"))
    (stored,) = feed.of("rows")
    assert stored.html == "<td>&#8211; &#127793;</td>"
    number = feed.number
    feed.put(fragment("a", "<td>\u2013 \U0001f331</td>"))
    assert feed.number == number


def test_feed_counts_an_equal_fragment_as_no_change() -> None:
    feed = Feed()
    feed.put(fragment("a"))
    seen = feed.number
    feed.put(fragment("a"))
    assert feed.number == seen


def test_feed_sends_a_removal_until_it_is_put_again() -> None:
    feed = Feed()
    feed.put(fragment("a"))
    seen = feed.number
    feed.remove("a")
    feed.remove("never")
    changes = feed.since(seen)
    assert changes is not None
    assert (changes.put, changes.removed) == ([], ["a"])
    feed.put(fragment("a"))
    changes = feed.since(seen)
    assert changes is not None
    assert (changes.put, changes.removed) == ([fragment("a")], [])


@pytest.mark.parametrize("offset", [-2, 1, 10**9])
def test_feed_knows_nothing_since_other_numbers(offset: int) -> None:
    feed = Feed()
    feed.put(fragment("a"))
    assert feed.since(feed.number + offset) is None


def test_feed_knows_nothing_since_a_number_of_another() -> None:
    """A page that slept until its view was closed must not take the numbers of the next view for its own."""
    feed = Feed()
    feed.put(fragment("a"))
    seen = feed.number
    later = Feed()
    for number in range(3):
        later.put(fragment(str(number)))
    assert later.since(seen) is None


def test_feed_bounds_what_it_remembers_of_removals() -> None:
    feed = Feed()
    first = feed.number
    for number in range(MOST_REMOVALS + 1):
        feed.put(fragment(str(number)))
        feed.remove(str(number))
    assert feed.since(first) is None
    changes = feed.since(first + 2)
    assert changes is not None
    assert len(changes.removed) == MOST_REMOVALS


async def test_feed_wakes_all_who_wait_at_a_change() -> None:
    feed = Feed()
    waiting = [asyncio.create_task(feed.wait(feed.number)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    feed.put(fragment("a"))
    await asyncio.wait_for(asyncio.gather(*waiting), 5)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["1", "2", ""])), max_size=40), st.data())
def test_page_with_changes_applied_is_the_page(steps: list[tuple[str, str]], data: st.DataObject) -> None:
    """A browser that looks now and then has what the server has."""
    feed, browser = Feed(), dict[str, Fragment]()
    seen = feed.number
    for id_, html in steps:
        if html:
            feed.put(fragment(id_, html))
        else:
            feed.remove(id_)
        if data.draw(st.booleans()):
            changes = feed.since(seen)
            assert changes is not None
            browser |= {each.id: each for each in changes.put}
            for removed in changes.removed:
                browser.pop(removed, None)
            seen = changes.number
            assert sorted(browser.values()) == feed.of("rows")
