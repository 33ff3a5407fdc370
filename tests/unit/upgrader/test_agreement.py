"""Names that controllers and the program on the node share: they share no module, so it is held here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from espalier.api.eksa.vocabulary.upgrade_keys import (
    CORDONED_BY_UPGRADE,
    DRAIN_BLOCKED,
    RESTARTED_BY_UPGRADE,
    UPGRADER_LABEL,
)
from espalier.clusterapi.changes.bootstrap_changes import changes_since, traits
from espalier.upgrader import changes, draining, static_pods
from espalier.upgrader.main import ROOT, main
from espalier.upgrades.node.pod import CHANGES_FILE, Role, Upgrader, pod


def test_annotations_of_the_program_are_readable() -> None:
    assert draining.CORDONED_ANNOTATION == CORDONED_BY_UPGRADE
    assert draining.DRAIN_BLOCKED_ANNOTATION == DRAIN_BLOCKED
    assert static_pods.RESTARTED == RESTARTED_BY_UPGRADE


def test_the_changes_in_a_pod_are_read_by_the_program(tmp_path: Path) -> None:
    file = {"path": "/etc/kubernetes/a", "content": "x", "permissions": "0600"}
    flags = {"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": [{"name": "v", "value": "4"}]}}}
    before = {"files": [{"path": "/etc/kubernetes/b"}]}
    (tmp_path / CHANGES_FILE).write_text(json.dumps(changes_since(traits(before), {"files": [file]} | flags)))

    result = changes.read_changes(tmp_path)

    new = changes.NewFile("/etc/kubernetes/a", b"x", 0o600, "root:root")
    assert result == changes.Changes((new,), ("/etc/kubernetes/b",), (("v", "4"),))


def test_upgrader_pods_have_one_label() -> None:
    assert draining.UPGRADER == UPGRADER_LABEL


@pytest.mark.demand("U47")
@pytest.mark.parametrize("role", get_args(Role))
def test_program_understands_every_command_of_pod(
    role: Role, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upgrader = Upgrader(
        node_upgrade="default/a",
        node="a",
        image="upgrader:1",
        role=role,
        kubernetes_version="v1.36.3",
        account="a",
        changes="a-1",
        ignored=("Swap", "Mem"),
        patches="/etc/kubernetes/patches",
    )
    spec = pod(upgrader)["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        program, *arguments = container["command"]
        assert program == "upgrader"
        main(arguments, {ROOT: str(tmp_path)})  # ends the process for arguments it does not know
        assert "NODE_NAME is not set" in capsys.readouterr().err
