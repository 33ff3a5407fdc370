"""Golden stories: rendered output that people review, compared with what was told before."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import yaml

STORIES = Path(__file__).parents[2] / "stories"


def compare_with_golden(name: str, text: str) -> None:
    """Compare with the story told before; ESPALIER_TELL_STORIES=1 writes it anew."""
    path = STORIES / f"{name}.golden"
    if os.environ.get("ESPALIER_TELL_STORIES"):
        path.write_text(text)
    assert text == path.read_text()


def text_of(objects: Iterable[object]) -> str:
    """YAML, for people."""
    return yaml.safe_dump_all(objects, sort_keys=True, width=120)
