"""The repository that a configuration names, and what is needed to reach it."""

from __future__ import annotations

import stat

import msgspec
import pytest

from espalier.api.eksa.gitops import FluxConfig, GitOpsConfig
from espalier.gitops.target import Credentials, NoRepository, Target, target_of

HUB = {"owner": "garden", "repository": "fleet"}
GIT = {"repositoryUrl": "ssh://git@git.example.com/fleet.git"}
SSH = Target(GIT["repositoryUrl"], "main", "clusters/laptop", "flux-system")


def flux(**spec: object) -> FluxConfig:
    return msgspec.convert({"metadata": {"name": "fleet"}, "spec": spec}, FluxConfig)


def git_ops(**github: object) -> GitOpsConfig:
    spec = {"flux": {"github": github}} if github else {}
    return msgspec.convert({"metadata": {"name": "fleet"}, "spec": spec}, GitOpsConfig)


@pytest.mark.parametrize(
    ("config", "target"),
    [
        (flux(git=GIT), SSH),
        (flux(github=HUB), Target("https://github.com/garden/fleet.git", "main", "clusters/laptop", "flux-system")),
        (git_ops(**HUB), target_of(flux(github=HUB), "laptop")),
        (
            flux(git=GIT, branch="fleet", clusterConfigPath="/all/of/it/", systemNamespace="flux"),
            Target(GIT["repositoryUrl"], "fleet", "all/of/it", "flux"),
        ),
        (
            git_ops(**HUB, branch="fleet", clusterConfigPath="all", fluxSystemNamespace="flux"),
            Target("https://github.com/garden/fleet.git", "fleet", "all", "flux"),
        ),
    ],
)
def test_defaults_of_both_kinds_are_filled_in(config: FluxConfig | GitOpsConfig, target: Target) -> None:
    assert target_of(config, "laptop") == target


@pytest.mark.parametrize("config", [flux(), git_ops()])
def test_a_configuration_without_repository_is_refused(config: FluxConfig | GitOpsConfig) -> None:
    with pytest.raises(NoRepository, match="fleet: "):
        target_of(config, "laptop")


def test_missing_credentials_are_named() -> None:
    https = target_of(flux(github=HUB), "laptop")
    assert Credentials().lacking(https).endswith(": found no token or password")
    assert Credentials(password="t").lacking(https) == ""
    assert Credentials(password="t").lacking(SSH).endswith(": found no private key and no known hosts")
    assert Credentials(identity=b"k").lacking(SSH).endswith(": found no known hosts")
    assert Credentials(identity=b"k", known_hosts=b"h").lacking(SSH) == ""


def test_keys_are_files_of_their_owner_for_a_while() -> None:
    credentials = Credentials(identity=b"key", known_hosts=b"hosts")
    with credentials.access(SSH) as access:
        assert access.key_file is not None
        assert access.known_hosts is not None
        assert (access.key_file.read_bytes(), access.known_hosts.read_bytes()) == (b"key", b"hosts")
        assert stat.S_IMODE(access.key_file.stat().st_mode) == 0o600
    assert not access.key_file.exists()
    assert access.password is None


def test_secrets_are_in_no_representation() -> None:
    shown = repr(Credentials("flux", "s3cret", b"k3y"))
    assert "s3cret" not in shown
    assert "k3y" not in shown


def test_a_secret_has_what_flux_reads() -> None:
    assert Credentials(password="t").secret("a", "b")["data"] == {"username": "Z2l0", "password": "dA=="}
    assert set(Credentials(identity=b"k", known_hosts=b"h").secret("a", "b")["data"]) == {"identity", "known_hosts"}
