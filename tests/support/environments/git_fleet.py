"""A management cluster whose workload clusters come from a Git repository: pushed to, and watched."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import yaml

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.flux import GIT_REPOSITORY, KUSTOMIZATION, REQUESTED
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.trees import yaml_trees
from espalier.gitops.components import components
from espalier.gitops.installation import Installation, install
from espalier.gitops.layout import (
    CLUSTER_FILE,
    FLUX_NAMESPACE,
    KUSTOMIZATION_FILE,
    SYNC_FILE,
    base_of,
    cluster_files,
    flux_files,
)
from espalier.gitops.repository import Access, Author, Change, Published, Repository
from espalier.gitops.target import Credentials, Target
from espalier.kube.client import Client, PatchType
from espalier.kube.discovery import Discovery
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.providers.kinds import LOCAL_DATACENTER
from tests.support.environments.managed_clusters import EXAMPLES, NAMESPACE, AccountedClusters
from tests.support.servers.git_server import GitServer

BASE = base_of("laptop")
SYNCED = {resource.kind: resource for resource in (GIT_REPOSITORY, KUSTOMIZATION)}
AUTHOR = Author("anna", "anna@example.com", 1_767_225_600)
PASSWORD = "s3cret"


def without_cluster(base: str, name: str, existing: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """The change that removes a cluster's files, by which Flux deletes it."""
    own, listing = f"{base}/{FLUX_NAMESPACE}/{name}.yaml", f"{base}/{FLUX_NAMESPACE}/{KUSTOMIZATION_FILE}"
    tree = yaml.safe_load(existing[listing])
    tree["resources"].remove(f"{name}.yaml")
    gone = dict.fromkeys(path for path in existing if path == own or path.startswith(f"{base}/{name}/"))
    return {**gone, listing: yaml.safe_dump(tree).encode()}


