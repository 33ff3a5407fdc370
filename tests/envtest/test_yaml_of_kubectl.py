"""Scalars of manifests mean to us what they mean to the real kubectl, which reads them as sigs.k8s.io/yaml does."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from espalier.api.manifests.manifests import read_manifests
from espalier.api.trees import yaml_text
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


LINES = [
    "".join(pieces)
    for pieces in itertools.product(["", "a", " ", "\t", "\n", "\r", "#", ": ", "é", "\u2028"], repeat=3)
]


def read_by_kubectl(manifest: Path) -> Any:
    """The field `items_` of an object, as kubectl reads it."""
    assets = find_assets()
    if assets is None:
        pytest.skip(why_no_assets())
    command = [str(assets / "kubectl"), "label", "--local", "-o", "json", "-f", str(manifest), "a=b"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["items_"]


def test_scalars_mean_what_they_mean_to_kubectl(tmp_path: Path) -> None:
    texts = scalars()
    manifest = tmp_path / "scalars.yaml"
    items = "".join(f"- {text}\n" for text in texts)
    manifest.write_text(f"apiVersion: example.com/v1\nkind: Scalars\nmetadata: {{name: x}}\nitems_:\n{items}")
    theirs = read_by_kubectl(manifest)
    ours = read_manifests(manifest.read_text(), source="scalars.yaml")[0].tree["items_"]
    differing = [
        (text, our, their)
        for text, our, their in zip(texts, ours, theirs, strict=True)
        if json.dumps(our) != json.dumps(their)
    ]
    assert differing == []


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("allow_unicode", [False, True])
def test_kubectl_reads_each_text_as_it_was(tmp_path: Path, blocks: bool, allow_unicode: bool) -> None:
    texts = [*scalars(), *LINES]
    head = {"apiVersion": "example.com/v1", "kind": "Scalars", "metadata": {"name": "x"}}
    tree = {**head, "items_": [{"value": text, "key": {text: 1}} for text in texts]}
    manifest = tmp_path / "texts.yaml"
    manifest.write_text(yaml_text.dump(tree, blocks=blocks, allow_unicode=allow_unicode, width=120))
    differing = [
        (text, item)
        for text, item in zip(texts, read_by_kubectl(manifest), strict=True)
        if item != {"value": text, "key": {text: 1}}
    ]
    assert differing == []
