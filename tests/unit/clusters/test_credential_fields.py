"""Every Secret that is read for a cluster is checked by its fields: the message names it, and what to add."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.clusters.design.provider import Dependency
from espalier.clusters.design.secrets import credentials
from espalier.kube.objects import Object, to_bytes
from espalier.providers.registry import PROVIDERS
from tests.support.providers.every_provider import KINDS, SAMPLES, registry

DOCS = Path(__file__).parents[3] / "docs"
OPTIONAL = {"verify-ssl"}
"""Fields that have a default."""


def brought(kind: str) -> dict[str, tuple[dict[str, bytes], Mapping[str, str]]]:
    """Data and annotations of the Secrets of an administrator, by name."""
    secrets = [registry(["team-a"]), *SAMPLES[kind].credentials("team-a")]
    return {
        secret["metadata"]["name"]: (
            {field: base64.b64decode(value) for field, value in secret["data"].items()},
            secret["metadata"]["annotations"],
        )
        for secret in secrets
    }


def dependencies(kind: str) -> Iterator[Dependency]:
    """The Secrets on which a cluster with all that can be asked for depends, one by one."""
    trees = SAMPLES[kind].cluster("team-a", "any")
    cluster, *others = (Object(to_bytes(tree)) for tree in trees)
    result = PROVIDERS[kind].links.depend(cluster.decode(Cluster), others)
    yield from {item.name: item for item in result if item.resource == SECRET}.values()


CASES = [
    pytest.param(dependency, field, id=f"{kind} {dependency.name} {field}")
    for kind in KINDS
    for dependency in dependencies(kind)
    for field in brought(kind)[dependency.name][0]
    if field not in OPTIONAL
]


def test_providers_depend_on_secrets_of_their_samples() -> None:
    for kind in KINDS:
        assert {dependency.name for dependency in dependencies(kind)} == brought(kind).keys(), kind


@pytest.mark.parametrize("spoil", ["missing", "empty", "blank", "misnamed"])
@pytest.mark.parametrize(("dependency", "field"), CASES)
def test_a_wrong_key_is_named_with_secret_and_remedy(dependency: Dependency, field: str, spoil: str) -> None:
    (data, annotations) = next(brought(kind)[dependency.name] for kind in KINDS if dependency.name in brought(kind))
    assert dependency.unusable(data, annotations) == ""
    value = data.pop(field)
    data |= {"empty": {field: b""}, "blank": {field: b" \n"}, "misnamed": {f"{field}-2": value}}.get(spoil, {})
    message = dependency.unusable(data, annotations)
    assert f"Secret eksa-system/{dependency.name}" in message
    assert field in message
    assert "add" in message or "set annotation" in message
    assert value.decode() not in message
    if spoil == "misnamed" and "CP" not in field:
        assert f"{field}-2" in message


class Recording(Mapping[str, str]):
    """An environment that remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return f"${name}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_variable_that_is_read_stands_in_docs(kind: str) -> None:
    environment = Recording()
    made: list[Tree] = list(PROVIDERS[kind].environment_secrets(environment, SAMPLES[kind].cluster("team-a", "any")))
    assert {item["metadata"]["name"] for item in made} == brought(kind).keys()
    provider = PROVIDERS[kind]
    named = {*itertools.chain.from_iterable(provider.joint_variables), *provider.file_variables, *environment.asked}
    table = (DOCS / "eks-anywhere.md").read_text().partition("## Environment variables")[2]
    assert named <= set(re.findall(r"`([A-Z0-9_]+)`", table))


@pytest.mark.parametrize(
    ("names", "listed"), [(["A"], "variable A"), (["A", "B"], "variables A and B"), ("ABC", "variables A, B and C")]
)
def test_message_lists_variables_that_command_reads(names: list[str], listed: str) -> None:
    assert credentials.variables(names).endswith(f" writes it from the {listed}")
