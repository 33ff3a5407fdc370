"""The objects of a folder in Git, as the stand-in for Flux reads them."""

from __future__ import annotations

import pytest

from espalier.simulator.flux.building import BuildFailed, build


def file(name: str, kind: str = "ConfigMap") -> bytes:
    return f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: a}}\n".encode()


def names(files: dict[str, bytes], path: str = "./fleet") -> list[str]:
    return [tree["metadata"]["name"] for tree in build(files, path)]


def chain(length: int) -> dict[str, bytes]:
    """Folders, each of which lists the next."""
    return {
        f"fleet/{'/'.join(map(str, range(depth + 1)))}/kustomization.yaml": f"resources: [{depth + 1}]".encode()
        for depth in range(length)
    }


def test_a_list_names_files_and_folders_in_order() -> None:
    files = {
        "fleet/kustomization.yaml": b"resources: [z.yaml, ../common, a.yaml]",
        "fleet/a.yaml": file("a"),
        "fleet/z.yaml": file("z") + b"---\n" + file("x"),
        "fleet/unlisted.yaml": b"[",
        "common/kustomization.yaml": b"resources: [c.yaml]",
        "common/c.yaml": file("c"),
    }
    assert names(files) == ["z", "x", "c", "a"]


def test_a_folder_without_a_list_has_all_its_files() -> None:
    files = {"fleet/b.yaml": file("b"), "fleet/deep/a.yaml": file("a"), "other/c.yaml": file("c"), "fleet/readme": b"["}
    assert names(files) == ["b", "a"]
    assert names(files, "./") == ["b", "a", "c"]


def test_a_folder_below_has_what_it_lists() -> None:
    files = {
        "fleet/b.yaml": file("b"),
        "fleet/deep/kustomization.yaml": b"resources: [in.yaml, deeper]",
        "fleet/deep/in.yaml": file("in"),
        "fleet/deep/out.yaml": file("out"),
        "fleet/deep/deeper/kustomization.yaml": b"resources: [a.yaml]",
        "fleet/deep/deeper/a.yaml": file("a"),
    }
    assert names(files) == ["b", "in", "a"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"other/a.yaml": file("a")}, "spec.path: ./fleet: there is no such folder"),
        ({"fleet/kustomization.yaml": b"resources: [a.yaml]"}, "resources: a.yaml: there is no such file"),
        ({"fleet/kustomization.yaml": b"resources: [https://a.example/b]"}, "https://a.example/b: there is no such"),
        ({"fleet/kustomization.yaml": b"resources: [.]"}, "it is listed twice, or lists itself"),
        ({"fleet/kustomization.yaml": b"resources: [a.yaml, ./a.yaml]", "fleet/a.yaml": file("a")}, "listed twice"),
        ({"fleet/kustomization.yaml": b"resources: [0]", **chain(60)}, "more than 50 folders list one another"),
        ({"fleet/kustomization.yaml": b"patches: []\nresources: []"}, "found patches; the stand-in for Flux knows"),
        ({"fleet/kustomization.yaml": b"resources: a.yaml"}, "allowed: a list"),
        ({"fleet/a.yaml": b"spec: ["}, "fleet/a.yaml"),
        ({"fleet/a.yaml": b"- 1"}, "fleet/a.yaml: allowed: objects"),
        ({"fleet/a.yaml": b"kind: ConfigMap\napiVersion: v1"}, "ConfigMap : apiVersion, kind or metadata.name is"),
        ({"fleet/a.yaml": file("y")}, "quote what YAML takes for a number or a boolean"),
        ({"fleet/a.yaml": file("a, labels: [b]")}, "metadata.labels and annotations are maps"),
        ({"fleet/a.yaml": file("a"), "fleet/b.yaml": file("a")}, "ConfigMap a: it is there twice"),
        ({"fleet/a.yaml": b"\xff\xfe\x00"}, "fleet/a.yaml"),
        ({"fleet/a.yaml": b"a: " + b"[" * 20000}, "fleet/a.yaml"),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(files: dict[str, bytes], words: str) -> None:
    with pytest.raises(BuildFailed) as refused:
        build(files, "./fleet")
    assert words in str(refused.value)


def test_a_path_out_of_the_repository_is_refused() -> None:
    with pytest.raises(BuildFailed, match="allowed: a folder of the repository"):
        build({"a.yaml": file("a")}, "../a")
