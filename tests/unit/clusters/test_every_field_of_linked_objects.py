"""Every field of the other kinds that people write: a value shows in what is rendered, or is told to do nothing.

Whatever else is refused by the schema or the rules of its CRD, which name the field. No field is left out.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.aws import AWSDatacenterConfig
from espalier.api.eksa.gitops import FluxConfig, GitOpsConfig
from espalier.api.eksa.identity_providers import AWSIamConfig, OIDCConfig
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.design.render.api_server import authenticator
from espalier.clusters.design.render.layered import rendered
from espalier.kube.client import Client
from espalier.kube.errors import ApiError
from tests.support.objects.observed_clusters import GARDEN, NAMESPACE, example, scope
from tests.support.objects.render_inputs import documents
from tests.support.providers.connected_examples import COMPANY
from tests.support.providers.field_sweep import Values, all_leaves, counted, put, server, swept
from tests.support.providers.git_repositories import GIT, HUB

OIDC, IAM, FLUX, GITOPS, AWS = KINDS = (OIDCConfig, AWSIamConfig, FluxConfig, GitOpsConfig, AWSDatacenterConfig)
"""Not Bundles and EKSARelease: `test_every_field_of_releases`."""

NO_EFFECT = {
    FLUX: "GitOps is not installed yet (`docs/management-cluster.md`)",
    GITOPS: "as that",
    AWS: "nothing reads it",
}
"""Kinds that are stored, and whose fields do nothing."""

ROLE = {"roleARN": "arn:aws:iam::1:role/a", "username": "ann", "groups": ["a"]}
USER = {"userARN": "arn:aws:iam::1:user/a", "username": "ann", "groups": ["a"]}
SPECS: dict[type[KubeObject], Tree] = {
    OIDC: COMPANY["spec"],
    IAM: {"awsRegion": "us-west-2", "backendMode": ["EKSConfigMap"], "mapRoles": [ROLE], "mapUsers": [USER]},
    FLUX: {"git": GIT},
    GITOPS: {"flux": {"github": HUB}},
    AWS: {"region": "us-west-2", "amiID": "ami-1"},
}
"""The objects into which a value is written."""


def of_512(*accepted: str, refused: tuple[Any, ...] = ()) -> Values:
    return Values([*accepted, "x" * 512], [*refused, "x" * 513, 1])


def claims(**fields: Any) -> list[Tree]:
    return [{"claim": "department", "value": "garden"} | fields]


def text(*refused: Any) -> Values:
    """Text that may be anything else."""
    return Values(["another", "x" * 300], [*refused, 1, {}])


def mappings(parent: Tree, arn: str) -> dict[str, Values]:
    """Values of the fields of a mapping; each is the whole list."""
    return {
        arn: Values(
            [[], [parent | {arn: f"{parent[arn]}/b"}], [parent] * 1000],
            [[parent | {arn: ""}], [parent | {arn: "b"}], [parent] * 1001, [{"username": "a"}]],
        ),
        "username": Values([[parent | {"username": "{{SessionName}}"}]], [[parent | {"username": ""}], [{arn: "a"}]]),
        "groups[]": Values(
            [[parent | {"groups": []}], [parent | {"groups": ["b"] * 100}]], [[parent | {"groups": ["b"] * 101}]]
        ),
    }


BRANCHES = ("a b", "a..b", "-a", "/a", "a/", "a.lock", "a~1", "a\nb", "a@{b", "a//b")
PATHS = ("..", "../..", "a/../b", "a\nb")
NAMESPACES = Values(["another", "", "x" * 63], ["x y", "Flux", "x" * 64, "a.b", 1])
ALGORITHMS = (["ecdsa", "rsa", "ed25519", ""], ["dsa", "RSA", 1])
NO_HOSTS = ("a@b", "a:b/", "a[b", "a%zz", "a/%zz", "[1.2.3.4]", "[::::]", "[:]", "[1:2]", "[::ffff:102:304]")
FIELDS: dict[type[KubeObject], dict[str, Values]] = {
    OIDC: {
        "clientId": of_512("another one", refused=("", "a\nb")),
        "issuerUrl": Values(
            ["https://a", "https://a.example:8443/b", "https://[2001:db8::1]:443/b%20c"],
            ["", "a", "http://a", 1, *map("https://{}".format, NO_HOSTS)],
        ),
        "usernameClaim": of_512("name", "", refused=("a\nb",)),
        "usernamePrefix": of_512("-", "", refused=("a\tb",)),
        "groupsClaim": of_512("roles", "", refused=("a\nb",)),
        "groupsPrefix": of_512("b:", "", refused=("a\x7fb",)),
        "requiredClaims[].claim": Values(
            [[], claims(claim="team"), claims(claim="x" * 512)],
            [
                claims() * 2,
                claims(claim="x" * 513),
                claims(claim=1),
                claims(claim=""),
                claims(claim="a=b"),
                [{"value": "b"}],
            ],
        ),
        "requiredClaims[].value": Values(
            [claims(value="orchard"), claims(value="x" * 512)], [claims(value="x" * 513), claims(value=[])]
        ),
    },
    IAM: {
        "awsRegion": of_512("eu-west-1", refused=("",)),
        "backendMode[]": Values(
            [["EKSConfigMap", "CRD"], ["MountedFile", "EKSConfigMap"]],
            [[], ["configmap"], ["CRD"], ["EKSConfigMap", ""], "EKSConfigMap"],
        ),
        **{f"mapRoles[].{field}": values for field, values in mappings(ROLE, "roleARN").items()},
        **{f"mapUsers[].{field}": values for field, values in mappings(USER, "userARN").items()},
        "partition": Values(["aws-cn", "x" * 50], ["x" * 51, 1]),
    },
    FLUX: {
        "branch": text(*BRANCHES),
        "clusterConfigPath": text(*PATHS),
        "systemNamespace": NAMESPACES,
        "git.repositoryUrl": Values(
            ["ssh://a/b", "ssh://git@git:22/a/b.git", "ssh://git@[fd00::1]/a"],
            [
                *("", "https://git/a", "git@git:a", 1),
                *("ssh://", "ssh:///", "ssh:///a", "ssh://git", "ssh://git/", "ssh://git@/a", "ssh://a b/c"),
            ],
        ),
        "git.sshKeyAlgorithm": Values(*ALGORITHMS),
        "github.owner": text("", "o o"),
        "github.repository": text("", "r r", "a/b"),
        "github.personal": Values([True, False], ["yes", 1]),
    },
    GITOPS: {
        "flux.github.owner": text("", "o o"),
        "flux.github.repository": text("", "r r", "a/b"),
        "flux.github.branch": text(*BRANCHES),
        "flux.github.clusterConfigPath": text(*PATHS),
        "flux.github.fluxSystemNamespace": NAMESPACES,
        "flux.github.personal": Values([True, False], ["yes", 1]),
    },
    AWS: {"region": text(), "amiID": text()},
}
"""By path: of what is in a list, the whole list is written."""


def written(kind: type[KubeObject], path: str, value: Any) -> Tree:
    """The object with a field."""
    spec = copy.deepcopy({"github": HUB} if path.startswith("github.") else SPECS[kind])
    put(spec, path, value)
    metadata = {"name": "company", "namespace": NAMESPACE}
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata, "spec": spec}


async def verdict(client: Client, kind: type[KubeObject], tree: Tree) -> str:
    """Why it is refused; empty if it is stored as it is."""
    try:
        stored = await client.create(kind.resource, tree, dry_run=True)
    except ApiError as error:
        return str(error)
    assert stored.tree["spec"] == tree["spec"]
    return ""


def shown(kind: type[KubeObject], spec: Tree) -> list[Any]:
    """The rendered objects of a cluster that names the object."""
    metadata = COMPANY["metadata"]
    tree = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata, "spec": spec}
    reference = {"kind": kind.resource.kind, "name": metadata["name"]}
    render_input = scope(*example(identityProviderRefs=[reference]), tree, key=GARDEN).render_input
    assert render_input is not None
    workload = (msgspec.to_builtins(item.body) for item in authenticator.workload(render_input))
    return [*documents(rendered(render_input)), *workload]


def test_each_value_shows_or_is_refused() -> None:
    async def main() -> list[str]:
        client, wrong = await server(KINDS), []
        before: dict[type[KubeObject], list[Any]] = {
            kind: shown(kind, SPECS[kind]) for kind in KINDS if kind not in NO_EFFECT
        }
        for kind, path, values in swept(FIELDS):
            for value in values.accepted:
                tree = written(kind, path, value)
                if message := await verdict(client, kind, tree):
                    wrong.append(f"{path} {value!r} is refused: {message}")
                elif kind not in NO_EFFECT and shown(kind, tree["spec"]) == before[kind]:
                    wrong.append(f"{path} {value!r} shows nowhere")
            for value in values.refused:
                message = await verdict(client, kind, written(kind, path, value))
                if f"spec.{path.partition('[]')[0]}" not in message:
                    wrong.append(f"{path} {value!r} is {f'refused: {message}' if message else 'accepted'}")
        return wrong

    assert asyncio.run(main()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_is_left_out(kind: type[KubeObject]) -> None:
    assert [path for path in all_leaves(kind) if path not in FIELDS[kind]] == []


def test_how_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    accepted, refused = counted(capsys, "linked kinds", KINDS, swept(FIELDS))
    assert accepted > 50
    assert refused > 60
