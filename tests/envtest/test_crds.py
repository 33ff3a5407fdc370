"""Our CRDs on a real API server: it accepts them, compiles their rules, and refuses what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from espalier.api.core import Namespace
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.vocabulary import sentences
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import ObjectMeta
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS
from espalier.releases import Releases
from tests.support.environments.control_plane import ControlPlane
from tests.support.providers.provider_crds import kubectl, must

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCKER = (EXAMPLES / "docker.yaml").read_text()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kinds(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with all our CRDs served."""
    crds = [crd_of(cls) for cls in (*EKSA_KINDS, *CLUSTER_API_KINDS)]
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    await must(control_plane, "apply", "--server-side", "-f", "-", text="\n---\n".join(map(json.dumps, crds)))
    await must(control_plane, "wait", "--for=condition=Established", *names)
    for condition in ("NonStructuralSchema", "KubernetesAPIApprovalPolicyConformant"):
        path = f'{{.items[*].status.conditions[?(@.type=="{condition}")].message}}'
        assert await must(control_plane, "get", "crd", "-o", f"jsonpath={path}") == ""
    return control_plane


async def test_the_release_and_the_examples_are_accepted(kinds: ControlPlane) -> None:
    namespace = Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE))
    objects = "\n---\n".join(msgspec.json.encode(item).decode() for item in (namespace, *Releases.load().objects()))
    await must(kinds, "apply", "-f", "-", text=objects)
    await must(kinds, "create", "namespace", "team-a")  # the roles of the examples are for its users
    await must(kinds, "apply", "-f", str(EXAMPLES))
    shown = await must(kinds, "get", "eksac")
    assert shown.splitlines()[0].split() == ["NAME", "VERSION", "CONTROL", "PLANE", "WORKERS", "READY", "AGE"]
    succeeded, output = await kubectl(
        kinds, "patch", "eksar", "eksa-v0-26-0", "--type=merge", "-p", '{"spec":{"version":"v9.9.9"}}'
    )
    assert not succeeded
    assert sentences.RELEASE_CHANGED in output


async def test_the_release_of_a_cluster_cannot_be_taken_away(kinds: ControlPlane) -> None:
    await must(kinds, "apply", "-f", "-", text=DOCKER.replace("garden", "meadow"))
    for version, expected in (('"v0.26.0"', True), ("null", False)):
        patch = f'{{"spec":{{"eksaVersion":{version}}}}}'
        succeeded, output = await kubectl(kinds, "patch", "eksac", "meadow", "--type=merge", "-p", patch)
        assert succeeded is expected, output
    assert sentences.VERSION_UNSET in output


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("count: 1", "count: 2", f"spec.controlPlaneConfiguration.count: Invalid value: {sentences.EVEN}; found 2"),
        ("count: 1", "count: 0", "count in body should be greater than or equal to 1"),
        ("count: 2", "cout: 2", 'unknown field "spec.workerNodeGroupConfigurations[0].cout"'),
        ("count: 2", 'count: "2"', "count in body must be of type integer"),
        ("kindnetd: {}", "{}", sentences.ONE_CNI),
        ("kindnetd: {}", "{kindnetd: {}, cilium: {}}", sentences.ONE_CNI),
        ("garden", "g" * 36, sentences.NAME_LENGTH),
        ("garden", "1garden", sentences.NAME_FORM),
        ('"1.35"', "1.35", "spec.kubernetesVersion in body must be of type string"),
        (
            "count: 2",
            "autoscalingConfiguration: {minCount: 3}",
            "autoscalingConfiguration.minCount: Invalid value: minCount must not be greater than maxCount",
        ),
        (
            "count: 2",
            "upgradeRolloutStrategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}",
            sentences.NO_ROLLOUT,
        ),
        (
            "count: 1",
            "count: 1\n  externalEtcdConfiguration: {count: 2}",
            "spec.externalEtcdConfiguration.count: Invalid value: etcd needs a majority, so the count must be odd",
        ),
        (
            "count: 1",
            "count: 1\n  eksaVersion: v0.26.0\n"
            "  bundlesRef: {apiVersion: anywhere.eks.amazonaws.com/v1alpha1, name: b, namespace: eksa-system}",
            f"spec.bundlesRef: Invalid value: {sentences.BOTH}",
        ),
    ],
)
async def test_the_schema_refuses_invalid_objects(kinds: ControlPlane, old: str, new: str, sentence: str) -> None:
    assert old in DOCKER
    succeeded, output = await kubectl(
        kinds, "create", "--dry-run=server", "-n", "kube-public", "-f", "-", text=DOCKER.replace(old, new)
    )
    assert not succeeded
    assert sentence in output
