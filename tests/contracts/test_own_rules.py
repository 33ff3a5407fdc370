"""Rules that need only the object itself hold when no manager runs, and say what the webhooks say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.clusters.admission.release_admission import validate_bundles, validate_distro, validate_release
from espalier.kube.client import Client
from espalier.kube.errors import Invalid
from espalier.kube.objects import Object
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from tests.support.objects.observed_clusters import NOW, RELEASES, as_object, observer
from tests.support.servers.admission_reviews import edited
from tests.support.servers.widgets import served
from tests.support.waiting import eventually

KINDS: tuple[type[KubeObject], ...] = (Cluster, EKSARelease, Bundles, DistroRelease)
pytestmark = pytest.mark.often("in_memory", "real")  # what is judged before it is stored is the same for all stores

Validate = Callable[[AdmissionRequest], AdmissionResponse]

CONTROL_PLANE = "spec.controlPlaneConfiguration."
GROUPS = "spec.workerNodeGroupConfigurations"
NETWORK = "spec.clusterNetwork."
CILIUM = NETWORK + "cniConfig.cilium."
ROLLING = "upgradeRolloutStrategy"
ETCD: dict[str, Any] = {"spec.externalEtcdConfiguration": {"count": 3}}
BUNDLES = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "bundles-1", "namespace": "eksa-system"}

NEW: list[tuple[dict[str, Any], str]] = [
    ({"metadata.name": "9garden"}, "metadata.name"),
    ({"metadata.name": "g" * 36}, "metadata.name"),
    ({"spec.kubernetesVersion": None}, "spec.kubernetesVersion"),
    *(({"spec.kubernetesVersion": text}, "spec.kubernetesVersion") for text in ("v1.36.3", "1.36.3", "v1.36", "")),
    ({"spec.datacenterRef": None}, "spec.datacenterRef"),
    ({"spec.controlPlaneConfiguration": None}, "spec.controlPlaneConfiguration"),
    ({"spec.clusterNetwork": None}, "spec.clusterNetwork"),
    ({CONTROL_PLANE + "count": 2}, CONTROL_PLANE + "count"),
    ({CONTROL_PLANE + "certSans": ["a.example", "a b"]}, CONTROL_PLANE + "certSans"),
    (
        {CONTROL_PLANE + ROLLING: {"rollingUpdate": {"maxSurge": 0}}},
        CONTROL_PLANE + ROLLING + ".rollingUpdate.maxSurge",
    ),
    ({GROUPS: [{"name": "a", "count": 1}, {"name": "a", "count": 2}]}, GROUPS),
    ({GROUPS + "[0].name": "Large"}, GROUPS),
    ({GROUPS + "[0].name": "l" * 40}, GROUPS),
    ({GROUPS + "[0].taints": [{"key": "a", "effect": "NoExecute"}]}, GROUPS),
    ({GROUPS + "[0].kubernetesVersion": "1.36"}, GROUPS),
    ({GROUPS + "[0].kubernetesVersion": "1.32"}, GROUPS),
    (
        {GROUPS + "[0]." + ROLLING: {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        GROUPS + "[0]." + ROLLING + ".rollingUpdate",
    ),
    (
        {GROUPS + "[0].machineHealthCheck": {"nodeStartupTimeout": "soon"}},
        GROUPS + "[0].machineHealthCheck.nodeStartupTimeout",
    ),
    ({"spec.machineHealthCheck": {"unhealthyMachineTimeout": "5"}}, "spec.machineHealthCheck.unhealthyMachineTimeout"),
    (
        {"spec.machineHealthCheck": {"unhealthyMachineTimeout": "99999999h"}},
        "spec.machineHealthCheck.unhealthyMachineTimeout",
    ),
    ({"spec.machineHealthCheck": {"nodeStartupTimeout": "596523h15m"}}, "spec.machineHealthCheck.nodeStartupTimeout"),
    ({"spec.machineHealthCheck": {"nodeStartupTimeout": "29s"}}, "spec.machineHealthCheck.nodeStartupTimeout"),
    ({NETWORK + "pods": None}, NETWORK + "pods.cidrBlocks"),
    ({NETWORK + "pods.cidrBlocks": ["10.0.0.0/8", "11.0.0.0/8"]}, NETWORK + "pods.cidrBlocks"),
    ({NETWORK + "services.cidrBlocks": []}, NETWORK + "services.cidrBlocks"),
    ({NETWORK + "services.cidrBlocks": ["10.96.0.0/33"]}, NETWORK + "services.cidrBlocks"),
    ({NETWORK + "cniConfig": {"kindnetd": {}, "cilium": {}}}, NETWORK + "cniConfig"),
    ({NETWORK + "cniConfig": None}, NETWORK + "cniConfig"),
    ({NETWORK + "cni": "cilium"}, NETWORK + "cni"),
    ({NETWORK + "cniConfig": None, NETWORK + "cni": "calico"}, NETWORK + "cni"),
    (
        {NETWORK + "cniConfig": {"cilium": {"routingMode": "direct"}}},
        NETWORK + "cniConfig.cilium.ipv4NativeRoutingCIDR",
    ),
    (
        {NETWORK + "cniConfig": {"cilium": {"skipUpgrade": True, "policyEnforcementMode": "always"}}},
        NETWORK + "cniConfig.cilium.policyEnforcementMode",
    ),
    ({CONTROL_PLANE + ROLLING: {"fallback": "Fail"}}, CONTROL_PLANE + ROLLING + ".fallback"),
    ({GROUPS + "[0]." + ROLLING: {"fallback": "Fail"}}, GROUPS + "[0]." + ROLLING + ".fallback"),
    (
        {CONTROL_PLANE + ROLLING: {"type": "InPlace", "rollingUpdate": {"maxSurge": 1}}},
        CONTROL_PLANE + ROLLING + ".rollingUpdate",
    ),
    ({**ETCD, CONTROL_PLANE + ROLLING: {"type": "InPlace"}}, CONTROL_PLANE + ROLLING + ".type"),
    ({**ETCD, GROUPS + "[0]." + ROLLING: {"type": "InPlace"}}, GROUPS),
    ({CONTROL_PLANE + "taints": [{"key": "a b/!", "effect": "NoSchedule"}]}, CONTROL_PLANE + "taints"),
    ({GROUPS + "[0].taints": [{"key": "a/b/c", "effect": "PreferNoSchedule"}]}, GROUPS + "[0].taints"),
    ({CONTROL_PLANE + "labels": {"a b": "c"}}, CONTROL_PLANE + "labels"),
    ({GROUPS + "[0].labels": {"a": "c d"}}, GROUPS + "[0].labels"),
    ({CONTROL_PLANE + "apiServerExtraArgs": {"--foo bar": "a"}}, CONTROL_PLANE + "apiServerExtraArgs"),
    ({**ETCD, "spec.externalEtcdConfiguration": {"count": 2}}, "spec.externalEtcdConfiguration.count"),
    ({"spec.proxyConfiguration": {"httpProxy": "a:1"}}, "spec.proxyConfiguration.httpsProxy"),
    ({"spec.proxyConfiguration": {"httpsProxy": "a:1"}}, "spec.proxyConfiguration.httpProxy"),
    ({"spec.proxyConfiguration": {"httpProxy": "a", "httpsProxy": "a:1"}}, "spec.proxyConfiguration.httpProxy"),
    ({"spec.proxyConfiguration": {"httpProxy": "a:1", "httpsProxy": "a b:1"}}, "spec.proxyConfiguration.httpsProxy"),
    ({"spec.registryMirrorConfiguration": {"port": "1"}}, "spec.registryMirrorConfiguration.endpoint"),
    (
        {"spec.registryMirrorConfiguration": {"endpoint": "a", "port": "70000"}},
        "spec.registryMirrorConfiguration.port",
    ),
    ({"spec.podIamConfig": {"serviceAccountIssuer": ""}}, "spec.podIamConfig.serviceAccountIssuer"),
    ({"spec.podIamConfig": {"serviceAccountIssuer": "https://"}}, "spec.podIamConfig.serviceAccountIssuer"),
    ({CONTROL_PLANE + "labels": {"kubernetes.io/role": "a"}}, CONTROL_PLANE + "labels"),
    ({GROUPS + "[0].labels": {"a.k8s.io/b": "a"}}, GROUPS + "[0].labels"),
    ({"metadata.name": "a"}, "metadata.name"),
    (
        {GROUPS + "[0].autoscalingConfiguration": {"minCount": 4, "maxCount": 3}, GROUPS + "[0].count": None},
        GROUPS + "[0].autoscalingConfiguration.minCount",
    ),
    (
        {GROUPS + "[0].autoscalingConfiguration": {"minCount": 1, "maxCount": 3}, GROUPS + "[0].count": 4},
        GROUPS + "[0].count",
    ),
    (
        {
            GROUPS + "[0].autoscalingConfiguration": {"minCount": 1, "maxCount": 3},
            GROUPS + "[0]." + ROLLING: {"type": "InPlace"},
        },
        GROUPS + "[0]." + ROLLING + ".type",
    ),
    ({"spec.packages": {"controller": {"tag": "a"}}}, "spec.packages.controller"),
    ({"spec.packages": {"cronjob": {"disable": True}}}, "spec.packages.cronjob"),
    ({NETWORK + "services.cidrBlocks": ["fd00::/108"]}, NETWORK + "services.cidrBlocks"),
    ({NETWORK + "services.cidrBlocks": ["10.96.0.0/30"]}, NETWORK + "services.cidrBlocks"),
    ({NETWORK + "pods.cidrBlocks": ["192.168.0.0/24"]}, NETWORK + "nodes.cidrMaskSize"),
    ({NETWORK + "nodes": {"cidrMaskSize": 33}}, NETWORK + "nodes.cidrMaskSize"),
    ({NETWORK + "cniConfig": {"cilium": {"ipv4NativeRoutingCIDR": "banana"}}}, CILIUM + "ipv4NativeRoutingCIDR"),
    ({NETWORK + "cniConfig": {"cilium": {"ipv6NativeRoutingCIDR": "10.0.0.0/8"}}}, CILIUM + "ipv6NativeRoutingCIDR"),
    ({"spec.bundlesRef": BUNDLES}, "spec.bundlesRef"),
    ({"spec.bundlesRef": BUNDLES, "spec.eksaVersion": None}, "spec.bundlesRef"),
    ({"spec.eksaVersion": "0.26"}, "spec.eksaVersion"),
    ({"spec.eksaVersion": "v0.26.0-01"}, "spec.eksaVersion"),
    ({"spec.gitOpsRef": {"kind": "ConfigMap", "name": "a"}}, "spec.gitOpsRef.kind"),
]
OF_BUNDLES = {"spec.eksaVersion": None, "spec.bundlesRef": BUNDLES}
CHANGED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"spec.eksaVersion": None}, "spec.eksaVersion"),
    ({}, {"spec.eksaVersion": ""}, "spec.eksaVersion"),
    ({}, {"spec.kubernetesVersion": "1.37"}, "spec.kubernetesVersion"),
    (OF_BUNDLES, {"spec.bundlesRef": None}, "spec.bundlesRef"),
    (OF_BUNDLES, {"spec.eksaVersion": None, "spec.bundlesRef": BUNDLES | {"name": "bundles-2"}}, "spec.bundlesRef"),
    ({"spec.eksaVersion": None}, OF_BUNDLES, "spec.bundlesRef"),
]


@pytest.fixture
async def place(client: Client, namespace: str) -> str:
    """A namespace of a server that has our definitions, and nobody behind them."""
    for kind in KINDS:
        await client.apply(CUSTOM_RESOURCE_DEFINITION, crd_of(kind), force=True)
    await served(client, *(kind.resource for kind in KINDS))
    return namespace


def stored(tree: Tree, namespace: str) -> Tree:
    """A Cluster as a user writes it."""
    metadata = {name: value for name, value in tree["metadata"].items() if name in ("name", "annotations")}
    return {**tree, "metadata": metadata | {"namespace": namespace}}


def messages(refused: Invalid) -> dict[str, str]:
    """The message about each field, without the value that Kubernetes puts before it."""
    assert refused.status.details is not None
    results = {}
    for cause in refused.status.details.causes:
        assert cause.message.startswith("Invalid value: ")
        results[cause.field] = cause.message
    return results


def webhook(new: Tree, old: Tree | None) -> list[tuple[str, str]]:
    request = AdmissionRequest(
        "CREATE" if old is None else "UPDATE",
        "Cluster",
        new["metadata"]["namespace"],
        new["metadata"]["name"],
        ADMIN,
        as_object(new),
        as_object(old) if old is not None else None,
    )
    return causes_of(Admission(observer(), lambda: NOW).validate(request))


def causes_of(response: AdmissionResponse) -> list[tuple[str, str]]:
    assert not response.allowed
    return [(cause.field, cause.message) for cause in response.causes]


def agree(by_definition: dict[str, str], by_webhook: list[tuple[str, str]], field: str) -> None:
    """Of the field, both say the same.

    A rule of a definition can't point into a list, so it names the list.
    """
    (named,) = by_definition
    assert named == field
    within = [text for name, text in by_webhook if name == field or name.startswith(f"{field}[")]
    assert within, by_webhook
    assert any(by_definition[named].endswith(f": {text}") for text in within), (by_definition, within)


async def test_new_cluster_is_refused_without_a_manager(client: Client, place: str) -> None:
    for edits, field in NEW:
        new = stored(edited(edits), place)
        with pytest.raises(Invalid) as refused:
            await client.create(Cluster.resource, new, dry_run=True)
        agree(messages(refused.value), webhook(new, None), field)


@pytest.mark.parametrize(("before", "edits", "field"), CHANGED)
async def test_change_is_refused_without_a_manager(
    client: Client, place: str, before: dict[str, Any], edits: dict[str, Any], field: str
) -> None:
    old = stored(edited(before), place)
    if "spec.bundlesRef" in before:  # only clusters of old have them alone: theirs came before these rules
        tree = crd_of(Cluster)
        (version,) = tree["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        rules = [rule for rule in spec["x-kubernetes-validations"] if "optionalOldSelf" not in rule]
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        version["schema"]["openAPIV3Schema"] = {
            **version["schema"]["openAPIV3Schema"],
            "properties": {**properties, "spec": {**spec, "x-kubernetes-validations": rules}},
        }
        await client.apply(CUSTOM_RESOURCE_DEFINITION, tree, force=True)
    created = await until_created(client, old)
    new = stored(edited(edits, old), place)
    with pytest.raises(Invalid) as refused:
        await client.replace(Cluster.resource, {**new, "metadata": new["metadata"] | {"resourceVersion": created}})
    agree(messages(refused.value), webhook(new, old), field)


async def test_a_group_skips_no_minor_when_no_manager_runs(client: Client, place: str) -> None:
    old = stored(edited({"spec.kubernetesVersion": "1.36", GROUPS + "[0].kubernetesVersion": "1.34"}), place)
    created = await until_created(client, old)
    new = edited({GROUPS + "[0].kubernetesVersion": "1.36"}, old)
    with pytest.raises(Invalid) as refused:
        await client.replace(Cluster.resource, {**new, "metadata": new["metadata"] | {"resourceVersion": created}})
    by_definition = messages(refused.value)[GROUPS]
    ((field, text),) = webhook(new, old)
    assert field == GROUPS + "[0].kubernetesVersion"
    sentence, _, allowed = text.partition("; allowed: ")
    assert by_definition.endswith(f": {sentence}")
    assert allowed == "1.34 or 1.35"  # a rule of a definition would look for the group once more to say it


async def until_created(client: Client, tree: Tree) -> str:
    """Its resource version. A real server follows a changed definition a moment later, and does not say when."""
    created: Object = await eventually(lambda: client.create(Cluster.resource, tree), lambda _: True, despite=Invalid)
    return created.resource_version


async def test_release_is_refused_without_a_manager(client: Client, place: str) -> None:
    release = next(object_ for object_ in RELEASES.objects() if isinstance(object_, EKSARelease))
    tree: Tree = msgspec.to_builtins(release)
    tree["metadata"] = {"name": "other"}
    for changed in (tree, {**tree, "spec": tree["spec"] | {"version": "0.26"}}):
        with pytest.raises(Invalid) as refused:
            await client.create(EKSARelease.resource, changed, dry_run=True)
        by_webhook = causes_of(validate_release(request(changed)))
        ((field, _),) = by_webhook
        agree(messages(refused.value), by_webhook, field)


async def test_bundles_are_refused_without_a_manager(client: Client, place: str) -> None:
    bundles = next(object_ for object_ in RELEASES.objects() if isinstance(object_, Bundles))
    tree: Tree = msgspec.to_builtins(bundles)
    tree["metadata"] = {"name": bundles.metadata.name, "namespace": place}
    tree["spec"]["versionsBundles"] = [*tree["spec"]["versionsBundles"], tree["spec"]["versionsBundles"][0]]
    with pytest.raises(Invalid) as refused:
        await client.create(Bundles.resource, tree, dry_run=True)
    agree(messages(refused.value), causes_of(validate_bundles(request(tree))), "spec.versionsBundles")


EDITS: list[tuple[type[KubeObject], Callable[[Tree], None], Validate, str]] = [
    (
        Bundles,
        lambda tree: tree["spec"]["versionsBundles"][1]["eksD"].update(name="kubernetes-1-34-eks-2"),
        validate_bundles,
        "spec.versionsBundles[1].eksD.name",
    ),
    (Bundles, lambda tree: tree["spec"]["versionsBundles"].pop(), validate_bundles, "spec.versionsBundles"),
    (
        DistroRelease,
        lambda tree: tree["status"]["components"][1]["assets"][0]["image"].update(uri="example.com/etcd:v0"),
        validate_distro,
        "status.components[1].assets[0].image.uri",
    ),
    (DistroRelease, lambda tree: tree.pop("status"), validate_distro, "status.components"),
    (DistroRelease, lambda tree: tree["spec"].update(number=9), validate_distro, "spec.number"),
]


@pytest.mark.demand(V22="nor do its Bundles and their EKS Distro")
@pytest.mark.parametrize(("kind", "edit", "validate", "field"), EDITS, ids=[field for *_, field in EDITS])
async def test_releases_can_not_be_edited(
    client: Client,
    place: str,
    kind: type[KubeObject],
    edit: Callable[[Tree], None],
    validate: Validate,
    field: str,
) -> None:
    tree: Tree = msgspec.to_builtins(next(object_ for object_ in RELEASES.objects() if isinstance(object_, kind)))
    tree["metadata"] = {"name": tree["metadata"]["name"], "namespace": place}
    stored = await client.create(kind.resource, tree)
    labelled = {**stored.tree, "metadata": stored.tree["metadata"] | {"labels": {"team": "a"}}}
    stored = await client.replace(kind.resource, labelled)
    assert validate(request(labelled, tree)).allowed
    changed = stored.tree
    edit(changed)
    with pytest.raises(Invalid) as refused:
        await client.replace(kind.resource, changed)
    sentence = {Bundles: sentences.BUNDLES_EDITED, DistroRelease: sentences.DISTRO_CHANGED}[kind]
    assert sentence in str(refused.value)
    by_webhook = causes_of(validate(request(changed, tree)))
    assert [where for where, _ in by_webhook] == [field]
    assert sentence in by_webhook[0][1]


async def test_eks_distro_without_a_needed_image_is_refused(client: Client, place: str) -> None:
    release = next(object_ for object_ in RELEASES.objects() if isinstance(object_, DistroRelease))
    tree: Tree = msgspec.json.decode(msgspec.json.encode(release))
    tree["status"]["components"] = [
        component for component in tree["status"]["components"] if component["name"] != "coredns"
    ]
    ((field, message),) = causes_of(validate_distro(request(tree)))
    assert (field, "no image for coredns-image" in message) == ("status.components", True)


def request(tree: Tree, old: Tree | None = None) -> AdmissionRequest:
    name, kind, namespace = tree["metadata"]["name"], tree["kind"], tree["metadata"].get("namespace", "")
    before = as_object(old) if old is not None else None
    return AdmissionRequest("UPDATE" if old else "CREATE", kind, namespace, name, ADMIN, as_object(tree), before)


async def test_record_of_management_cluster_has_less_fields(client: Client, place: str) -> None:
    tree: Tree = {
        "metadata": {"name": "alone", "namespace": place},
        "spec": {"managementCluster": {"name": "alone"}, "eksaVersion": "v0.26.0"},
    }
    await client.create(Cluster.resource, tree, dry_run=True)


def test_every_rule_of_a_cluster_has_a_case_here() -> None:
    assert len(set(rules(crd_of(Cluster)))) == UNIQUE


UNIQUE = 68


def rules(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (rule["rule"] for rule in value.get("x-kubernetes-validations", ()))
        for part in value.values():
            yield from rules(part)
    elif isinstance(value, list):
        for part in value:
            yield from rules(part)


@pytest.mark.often("real")
async def test_cluster_may_be_as_large_as_its_schema_allows(client: Client, place: str) -> None:
    """The rules about it stay within what servers allow rules to cost."""
    tree = largest_cluster()
    tree["metadata"] = {"name": "largest", "namespace": place}
    await client.create(Cluster.resource, tree, dry_run=True)


@pytest.mark.often("in_memory")  # a real server takes three seconds of two cores for each change
async def test_a_hundred_groups_are_compared_with_each_other(client: Client, place: str) -> None:
    names = [f"{number:02}-{'g' * 34}" for number in range(100)]
    old = edited(
        {
            "spec.kubernetesVersion": "1.36",
            GROUPS: [{"name": name, "count": 1, "kubernetesVersion": "1.34"} for name in names],
        }
    )
    created = await until_created(client, stored(old, place))
    new = stored(old, place)
    new["metadata"]["resourceVersion"] = created
    groups = new["spec"]["workerNodeGroupConfigurations"]
    groups.reverse()
    for index in (0, 99):
        changed = edited({f"{GROUPS}[{index}].kubernetesVersion": "1.36"}, new)
        with pytest.raises(Invalid) as refused:
            await client.replace(Cluster.resource, changed)
        assert f"{sentences.KUBERNETES_STEP}; found 1.36" in messages(refused.value)[GROUPS]
    for item, other in ((0, 1), (0, 99), (49, 50), (98, 99)):
        with pytest.raises(Invalid) as refused:
            await client.replace(Cluster.resource, edited({f"{GROUPS}[{item}].name": groups[other]["name"]}, new))
        assert f"{sentences.GROUP_TWICE}; found {groups[other]['name']}" in messages(refused.value)[GROUPS]
    for group in groups:
        group["kubernetesVersion"] = "1.35"
    await client.replace(Cluster.resource, new)


async def test_bundles_may_be_as_large_as_the_schema_allows(client: Client, place: str) -> None:
    bundles = next(object_ for object_ in RELEASES.objects() if isinstance(object_, Bundles))
    tree: Tree = msgspec.to_builtins(bundles)
    tree["metadata"] = {"name": "many", "namespace": place}
    (first, *_) = tree["spec"]["versionsBundles"]
    tree["spec"]["versionsBundles"] = [first | {"kubeVersion": f"1.{minor}"} for minor in range(100)]
    await client.create(Bundles.resource, tree, dry_run=True)


def largest_cluster() -> Tree:
    """A Cluster whose lists and maps have as many items as the schema allows, each at least once: etcd takes 1.5 MB."""
    taints = [{"key": f"a.example/{number}", "value": "b" * 63, "effect": "NoSchedule"} for number in range(25)]
    labels = {f"a.example/{number}": "b" * 63 for number in range(50)}
    kubelet = {f"field{number}": "value" for number in range(300)}
    kms = {"kms": {"name": "kms", "socketListenAddress": "unix:///a"}}
    many = [f"name-{number}.example" for number in range(100)]
    group = {
        "count": 1,
        "kubernetesVersion": "1.34",
        "labels": labels,
        "taints": taints,
        "failureDomains": many,
    }
    groups = [group | {"name": f"{number:02}-{'g' * 34}"} for number in range(100)]
    groups[0]["kubeletConfiguration"] = kubelet
    groups[99] = groups[99] | {"taints": [taint | {"effect": "PreferNoSchedule"} for taint in taints]}
    control_plane = {
        "count": 3,
        "labels": labels,
        "taints": taints,
        "certSans": many,
        "apiServerExtraArgs": {f"flag-{number}": "value" for number in range(100)},
        "kubeletConfiguration": kubelet,
    }
    encryption = [{"providers": [kms] * 100, "resources": many}, *[{"providers": [kms], "resources": many[:1]}] * 99]
    tree = edited(
        {
            "spec.kubernetesVersion": "1.36",
            "spec.controlPlaneConfiguration": control_plane,
            GROUPS: groups,
            "spec.identityProviderRefs": [{"kind": "OIDCConfig", "name": name} for name in many],
            "spec.etcdEncryption": encryption,
            "spec.proxyConfiguration": {"httpProxy": "a:1", "httpsProxy": "a:1", "noProxy": many * 10},
            "spec.registryMirrorConfiguration": {
                "endpoint": "a",
                "ociNamespaces": [{"registry": name, "namespace": "b"} for name in many],
            },
        }
    )
    schema = crd_of(Cluster)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    wanting = sorted(below_its_limit(schema, tree["spec"], "spec"))
    assert wanting == [
        "spec.clusterNetwork.cniConfig.cilium.helmValues",
        "spec.clusterNetwork.pods.cidrBlocks",
        "spec.clusterNetwork.services.cidrBlocks",
        "spec.packages.controller.env",
    ], "one at most, or refused"
    return tree


def below_its_limit(schema: Tree, value: Any, path: str) -> Iterator[str]:
    """The lists and maps that could have more items, or that are not there at all."""
    limit = schema.get("maxItems", schema.get("maxProperties"))
    if limit is not None and len(value or ()) < limit:
        yield path
    for name, field in schema.get("properties", {}).items():
        yield from below_its_limit(field, (value or {}).get(name), f"{path}.{name}")
    if value and "items" in schema:
        yield from below_its_limit(schema["items"], value[0], f"{path}[]")
