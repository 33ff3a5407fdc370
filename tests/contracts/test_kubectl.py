"""People and scripts use kubectl. To it, the embedded server behind its HTTP shell and kube-apiserver are the same."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.apiserver.http import HttpShell
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore
from espalier.kube.http import HttpTransport
from espalier.kube.kubeconfig import Kubeconfig
from espalier.kube.pki import Authority
from espalier.kube.wire import Request
from tests.support.control_plane import ControlPlane
from tests.support.kubectl import Kubectl, find_kubectl

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList, shortNames: [th], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: Thing is something to try things out with.
        properties:
          spec:
            type: object
            properties:
              size: {type: string, enum: [small, large], description: How large it is.}
              replicas: {type: integer, default: 1}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions:
                type: array
                items: {type: object, x-kubernetes-preserve-unknown-fields: true}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Message, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
"""
NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {generateName: kubectl-}
"""
THING = """
apiVersion: example.org/v1
kind: Thing
metadata: {name: one, labels: {colour: blue}}
spec: {size: small}
"""
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {colour: red}}
data: {a: "1", b: "2"}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: server
        image: server:1
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
      - {name: proxy, image: proxy:1}
"""
READY = '{"status":{"conditions":[{"type":"Ready","status":"True","message":"all is well"}]}}'


@asynccontextmanager
async def embedded_server(folder: Path) -> AsyncIterator[Path]:
    """An embedded server behind HTTPS, given as an administrator's kubeconfig."""
    now = datetime.now(UTC)
    authority = Authority.create("embedded", now=now)
    server = Server(MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(7))
    serving = authority.issue_server("kube-apiserver", names=["127.0.0.1"], now=now)
    shell = HttpShell(server, serving=serving, client_ca=authority.certificate)
    await server.start()
    await shell.start()
    kubeconfig = Kubeconfig.of_cluster(
        "embedded",
        server=shell.url,
        certificate_authority=authority.certificate,
        user="admin",
        credentials=authority.issue_client("admin", groups=["system:masters"], now=now),
    )
    file = folder / "kubeconfig"
    file.write_bytes(kubeconfig.to_bytes())
    yield file
    await shell.stop()
    await server.close()


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.embedded),
        pytest.param("envtest", marks=pytest.mark.envtest),
    ]
)
def real(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The real control plane; None where the embedded server is tried instead."""
    return request.getfixturevalue("control_plane") if request.param == "envtest" else None


@pytest.fixture
async def kubectl(real: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = find_kubectl()
    if real is None:
        async with embedded_server(tmp_path) as kubeconfig:
            kubectl = Kubectl(program, kubeconfig, tmp_path)
            kubectl.namespace = "default"
            yield kubectl
    else:
        kubectl = Kubectl(program, real.kubeconfig, tmp_path)
        namespace = await kubectl("create", "-f", "-", "-o", "name", stdin=NAMESPACE)
        kubectl.namespace = namespace.strip().removeprefix("namespace/")
        yield kubectl


@pytest.fixture
async def with_things(kubectl: Kubectl) -> Kubectl:
    """kubectl against a server that knows the kind Thing and has one, of the name one."""
    await kubectl("apply", "-f", "-", stdin=CRD)
    await kubectl("wait", "--for=condition=Established", "crd/things.example.org")
    await kubectl("apply", "-f", "-", stdin=THING)
    return kubectl


def columns(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


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


async def test_apply_says_what_it_did(with_things: Kubectl) -> None:
    kubectl = with_things
    assert await kubectl("apply", "-f", "-", stdin=THING) == "thing.example.org/one unchanged\n"
    large = THING.replace("small", "large")
    assert await kubectl("apply", "-f", "-", stdin=large) == "thing.example.org/one configured\n"
    without_labels = large.replace(", labels: {colour: blue}", "")
    await kubectl("apply", "-f", "-", stdin=without_labels)
    thing = await kubectl.tree("thing", "one")
    assert thing["spec"]["size"] == "large"
    assert "labels" not in thing["metadata"]


async def test_apply_of_built_in_kinds_merges_lists_by_their_keys(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    # Somebody else adds a container: what apply never said is left alone.
    sidecar = '{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"s"}]}}}}'
    await kubectl("patch", "deployment", "web", "-p", sidecar)
    changed = DEPLOYMENT.replace(', {name: B, value: "2"}', "").replace("proxy:1", "proxy:2")
    assert await kubectl("apply", "-f", "-", stdin=changed) == "deployment.apps/web configured\n"
    containers = (await kubectl.tree("deployment", "web"))["spec"]["template"]["spec"]["containers"]
    by_name = {container["name"]: container for container in containers}
    assert by_name.keys() == {"server", "proxy", "sidecar"}
    assert by_name["server"]["env"] == [{"name": "A", "value": "1"}]
    assert by_name["proxy"]["image"] == "proxy:2"


async def test_server_side_apply(with_things: Kubectl) -> None:
    kubectl = with_things
    two = THING.replace("name: one", "name: two")
    apply = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*apply, stdin=two) == "thing.example.org/two serverside-applied\n"
    version = (await kubectl.tree("thing", "two"))["metadata"]["resourceVersion"]
    await kubectl(*apply, stdin=two)
    assert (await kubectl.tree("thing", "two"))["metadata"]["resourceVersion"] == version
    large = two.replace("small", "large")
    complaint = await kubectl.refused(*apply, "--field-manager=other", stdin=large)
    assert 'conflict with "kubectl": .spec.size' in complaint
    await kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=large)
    managers = {
        each["manager"]
        for each in (await kubectl.tree("thing", "two", "--show-managed-fields"))["metadata"]["managedFields"]
    }
    assert managers == {"kubectl", "other"}


async def test_server_side_apply_of_built_in_kinds(kubectl: Kubectl) -> None:
    for manifest, name in ((CONFIG_MAP, "configmap/settings"), (DEPLOYMENT, "deployment.apps/web")):
        for _ in range(2):
            assert await kubectl("apply", "--server-side", "-f", "-", stdin=manifest) == f"{name} serverside-applied\n"
    changed = DEPLOYMENT.replace(', {name: B, value: "2"}', "")
    await kubectl("apply", "--server-side", "-f", "-", stdin=changed)
    containers = (await kubectl.tree("deployment", "web"))["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["server", "proxy"]
    assert containers[0]["env"] == [{"name": "A", "value": "1"}]


async def test_edit_opens_an_editor_and_writes_what_it_left(with_things: Kubectl, tmp_path: Path) -> None:
    kubectl = with_things
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/size: small/size: large/" "$1"\n')
    editor.chmod(0o700)
    assert await kubectl("edit", "thing", "one", EDITOR=str(editor)) == "thing.example.org/one edited\n"
    assert (await kubectl.tree("thing", "one"))["spec"]["size"] == "large"
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    editor.write_text("""#!/bin/sh\nsed -i 's/a: "1"/a: "7"/' "$1"\n""")
    await kubectl("edit", "configmap", "settings", EDITOR=str(editor))
    assert (await kubectl.tree("configmap", "settings"))["data"] == {"a": "7", "b": "2"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"data":{"a":"7","b":null}}'),
        ("json", '[{"op":"replace","path":"/data/a","value":"7"},{"op":"remove","path":"/data/b"}]'),
        ("strategic", '{"data":{"a":"7","b":null}}'),
    ],
)
async def test_patches(kubectl: Kubectl, kind: str, patch: str) -> None:
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    await kubectl("patch", "configmap", "settings", f"--type={kind}", "-p", patch)
    assert (await kubectl.tree("configmap", "settings"))["data"] == {"a": "7"}


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


