from __future__ import annotations

import pytest

from espalier.api.gardener import images, names


def test_names_of_a_shoot_derive_from_project_and_uid() -> None:
    technical_id = names.technical_id("core", "my-shoot")
    entry = names.backup_entry(technical_id, "1-2")
    assert technical_id == "shoot--core--my-shoot"
    assert entry == "shoot--core--my-shoot--1-2"
    assert names.source_backup_entry(technical_id, "1-2") == "source-shoot--core--my-shoot--1-2"
    assert names.store_prefix(entry, 3) == "shoot--core--my-shoot--1-2/etcd-main/3"


def test_source_entry_has_a_prefix_before_its_entry() -> None:
    source = names.source_backup_entry("shoot--core--a", "1")
    assert names.is_source_backup_entry(source)
    assert names.store_prefix(source, 2) == names.store_prefix(names.backup_entry("shoot--core--a", "1"), 2)


def test_namespaces_of_projects_have_a_prefix() -> None:
    assert names.project_namespace("core") == "garden-core"
    assert names.project_namespace("garden") == "garden"
    assert names.project_of("garden-core") == "core"
    assert names.project_of("garden") == "garden"
    assert names.project_of("default") is None
    assert names.project_of("garden-") is None


@pytest.mark.parametrize(
    "image",
    [
        images.tagged(images.KUBE_APISERVER, "1.33.1"),
        "localhost:5000/mirror/kube-apiserver:v1.33.1",
        "registry.k8s.io/kube-apiserver@sha256:00",
        "kube-apiserver",
    ],
)
def test_image_has_same_program_from_every_registry(image: str) -> None:
    assert images.program(image) == "kube-apiserver"


def test_kubernetes_tags_begin_with_v() -> None:
    assert images.tagged(images.KUBE_SCHEDULER, "v1.33.1") == "registry.k8s.io/kube-scheduler:v1.33.1"
