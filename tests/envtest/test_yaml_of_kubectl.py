"""Scalars of manifests mean to us what they mean to the real kubectl, which reads them as sigs.k8s.io/yaml does."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest

from espalier.api.manifests import read_manifests
from tests.support.environments.control_plane import find_assets, why_no_assets

pytestmark = pytest.mark.envtest

WORDS = ["y", "yes", "n", "no", "on", "off", "true", "false", "null", "~", "nil", "none", "t", "f", "inf", "nan"]
PIECES = [
    "",
    *["0", "1", "7", "8", "9", "12", ".", "e", "E", "x", "o", "b", "_", ":", "-", "+", "30", "2026", "01", "T", "Z"],
]
DATES = ["2026-01-02", "2026-1-2", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05", "12:30:45", "1:2", "190:20:30.15"]
NUMBERS = [
    "1e3",
    "1.5e+3",
    "0x1F",
    "0o17",
    "0b101",
    "-0b11",
    "-0x1f",
    "1_000.5",
    "+.5",
    "685_230.15",
    "0.1e1",
    "1e-7",
]


def scalars() -> list[str]:
    """Words in every case, and all that can be made of three pieces of numbers, dates and times."""
    words = [form for word in WORDS for form in (word, word.upper(), word.capitalize(), word.swapcase(), f"{word}s")]
    made = ("".join(pieces) for pieces in itertools.product(PIECES, repeat=3))
    candidates = dict.fromkeys([*words, *DATES, *NUMBERS, *made])
    return [text for text in candidates if text and text not in ("-", "---") and not text.endswith(":")]


def test_scalars_mean_what_they_mean_to_kubectl(tmp_path: Path) -> None:
    assets = find_assets()
    if assets is None:
        pytest.skip(why_no_assets())
    texts = scalars()
    manifest = tmp_path / "scalars.yaml"
    items = "".join(f"- {text}\n" for text in texts)
    manifest.write_text(f"apiVersion: example.com/v1\nkind: Scalars\nmetadata: {{name: x}}\nitems_:\n{items}")
    command = [str(assets / "kubectl"), "label", "--local", "-o", "json", "-f", str(manifest), "a=b"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["items_"]
    ours = read_manifests(manifest.read_text(), source="scalars.yaml")[0].tree["items_"]
    differing = [
        (text, our, their)
        for text, our, their in zip(texts, ours, theirs, strict=True)
        if json.dumps(our) != json.dumps(their)
    ]
    assert differing == []
