"""Creating a cluster without all of the variables with credentials: one sentence names those to set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments.environment import LocalEnvironment
from tests.support.providers.credential_variables import CREDENTIALS, in_files

pytestmark = pytest.mark.embedded

EXAMPLES = Path(__file__).parents[2] / "examples"

OF_EKS_ANYWHERE = {
    "vsphere": ("EKSA_VSPHERE_USERNAME", "EKSA_VSPHERE_PASSWORD"),
    "nutanix": ("EKSA_NUTANIX_USERNAME", "EKSA_NUTANIX_PASSWORD"),
    "cloudstack": ("EKSA_CLOUDSTACK_B64ENCODED_SECRET",),
    "snow": ("EKSA_AWS_CREDENTIALS_FILE", "EKSA_AWS_CA_BUNDLES_FILE"),
}
"""The variables that EKS Anywhere's command requires."""

OF_CLOUD_CONTROLLERS = {
    "vsphere": ("EKSA_VSPHERE_CP_USERNAME", "EKSA_VSPHERE_CP_PASSWORD"),
    "nutanix": ("EKSA_NUTANIX_CP_USERNAME", "EKSA_NUTANIX_CP_PASSWORD"),
}
"""Those of the account that workload clusters get."""

MIRROR = "  registryMirrorConfiguration: {endpoint: harbor.example.com, authenticate: true}\n"


@pytest.mark.parametrize("provider", OF_EKS_ANYWHERE)
def test_variables_to_set_are_named(env: LocalEnvironment, provider: str) -> None:
    """Those that are missing and no others, before anything is written; with all of them the cluster is Ready."""
    text, known = (EXAMPLES / f"{provider}.yaml").read_text(), CREDENTIALS | in_files(env.home)
    own, further = OF_EKS_ANYWHERE[provider], OF_CLOUD_CONTROLLERS.get(provider, ())

    cluster_names = {f"cluster.anywhere.eks.amazonaws.com/{text.partition('  name: ')[2].split()[0]}"}

    def run(verb: str, names: tuple[str, ...]) -> tuple[int, str]:
        variables = {name: known[name] for name in names}
        done = env.espalier(verb, "cluster", "-f", "-", stdin=text, folder=env.home, **variables)
        return done.code, done.err.strip().splitlines()[-1] if done.err else ""

    for given in ((), own[:1], own, (*own, *further[:1])):
        missing = [name for name in (*own, *further) if name not in given]
        if missing:
            code, last = run("create", given)
            assert code == 1
            assert [name for name in known if name in last.split(":")[1]] == missing, last
            assert last.startswith("error: set the variable"), last
            assert not cluster_names & set(env.names("get", "clusters", "-A")), "nothing was written"
    assert run("create", (*own, *further))[0] == 0
    assert env.espalier("delete", "cluster", text.partition("  name: ")[2].split()[0]).code == 0


def test_variables_of_a_mirrors_account_are_named(env: LocalEnvironment) -> None:
    text = (EXAMPLES / "docker.yaml").read_text().replace("\nspec:\n", f"\nspec:\n{MIRROR}", 1)
    name = text.partition("  name: ")[2].split()[0]
    refused = env.espalier("create", "cluster", "-f", "-", stdin=text, folder=env.home)
    last = refused.err.strip().splitlines()[-1]
    assert (refused.code, "REGISTRY_USERNAME and REGISTRY_PASSWORD" in last) == (1, True), last
    account = {"REGISTRY_USERNAME": "puller", "REGISTRY_PASSWORD": "secret"}
    assert env.espalier("create", "cluster", "-f", "-", stdin=text, folder=env.home, **account).code == 0
    assert env.espalier("delete", "cluster", name).code == 0


def test_an_existing_cluster_is_told_to_upgrade(env: LocalEnvironment) -> None:
    text = (EXAMPLES / "vsphere.yaml").read_text()
    for document in text.split("---\n"):
        env.send(document)
    waits = env.espalier("upgrade", "cluster", "-f", "-", "--keep-release", stdin=text, folder=env.home)
    last = waits.err.strip().splitlines()[-1]
    assert (waits.code, "CredentialsNotPermitted" in last) == (1, True), last
    assert "`espalier upgrade cluster` writes it from the variables EKSA_VSPHERE_USERNAME, " in last
    assert "espalier create" not in last
    assert env.espalier("delete", "cluster", "vineyard").code == 0
