"""Objects beside the Cluster in a manifest, as commands judge them: before anything is sent, and reported once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.environments.environment import LocalEnvironment

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "vsphere.yaml").read_text()
OTHER = EXAMPLE.replace("vineyard", "hillside")


@pytest.fixture(scope="module")
def env(env: LocalEnvironment) -> LocalEnvironment:
    for document in EXAMPLE.split("---\n"):  # without credentials, which `create` would ask for
        env.send(document)
    return env


def refusals(env: LocalEnvironment, manifest: str) -> list[str]:
    result = env.espalier("plan", "-f", "-", "-o", "json", stdin=manifest)
    assert result.code == 2, result
    (cluster,) = json.loads(result.out)["clusters"]
    return [f"{refusal['field']}: {refusal['message']}" for refusal in cluster["refusals"]]


def warnings(text: str) -> list[str]:
    """Those but for the key that the example leaves to its user."""
    return [line for line in text.splitlines() if line.startswith("Warning: ") and "sshAuthorizedKeys" not in line]


@pytest.mark.soak
def test_forbidden_machine_config_is_always_refused(env: LocalEnvironment) -> None:
    manifest = OTHER.replace("name: capv", "name: a b")
    message = "spec.users[0].name: not a Linux user name; found a b; allowed: at most 32 lower-case letters"
    assert [refusal.split(", digits")[0] for refusal in refusals(env, manifest)] == [
        f"VSphereMachineConfig hillside-cp: {message}",
        f"VSphereMachineConfig hillside: {message}",
    ]
    created = env.espalier("create", "cluster", "-f", "-", stdin=manifest)
    assert created.code == 1
    assert f"error: standard input:105: {message}" in created.err
    validated = env.espalier("validate", "-f", "-", stdin=manifest)
    assert f"error: standard input:81: {message}" in validated.err
    assert env.espalier("get", "clusters", "hillside").code == 1


@pytest.mark.soak
def test_immutable_field_is_refused_by_plan_as_well(env: LocalEnvironment) -> None:
    manifest = EXAMPLE.replace("vcenter.example.com", "other.example.com").replace(
        "osFamily: ubuntu", "osFamily: redhat"
    )
    expected = [
        "VSphereDatacenterConfig vineyard: spec.server: it can't be changed, because machines run there",
        "VSphereMachineConfig vineyard-cp: spec.osFamily: it can't be changed",
        "VSphereMachineConfig vineyard: spec.osFamily: it can't be changed",
    ]
    assert [refusal.partition(";")[0] for refusal in refusals(env, manifest)] == expected
    upgraded = env.espalier("upgrade", "cluster", "-f", "-", "--keep-release", stdin=manifest)
    assert upgraded.code == 1
    lines = [line.partition(";")[0] for line in upgraded.err.splitlines()]
    assert lines == [
        f"error: standard input:{number}: {message.partition(': ')[2]}"
        for number, message in zip((52, 75, 99), expected, strict=True)
    ]
    by_server = env.espalier("plan", "-f", "-", "-o", "json", stdin=EXAMPLE)
    assert by_server.code == 0, "what is there is not judged anew"


@pytest.mark.soak
def test_address_of_another_cluster_is_always_seen(env: LocalEnvironment) -> None:
    result = env.espalier("plan", "-f", "-", "-o", "json", stdin=OTHER)
    (cluster,) = json.loads(result.out)["clusters"]
    assert cluster["stops"].startswith("ControlPlaneAddressTaken: spec.controlPlaneConfiguration.endpoint")
    assert cluster["stops"].endswith(
        "host: found 192.0.2.10, which another cluster uses; choose a free address: a cluster that exists already must "
        "be deleted and created again with it, because its address can't be changed"
    )


@pytest.mark.soak
def test_warnings_are_about_actions_and_reported_once(env: LocalEnvironment) -> None:
    manifest = EXAMPLE.replace("count: 2", "count: 3")
    tried = env.espalier("upgrade", "cluster", "-f", "-", "--dry-run", "server", "--keep-release", stdin=manifest)
    plan, *others = warnings(tried.err)
    assert others == []
    assert plan.startswith("Warning: plan: then nothing is done: CredentialsNotPermitted")
    both = manifest.replace("numCPUs: 2", "numCPUs: 4")
    tried = env.espalier("upgrade", "cluster", "-f", "-", "--dry-run", "server", "--keep-release", stdin=both)
    instead, *others = warnings(tried.err)
    assert others == []
    assert "`espalier plan -f FILE` says what this does" in instead
    done = env.espalier("upgrade", "cluster", "-f", "-", "--no-wait", "--keep-release", stdin=both)
    assert done.code == 0, done.err
    assert warnings(done.err) == []
