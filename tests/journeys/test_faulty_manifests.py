"""Commands that send a manifest report all its faults at once, each with its line, as `espalier validate` does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.support.environments.environment import CommandResult, LocalEnvironment
from tests.support.objects.faulty_manifests import EXAMPLES, OBJECTS, Error, check, faults
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

_ERROR = re.compile(
    r"^(?:error: )?standard input:(\d+): ((?:spec|metadata|apiVersion|kind)[^:]*(?:\[[^\]]*\][^:]*)*): "
)


FIXED = ("domain", "name", "spec.pools[0].ipEnd")
"""Fields of linked objects of which two things are wrong in an existing cluster: the value, and that it changes."""


def errors_of(done: CommandResult) -> list[Error]:
    """Field and line of each error of a command that was refused."""
    assert done.code == 1, done
    lines = [line for line in done.err.splitlines() if not line.startswith("Warning: ")]
    results = [(_ERROR.match(line), line) for line in lines]
    assert all(item for item, _ in results), lines
    return [(item[2], int(item[1])) for item, _ in results if item is not None]


@pytest.fixture(params=sampled(OBJECTS, 2))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_create_reports_all_faults_at_once(provider: str, env: LocalEnvironment) -> None:
    check(provider, faults(provider), lambda text: errors_of(env.apply(text, "create")))
    assert env.names("get", "clusters") == ["cluster.anywhere.eks.amazonaws.com/laptop"]


@pytest.fixture
def there(provider: str, env: LocalEnvironment) -> Iterator[str]:
    """A provider of which there is the cluster of the example."""
    text = (EXAMPLES / f"{provider}.yaml").read_text()
    for document in text.split("---\n"):  # without credentials, which `create` would ask for
        env.send(document)
    yield provider
    gone = env.espalier("delete", "cluster", "-f", "-", stdin=text)
    assert gone.code == 0, gone


def test_upgrade_reports_all_faults_at_once(there: str, env: LocalEnvironment) -> None:
    chosen = [fault for fault in faults(there) if fault[3] not in FIXED]
    check(there, chosen, lambda text: errors_of(env.apply(text, "upgrade", "--move-release")))


def test_each_fault_alone_is_an_error_of_a_command(provider: str, env: LocalEnvironment) -> None:
    for fault in faults(provider):
        check(provider, [fault], lambda text: errors_of(env.apply(text, "create")))


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_plan_refuses_what_an_upgrade_refuses(version: str, env: LocalEnvironment) -> None:
    """A version whose images the machine configs do not name, at the next minor and at one too far."""
    text = (EXAMPLES / "nutanix.yaml").read_text()
    for document in text.split("---\n"):  # without credentials, which `create` would ask for
        env.send(document)
    wanted = text.replace('kubernetesVersion: "1.35"', f'kubernetesVersion: "{version}"')
    upgraded = env.apply(wanted, "upgrade", "--move-release")
    fields = sorted(field for field, _ in errors_of(upgraded))
    assert "spec.image" in fields
    assert ("spec.kubernetesVersion" in fields) == (version == "1.37")
    for flags in (["--move-release"], []):
        planned = env.espalier("plan", "-f", "-", "-o", "json", *flags, stdin=wanted)
        assert planned.code == 2, planned
        (cluster,) = json.loads(planned.out)["clusters"]
        refused = {refusal["field"].rpartition(": ")[2] for refusal in cluster["refusals"]}
        assert refused == {*fields}
        assert cluster["objects"] == []
