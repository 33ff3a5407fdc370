"""The parts of an upgrader image."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from espalier.upgrader import contents, image


def placed(folder: Path) -> None:
    """The program as it lies in the image."""
    for path, source in image.sources().items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(source.read_text() if source else "")


def test_program_needs_nothing_but_standard_library(tmp_path: Path) -> None:
    placed(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, '{tmp_path / image.LIBRARY}'); before = set(sys.modules)\n"
        f"import {image.PACKAGE}.main, http.client, ssl\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    result = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True)

    loaded = set(result.stdout.split())
    assert "espalier" in loaded
    assert loaded <= {*sys.stdlib_module_names, "espalier"}


def test_what_builds_the_image_is_not_in_it() -> None:
    program = {path.name for path in Path(image.__file__).parent.glob("*.py")} - {"image.py"}
    folder = f"{image.LIBRARY}/{image.PACKAGE.replace('.', '/')}/"

    assert {path.removeprefix(folder) for path in image.sources() if path.startswith(folder)} == program


@pytest.mark.demand("U4", "U49")
def test_the_image_contains_exactly_its_list(tmp_path: Path) -> None:
    several = tmp_path / "kubernetes"
    several.write_text("several programs in one")
    for name in ("kubelet", "kubeadm"):
        (tmp_path / name).symlink_to("kubernetes")
    (tmp_path / "ctr").write_text("ctr")
    files = {
        "kubernetes/kubelet": tmp_path / "kubelet",
        "kubernetes/kubeadm": tmp_path / "kubeadm",
        "containerd/ctr": tmp_path / "ctr",
    }

    path, text = image.describe("v1.36.3", "x86_64", {"containerd": "2.3.7"}, files)
    components = image.components(files)

    assert path == "upgrader/contents.json"
    listed = json.loads(text)["files"]
    assert listed["kubernetes/kubelet"] == listed["kubernetes/kubeadm"]
    assert components["upgrader/components/kubernetes/kubeadm"] == several
    assert components["upgrader/components/kubernetes/kubelet"] == "../kubernetes/kubeadm"
    (tmp_path / "contents.json").write_text(text)
    assert set(contents.read(tmp_path).programs("kubernetes")) == {"kubelet", "kubeadm"}


@pytest.mark.demand("U63")
def test_the_program_is_started_without_a_shell() -> None:
    first, *_ = image.launcher("usr/bin/python3.11").splitlines()

    assert first == "#!/usr/bin/python3.11 -IS"
