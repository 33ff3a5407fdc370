"""Objects of a manifest that are no part of a cluster: all commands ignore them, unless --all-kinds is given."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION as DEFINITIONS
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.core import SECRET as SECRETS
from espalier.api.resource import Resource
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.kube.errors import NotFound
from tests.support.environments.environment import CommandResult, LocalEnvironment

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text().replace("garden", "hedge")
SECRET = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: extra}\nstringData: {a: b}\n"
NAMESPACE = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: fields}\n"
PACKAGE = "---\napiVersion: packages.eks.amazonaws.com/v1alpha1\nkind: Package\nmetadata: {name: hello}\n"


async def exists(env: LocalEnvironment, resource: Resource, name: str, namespace: str | None) -> bool:
    async with connection.connect(flags.Connection(env.home / "kubeconfig")) as connected:
        try:
            await connected.client.get(resource, name, namespace)
        except NotFound:
            return False
        return True


def test_other_objects_are_ignored_unless_asked_for(env: LocalEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "hedge.yaml"
    file.write_text(EXAMPLE + SECRET + NAMESPACE + PACKAGE)

    def there(resource: Resource = SECRETS, name: str = "extra", namespace: str | None = "default") -> bool:
        return asyncio.run(exists(env, resource, name, namespace))

    for command in (["validate"], ["plan"], ["generate", "objects"], ["create", "cluster"]):
        done = env.espalier(*command, "-f", str(file))
        assert done.code == (1 if command == ["plan"] else 0), done
        for other in ("Secret extra", "Namespace fields", "Package hello"):
            assert f"{other} is ignored: it is no part of a cluster" in done.err, command
        assert "stringData" not in done.out
        assert not there(), command

    unknown = env.espalier("upgrade", "cluster", "-f", str(file), "--all-kinds")
    assert unknown.code == 1
    assert "serves no packages.eks.amazonaws.com/v1alpha1 Package; install it, or remove the object" in unknown.err
    assert "that it serves are taken: " in unknown.err
    assert " ConfigMap," in unknown.err
    assert not there()

    file.write_text(EXAMPLE + SECRET + NAMESPACE)
    assert env.espalier("upgrade", "cluster", "-f", str(file), "--all-kinds").code == 0
    assert there()
    assert there(NAMESPACES, "fields", None)

    assert env.espalier("delete", "cluster", "-f", str(file), "--all-kinds", "--no-wait").code == 2
    result = env.espalier("delete", "cluster", "-f", str(file), "--dry-run=server")
    assert (result.code, "Secret extra is ignored" in result.err) == (0, True)
    gone = env.espalier("delete", "cluster", "-f", str(file), "--all-kinds")
    assert (gone.code, "Namespace fields is ignored" in gone.err) == (0, True)
    assert not there()
    assert there(NAMESPACES, "fields", None)


def test_kustomization_is_to_be_built_first(env: LocalEnvironment, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(EXAMPLE)
    listing = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [cluster.yaml]\n"
    for text, reason in (
        (listing, "it is no part of a cluster"),
        (f"{listing}namePrefix: old-\n", "to have what it changes, give -f - what `kubectl kustomize FOLDER` prints"),
    ):
        (tmp_path / "kustomization.yaml").write_text(text)
        done = env.espalier("validate", "-f", str(tmp_path))
        assert f"Kustomization is ignored: {reason}" in " ".join(done.err.split())


def test_namespace_of_a_manifest_is_created_before_it(env: LocalEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "moor.yaml"
    texts = EXAMPLE.replace("hedge", "moor").split("---\n")
    within = "---\n".join(text.replace("metadata:\n", "metadata:\n  namespace: moors\n", 1) for text in texts)
    file.write_text(within + SECRET + NAMESPACE.replace("fields", "moors"))

    def there() -> bool:
        return asyncio.run(exists(env, NAMESPACES, "moors", None))

    planned = env.espalier("plan", "-f", str(file))
    assert planned.code == 1, planned.err
    assert "namespace moors does not exist: create it first" in planned.out + planned.err
    refused = env.espalier("create", "cluster", "-f", str(file))
    assert refused.code == 1
    assert "namespace moors does not exist: create it first" in " ".join(refused.err.split())
    tried = env.espalier("create", "cluster", "-f", str(file), "--all-kinds", "--dry-run=server")
    assert tried.code == 0, tried.err
    assert "what is in namespace moors was not tried on the server: it does not exist yet" in tried.err
    assert not there()

    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text().replace("kubernetesVersion:", "kubernetesVersion: 1.2 #"))
    assert env.espalier("create", "cluster", "-f", str(wrong), "--all-kinds").code == 1
    assert not there()

    wrong.write_text(file.read_text() + SECRET.replace("{name: extra}", "{name: extra, namespace: moors, uid: 1-2}"))
    refused = env.espalier("create", "cluster", "-f", str(wrong), "--all-kinds")
    assert refused.code == 1
    assert "created, and nothing else: Namespace moors" in refused.err
    assert there()

    assert env.espalier("create", "cluster", "-f", str(file), "--all-kinds").code == 0
    planned = env.espalier("plan", "-f", str(file))
    assert (planned.code, "does not exist" in planned.out + planned.err) == (0, False)
    assert env.espalier("delete", "cluster", "-f", str(file), "--all-kinds").code == 0


DEFINITION = """---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fences.example.com}
spec:
  group: example.com
  scope: SCOPE
  names: {kind: Fence, plural: fences}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {posts: {type: integer}}}}}}
"""
FENCE = "---\napiVersion: example.com/v1\nkind: Fence\nmetadata: {name: oak}\nspec: {posts: 3}\n"
FENCES = Resource("example.com", "v1", "fences", "Fence")


def test_definition_and_its_object_are_in_one_file(env: LocalEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "heath.yaml"
    manifest, definition = "---\n" + EXAMPLE.replace("hedge", "heath"), DEFINITION.replace("SCOPE", "Namespaced")

    def there(resource: Resource = FENCES, name: str = "oak", namespace: str | None = "default") -> bool:
        return asyncio.run(exists(env, resource, name, namespace))

    def create(text: str, *more: str) -> CommandResult:
        file.write_text(text)
        return env.espalier("create", "cluster", "-f", str(file), "--all-kinds", *more)

    # Objects come before the definition that they need, in the file.
    tried = create(FENCE + manifest + definition, "--dry-run=server")
    assert (tried.code, "what is of kind Fence was not tried on the server" in tried.err) == (0, True), tried.err
    assert not there(DEFINITIONS, "fences.example.com", None)
    # A definition that the API server refuses, or that has no shape of one: nothing is written.
    for wrong in (definition.replace("Namespaced", "Somewhere"), "---\n" + definition[4:].split("spec:")[0]):
        refused = create(FENCE + manifest + wrong)
        assert refused.code == 1
        assert "Traceback" not in refused.err
        assert not there(DEFINITIONS, "fences.example.com", None)
    # An object that its own definition refuses: the definition stays, and the command says so.
    refused = create(FENCE.replace("3", "many") + manifest + definition)
    assert refused.code == 1
    assert "created, and nothing else: CustomResourceDefinition fences.example.com" in refused.err
    assert "posts" in refused.err
    assert not there()
    assert create(FENCE + manifest + definition).code == 0
    assert there()
    gone = env.espalier("delete", "cluster", "-f", str(file), "--all-kinds")
    assert (gone.code, "CustomResourceDefinition fences.example.com is ignored" in gone.err) == (0, True), gone.err
    assert not there()
    assert there(DEFINITIONS, "fences.example.com", None)