async def test_diff_shows_what_would_change(with_things: Kubectl) -> None:
    kubectl = with_things
    code, output, _ = await kubectl.finish("diff", "-f", "-", stdin=THING)
    assert (code, output) == (0, "")
    for flags in ([], ["--server-side", "--force-conflicts"]):
        code, output, complaint = await kubectl.finish("diff", *flags, "-f", "-", stdin=THING.replace("small", "large"))
        assert code == 1, complaint
        assert "-  size: small\n+  size: large" in output
    assert (await kubectl.tree("thing", "one"))["spec"]["size"] == "small"


async def test_a_dry_run_leaves_nothing(with_things: Kubectl) -> None:
    kubectl = with_things
    two = THING.replace("name: one", "name: two")
    output = await kubectl("create", "--dry-run=server", "-f", "-", stdin=two)
    assert output == "thing.example.org/two created (server dry run)\n"
    assert "two" not in await kubectl("get", "things")
    await kubectl("delete", "thing", "one", "--dry-run=server")
    await kubectl("apply", "--dry-run=server", "-f", "-", stdin=THING.replace("small", "large"))
    assert (await kubectl.tree("thing", "one"))["spec"]["size"] == "small"


async def test_what_the_administrator_may_do(kubectl: Kubectl) -> None:
    assert await kubectl("auth", "can-i", "create", "deployments") == "yes\n"
    code, output, _ = await kubectl.finish("auth", "can-i", "delete", "nodes", "--as=nobody")
    assert (code, output) == (1, "no\n")
    assert "forbidden" in await kubectl.refused("get", "secrets", "--as=nobody")
    assert "system:masters" in await kubectl("auth", "whoami")


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("size: small", "size: huge", 'spec.size: Unsupported value: "huge"'),
        ("size: small", "sise: small", 'unknown field "spec.sise"'),
        ("size: small", "replicas: many", "spec.replicas: Invalid value"),
        ("name: one", "name: One_", "metadata.name: Invalid value"),
        ("example.org/v1", "example.org/v9", 'no matches for kind "Thing"'),
    ],
)
async def test_what_is_wrong_is_refused(with_things: Kubectl, right: str, wrong: str, complaint: str) -> None:
    manifest = THING.replace(right, wrong)
    assert complaint in await with_things.refused("apply", "-f", "-", stdin=manifest)