@dataclass
class Fleet:
    """The management cluster, its repository, and somebody who may push. `step` is the time between two readings."""

    env: AccountedClusters
    server: GitServer
    step: float
    interval: str = "1s"
    patience: float = 600.0
    components: Sequence[Tree] = ()
    """Manifests of Flux."""
    pushed: list[str] = field(default_factory=list)
    record: list[Tree] = field(default_factory=list)
    waited: list[str] = field(default_factory=list)

    @property
    def repository(self) -> Repository:
        return Repository(Access(self.server.url, username="flux", password=PASSWORD), "main")

    async def follow(self, password: str = PASSWORD) -> None:
        """Does what an administrator does once: the files of Flux, the credentials, and the objects that start it."""
        url = self.server.url
        self.push(lambda files: flux_files(BASE, url, "main", files, secret=FLUX_NAMESPACE))
        await self.give(password)
        text = self.repository.read()[f"{BASE}/{FLUX_NAMESPACE}/{SYNC_FILE}"]
        for tree in yaml_trees.trees(text, SYNC_FILE):
            await self.env.client.apply(SYNCED[tree["kind"]], tree, field_manager="kubectl")

    def installation(self, password: str = PASSWORD) -> Installation:
        """The management cluster to be handed over to the repository, with Flux."""
        target = Target(self.server.url, "main", BASE, FLUX_NAMESPACE)
        made = components(self.components, FLUX_NAMESPACE, {"ghcr.io/": "mirror.example.com/ghcr/"})
        return Installation(target, Credentials("flux", password), "laptop", self.record, made, AUTHOR)

    async def read_record(self) -> None:
        """The manifest of the management cluster, as its administrator has it."""
        for kind in (Cluster, LOCAL_DATACENTER):
            self.record.append((await self.env.client.get(kind.resource, "laptop", NAMESPACE)).tree)

    async def install(self, installation: Installation, *, patience: float = 300.0) -> Published:
        """Hand the management cluster over, with what `install` needs of its caller."""

        async def apply(client: Client, trees: Sequence[Tree]) -> None:
            discovery = Discovery(client)
            for tree in trees:
                group, _, version = tree["apiVersion"].rpartition("/")
                await client.apply(await discovery.resolve(f"{tree['kind']}.{version}.{group}"), tree)

        async def at_once(push: Callable[[], Published]) -> Published:
            return push()

        published = await install(
            self.env.client, installation, apply, in_thread=at_once, patience=patience, wait=self.waited.append
        )
        if published.is_changed:
            self.pushed.append(published.commit)
        return published

    async def request(self) -> None:
        """Ask Flux to fetch now, as `flux reconcile source git` does."""
        patch = {"metadata": {"annotations": {REQUESTED: self.pushed[-1]}}}
        await self.env.client.patch(GIT_REPOSITORY, FLUX_NAMESPACE, FLUX_NAMESPACE, patch=patch, type=PatchType.MERGE)

    async def until_no_kustomization(self, *names: str) -> None:
        """Wait until none of these is left; of all, if no name is given."""

        async def is_gone() -> bool:
            results = {item.name for item in (await self.env.client.list(KUSTOMIZATION, FLUX_NAMESPACE)).items}
            return not (results & {*names} if names else results)

        await self.until(is_gone, lambda: f"Kustomization {names} is left")

    async def leave(self) -> None:
        """Take all of it back, clusters by their Kustomizations: that of Flux first, which would make them again."""
        with suppress(NotFound):
            await self.env.client.delete(KUSTOMIZATION, FLUX_NAMESPACE, FLUX_NAMESPACE)
        await self.until_no_kustomization(FLUX_NAMESPACE)
        for kustomization in (await self.env.client.list(KUSTOMIZATION, FLUX_NAMESPACE)).items:
            await self.env.client.delete(KUSTOMIZATION, kustomization.name, FLUX_NAMESPACE)
        await self.until_no_kustomization()
        with suppress(NotFound):
            await self.env.client.delete(GIT_REPOSITORY, FLUX_NAMESPACE, FLUX_NAMESPACE)

    async def give(self, password: str = PASSWORD) -> None:
        """Give Flux the credentials."""
        data = {"username": b"flux", "password": password.encode()}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        body: Tree = {"metadata": {"name": FLUX_NAMESPACE, "namespace": FLUX_NAMESPACE}, "data": encoded}
        await self.env.client.apply(SECRET, body, field_manager="kubectl")

    def push(self, change: Change) -> Published:
        """Commit and push, with short intervals: tests do not wait for minutes."""

        def quick(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
            return {path: self._quickened(text) for path, text in change(files).items()}

        published = self.repository.publish(quick, "change", AUTHOR)
        self.pushed.append(published.commit)
        return published

    def add(self, name: str, **spec: object) -> None:
        """Push a cluster, or its changed spec."""
        trees = manifest(name, **spec)
        self.push(lambda files: cluster_files(BASE, trees, files))

    def remove(self, name: str) -> None:
        """Push the removal of a cluster's files."""
        self.push(lambda files: without_cluster(BASE, name, files))

    def replace(self, name: str, old: str, new: str) -> None:
        """Push a change of the text of a cluster's file."""
        path = f"{BASE}/{name}/eksa-system/{CLUSTER_FILE}"

        def change(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
            assert old.encode() in files[path]
            return {path: files[path].replace(old.encode(), new.encode())}

        self.push(change)

    async def ready_message(self, resource: Resource, name: str) -> str:
        """The message of condition Ready while it is not True; empty when it is, or when there is none yet."""
        try:
            flux_namespace = await self.env.client.get(resource, name, FLUX_NAMESPACE)
        except NotFound:
            return ""
        conditions = (flux_namespace.tree.get("status") or {}).get("conditions") or []
        ready = next((condition for condition in conditions if condition["type"] == "Ready"), {"status": "True"})
        return "" if ready["status"] == "True" else str(ready["message"])

    async def conditions(self, resource: Resource, name: str) -> dict[str, tuple[str, str]]:
        """Status and reason of each condition."""
        return conditions_of(await self.env.client.get(resource, name, FLUX_NAMESPACE))

    async def until_said(self, resource: Resource, name: str, *words: str) -> str:
        """Wait until an object of Flux says that it failed, with these words."""
        status_text = ""

        async def so() -> bool:
            nonlocal status_text
            status_text = await self.ready_message(resource, name)
            return bool(status_text) and all(word in status_text for word in words)

        await self.until(so, lambda: f"{resource.kind} {name} says {status_text!r}, expected {words}")
        return status_text

    async def until_applied(self, name: str, commit: str = "") -> None:
        """Wait until Flux has applied a commit, the last that was pushed if none is given."""
        wanted, revision, message = commit or self.pushed[-1], "", ""

        async def so() -> bool:
            nonlocal revision, message
            message = await self.ready_message(KUSTOMIZATION, name)
            try:
                kustomization = await self.env.client.get(KUSTOMIZATION, name, FLUX_NAMESPACE)
            except NotFound:
                return False
            revision = str((kustomization.tree.get("status") or {}).get("lastAppliedRevision"))
            return wanted in revision and not message

        await self.until(so, lambda: f"{name} is at {revision}, expected {wanted}: {message}")

    async def until(self, is_so: Callable[[], Awaitable[bool]], what: Callable[[], str]) -> None:
        """Look until it is so. Raises `TimeoutError` with what is there instead."""
        try:
            async with asyncio.timeout(self.patience):
                while not await is_so():  # noqa: ASYNC110  requests are asked again, nothing is awaited
                    await asyncio.sleep(self.step)
        except TimeoutError:
            raise TimeoutError(what()) from None

    def _quickened(self, text: bytes | None) -> bytes | None:
        if text is None:
            return None
        for interval in ("1m0s", "5m0s"):
            text = text.replace(f'"{interval}"'.encode(), f'"{self.interval}"'.encode())
        return text


def conditions_of(object_: Object) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    status = object_.tree.get("status") or {}
    return {item["type"]: (item["status"], item["reason"]) for item in status.get("conditions") or []}


def manifest(name: str, **spec: object) -> list[Tree]:
    """The example under another name, with these fields of the Cluster's spec."""
    trees = yaml_trees.trees((EXAMPLES / "docker.yaml").read_bytes(), "docker.yaml")
    for tree in trees:
        tree["metadata"] |= {"name": name, "namespace": NAMESPACE}
        if tree["kind"] == "Cluster":
            tree["spec"]["datacenterRef"]["name"] = name
            tree["spec"] |= spec
    return trees


def flux_components(definitions: Sequence[Tree]) -> list[Tree]:
    """Manifests as `flux install --export` writes them: definitions, and what runs the controllers."""
    trees: list[Tree] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLUX_NAMESPACE}}, *definitions]
    for name in ("source-controller", "kustomize-controller"):
        labels = {"app": name}
        container = {"name": "manager", "image": f"ghcr.io/fluxcd/{name}:v1.9.6"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        trees.append(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": FLUX_NAMESPACE},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
            }
        )
    return trees
