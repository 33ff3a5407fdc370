"""People and scripts use kubectl. To it, the embedded server behind its HTTP shell and kube-apiserver are the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request
from tests.support.environments.control_plane import ControlPlane
from tests.support.servers.kubectl import Kubectl
from tests.support.servers.kubectl_things import (
    CONFIG_MAP,
    DEPLOYMENT,
    READY,
    THING,
    columns,
    embedded_server,
)


async def test_tables_have_the_columns_of_the_kind(with_things: Kubectl) -> None:
    kubectl = with_things
    header, row = columns(await kubectl("get", "things"))
    assert header == ["NAME", "SIZE", "REPLICAS", "READY", "AGE"]
    assert row[:3] == ["one", "small", "1"]
    await kubectl("patch", "thing", "one", "--subresource=status", "--type=merge", "-p", READY)
    header, row = columns(await kubectl("get", "th", "one", "-o", "wide"))
    assert (header[4], row[3:7]) == ("MESSAGE", ["True", "all", "is", "well"])
    assert columns(await kubectl("get", "things", "--no-headers"))[0][0] == "one"
    assert columns(await kubectl("get", "things", "-A"))[1][:2] == [kubectl.namespace, "one"]
    assert columns(await kubectl("get", "things", "--show-labels"))[1][-1] == "colour=blue"
    assert "one" in await kubectl("get", "all")


async def test_tables_of_built_in_kinds(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=f"{CONFIG_MAP}\n---\n{DEPLOYMENT}")
    assert columns(await kubectl("get", "cm", "settings"))[:2][1][:2] == ["settings", "2"]
    header, row = columns(await kubectl("get", "deployments", "-o", "wide"))
    assert header == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert row[:4] == ["web", "0/2", "0", "0"]
    assert row[5:] == ["server,proxy", "server:1,proxy:1", "app=web"]
    assert ["default", "Active"] in [row[:2] for row in columns(await kubectl("get", "namespaces"))]


async def test_other_outputs(with_things: Kubectl) -> None:
    kubectl = with_things
    assert (await kubectl.tree("thing", "one"))["spec"] == {"size": "small", "replicas": 1}
    assert "  size: small" in (await kubectl("get", "thing", "one", "-o", "yaml")).splitlines()
    assert await kubectl("get", "things", "-o", "name") == "thing.example.org/one\n"
    assert await kubectl("get", "things", "-o", "jsonpath={.items[*].spec.size}") == "small"
    custom = await kubectl("get", "things", "-o", "custom-columns=N:.metadata.name,S:.spec.size")
    assert columns(custom) == [["N", "S"], ["one", "small"]]
    assert (await kubectl("get", "--raw", "/healthz")).strip() == "ok"


async def test_selections(kubectl: Kubectl) -> None:
    for name, colour in (("x", "red"), ("y", "blue"), ("z", "blue")):
        await kubectl("create", "configmap", name)
        await kubectl("label", "configmap", name, f"colour={colour}")

    async def names(*selection: str) -> set[str]:
        return set((await kubectl("get", "configmaps", "-o", "name", *selection)).split()) - {
            "configmap/kube-root-ca.crt"
        }

    assert await names("-l", "colour=blue") == {"configmap/y", "configmap/z"}
    assert await names("-l", "colour in (red),colour") == {"configmap/x"}
    assert await names("-l", "colour!=blue") == {"configmap/x"}
    assert await names("--field-selector", "metadata.name=z") == {"configmap/z"}
    assert await names("--chunk-size=1", "-l", "colour") == {"configmap/x", "configmap/y", "configmap/z"}


async def test_a_watch_prints_a_row_for_each_change(with_things: Kubectl) -> None:
    kubectl = with_things
    async with kubectl.running("get", "things", "--watch", "-o", "wide") as watch:
        assert watch.stdout is not None
        assert (await watch.stdout.readline()).split()[:2] == [b"NAME", b"SIZE"]
        assert (await watch.stdout.readline()).split()[:2] == [b"one", b"small"]
        await kubectl("patch", "thing", "one", "--type=merge", "-p", '{"spec":{"size":"large"}}')
        assert (await watch.stdout.readline()).split()[:2] == [b"one", b"large"]
        await kubectl("apply", "-f", "-", stdin=THING.replace("name: one", "name: two"))
        assert (await watch.stdout.readline()).split()[:2] == [b"two", b"small"]


async def test_a_watch_prints_objects(kubectl: Kubectl) -> None:
    async with kubectl.running("get", "configmaps", "--watch-only", "-o", "name", "-l", "watched") as watch:
        assert watch.stdout is not None
        # Nothing says that the watch stands; made again and again, one of them comes after it does.
        printed = asyncio.create_task(watch.stdout.readline())
        number = 0
        while not printed.done():
            number += 1
            await kubectl("create", "configmap", f"w{number}")
            await kubectl("label", "configmap", f"w{number}", "watched=yes")
        assert (await printed).startswith(b"configmap/w")


async def test_labels_and_annotations(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    assert await kubectl("label", "configmap", "settings", "size=large") == "configmap/settings labeled\n"
    assert "already has a value" in await kubectl.refused("label", "configmap", "settings", "size=small")
    await kubectl("label", "configmap", "settings", "--overwrite", "size=small", "colour-")
    await kubectl("annotate", "configmap", "settings", "note=careful")
    metadata = (await kubectl.tree("configmap", "settings"))["metadata"]
    assert metadata["labels"] == {"size": "small"}
    assert metadata["annotations"]["note"] == "careful"


async def test_scale(with_things: Kubectl) -> None:
    kubectl = with_things
    assert await kubectl("scale", "thing", "one", "--replicas=3") == "thing.example.org/one scaled\n"
    assert (await kubectl.tree("thing", "one"))["spec"]["replicas"] == 3
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    await kubectl("scale", "deployment/web", "--replicas=5", "--current-replicas=2")
    assert (await kubectl.tree("deployment", "web"))["spec"]["replicas"] == 5


async def test_delete(with_things: Kubectl) -> None:
    kubectl = with_things
    assert 'thing.example.org "one" deleted' in await kubectl("delete", "thing", "one")
    assert 'things.example.org "one" not found' in await kubectl.refused("get", "thing", "one")
    await kubectl("apply", "-f", "-", stdin=THING)
    await kubectl("delete", "-f", "-", stdin=THING)
    await kubectl("delete", "--ignore-not-found", "-f", "-", stdin=THING)
    await kubectl("create", "configmap", "x")
    await kubectl("delete", "configmaps", "--all")
    assert "configmap/x" not in await kubectl("get", "configmaps", "-o", "name")


async def test_deletion_waits_for_finalizers(with_things: Kubectl) -> None:
    kubectl = with_things
    await kubectl("patch", "thing", "one", "--type=merge", "-p", '{"metadata":{"finalizers":["example.org/hold"]}}')
    await kubectl("delete", "thing", "one", "--wait=false")
    assert (await kubectl.tree("thing", "one"))["metadata"]["deletionTimestamp"]
    async with kubectl.running("wait", "--for=delete", "thing/one", "--timeout=20s") as waiting:
        await kubectl("patch", "thing", "one", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        output, complaint = await waiting.communicate()
    assert waiting.returncode == 0, complaint
    assert b"condition met" in output or not output


async def test_wait_for_a_condition(with_things: Kubectl) -> None:
    kubectl = with_things
    async with kubectl.running("wait", "--for=condition=Ready", "thing/one", "--timeout=20s") as waiting:
        await kubectl("patch", "thing", "one", "--subresource=status", "--type=merge", "-p", READY)
        output, complaint = await waiting.communicate()
    assert (waiting.returncode, output) == (0, b"thing.example.org/one condition met\n"), complaint
    await kubectl("wait", "--for=jsonpath={.spec.size}=small", "thing/one", "--timeout=5s")
    complaint_late = await kubectl.refused("wait", "--for=condition=Late", "thing/one", "--timeout=50ms")
    assert "timed out waiting for the condition" in complaint_late


async def test_describe_shows_fields_and_events(with_things: Kubectl) -> None:
    kubectl = with_things
    thing = await kubectl.tree("thing", "one")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "one.1", "namespace": kubectl.namespace},
        "involvedObject": {
            "apiVersion": "example.org/v1",
            "kind": "Thing",
            "name": "one",
            "namespace": kubectl.namespace,
            "uid": thing["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "Shaken",
        "message": "it was shaken",
        "source": {"component": "test"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    await kubectl("create", "-f", "-", stdin=json.dumps(event))
    described = await kubectl("describe", "thing", "one")
    assert ["Size:", "small"] in columns(described)
    assert "it was shaken" in described
    assert "Shaken" in await kubectl("events")
    assert "thing/one" in await kubectl("get", "events", "--field-selector", "involvedObject.name=one")
    assert ["Status:", "Active"] in columns(await kubectl("describe", "namespace", kubectl.namespace))
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP + "---" + DEPLOYMENT)
    assert "settings" in await kubectl("describe", "configmap", "settings")
    assert "server:1" in await kubectl("describe", "deployment", "web")


async def test_explain(with_things: Kubectl) -> None:
    kubectl = with_things
    explained = await kubectl("explain", "things")
    assert "Thing is something to try things out with." in explained
    assert "How large it is." in await kubectl("explain", "things.spec.size")
    assert "metadata" in await kubectl("explain", "things", "--recursive")
    assert "FIELD: replicas <integer>" in await kubectl("explain", "deployments.spec.replicas")
    assert "containers" in await kubectl("explain", "pods.spec")
    assert 'field "nothing" does not exist' in await kubectl.refused("explain", "things.spec.nothing")


async def test_api_resources(with_things: Kubectl) -> None:
    kubectl = with_things
    rows = columns(await kubectl("api-resources"))
    assert ["things", "th", "example.org/v1", "true", "Thing"] in rows
    assert ["namespaces", "ns", "v1", "false", "Namespace"] in rows
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    assert "example.org/v1" in (await kubectl("api-versions")).split()
    assert "Server Version: v1." in await kubectl("version")


async def test_things_made_by_the_command_line_alone(kubectl: Kubectl) -> None:
    await kubectl("create", "secret", "generic", "s", "--from-literal=password=hunter2")
    assert (await kubectl.tree("secret", "s"))["data"] == {"password": "aHVudGVyMg=="}
    await kubectl("create", "serviceaccount", "robot")
    await kubectl("create", "role", "reader", "--verb=get", "--resource=configmaps")
    await kubectl(
        "create", "rolebinding", "robot-reads", "--role=reader", f"--serviceaccount={kubectl.namespace}:robot"
    )
    assert columns(await kubectl("get", "rolebinding", "robot-reads"))[1][1] == "Role/reader"
    await kubectl("create", "deployment", "web", "--image=web:1")
    await kubectl("set", "image", "deployment/web", "web=web:2")
    containers = (await kubectl.tree("deployment", "web"))["spec"]["template"]["spec"]["containers"]
    assert containers[0]["image"] == "web:2"
    await kubectl("replace", "-f", "-", stdin=json.dumps(await kubectl.tree("deployment", "web")))


async def test_a_namespace_goes_with_all_that_is_in_it(with_things: Kubectl) -> None:
    kubectl = with_things
    await kubectl("create", "namespace", "doomed")
    await kubectl("apply", "--namespace=doomed", "-f", "-", stdin=f"{THING}---{CONFIG_MAP}")
    await kubectl("delete", "namespace", "doomed", "--timeout=20s")
    assert 'namespaces "doomed" not found' in await kubectl.refused("get", "namespace", "doomed")
    assert "doomed" not in await kubectl("get", "things,configmaps", "-A")


async def test_a_list_is_made_item_by_item(kubectl: Kubectl) -> None:
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("first", "second")]
    output = await kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert output.splitlines() == ["configmap/first created", "configmap/second created"]


def messages(encoded: bytes) -> dict[int, list[bytes]]:
    """The parts of a protobuf message that have a length, by their numbers."""
    results: dict[int, list[bytes]] = {}
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = encoded[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while place < len(encoded):
        tag = number()
        if tag & 7 == 2:
            length = number()
            results.setdefault(tag >> 3, []).append(encoded[place : place + length])
            place += length
        elif tag & 7 == 1:
            place += 8
        else:
            number()
    return results


async def test_the_swagger_document_is_there_as_protobuf(real: ControlPlane | None, tmp_path: Path) -> None:
    """Which schemas it has, of which types, and of which kind they say they are, is found in the same places."""

    async def read(kubeconfig: Path) -> bytes:
        transport = HttpTransport(Kubeconfig.load([kubeconfig]).context(), environment={})
        accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        try:
            answer = await transport.request(Request("GET", "/openapi/v2", headers={"accept": accept}))
        finally:
            await transport.close()
        assert answer.status == 200
        return answer.body

    if real is None:
        async with embedded_server(tmp_path) as kubeconfig:
            document = messages(await read(kubeconfig))
    else:
        document = messages(await read(real.kubeconfig))

    def named(container: bytes) -> dict[str, dict[int, list[bytes]]]:
        items = (messages(item) for item in messages(container)[1])
        return {item[1][0].decode(): messages(item[2][0]) for item in items}

    assert document[1] == [b"2.0"]
    schemas = named(document[9][0])
    config_map = schemas["io.k8s.api.core.v1.ConfigMap"]
    assert messages(config_map[22][0])[1] == [b"object"]
    properties = named(config_map[25][0])
    assert properties["metadata"][1] == [b"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]
    values = messages(messages(properties["data"][21][0])[1][0])
    assert messages(values[22][0])[1] == [b"string"]
    extensions = {messages(item)[1][0].decode(): messages(messages(item)[2][0]) for item in config_map[31]}
    assert b"ConfigMap" in extensions["x-kubernetes-group-version-kind"][2][0]
    env = named(schemas["io.k8s.api.core.v1.Container"][25][0])["env"]
    assert messages(messages(env[23][0])[1][0])[1] == [b"#/definitions/io.k8s.api.core.v1.EnvVar"]
    assert b"name" in schemas["io.k8s.api.core.v1.Container"][19]