async def test_unknown_fields_of_built_in_kinds_are_refused(kubectl: Kubectl) -> None:
    wrong = DEPLOYMENT.replace("replicas: 2", "replicaz: 2")
    assert 'unknown field "spec.replicaz"' in await kubectl.refused("apply", "-f", "-", stdin=wrong)
    await kubectl("apply", "--validate=ignore", "-f", "-", stdin=wrong)
    code, _, complaint = await kubectl.finish("apply", "--validate=warn", "-f", "-", stdin=wrong)
    assert code == 0
    assert 'Warning: unknown field "spec.replicaz"' in complaint


async def test_what_is_not_there(kubectl: Kubectl) -> None:
    assert 'Error from server (NotFound): configmaps "x" not found' in await kubectl.refused("get", "configmap", "x")
    assert 'the server doesn\'t have a resource type "nothings"' in await kubectl.refused("get", "nothings")
    assert 'namespaces "nowhere" not found' in await kubectl.refused("create", "configmap", "x", "--namespace=nowhere")
    await kubectl("create", "-f", "-", stdin=CONFIG_MAP)
    complaint = await kubectl.refused("create", "-f", "-", stdin=CONFIG_MAP)
    assert "Error from server (AlreadyExists)" in complaint
    assert 'configmaps "settings" already exists' in complaint


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


async def test_a_list_is_made_item_by_item(kubectl: Kubectl) -> None:
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("first", "second")]
    said = await kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert said.splitlines() == ["configmap/first created", "configmap/second created"]


async def test_what_kubectl_applied_by_itself_moves_to_server_side_apply(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    code, said, complaint = await kubectl.finish("apply", "--server-side", "-f", "-", stdin=CONFIG_MAP)
    assert (code, said) == (0, "configmap/settings serverside-applied\n")
    assert "migration" not in complaint
    entries = (await kubectl.tree("configmap", "settings", "--show-managed-fields"))["metadata"]["managedFields"]
    owners = {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}
    assert owners["kubectl", "Apply"]["f:data"] == {"f:a": {}, "f:b": {}}
    assert not any(manager == "kubectl-client-side-apply" for manager, _ in owners)


async def test_kubectl_takes_over_what_it_applied_by_itself_and_nothing_else(with_things: Kubectl) -> None:
    kubectl = with_things
    changed = THING.replace("size: small", "size: large")
    assert "applied" in await kubectl("apply", "--server-side", "-f", "-", stdin=changed)
    thing = await kubectl.tree("thing", "one")
    assert thing["spec"]["size"] == "large"
    last = json.loads(thing["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert last["spec"] == {"size": "large"}
    await kubectl("patch", "thing", "one", "--type=merge", "-p", '{"spec":{"replicas":5}}')
    complaint = await kubectl.refused(
        "apply", "--server-side", "-f", "-", stdin=changed.replace("{size:", "{replicas: 3, size:")
    )
    assert 'conflict with "kubectl-patch" using example.org/v1: .spec.replicas' in complaint


async def test_an_edit_that_breaks_the_object_is_not_saved(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    code, _, complaint = await kubectl.finish("edit", "configmap", "settings", EDITOR="sed -i s/^data:/date:/")
    assert code != 0
    assert "Edit cancelled, no valid changes were saved" in complaint
    assert (await kubectl.tree("configmap", "settings"))["data"] == {"a": "1", "b": "2"}


async def test_scaling_below_zero_and_beyond_what_is_there_is_refused(with_things: Kubectl) -> None:
    kubectl = with_things
    assert "--replicas=COUNT" in await kubectl.refused("scale", "thing/one", "--replicas=-1")
    assert "not found" in await kubectl.refused("scale", "thing/absent", "--replicas=1")
    complaint = await kubectl.refused("scale", "thing/one", "--current-replicas=7", "--replicas=2")
    assert "Expected replicas to be 7, was 1" in complaint


def messages(encoded: bytes) -> dict[int, list[bytes]]:
    """The parts of a protobuf message that have a length, by their numbers."""
    found: dict[int, list[bytes]] = {}
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
            found.setdefault(tag >> 3, []).append(encoded[place : place + length])
            place += length
        elif tag & 7 == 1:
            place += 8
        else:
            number()
    return found


async def test_the_swagger_document_is_there_as_protobuf(real: ControlPlane | None, tmp_path: Path) -> None:
    """Which schemas it has, of which types, and of which kind they say they are, is found in the same places."""

    async def read(kubeconfig: Path) -> bytes:
        transport = HttpTransport(Kubeconfig.load([kubeconfig]).context(), environment={})
        accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        answer = await transport.request(Request("GET", "/openapi/v2", headers={"accept": accept}))
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
