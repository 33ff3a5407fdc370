"""The remedy that a condition names is applied; and nothing else."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.clusterapi.contract import PAUSED_ANNOTATION as CAPI_PAUSED
from espalier.clusters.design import names
from espalier.kube.errors import NotFound
from tests.journeys.sweep.checks import Wrong, ready_of, wrong
from tests.journeys.sweep.history import LONG, PAUSABLE, History, annotate, edit, named, objects, there
from tests.support.environments.managed_clusters import NAMESPACE


async def remedy(h: History, value: Wrong) -> str:
    """Do what is said; empty when nothing is said that one could do."""
    if value.reason == "Drifted" and "correct-machines" in value.message:
        await annotate(h, {metadata_keys.DRIFT_ANNOTATION: "correct-machines"})
        return "correct drift, and replace machines"
    if value.reason == Reason.CONTROL_PLANE_LOST and "delete the Cluster and create it again" in value.message:
        return await delete_and_ask_again(h)
    if value.reason == "InPlaceUpgradeRefused" and "revert the change" in value.message:
        await h.ask(label="", taint="")
        return "take labels and taints back"
    if (
        value.reason in ("Drifted", Reason.CLUSTER_API_OBJECT_DELETED)
        and f"{metadata_keys.DRIFT_ANNOTATION}=correct" in value.message
    ):
        await annotate(h, {metadata_keys.DRIFT_ANNOTATION: "correct"})
        return "correct drift"
    if value.reason == Reason.CLUSTER_API_OBJECTS_MISSING and metadata_keys.GATE_ANNOTATION in value.message:
        await annotate(h, {metadata_keys.GATE_ANNOTATION: None})
        return "have the cluster made anew"
    if value.reason == Reason.MISSING_DEPENDENT_OBJECTS:
        await h.ask()
        return "apply the datacenter again"
    if "delete that object" in value.message or "belongs to somebody else" in value.message:
        for where in await objects(h):
            if f"{where[0].kind}.{where[0].group} {where[2]}/{where[1]} (" not in value.message:
                continue
            if where in h.foreign:
                await h.env.client.delete(where[0], where[1], where[2])
                h.foreign.remove(where)
                return f"remove {named(where)}"
            await edit(h, where, {"metadata": {"labels": names.labels(Key(NAMESPACE, "garden"))}})
            return f"give {named(where)} its labels"
    if value.reason == "LabelsChanged":
        return await set_back(h, value)
    if CAPI_PAUSED in value.message or "paused" in value.message.lower():
        for where in await objects(h, *PAUSABLE):
            if f"{where[0].kind} {where[2]}/{where[1]} " in value.message:
                await edit(h, where, {"metadata": {"annotations": {CAPI_PAUSED: None}}})
                return f"have {named(where)} go on"
    return ""


async def set_back(h: History, value: Wrong) -> str:
    """Set a label to the value that the message names."""
    label = _LABEL.search(value.message)
    for where in await objects(h, *PAUSABLE) if label else ():
        if label and label["object"] == f"{where[0].kind} {where[2]}/{where[1]}":
            await edit(h, where, {"metadata": {"labels": {label["label"]: label["value"]}}})
            return f"set {label['label']} of {named(where)} back"
    return ""


_LABEL = re.compile(r'label (?P<label>\S+) of (?P<object>\S+ \S+) (is|has)[^;]*: set it to "(?P<value>[^"]*)"')


async def delete_and_ask_again(h: History) -> str:
    await annotate(h, {PAUSED_ANNOTATION: None})
    with suppress(NotFound):
        await h.env.client.delete(Cluster.resource, "garden", NAMESPACE)
    until = asyncio.get_running_loop().time() + LONG
    while await there(h, (Cluster.resource, "garden", NAMESPACE)):
        await asyncio.sleep(5)
        with suppress(NotFound):
            for problem in await wrong(h):
                if problem.reason == "ClusterAPIPaused":
                    h.say(f"remedy for {problem.where} {problem.reason}: {await remedy(h, problem)}")
        if asyncio.get_running_loop().time() > until:
            raise AssertionError(f"the Cluster does not go: {await ready_of(h)}")
    await h.ask()
    return "delete the Cluster, and ask for it again once it is gone"


async def ends_well(h: History) -> None:
    """Faults are over; people unpause what they paused. Raises `AssertionError` that tells the history."""
    await annotate(h, {PAUSED_ANNOTATION: None})
    for where in await objects(h, *PAUSABLE):
        result = await there(h, where)
        if result is not None and result.metadata.annotations.get(CAPI_PAUSED) != PAUSED_FOR_UPGRADE:
            await edit(h, where, {"metadata": {"annotations": {CAPI_PAUSED: None}}})
    for _ in range(8):
        left = await settled(h)
        if not left:
            return
        done = ""
        for each in left:
            done = await remedy(h, each)
            if done:
                h.say(f"remedy for {each.where} {each.reason}: {done}")
                break
        if not done:
            break
    else:
        left = await settled(h)
    if left:
        raise AssertionError("\n".join([*h.told, "left:", *(f"  {item}" for item in left), await ready_of(h)]))


async def settled(h: History) -> list[Wrong]:
    """The problems left once nothing more changes."""
    until = asyncio.get_running_loop().time() + LONG
    left = await wrong(h)
    while left and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(300)
        left = await wrong(h)
    return left
