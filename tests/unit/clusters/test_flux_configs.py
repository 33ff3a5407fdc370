"""What the API server says of a FluxConfig or GitOpsConfig, as EKS Anywhere does."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.eksa.gitops import FluxConfig, GitOpsConfig
from espalier.api.meta import Tree
from tests.unit.providers.sweep import server, verdict

HUB = {"owner": "garden", "repository": "fleet"}
GIT = {"repositoryUrl": "ssh://git@git.example.com/fleet.git"}

SPECS: dict[str, tuple[type[FluxConfig | GitOpsConfig], Tree, str]] = {
    "github": (FluxConfig, {"github": HUB, "branch": "main"}, ""),
    "git": (FluxConfig, {"git": GIT | {"sshKeyAlgorithm": "ed25519"}}, ""),
    "both": (FluxConfig, {"git": GIT, "github": HUB}, "spec.github: Invalid value: Flux reads one repository"),
    "neither": (FluxConfig, {}, "found neither git nor github; allowed: github, or git"),
    "no owner": (FluxConfig, {"github": HUB | {"owner": ""}}, "spec.github.owner: Invalid value: must be set"),
    "over HTTPS": (FluxConfig, {"git": {"repositoryUrl": "https://git/a"}}, "spec.git.repositoryUrl: Invalid value"),
    "an algorithm": (FluxConfig, {"git": GIT | {"sshKeyAlgorithm": "dsa"}}, "allowed: ecdsa, rsa, ed25519"),
    "the earlier kind": (GitOpsConfig, {"flux": {"github": HUB}}, ""),
    "the earlier kind, without a repository": (
        GitOpsConfig,
        {"flux": {"github": HUB | {"repository": ""}}},
        "spec.flux.github.repository: Invalid value: must be set",
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_one_repository_is_named(name: str) -> None:
    kind, spec, sentence = SPECS[name]
    resource = kind.resource
    metadata = {"name": "fleet", "namespace": "team-a"}
    tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}

    async def main() -> str:
        return await verdict(await server([kind]), kind, [tree])

    said = asyncio.run(main())
    assert sentence in said
    assert bool(said) == bool(sentence)
