"""The objects of Cluster API and of vSphere's provider themselves, where they were built, as files of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.meta import Tree
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import CAPV, CLUSTER_API
from espalier.cli.management.components.component_versions import wanted
from espalier.clusterapi.installed import CORE, PROVIDER_LABEL
from espalier.management.providers import folder as folders
from espalier.management.providers.components import BOOTSTRAP, CONTROL_PLANE, read
from espalier.management.providers.fitness import Needed, problems
from espalier.providers.registry import PROVIDERS
from espalier.realnodes.management.cluster_api import CONTRACTS, MANAGERS, Manager, documents_of
from espalier.realnodes.management.deployments import deployed
from tests.support.environments.managed_environment import RELEASES

HOMES = [recipe.home(assets_folder()) for recipe in (CLUSTER_API, CAPV)]
pytestmark = pytest.mark.skipif(
    not all(is_finished(home) for home in HOMES), reason="Cluster API was not built: run make real-assets"
)
VSPHERE = "infrastructure-vsphere"
KINDS_OF_VSPHERE = Manager("capv", "config", crds="default/crd/bases", webhooks="govmomi/webhook")


def labelled(tree: Tree, label: str) -> Tree:
    labels = {**(tree["metadata"].get("labels") or {}), **CONTRACTS, PROVIDER_LABEL: label}
    return {**tree, "metadata": {**tree["metadata"], "labels": labels}}


def written(path: Path, trees: Iterable[Tree]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.dump_all(trees, Dumper=yaml.CSafeDumper))


def test_real_components_are_read_and_fit(tmp_path: Path) -> None:
    """Three files with images, and a provider whose folder says the version."""
    home, vsphere = HOMES
    documents = {manager.name: list(documents_of(home, manager)) for manager in MANAGERS}
    images = {manager.name: f"registry.k8s.io/{manager.name}:v{CLUSTER_API.version}" for manager in MANAGERS}
    trees = deployed(documents, images)
    for label in (CORE, BOOTSTRAP, CONTROL_PLANE):
        written(
            tmp_path / f"{label}.yaml", (tree for tree in trees if tree["metadata"]["labels"][PROVIDER_LABEL] == label)
        )
    kinds = [
        tree for tree in documents_of(vsphere, KINDS_OF_VSPHERE) if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind
    ]
    written(tmp_path / VSPHERE / f"v{CAPV.version}" / "a.yaml", (labelled(tree, VSPHERE) for tree in kinds))
    providers = read(folders.files(tmp_path), {})
    assert [provider.label for provider in providers] == [CORE, BOOTSTRAP, CONTROL_PLANE, VSPHERE]
    assert {provider.version for provider in providers} == {f"v{CLUSTER_API.version}", f"v{CAPV.version}"}
    bundle = RELEASES.newest().bundles.spec.versions_bundles[-1]
    needed = Needed(PROVIDERS["VSphereDatacenterConfig"].infrastructure.cluster, wanted(bundle))
    assert list(problems(providers, needed)) == []
