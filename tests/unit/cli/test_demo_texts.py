"""Demonstrations on a terminal of 80 columns, and the commands that they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.cli.local import demo_garden, demo_migration
from espalier.cli.local.environment.garden.migration_scenario import quick_settings


def test_paragraphs_fit_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    demo_garden.explain(Path("/tmp/kubeconfig"), "https://localhost:36593")
    demo_migration.explain(quick_settings().garden.give_up_after)
    sentences = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("  ")]
    assert [line for line in sentences if len(line) > 80] == []


def test_garden_shows_what_is_in_seed_before_it_moves(capsys: pytest.CaptureFixture[str]) -> None:
    demo_garden.explain(Path("/tmp/kubeconfig"), "https://localhost:36593")
    lines = capsys.readouterr().out.splitlines()
    (shown,) = (at for at, line in enumerate(lines) if f"--context admin@{demo_garden.SEEDS[0]} get pods" in line)
    (moved,) = (at for at, line in enumerate(lines) if "shoots migrate" in line)
    assert shown < moved
