"""Names and paths that become files where pods run: what kube-apiserver refuses of them, the embedded server does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, DEPLOYMENT, POD, SECRET
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.errors import Invalid

CONTAINER: Tree = {"name": "main", "image": "example.org/a:1"}
SPEC: Tree = {"automountServiceAccountToken": False, "serviceAccountName": "default", "containers": [CONTAINER]}
pytestmark = pytest.mark.often("in_memory", "real")  # what is judged before it is stored is the same for all stores

LONG = "x" * 64


def container(**fields: Any) -> Tree:
    return {**SPEC, "containers": [CONTAINER | fields]}


def mounted(volume: Tree, **mount: Any) -> Tree:
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return container(volumeMounts=mounts) | {"volumes": [{"name": "v", **volume}]}


def items(path: str, key: str = "a") -> Tree:
    return mounted({"configMap": {"name": "m", "items": [{"key": key, "path": path}]}})


def projected(source: Tree) -> Tree:
    return mounted({"projected": {"sources": [source]}})


HOSTILE: dict[str, Tree] = {
    "container is a path": container(name="../../x"),
    "container is absolute": container(name="/etc"),
    "container is two dots": container(name=".."),
    "container is too long": container(name=LONG),
    "init container is a path": {**SPEC, "initContainers": [CONTAINER | {"name": "a/b"}]},
    "two containers of a name": {**SPEC, "initContainers": [CONTAINER]},
    "variable with an equals sign": container(env=[{"name": "A=B", "value": ""}]),
    "variable with a newline": container(env=[{"name": "A\nB", "value": ""}]),
    "volume is a path": {**SPEC, "volumes": [{"name": "../x", "emptyDir": {}}]},
    "two volumes of a name": {**SPEC, "volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]},
    "no such volume": container(volumeMounts=[{"name": "w", "mountPath": "/w"}]),
    "mounted twice": container(volumeMounts=[{"name": "v", "mountPath": "/v"}] * 2)
    | {"volumes": [{"name": "v", "emptyDir": {}}]},
    "hostPath above": mounted({"hostPath": {"path": "../.."}}),
    "hostPath above by the way": mounted({"hostPath": {"path": "/var/../../etc"}}),
    "item above": items("../../x"),
    "item above by the way": items("a/../../x"),
    "item is absolute": items("/etc/passwd"),
    "item begins with two dots": items("..data"),
    "item of a Secret": mounted({"secret": {"secretName": "s", "items": [{"key": "a", "path": "/x"}]}}),
    "projected item": projected({"configMap": {"name": "m", "items": [{"key": "a", "path": "../x"}]}}),
    "projected token": projected({"serviceAccountToken": {"path": "../../token"}}),
    "downward item": mounted(
        {"downwardAPI": {"items": [{"path": "/x", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}}
    ),
    "subPath above": mounted({"emptyDir": {}}, subPath="../x"),
    "subPath is absolute": mounted({"emptyDir": {}}, subPath="/etc"),
    "subPathExpr above": mounted({"emptyDir": {}}, subPathExpr="$(A)/../.."),
}  # fmt: skip
KEYS = ("../x", "/etc/passwd", "a/b", ".", "..", "..data", "k" * 254, "a b", "a\nb")

EXPECTED = {
    "container is a path": "spec.containers[0].name",
    "two containers of a name": "spec.initContainers[0].name",
    "hostPath above by the way": "spec.volumes[0].hostPath.path",
    "item above": "spec.volumes[0].configMap.items[0].path",
    "subPath is absolute": "spec.containers[0].volumeMounts.subPath",
}


async def causes(client: Client, resource: Any, body: Tree) -> list[tuple[str, str, str]]:
    """The causes of a refusal, without what follows from a refused volume: that mounts do not find it."""
    with pytest.raises(Invalid) as refused:
        await client.create(resource, body)
    details = refused.value.status.details
    assert details is not None
    results = [(cause.field, cause.reason, cause.message) for cause in details.causes]
    return sorted(each for each in results if each[1] != "FieldValueNotFound" or len(results) == 1)


@pytest.mark.parametrize("what", HOSTILE)
async def test_pod_with_paths_that_lead_elsewhere_is_refused(
    client: Client, namespace: str, what: str, in_memory: Any
) -> None:
    body: Tree = {
        "metadata": {"generateName": "hostile-", "namespace": namespace},
        "spec": copy.deepcopy(HOSTILE[what]),
    }
    result = await causes(client, POD, body)
    if what in EXPECTED:
        assert [field for field, _, _ in result] == [EXPECTED[what]]
    problems = await causes(embedded(in_memory), POD, body | {"metadata": {"name": "x", "namespace": "default"}})
    if "twice" not in what and "two volumes" not in what:  # there the keys of lists are compared before any rule
        assert result == problems


async def test_workloads_with_such_pods_are_refused(client: Client, namespace: str) -> None:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": HOSTILE["item above"]}
    body = {
        "metadata": {"name": "hostile", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    assert [field for field, _, _ in await causes(client, DEPLOYMENT, body)] == [
        "spec.template.spec.volumes[0].configMap.items[0].path"
    ]


@pytest.mark.parametrize("resource", [CONFIG_MAP, SECRET], ids=["ConfigMap", "Secret"])
@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
async def test_a_key_that_is_no_file_name_is_refused_as_well(
    client: Client, namespace: str, resource: Any, key: str, in_memory: Any
) -> None:
    body: Tree = {"metadata": {"name": "hostile", "namespace": namespace}, "data": {key: "eA=="}}
    result = await causes(client, resource, body)
    assert [field for field, _, _ in result] == [f"data[{key}]"] * len(result)
    assert result == await causes(
        embedded(in_memory), resource, body | {"metadata": {"name": "x", "namespace": "default"}}
    )


def embedded(server: Any) -> Client:
    from espalier.kube.transports.inprocess import InProcessTransport

    return Client(InProcessTransport(server), field_manager="contract", user_agent="contract")
