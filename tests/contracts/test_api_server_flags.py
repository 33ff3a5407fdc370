"""The flags of kube-apiserver that a Cluster may set are those of the program."""

from __future__ import annotations

import re
import subprocess

import pytest

from espalier.api.version_matrix import KUBERNETES, lost_gates, selected_row
from espalier.clusters.observe.rules.control_planes import api_server_flags
from tests.support.environments.control_plane import find_assets, why_no_assets

pytestmark = pytest.mark.envtest
_HELP = frozenset({"help", "version"})
"""Flags with which it starts no server."""


def test_known_flags_are_those_of_kube_apiserver() -> None:
    folder = find_assets()
    if folder is None:
        pytest.skip(why_no_assets())
    shown = subprocess.run(
        [folder / "kube-apiserver", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    flags = frozenset(re.findall(r"(?m)^ +(?:-\w, )?--([a-z0-9-]+)", shown.stdout))
    assert flags - _HELP == api_server_flags.KNOWN


def test_lost_gates_are_unknown_to_kube_apiserver() -> None:
    """Those that a later version has lost are known to it."""
    folder = find_assets()
    if folder is None:
        pytest.skip(why_no_assets())
    unknown = set()
    for gate in lost_gates(list(KUBERNETES)[-1]):
        program = [str(folder / "kube-apiserver"), f"--feature-gates={gate}=true", "--version"]
        shown = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
        if f"unrecognized feature gate: {gate}" in shown.stderr:
            unknown.add(gate)
    assert unknown == lost_gates(selected_row().name)
