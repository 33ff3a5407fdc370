"""The take-over itself: steps that can be repeated, after everything was decided."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, SECRET
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.listing import counted
from espalier.clusters.design import names
from espalier.clusters.design.eks_anywhere import CONTROLLER, replicas
from espalier.clusters.design.provider import Providers
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Conflict, NotFound
from espalier.management.adoption import record as records
from espalier.management.adoption import site as sites
from espalier.management.adoption.plan import ClusterPlan, SitePlan, State, config_map, plan, record_tree
from espalier.management.adoption.record import SiteRecord
from espalier.management.adoption.site import Site
from espalier.management.steps import Refused
from espalier.runtime.definitions import until_established

_ATTEMPTS = 10
"""Attempts to mark a Cluster that others write at the same time."""


@dataclass
class Adopter:
    """Takes clusters over; `say` gets a sentence for each step."""

    client: Client
    providers: Providers
    say: Callable[[str], None]
    stops: bool = False
    """True to stop EKS Anywhere's controller, and to delete the configurations of its webhooks."""

    async def apply(self, keys: Sequence[Key] | None) -> None:
        """Take these clusters over, or all; or go on. Raises `Refused`, before anything is written."""
        # Before the site: what another command writes meanwhile is a conflict with the first write.
        record = await records.read(self.client) or SiteRecord()
        site, planned = await self._decided(keys)
        if self.stops:
            record = await self._stop(site, record)
        record = await self._replace_releases(site, record)
        if planned.management is not None and planned.names_management:
            record = await self._noted(record, named_management=True)
            with suppress(AlreadyExists):
                await self.client.create(CONFIG_MAP, config_map(planned.management).tree)
                self.say(f"ConfigMap {names.MANAGEMENT_CLUSTER} names Cluster {planned.management}")
        if any(cluster.has_credentials for cluster in planned.clusters):
            record = await self._make_gate_key(record)
        # Again: the content hash depends on the key, and somebody may have written meanwhile.
        _, planned = await self._decided(keys)
        for cluster in planned.clusters:
            await self._adopt_as_it_is(cluster)

    async def _decided(self, keys: Sequence[Key] | None) -> tuple[Site, SitePlan]:
        site = await sites.read(self.client, self.providers)
        planned = plan(site, keys, stops=self.stops)
        problems = [block.message for block in planned.blocks]
        for cluster in planned.clusters:
            problems += [f"Cluster {cluster.key}: {block.message}" for block in cluster.blocks]
        if problems:
            raise Refused(*dict.fromkeys(problems))
        return site, planned

    async def _noted(self, record: SiteRecord, **changes: Any) -> SiteRecord:
        changed = msgspec.structs.replace(record, **changes)
        if changed != record:
            changed = await records.write(self.client, changed)
        return changed

    async def _stop(self, site: Site, record: SiteRecord) -> SiteRecord:
        if site.controller is not None and site.running:
            wanted = (site.controller.tree.get("spec") or {}).get("replicas", 1)
            if wanted:
                record = await self._noted(record, replicas=wanted)
                patch = {"spec": {"replicas": 0}, "metadata": {"uid": site.controller.metadata.uid}}
                await self.client.patch(DEPLOYMENT, *_name(CONTROLLER), patch=patch, type=PatchType.MERGE)
                self.say(f"Deployment {CONTROLLER} is scaled from {wanted} to 0")
            await self._until_stopped()
        if site.webhooks:
            known = {(tree["kind"], tree["metadata"]["name"]): tree for tree in record.webhooks}
            known |= {(object_.kind, object_.name): records.content(object_) for _, object_ in site.webhooks}
            record = await self._noted(record, webhooks=list(known.values()))
            for resource, object_ in site.webhooks:
                with suppress(NotFound):
                    await self.client.delete(resource, object_.name, uid=object_.metadata.uid)
                self.say(f"{object_.kind} {object_.name} is recorded and deleted")
        return record

    async def _until_stopped(self) -> None:
        end = asyncio.get_running_loop().time() + sites.PATIENCE
        while replicas(await self.client.get(DEPLOYMENT, *_name(CONTROLLER))):
            if asyncio.get_running_loop().time() > end:
                raise Refused(
                    f"Deployment {CONTROLLER}: its pods still run after {sites.PATIENCE:.0f} s: see that they end, "
                    "then give the command again"
                )
            await asyncio.sleep(sites.PAUSE)

    async def _replace_releases(self, site: Site, record: SiteRecord) -> SiteRecord:
        """Replace the definition of EKSARelease, whose scope can't change, and its objects: once, so that objects that
        are deleted afterwards stay away.
        """
        if record.replaced_releases and site.has_our_releases:
            return record
        record = await self._noted(record, replaced_releases=False)
        if site.definition is not None and site.has_namespaced_releases:
            trees = [records.content(release) for release in site.releases]
            if record.definition is None or trees:
                definition = records.content(site.definition)
                record = await self._noted(record, definition=definition, releases=trees or record.releases)
            with suppress(NotFound):
                uid = site.definition.metadata.uid
                await self.client.delete(CUSTOM_RESOURCE_DEFINITION, sites.RELEASES, uid=uid)
            await sites.until_undefined(self.client, site.definition.metadata.uid)
        if record.definition is None:
            return record
        if site.definition is None or site.has_namespaced_releases:
            with suppress(AlreadyExists):
                await self.client.create(CUSTOM_RESOURCE_DEFINITION, msgspec.to_builtins(crd_of(EKSARelease)))
        await until_established(self.client, {EKSARelease.resource.group_resource})
        present = (await self.client.list(EKSARelease.resource)).items
        made = 0
        for tree in record.releases:
            # Those of other namespaces are only recorded: users may write there, and ours are for all clusters.
            if tree["metadata"]["namespace"] != SYSTEM_NAMESPACE or sites.is_present(tree, present):
                continue
            with suppress(AlreadyExists):
                await self.client.create(EKSARelease.resource, sites.as_ours(tree))
                made += 1
        if made:
            self.say(f"{counted(made, 'EKSARelease')} of EKS Anywhere replaced with ours, of the same content")
        return await self._noted(record, replaced_releases=True)

    async def _make_gate_key(self, record: SiteRecord) -> SiteRecord:
        """Create the key for digests of credentials, as the manager does."""
        try:
            await self.client.get(SECRET, names.GATE_KEY.name, names.GATE_KEY.namespace)
        except NotFound:
            record = await self._noted(record, made_gate_key=True)
            body = {
                "apiVersion": "v1",
                "kind": SECRET.kind,
                "metadata": {"namespace": names.GATE_KEY.namespace, "name": names.GATE_KEY.name},
                "data": {names.GATE_KEY_FIELD: b64encode(secrets.token_bytes(32)).decode()},
            }
            with suppress(AlreadyExists):
                await self.client.create(SECRET, body)
        return record

    async def _adopt_as_it_is(self, cluster: ClusterPlan) -> None:
        """Adopt a cluster; if it was written meanwhile, as a manager writes statuses, it is judged again."""
        for _ in range(_ATTEMPTS):
            try:
                await self._adopt(cluster)
            except (Conflict, NotFound):
                _, planned = await self._decided([cluster.key])
                (cluster,) = planned.clusters
            else:
                return
        raise Refused(f"Cluster {cluster.key} is written all the time: see who does that, then give the command again")

    async def _adopt(self, cluster: ClusterPlan) -> None:
        """Record a cluster, then mark it: until it is marked, no manager acts on it."""
        if cluster.state is not State.READY:
            before = "is of this manager: nothing to take over"
            self.say(f"cluster {cluster.key} {before if cluster.state is State.OURS else 'was taken over before'}")
            return
        if cluster.record is None or cluster.owner is None or cluster.object is None:
            raise LookupError(f"Cluster {cluster.key}")  # it would be blocked
        tree = record_tree(cluster.record, cluster.owner)
        if not await self._is_recorded(tree):
            await self.client.apply(CONFIG_MAP, tree, field_manager=records.FIELD_MANAGER)
        metadata = cluster.object.metadata
        patch = {
            "metadata": {
                "annotations": dict(cluster.annotations),
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            }
        }
        await self.client.patch(Cluster.resource, *_name(cluster.key), patch=patch, type=PatchType.MERGE)
        self.say(f"cluster {cluster.key} is taken over")

    async def _is_recorded(self, tree: Tree) -> bool:
        metadata = tree["metadata"]
        try:
            config_map_ = await self.client.get(CONFIG_MAP, metadata["name"], metadata["namespace"])
        except NotFound:
            return False
        present = config_map_.tree
        parts = ("labels", "ownerReferences")
        is_same = all(present["metadata"].get(part) == metadata[part] for part in parts)
        return is_same and present.get("data") == tree["data"]


def _name(key: Key) -> tuple[str, str]:
    return key.name, key.namespace
