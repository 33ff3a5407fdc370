"""The API server's answers about a FluxConfig or GitOpsConfig, as EKS Anywhere."""

from __future__ import annotations

import asyncio
import copy

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.gitops import FluxConfig, GitOpsConfig
from espalier.api.meta import Tree
from tests.support.providers.field_sweep import refusal_of_last, server, verdict
from tests.support.providers.git_repositories import GIT, HUB

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

    messages = asyncio.run(main())
    assert sentence in messages
    assert bool(messages) == bool(sentence)


Kind = type[FluxConfig | GitOpsConfig]
FIXED: list[tuple[Kind, Tree, Tree, str]] = [
    (FluxConfig, {"github": HUB}, {"github": HUB | {"owner": "orchard"}}, "spec.github.owner"),
    (FluxConfig, {"github": HUB}, {"github": HUB | {"repository": "other"}}, "spec.github.repository"),
    (FluxConfig, {"github": HUB}, {"github": HUB | {"personal": True}}, "spec.github.personal"),
    (FluxConfig, {"github": HUB}, {"git": GIT}, "spec.git"),
    (FluxConfig, {"git": GIT}, {"git": {"repositoryUrl": "ssh://git@git.example.com/b"}}, "spec.git.repositoryUrl"),
    (FluxConfig, {"git": GIT}, {"git": GIT | {"sshKeyAlgorithm": "rsa"}}, "spec.git.sshKeyAlgorithm"),
    (FluxConfig, {"git": GIT}, {"git": GIT, "branch": "next"}, "spec.branch"),
    (FluxConfig, {"git": GIT, "clusterConfigPath": "a"}, {"git": GIT}, "spec.clusterConfigPath"),
    (FluxConfig, {"git": GIT, "systemNamespace": "a"}, {"git": GIT}, "spec.systemNamespace"),
    (GitOpsConfig, {"flux": {"github": HUB}}, {}, "spec.flux"),
    (GitOpsConfig, {"flux": {"github": HUB}}, {"flux": {}}, "spec.flux.github"),
    *(
        (
            GitOpsConfig,
            {"flux": {"github": HUB}},
            {"flux": {"github": HUB | {field: value}}},
            f"spec.flux.github.{field}",
        )
        for field, value in (
            *(("owner", "orchard"), ("repository", "other"), ("personal", True), ("branch", "next")),
            *(("clusterConfigPath", "a"), ("fluxSystemNamespace", "a")),
        )
    ),
]


def refusal(kind: Kind, *specs: Tree) -> str:
    """Why the last one of these is refused, which are written one after the other; empty if it is not."""
    return asyncio.run(refusal_of_last(kind, specs))


@pytest.mark.parametrize(("kind", "old", "new", "field"), FIXED, ids=[item[3] for item in FIXED])
def test_the_repository_of_an_object_stays_what_it_is(kind: Kind, old: Tree, new: Tree, field: str) -> None:
    assert f"{field}: Invalid value: it can't be changed; delete the object" in refusal(kind, old, new)


def test_given_default_equals_a_missing_value() -> None:
    given = {"branch": "main", "systemNamespace": "flux-system", "clusterConfigPath": ""}
    hub = HUB | {"personal": False}
    assert refusal(FluxConfig, {"github": HUB}, {"github": hub} | given, {"github": HUB, "branch": ""}) == ""
    assert refusal(FluxConfig, {"git": GIT}, {"git": GIT | {"sshKeyAlgorithm": "ecdsa"}}, {"git": GIT} | given) == ""
    flux = HUB | {"branch": "main", "fluxSystemNamespace": "flux-system", "personal": False}
    assert refusal(GitOpsConfig, {"flux": {"github": HUB}}, {"flux": {"github": flux}}, {"flux": {"github": HUB}}) == ""


def test_accepted_object_without_host_can_be_labelled() -> None:
    resource = FluxConfig.resource

    async def main() -> None:
        client = await server([FluxConfig])
        definition = crd_of(FluxConfig)
        earlier = copy.deepcopy(definition)
        fields = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        del fields["git"]["x-kubernetes-validations"]
        await client.apply(CUSTOM_RESOURCE_DEFINITION, earlier, force=True)
        metadata = {"name": "fleet", "namespace": "team-a"}
        tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        stored = await client.create(resource, tree | {"spec": {"git": {"repositoryUrl": "ssh://"}}})
        await client.apply(CUSTOM_RESOURCE_DEFINITION, definition, force=True)
        labelled = stored.tree | {"metadata": stored.tree["metadata"] | {"labels": {"team": "a"}}}
        await client.replace(resource, labelled)

    asyncio.run(main())
