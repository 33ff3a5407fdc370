"""Where journeys begin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from espalier.cli.local.images import upgrader_images
from tests.support.environments.environment import LocalEnvironment, local_environment
from tests.support.environments.management import Management, environment, production


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.embedded),
        pytest.param("envtest", marks=pytest.mark.envtest),
    ]
)
def starting(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Management]:
    """The way to a management cluster; entered in the test itself, for its tasks belong to the test."""
    if request.param == "envtest":
        return production(request.getfixturevalue("control_plane"), tmp_path)
    return environment(tmp_path)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnvironment]:
    """A local environment for the commands of a module."""
    with local_environment(tmp_path_factory.mktemp("environment"), "--boot-seconds", "0.05") as running:
        yield running


TEN_TIMES = (
    "import subprocess, threading, time; "  # these keep the real clock: how long a command may take stays as it is
    "wait, now = time.sleep, time.monotonic; "
    "time.sleep, time.monotonic = lambda seconds: wait(seconds / 10), lambda: 10 * now(); "
)


@pytest.fixture
def quick_upgraders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of upgraders that run as processes passes ten times as fast: what they wait for is simulated."""
    monkeypatch.setattr(upgrader_images, "START", TEN_TIMES + upgrader_images.START)
