"""How kubectl applies, patches and edits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.servers.kubectl import Kubectl
from tests.support.servers.kubectl_things import (
    CONFIG_MAP,
    DEPLOYMENT,
    THING,
)


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


async def test_apply_of_built_in_kinds_merges_by_keys(kubectl: Kubectl) -> None:
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


async def test_client_side_fields_move_to_server_side_apply(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    code, output, complaint = await kubectl.finish("apply", "--server-side", "-f", "-", stdin=CONFIG_MAP)
    assert (code, output) == (0, "configmap/settings serverside-applied\n")
    assert "migration" not in complaint
    entries = (await kubectl.tree("configmap", "settings", "--show-managed-fields"))["metadata"]["managedFields"]
    owners = {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}
    assert owners["kubectl", "Apply"]["f:data"] == {"f:a": {}, "f:b": {}}
    assert not any(manager == "kubectl-client-side-apply" for manager, _ in owners)


async def test_kubectl_adopts_only_what_it_applied_itself(with_things: Kubectl) -> None:
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
