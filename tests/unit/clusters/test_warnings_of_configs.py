"""Warnings about linked objects that an API server without our schema let in."""

from __future__ import annotations

import pytest

from espalier.clusters.observe.rules import warnings
from tests.support.objects.observed_upgrades import made


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {"users": None}}], ids=["none", "null", "no users"])
def test_a_config_without_a_spec_has_no_users(spec: dict[str, object]) -> None:
    config = made({"kind": "VSphereMachineConfig", "metadata": {"name": "a"}, **spec})
    assert [*warnings._users(config), *warnings._reserved_prefixes(config)] == []
