"""The stand-in as a component of a manager."""

from __future__ import annotations

from espalier.api.flux import KINDS, REQUESTED, GitRepository, Kustomization
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.predicates import change_of
from espalier.runtime.controllers.writer import Writer
from espalier.simulator.flux.kustomizations import Kustomizations
from espalier.simulator.flux.sources import Fetch, Sources


def component(fetch: Fetch) -> Component:
    """GitRepositories and Kustomizations, acted on. Repositories are fetched by `fetch`."""

    def build(host: Host) -> None:
        repositories, folders = (host.caches.of(kind.resource) for kind in KINDS)
        writer = Writer(host.client, {GitRepository.resource: repositories, Kustomization.resource: folders})
        clock = host.manager.clock
        sources = Sources(repositories, host.client, writer, clock, fetch)
        fetching = Controller("simulated-git-repository", sources.reconcile)
        fetching.watch(repositories, predicate=change_of(_asked))
        kustomizations = Kustomizations(folders, host.client, writer, clock, sources)
        applying = Controller("simulated-kustomization", kustomizations.reconcile)
        applying.watch(folders, predicate=change_of(_asked))

        def fetched(repository: Key) -> None:
            for folder in folders.list():
                reference = (folder.tree.get("spec") or {}).get("sourceRef") or {}
                if Key(reference.get("namespace") or folder.namespace, str(reference.get("name"))) == repository:
                    applying.enqueue(folder.key)

        sources.subscribe(fetched)
        host.manager.add(fetching)
        host.manager.add(applying)

    return Component("flux-stand-in", build, KINDS)


def _asked(object_: Object) -> object:
    metadata = object_.metadata
    return metadata.generation, metadata.annotations.get(REQUESTED), metadata.deletion_timestamp
