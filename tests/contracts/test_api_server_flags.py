"""The flags of kube-apiserver that a Cluster may set are those of the program."""

from __future__ import annotations

import re
import subprocess

import pytest

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
