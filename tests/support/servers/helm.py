"""The real helm, where it was built."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import HELM

CHART = Path(__file__).parents[3] / "charts" / "espalier"
_HOME = HELM.home(assets_folder())
PROGRAM = _HOME / "helm" if is_finished(_HOME) else None
NEEDED = pytest.mark.skipif(PROGRAM is None, reason="helm was not built: run make real-assets REAL=helm")
RELEASE, PATIENCE = "espalier", 600.0


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    output: str
    complaint: str


@dataclass(frozen=True)
class Helm:
    """helm with an empty home in a folder."""

    folder: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str) -> Ended:
        """The end of a run."""
        assert PROGRAM is not None
        environment: Mapping[str, str] = {
            "HOME": str(self.folder),
            "PATH": os.environ["PATH"],
            **({"KUBECONFIG": str(self.kubeconfig)} if self.kubeconfig else {}),
        }
        ended = subprocess.run(
            [PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def template(self, *settings: str, namespace: str = SYSTEM_NAMESPACE) -> Ended:
        """`helm template` of the chart in the tree."""
        return self.run("template", RELEASE, str(CHART), "--namespace", namespace, *settings)

    def rendered(self, *settings: str) -> list[Tree]:
        """The objects of the chart with these settings."""
        ended = self.template(*settings)
        assert ended.code == 0, ended.complaint
        return trees_of(ended.output)


def trees_of(text: str) -> list[Tree]:
    """The objects in YAML of half a megabyte, which the parser in Python takes a second for."""
    return [tree for tree in yaml.load_all(text, Loader=yaml.CSafeLoader) if tree]


def sets(values: Mapping[str, object]) -> Sequence[str]:
    """Flags that set values, each as JSON."""
    return tuple(word for path, value in values.items() for word in ("--set-json", f"{path}={json.dumps(value)}"))
