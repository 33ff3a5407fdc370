"""`espalier adopt undo`: what a take-over wrote is put back as it was before, until the first change of ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from espalier.api.core import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    MUTATING_WEBHOOK_CONFIGURATION,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.resource import Key, Resource
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import adoption
from espalier.clusters.design.cluster_objects.adoption import Adoption
from espalier.clusters.design.eks_anywhere import CONTROLLER
from espalier.clusters.design.provider import Providers
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Conflict, NotFound
from espalier.kube.objects import Object
from espalier.management.adoption import record as records
from espalier.management.adoption import site as sites
from espalier.management.adoption.plan import config_map, has_changed
from espalier.management.adoption.record import SiteRecord
from espalier.management.adoption.site import Site
from espalier.management.steps import Refused
from espalier.releases import Releases
from espalier.runtime.definitions import until_established

_WEBHOOKS: dict[str, Resource] = {
    resource.kind: resource for resource in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION)
}


_ATTEMPTS = 10
"""Attempts to unmark a Cluster that others write at the same time."""


class Adopted(NamedTuple):
    """A cluster that was taken over, or half so."""

    record: Adoption
    config_map: Object
    cluster: Object | None
    is_marked: bool
    """True if the Cluster has annotations that were written; they are as they were written."""


@dataclass
class Undoing:
    """Gives clusters back; `say` gets a sentence for each step."""

    client: Client
    providers: Providers
    say: Callable[[str], None]

    async def undo(self, keys: Sequence[Key] | None) -> None:
        """Give these clusters back, or all that were taken over, and what was done once after the last. Raises
        `Refused`, before anything is written, if one of them was changed.
        """
        record = await records.read(self.client)  # before the site: another command that writes it is a conflict
        site = await sites.read(self.client, self.providers)
        all_adopted = _adopted(site)
        chosen = [adopted for adopted in all_adopted if keys is None or adopted.record.key in keys]
        problems = [text for adopted in chosen for text in _obstacles(site, adopted)]
        known = {adopted.record.key for adopted in chosen}
        hint = "`espalier adopt plan` shows which were"
        if record is not None and not all_adopted:  # an interrupted command
            hint = "all clusters are given back, and `espalier adopt undo --all` restores what was done once"
        problems += [f"Cluster {key} was not taken over: {hint}" for key in keys or () if key not in known]
        is_last = len(chosen) == len(all_adopted)
        if is_last and record is not None:
            problems += _added(site, record)
        if is_last and record is not None and record.replicas is not None:
            problems += _made_here(site, {adopted.record.key for adopted in all_adopted})
        if not chosen and not problems and record is None:
            problems = ["no cluster was taken over: there is nothing to give back"]
        if problems:
            raise Refused(*dict.fromkeys(problems))
        for adopted in chosen:
            await self._give_back_as_it_is(adopted)
        if is_last and record is not None:
            await self._restore(site, record)
        elif record is not None:
            self.say("what was done once for all clusters stays until the last one is given back")

    async def _give_back_as_it_is(self, adopted: Adopted) -> None:
        """Give a cluster back; if it was written meanwhile, it is judged again."""
        for _ in range(_ATTEMPTS):
            try:
                await self._give_back(adopted)
            except (Conflict, NotFound):
                site = await sites.read(self.client, self.providers)
                again = [other for other in _adopted(site) if other.record.key == adopted.record.key]
                if problems := [text for other in again for text in _obstacles(site, other)]:
                    raise Refused(*problems) from None
                if not again:
                    return
                (adopted,) = again
            else:
                return
        raise Refused(f"Cluster {adopted.record.key} is written all the time: see who does that")

    async def _give_back(self, adopted: Adopted) -> None:
        """Unmark the Cluster, then delete the record: until then an interrupted command finds it."""
        record = adopted.record
        if adopted.cluster is not None and adopted.is_marked:
            metadata = adopted.cluster.metadata
            annotations: dict[str, str | None] = {name: record.before.get(name) for name in record.written}
            if metadata_keys.KUBECONFIG_ANNOTATION in metadata.annotations:  # the manager's, for its copy
                annotations[metadata_keys.KUBECONFIG_ANNOTATION] = None
            precondition = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
            patch = {"metadata": {"annotations": annotations, **precondition}}
            await self.client.patch(Cluster.resource, record.name, record.namespace, patch=patch, type=PatchType.MERGE)
        with suppress(NotFound):
            await self.client.delete(
                CONFIG_MAP, adopted.config_map.name, adopted.config_map.namespace, uid=adopted.config_map.metadata.uid
            )
        self.say(f"cluster {record.key} is given back to EKS Anywhere")

    async def _restore(self, site: Site, record: SiteRecord) -> None:
        """Restores what was done once, in reverse order: the controller last."""
        others = {
            object_.key for object_ in site.clusters if metadata_keys.GATE_ANNOTATION in object_.metadata.annotations
        }
        if record.made_gate_key and others <= {adopted.record.key for adopted in _adopted(site)}:
            with suppress(NotFound):
                key = await self.client.get(SECRET, names.GATE_KEY.name, names.GATE_KEY.namespace)
                await self.client.delete(SECRET, key.name, key.namespace, uid=key.metadata.uid)
        if record.named_management:
            await self._unname(site)
        if record.definition is not None:
            await self._restore_releases(site, record)
        present = {(object_.kind, object_.name) for _, object_ in site.webhooks}
        for tree in record.webhooks:
            if (tree["kind"], tree["metadata"]["name"]) in present:
                continue
            with suppress(AlreadyExists):
                await self.client.create(_WEBHOOKS[tree["kind"]], tree)
                self.say(f"{tree['kind']} {tree['metadata']['name']} is created again")
        if record.replicas is not None and not site.running and site.controller is not None:
            patch = {"spec": {"replicas": record.replicas}, "metadata": {"uid": site.controller.metadata.uid}}
            await self.client.patch(
                DEPLOYMENT, CONTROLLER.name, CONTROLLER.namespace, patch=patch, type=PatchType.MERGE
            )
            self.say(f"Deployment {CONTROLLER} is scaled to {record.replicas}")
        await records.forget(self.client, record)

    async def _unname(self, site: Site) -> None:
        """Delete the ConfigMap that names the management cluster, unless somebody has changed it."""
        try:
            named = await self.client.get(CONFIG_MAP, names.MANAGEMENT_CLUSTER.name, SYSTEM_NAMESPACE)
        except NotFound:
            return
        key = site.observer.management_cluster.key
        if key is not None and named.tree.get("data") == config_map(key).tree["data"]:
            await self.client.delete(CONFIG_MAP, named.name, named.namespace, uid=named.metadata.uid)

    async def _restore_releases(self, site: Site, record: SiteRecord) -> None:
        if site.definition is not None and not site.has_namespaced_releases:
            with suppress(NotFound):
                await self.client.delete(CUSTOM_RESOURCE_DEFINITION, sites.RELEASES, uid=site.definition.metadata.uid)
            await sites.until_undefined(self.client, site.definition.metadata.uid)
        if not site.has_namespaced_releases:
            with suppress(AlreadyExists):
                await self.client.create(CUSTOM_RESOURCE_DEFINITION, record.definition or {})
        await until_established(self.client, {EKSARelease.resource.group_resource})
        present = (await self.client.list(sites.NAMESPACED_RELEASE)).items
        for tree in record.releases:
            if sites.is_present(tree, present):
                continue
            try:
                await self.client.create(sites.NAMESPACED_RELEASE, tree)
            except AlreadyExists:
                continue
            except NotFound as error:
                if error.is_of_kind:
                    raise
                self.say(f"EKSARelease {tree['metadata']['name']} is left out: {error}")
        self.say("EKSARelease is EKS Anywhere's again")


def _adopted(site: Site) -> list[Adopted]:
    clusters = {object_.key: object_ for object_ in site.clusters}
    all_adopted = []
    for object_ in site.observer.adoptions.cache.list():
        record = adoption.of_object(object_)
        if record is None:
            continue
        cluster = clusters.get(record.key)
        annotations = cluster.metadata.annotations if cluster is not None else {}
        is_marked = any(annotations.get(name) != record.before.get(name) for name in record.written)
        all_adopted.append(Adopted(record, object_, cluster, is_marked))
    return sorted(all_adopted, key=lambda adopted: adopted.record.key)


def _made_here(site: Site, adopted: Collection[Key]) -> Iterator[str]:
    """Why EKS Anywhere's controller can't start again: Clusters that were not taken over, and that we manage."""
    for cluster in site.clusters:
        if metadata_keys.GATE_ANNOTATION in cluster.metadata.annotations and cluster.key not in adopted:
            yield (
                f"Cluster {cluster.key} is managed here and was not taken over: EKS Anywhere's controller starts when "
                "the last cluster is given back, and would replace its machines; delete it, or move it to another "
                "management cluster, first"
            )


def _added(site: Site, record: SiteRecord) -> Iterator[str]:
    """Why our definition of EKSARelease can't be deleted: objects that were not recorded would be deleted with it.
    Those that every manager of this build installs are no loss.
    """
    if record.definition is None or not site.has_our_releases:
        return
    metadata = [tree["metadata"] for tree in record.releases]
    recorded = {of_release["name"] for of_release in metadata if of_release["namespace"] == SYSTEM_NAMESPACE}
    offered = {object_.metadata.name: object_ for object_ in Releases.load().objects()}
    added = [
        release.name
        for release in site.releases
        if not release.namespace and release.name not in recorded and not _is_of(release, offered.get(release.name))
    ]
    if added:
        yield (
            f"EKSARelease {', '.join(sorted(added))}: added since the take-over, and would be deleted with our "
            "definition; save what you need of it, delete it, then give the command again"
        )


def _is_of(stored: Object, offered: KubeObject | None) -> bool:
    """True if an EKSARelease has the content of the one that this build offers."""
    try:
        return isinstance(offered, EKSARelease) and stored.decode(EKSARelease).spec == offered.spec
    except msgspec.ValidationError:
        return False


def _obstacles(site: Site, adopted: Adopted) -> list[str]:
    """Why a cluster can't be given back: it is no longer as the take-over left it."""
    record = adopted.record
    if adopted.cluster is None:
        return []
    annotations, changed = adopted.cluster.metadata.annotations, list[str]()
    if adopted.is_marked:
        changed = [name for name, value in record.written.items() if annotations.get(name) != value]
    scope = site.observer.scope(record.key)
    if not changed and scope is not None and has_changed(scope):
        changed = ["the objects of Cluster API, which have our labels"]
    if not changed:
        return []
    return [
        f"Cluster {record.key} was changed since it was taken over ({', '.join(changed)}): EKS Anywhere would replace "
        "machines that were made since, so it can't be given back"
    ]
