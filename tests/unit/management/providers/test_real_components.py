"""The objects of Cluster API, vSphere's provider and cert-manager themselves, where they were built, as files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.meta import Tree
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import CAPV, CERT_MANAGER, CLUSTER_API
from espalier.cli.management.components.component_versions import wanted
from espalier.clusterapi.installed import CORE, PROVIDER_LABEL
from espalier.management.providers import folder as folders
from espalier.management.providers.components import BOOTSTRAP, CONTROL_PLANE, ProviderComponents, Unusable, read
from espalier.management.providers.components import CERT_MANAGER as OF_CERTIFICATES
from espalier.management.providers.fitness import Needed, problems
from espalier.providers.registry import PROVIDERS
from espalier.realnodes.management.cluster_api import CONTRACTS, MANAGERS, Manager, documents_of
from espalier.realnodes.management.deployments import deployed
from tests.support.environments.managed_environment import RELEASES

HOMES = [recipe.home(assets_folder()) for recipe in (CLUSTER_API, CAPV)]
RELEASED = CERT_MANAGER.home(assets_folder()) / CERT_MANAGER.file
BUILT = pytest.mark.skipif(
    not all(is_finished(home) for home in HOMES), reason="Cluster API was not built: run make real-assets"
)
RENDERED = pytest.mark.skipif(
    not is_finished(RELEASED.parent), reason="cert-manager was not rendered: run make real-assets REAL=helm"
)
NAMESPACE: Tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "capi-system"}}
VSPHERE = "infrastructure-vsphere"
KINDS_OF_VSPHERE = Manager("capv", "config", crds="default/crd/bases", webhooks="govmomi/webhook")


def labelled(tree: Tree, label: str) -> Tree:
    labels = {**(tree["metadata"].get("labels") or {}), **CONTRACTS, PROVIDER_LABEL: label}
    return {**tree, "metadata": {**tree["metadata"], "labels": labels}}


def written(path: Path, trees: Iterable[Tree]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.dump_all(trees, Dumper=yaml.CSafeDumper))


@BUILT
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


@RENDERED
def test_real_cert_manager_is_read(tmp_path: Path) -> None:
    """Three Deployments with one version, and roles by which leaders are elected in another namespace."""
    (tmp_path / "some.yaml").write_bytes(RELEASED.read_bytes())
    (tmp_path / "core.yaml").write_text(yaml.safe_dump(labelled({**NAMESPACE, "metadata": {"name": "capi"}}, CORE)))
    provider, core = read(folders.files(tmp_path), {})
    assert (provider.label, provider.version, core.label) == (OF_CERTIFICATES, f"v{CERT_MANAGER.version}", CORE)
    assert {tree["metadata"].get("namespace") for tree in provider.trees} == {None, OF_CERTIFICATES, "kube-system"}
    assert told_of("some.yaml", provider, f"v{CERT_MANAGER.version}") == []
    assert told_of("some.yaml", provider, "v1.99.0") == [
        f"some.yaml: found version v{CERT_MANAGER.version}, allowed is v1.99.0, which runs now, or a newer one"
    ]


def told_of(file: str, provider: ProviderComponents, running: str) -> list[str]:
    """The reasons against a file, where this version of the provider runs."""
    needed = Needed(PROVIDERS["VSphereDatacenterConfig"].infrastructure.cluster, running={provider.label: running})
    return [problem for problem in problems([provider], needed) if file in problem]


@RENDERED
def test_real_chart_lacks_its_namespace() -> None:
    """As `helm template` writes the same chart; a line for all objects whose namespace the file lacks."""
    text = RELEASED.read_text()
    namespace, _, chart = text.partition("\n---\n")
    assert "kind: Namespace" in namespace
    with pytest.raises(Unusable) as error:
        read({"chart.yaml": chart.encode()}, {})
    (problem,) = str(error.value).splitlines()
    assert "found namespace cert-manager" in problem
    assert problem.endswith("allowed are those of the file: none: add Namespace cert-manager to it")
