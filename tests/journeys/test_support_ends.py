"""The end of support of a Kubernetes version that is asked for, as each command tells it: by dates far from today."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import espalier.releases
from tests.support.environments.environment import LocalEnvironment, local_environment

pytestmark = pytest.mark.embedded

DATA = Path(espalier.releases.__file__).parent / "data"
EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
GROWN = EXAMPLE.replace("count: 2", "count: 3")
UPGRADED = EXAMPLE.replace('"1.35"', '"1.36"')
ENDED = "spec.kubernetesVersion: Kubernetes 1.35 (support ended on 2020-01-01); plan an upgrade"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnvironment]:
    """Of releases in which support of 1.35 ended long ago, and that of 1.36 ends in a far future."""
    releases = tmp_path_factory.mktemp("releases") / "data"
    shutil.copytree(DATA, releases)
    bundles = releases / "bundles-1.yaml"
    dates = iter(("2026-12-02", "2020-01-01", "9000-01-01"))
    field = re.compile(r"endOfStandardSupport: '.*'")
    bundles.write_text(field.sub(lambda _: f"endOfStandardSupport: '{next(dates)}'", bundles.read_text()))
    home = tmp_path_factory.mktemp("environment")
    with local_environment(home, "--boot-seconds", "0.05", "--releases", str(releases)) as running:
        yield running


@pytest.mark.soak
def test_version_near_the_end_of_support_warns(env: LocalEnvironment) -> None:
    created = env.apply(EXAMPLE, "create", "--timeout", "300s")
    assert (created.code, created.err.splitlines().count(f"Warning: {ENDED}")) == (0, 1), created.err

    plan = env.espalier("plan", "-f", "-", stdin=GROWN, COLUMNS="80")
    assert plan.code == 1
    assert "    ! warning: spec.kubernetesVersion: Kubernetes 1.35 (support ended on" in plan.out.splitlines()
    assert "        2020-01-01); plan an upgrade" in plan.out.splitlines()
    (cluster,) = json.loads(env.espalier("plan", "-f", "-", "-o", "json", stdin=GROWN).out)["clusters"]
    assert cluster["warnings"] == [ENDED]

    grown = env.apply(GROWN, "upgrade", "--no-wait")
    assert (grown.code, grown.err.splitlines().count(f"Warning: {ENDED}")) == (0, 1), grown.err
    assert "Kubernetes 1.35 (support ended on 2020-01-01)" in env.espalier("describe", "cluster", "garden").out


@pytest.mark.soak
def test_whoever_asks_for_another_is_not(env: LocalEnvironment) -> None:
    plan = env.espalier("plan", "-f", "-", stdin=UPGRADED)
    assert (plan.code, "support" in plan.out) == (1, False), plan.out
    upgraded = env.apply(UPGRADED, "upgrade", "--timeout", "300s")
    assert (upgraded.code, "support" in upgraded.err) == (0, False), upgraded.err
