"""kubectl's answers where something is not there, wrong or not allowed."""

from __future__ import annotations

import pytest

from tests.support.sampling import sampled
from tests.support.servers.kubectl import Kubectl
from tests.support.servers.kubectl_things import (
    CONFIG_MAP,
    DEPLOYMENT,
    THING,
)


async def test_kubectl_reports_the_administrators_rights(kubectl: Kubectl) -> None:
    assert await kubectl("auth", "can-i", "create", "deployments") == "yes\n"
    code, output, _ = await kubectl.finish("auth", "can-i", "delete", "nodes", "--as=nobody")
    assert (code, output) == (1, "no\n")
    assert "forbidden" in await kubectl.refused("get", "secrets", "--as=nobody")
    assert "system:masters" in await kubectl("auth", "whoami")


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    sampled(
        [
            ("size: small", "size: huge", 'spec.size: Unsupported value: "huge"'),
            ("size: small", "sise: small", 'unknown field "spec.sise"'),
            ("size: small", "replicas: many", "spec.replicas: Invalid value"),
            ("name: one", "name: One_", "metadata.name: Invalid value"),
            ("example.org/v1", "example.org/v9", 'no matches for kind "Thing"'),
        ],
        3,
    ),
)
async def test_an_invalid_object_is_refused(with_things: Kubectl, right: str, wrong: str, complaint: str) -> None:
    manifest = THING.replace(right, wrong)
    assert complaint in await with_things.refused("apply", "-f", "-", stdin=manifest)


async def test_unknown_fields_of_built_in_kinds_are_refused(kubectl: Kubectl) -> None:
    wrong = DEPLOYMENT.replace("replicas: 2", "replicaz: 2")
    assert 'unknown field "spec.replicaz"' in await kubectl.refused("apply", "-f", "-", stdin=wrong)
    await kubectl("apply", "--validate=ignore", "-f", "-", stdin=wrong)
    code, _, complaint = await kubectl.finish("apply", "--validate=warn", "-f", "-", stdin=wrong)
    assert code == 0
    assert 'Warning: unknown field "spec.replicaz"' in complaint


async def test_a_missing_object_is_reported(kubectl: Kubectl) -> None:
    assert 'Error from server (NotFound): configmaps "x" not found' in await kubectl.refused("get", "configmap", "x")
    assert 'the server doesn\'t have a resource type "nothings"' in await kubectl.refused("get", "nothings")
    assert 'namespaces "nowhere" not found' in await kubectl.refused("create", "configmap", "x", "--namespace=nowhere")
    await kubectl("create", "-f", "-", stdin=CONFIG_MAP)
    complaint = await kubectl.refused("create", "-f", "-", stdin=CONFIG_MAP)
    assert "Error from server (AlreadyExists)" in complaint
    assert 'configmaps "settings" already exists' in complaint


UNKNOWN = """
apiVersion: nowhere.example.org/v1
kind: Nowhere
metadata: {name: one}
"""


@pytest.mark.parametrize("command", ["apply", "apply --server-side", "apply --dry-run=server", "create", "diff"])
async def test_a_kind_that_nobody_defined_is_named(kubectl: Kubectl, command: str) -> None:
    """Not "failed to download openapi": kubectl looks for it in a document of a form of its own."""
    complaint = await kubectl.refused(*command.split(), "-f", "-", stdin=UNKNOWN)
    assert 'no matches for kind "Nowhere" in version "nowhere.example.org/v1"' in complaint
    assert "ensure CRDs are installed first" in complaint


async def test_an_edit_that_breaks_the_object_is_not_saved(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    code, _, complaint = await kubectl.finish("edit", "configmap", "settings", EDITOR="sed -i s/^data:/date:/")
    assert code != 0
    assert "Edit cancelled, no valid changes were saved" in complaint
    assert (await kubectl.tree("configmap", "settings"))["data"] == {"a": "1", "b": "2"}


async def test_scaling_beyond_the_limits_is_refused(with_things: Kubectl) -> None:
    kubectl = with_things
    assert "--replicas=COUNT" in await kubectl.refused("scale", "thing/one", "--replicas=-1")
    assert "not found" in await kubectl.refused("scale", "thing/absent", "--replicas=1")
    complaint = await kubectl.refused("scale", "thing/one", "--current-replicas=7", "--replicas=2")
    assert "Expected replicas to be 7, was 1" in complaint
