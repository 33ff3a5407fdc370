"""Changes of a machine's bootstrap configuration that reach an existing node, and those that need a new machine."""

from __future__ import annotations

import base64

import pytest

from espalier.api.meta import Tree
from espalier.clusterapi.changes.bootstrap_changes import changes_since, only_new, traits

PATH = "/etc/kubernetes/audit-policy.yaml"


def bootstrap_changes(before: Tree, after: Tree) -> Tree:
    return changes_since(traits(before), after)


def files(*value: Tree) -> Tree:
    return {"files": [*value]}


def flags(**item: str) -> Tree:
    args = [{"name": name.replace("_", "-"), "value": value} for name, value in item.items()]
    return {"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": args}}}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_empty_parts_and_order_make_no_difference() -> None:
    before = files({"path": PATH, "content": "a", "owner": ""}) | flags(v="4", max_pods="10")
    after = files({"path": PATH, "content": "a"}) | flags(max_pods="10", v="4")

    assert bootstrap_changes(before, after) == {}
    assert list(only_new(before, after)) == []


def test_files_and_flags_are_added_changed_and_removed() -> None:
    before = files({"path": PATH, "content": "a"}, {"path": "/etc/kubernetes/b", "content": "b"}) | flags(v="4", a="1")
    after = files({"path": PATH, "content": "c", "permissions": "0600"}) | flags(v="5")

    assert bootstrap_changes(before, after) == {
        "files": [{"path": PATH, "owner": "root:root", "permissions": "0600", "content": encoded("c")}],
        "removedFiles": ["/etc/kubernetes/b"],
        "kubeletArgs": [{"name": "v", "value": "5"}],
        "removedKubeletArgs": ["a"],
    }
    assert list(only_new(before, after)) == []


def test_init_section_counts_for_the_first_machine() -> None:
    init = {"initConfiguration": flags(v="4")["joinConfiguration"]}

    assert bootstrap_changes(init, flags(v="4")) == {}
    assert bootstrap_changes(init, flags(v="5")) == {"kubeletArgs": [{"name": "v", "value": "5"}]}


def test_a_folder_of_patches_is_added_and_removed() -> None:
    patched = {"joinConfiguration": {"patches": {"directory": "/etc/kubernetes/patches"}}}

    assert bootstrap_changes({}, patched) == {"patches": "/etc/kubernetes/patches"}
    assert bootstrap_changes(patched, {}) == {"patches": ""}


@pytest.mark.demand("U25")
@pytest.mark.parametrize(
    ("file", "field"),
    [
        ({"path": "/etc/hosts", "content": "x"}, "files[/etc/hosts]"),
        ({"path": "/etc/kubernetes/../hosts"}, "files[/etc/kubernetes/../hosts]"),
        ({"path": "/etc/kubernetes/pki/ca.key"}, "files[/etc/kubernetes/pki/ca.key]"),
        ({"path": "/etc/kubernetes/manifests/etcd.yaml"}, "files[/etc/kubernetes/manifests/etcd.yaml]"),
        ({"path": PATH, "contentFrom": {"secret": {"name": "a", "key": "b"}}}, f"files[{PATH}].contentFrom"),
        ({"path": PATH, "append": True}, f"files[{PATH}].append"),
        ({"path": PATH, "encoding": "gzip+base64"}, f"files[{PATH}].encoding"),
        ({"path": PATH, "encoding": "base64", "content": "%"}, f"files[{PATH}].encoding"),
    ],
)
def test_file_without_effect_on_a_node_is_named(file: Tree, field: str) -> None:
    assert list(only_new({}, files(file))) == [field]
    assert list(only_new(files(file), files(file))) == []


@pytest.mark.parametrize("component", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"])
def test_static_pods_that_kubeadm_writes_are_refused(component: str) -> None:
    path = f"/etc/kubernetes/manifests/{component}.yaml"
    assert list(only_new({}, files({"path": path}))) == [f"files[{path}]"]


@pytest.mark.parametrize("change", [{"node_labels": "a=b"}, {"register_with_taints": "a"}, {"v": "4 x"}, {"v": 'a"'}])
def test_flag_that_can_not_take_effect_is_refused(change: dict[str, str]) -> None:
    [name] = change
    assert list(only_new({}, flags(**change))) == [
        f"joinConfiguration.nodeRegistration.kubeletExtraArgs[{name.replace('_', '-')}]"
    ]
    if name != "v":
        assert list(only_new(flags(**change), {})), "that it goes is no less a change"
