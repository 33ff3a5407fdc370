"""Columns as the API server tells them, of lists and of watches."""

from __future__ import annotations

from espalier.api.meta import Tree
from espalier.cli.kit.printing.tables import Columns

FIRST: Tree = {
    "columnDefinitions": [
        {"name": "Name", "priority": 0},
        {"name": "Endpoint", "priority": 1},
        {"name": "Age", "priority": 0},
    ],
    "rows": [{"cells": ["garden", "10.0.0.1", "5s"], "object": {"metadata": {"namespace": "default"}}}],
}
NEXT: Tree = {
    "columnDefinitions": [],
    "rows": [{"cells": ["garden", "10.0.0.2", "9s"], "object": {"metadata": {"namespace": "default"}}}],
}


def test_unimportant_columns_are_shown_when_asked_for() -> None:
    narrow, wide = Columns(wide=False, namespaces=True), Columns(wide=True, namespaces=False)
    for columns in (narrow, wide):
        columns.learn(FIRST)
    assert (narrow.names, narrow.rows(FIRST)) == (["Namespace", "Name", "Age"], [["default", "garden", "5s"]])
    assert (wide.names, wide.rows(FIRST)) == (["Name", "Endpoint", "Age"], [["garden", "10.0.0.1", "5s"]])


def test_watch_without_columns_keeps_those_of_its_list() -> None:
    columns = Columns(wide=False, namespaces=False)
    columns.learn(FIRST)
    columns.learn(NEXT)
    assert columns.rows(NEXT) == [["garden", "9s"]]


def test_getting_older_is_no_news() -> None:
    narrow, wide = Columns(wide=False, namespaces=False), Columns(wide=True, namespaces=False)
    for columns in (narrow, wide):
        columns.learn(FIRST)
    assert narrow.news(narrow.rows(FIRST)[0]) == narrow.news(narrow.rows(NEXT)[0])
    assert wide.news(wide.rows(FIRST)[0]) != wide.news(wide.rows(NEXT)[0])
