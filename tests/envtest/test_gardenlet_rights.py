"""A shoot on seeds of kube-apiserver with OwnerReferencesPermissionEnforcement: garden, gardenlets and extensions do
without a right that they do not declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.cli.local.environment.garden.migration_scenario import NODES
from espalier.shoots.admission.users import GARDEN_ACCOUNT
from espalier.shoots.garden.roles import USER
from espalier.shoots.secrets.names import PERSISTED
from tests.support.gardens.garden_processes import ProcessGarden, process_garden
from tests.support.gardens.kubernetes_process_seeds import EXTENSIONS, GARDENLET, KubernetesProcessSeed
from tests.support.gardens.real_shoots import CUT, SEEDS
from tests.support.servers.audit import requests_of

pytestmark = pytest.mark.envtest

IN_GARDEN = tuple(USER.format(seed=seed) for seed in SEEDS)
BLOCKING, OWNING = "cannot set blockOwnerDeletion", "cannot set an ownerRef"
"""How the plugin refuses."""
EAST, WEST = SEEDS


async def test_shoot_moves_by_the_declared_rights(tmp_path: Path) -> None:
    async with process_garden(tmp_path, CUT, SEEDS, new_seed=KubernetesProcessSeed) as shoot:
        garden, seeds = shoot.garden, [shoot.seed(name) for name in SEEDS]
        assert isinstance(garden, ProcessGarden)
        logs = [garden.control_plane.audit_log]
        logs += [seed.control_plane.audit_log for seed in seeds if isinstance(seed, KubernetesProcessSeed)]
        with_source = await shoot.scenario.move(WEST, "with its source")
        without = await shoot.scenario.move(EAST, "without it", destroy_source=True, give_up_source=True)
        for move in (with_source, without):
            assert (move.nodes_kept, move.secrets_kept) == (NODES, len(PERSISTED))
        garden.check()
    ours = {*(USER.format(seed=seed) for seed in SEEDS), EXTENSIONS, GARDENLET}
    ours.add(f"system:serviceaccount:{SYSTEM_NAMESPACE}:{GARDEN_ACCOUNT}")
    asked = [item for log in logs for item in requests_of(log) if item.user.username in ours]
    assert {item.user.username for item in asked} == ours
    refused = {f"{item}: {item.refusal}" for item in asked if item.refusal}
    # What the garden gives seeds changes with each move, and a namespace may be on its way out.
    assert {item for item in refused if not item.startswith(IN_GARDEN) and "being terminated" not in item} == set()
    assert {item for item in refused if BLOCKING in item or OWNING in item} == set()
