"""Every field of what a cluster on vSphere links: an accepted value shows in what is rendered, or is refused by a rule.

The schema and the rules of the CRDs are judged as an API server does. No field is left out.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.crd import crd_of
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.validity import problem, unresolved_values
from espalier.kube.client import Client
from espalier.kube.errors import ApiError
from espalier.providers.vsphere.kinds import KINDS, VSphereDatacenterConfig, VSphereMachineConfig
from tests.support.embedded_server import client_of, new_server
from tests.support.vsphere import DOMAIN, KEY_OF_ANN, everything, of
from tests.unit.clusters.test_every_field import leaves
from tests.unit.providers.vsphere.test_rendering import made, objects, seen

DATACENTER, MACHINE = VSphereDatacenterConfig, VSphereMachineConfig


class Values(NamedTuple):
    """What is written into a field."""

    accepted: list[Any]
    refused: list[Any]


PRINT = ":".join(["0f"] * 20)
PATHS = {"datastore": "Rows", "resourcePool": "*/Pool", "folder": "/Datacenter/vm/a b", "template": "ubuntu"}
FAILURE_DOMAIN: dict[str, Values] = {
    f"failureDomains[].{name}": Values([[DOMAIN | {name: "another"}]], [[DOMAIN | {name: ""}]])
    for name in ("computeCluster", "datastore", "folder", "network", "resourcePool")
}
FIELDS: dict[type[KubeObject], dict[str, Values]] = {
    DATACENTER: {
        "server": Values(
            ["10.0.0.9", "vc.example.com:8443", "[fd00::1]:443"],
            [
                *("", "https://vc.example.com", "localhost", "a.localhost", "127.0.0.1", "127.0.0.1:443"),
                *("169.254.169.254", "::1", "[::1]:443", "fe80::1", "0.0.0.0", "a b", "LOCALHOST", "localhost."),
            ],
        ),
        "datacenter": Values(["/Datacenter"], ["", 1]),
        "network": Values(["Rows", "/Datacenter/network/Rows"], ["", "/Other/network/Rows"]),
        "thumbprint": Values(["", PRINT, PRINT.upper()], [PRINT[:-3], PRINT.replace(":", ""), "zz" + PRINT[2:]]),
        "insecure": Values([True], ["yes"]),
        "failureDomains[].name": Values(
            [[DOMAIN | {"name": "east-1"}]], [[DOMAIN | {"name": "East"}], [DOMAIN, DOMAIN]]
        ),
        **FAILURE_DOMAIN,
    },
    MACHINE: {
        **{name: Values([value], [1] if name in ("folder", "template") else ["", 1]) for name, value in PATHS.items()},
        "cloneMode": Values(["fullClone", "linkedClone"], ["copy"]),
        "diskGiB": Values([21, 2**31 - 1], [-1, 2**31, "20"]),
        "memoryMiB": Values([4096, 2**31 - 1], [-1, 2**31]),
        "numCPUs": Values([3, 2**31 - 1], [-1, 1.5]),
        "osFamily": Values([], ["windows"]),
        "storagePolicyName": Values(["slow"], [1]),
        "tags[]": Values([["urn:a"]], [["a"] * 129]),
        "networks[]": Values([["Rows"], ["Rows", "Barn"]], [["a", "b", "c"]]),
        "users[].name": Values(
            [[{"name": "bob", "sshAuthorizedKeys": []}]], [[{"name": "B b", "sshAuthorizedKeys": []}]]
        ),
        "users[].sshAuthorizedKeys[]": Values(
            [
                [{"name": "ann", "sshAuthorizedKeys": [key]}]
                for key in ("", f"ecdsa-sha2-nistp256 {KEY_OF_ANN.split()[1]}", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQ== a b")
            ],
            [
                [{"name": "ann", "sshAuthorizedKeys": [key]}]
                for key in ("-----BEGIN OPENSSH PRIVATE KEY-----", "AAAAC3", "ssh-ed25519", "ssh-ed25519 MIIB")
            ],
        ),
        "hostOSConfiguration.ntpConfiguration.servers[]": Values([["10.0.0.1", "a.example"]], [[], ["a b"], [""]]),
    },
}
"""By path, of values in the example with everything: `[]` is the whole list."""

SYSTEM = "hostOSConfiguration."
ELSEWHERE = {
    f"{SYSTEM}bottlerocketConfiguration.": "refused for other operating systems, and Bottlerocket as a whole",
    f"{SYSTEM}certBundles[].": "likewise",
}


REFUSED_FOR_UBUNTU = {
    f"{SYSTEM}certBundles": [{"name": "a", "data": "b"}],
    f"{SYSTEM}bottlerocketConfiguration": {"kernel": {"sysctlSettings": {"a": "b"}}},
}


def all_leaves(kind: type[KubeObject]) -> list[str]:
    schema = crd_of(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return list(leaves(schema["properties"]["spec"]))


def written(kind: type[KubeObject], path: str, value: Any) -> list[Tree]:
    """The example with everything, in which a field has another value."""
    trees = copy.deepcopy(everything())
    at = of(trees, kind.resource.kind)
    *parts, last = path.partition("[]")[0].split(".")
    for part in parts:
        at = at.setdefault(part, {})
    at[last] = value
    if last == "failureDomains":  # groups name what is there
        trees[0]["spec"]["workerNodeGroupConfigurations"][0]["failureDomains"] = [one["name"] for one in value][:1]
    return trees


async def server() -> Client:
    """An API server that knows the kinds."""
    found = new_server()
    await found.start()
    client = client_of(found)
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    for kind in KINDS:
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    return client


async def verdict(client: Client, kind: type[KubeObject], trees: list[Tree]) -> str:
    """Why the object is refused; empty if it is not."""
    tree = next(one for one in trees if one["kind"] == kind.resource.kind and one["metadata"]["name"] == "vineyard")
    try:
        await client.create(kind.resource, tree, dry_run=True)
    except ApiError as error:
        return str(error)
    return ""


def swept() -> Iterator[tuple[type[KubeObject], str, Values]]:
    for kind, fields in FIELDS.items():
        for path, values in fields.items():
            yield kind, path, values


WITHOUT_EFFECT = {
    ("insecure", True): "the thumbprint is verified; without one, another permission is asked for",
    ("cloneMode", "linkedClone"): "the example has it",
}


def shows(trees: list[Tree]) -> bool:
    """Whether a value shows: in objects, in what the cluster waits for, or for which permission it waits."""
    found = seen(trees)
    if found.missing or unresolved_values(found) is not None:
        return True
    assert problem(found) is None
    return objects(made(trees)) != BEFORE


BEFORE = objects(made(everything()))


def test_each_value_shows_or_is_refused() -> None:
    async def main() -> list[str]:
        client, wrong = await server(), []
        for kind, path, values in swept():
            for value in values.accepted:
                trees = written(kind, path, value)
                if said := await verdict(client, kind, trees):
                    wrong.append(f"{path} {value!r} is refused: {said}")
                elif not shows(trees) and (path, value) not in list(WITHOUT_EFFECT):
                    wrong.append(f"{path} {value!r} shows nowhere")
            for value in values.refused:
                if not (said := await verdict(client, kind, written(kind, path, value))):
                    wrong.append(f"{path} {value!r} is accepted")
                elif "PRIVATE" in said:
                    wrong.append(f"{path} is quoted: {said}")
        return wrong

    assert asyncio.run(main()) == []


@pytest.mark.parametrize("path", REFUSED_FOR_UBUNTU)
def test_settings_of_bottlerocket_are_refused_for_others(path: str) -> None:
    async def main() -> str:
        return await verdict(await server(), MACHINE, written(MACHINE, path, REFUSED_FOR_UBUNTU[path]))

    assert "found ubuntu; allowed: bottlerocket" in asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        *(
            (DATACENTER, "server", "b.example.com"),
            (DATACENTER, "datacenter", "Other"),
            (DATACENTER, "network", "Other"),
        ),
        *((MACHINE, "osFamily", "redhat"), (MACHINE, "storagePolicyName", "slow")),
    ],
)
def test_what_machines_were_made_of_stays(kind: type[KubeObject], field: str, value: str) -> None:
    async def main() -> str:
        client = await server()
        tree = next(one for one in everything() if one["kind"] == kind.resource.kind)
        stored = (await client.create(kind.resource, tree)).tree
        try:
            await client.replace(kind.resource, stored | {"spec": stored["spec"] | {field: value}}, dry_run=True)
        except ApiError as error:
            return str(error)
        return ""

    assert "it can't be changed" in asyncio.run(main())


def test_users_are_asked_for_when_an_object_is_made_and_may_be_left_out_later() -> None:
    async def main() -> tuple[str, str]:
        client = await server()
        tree = next(one for one in everything() if one["kind"] == MACHINE.resource.kind)
        without = tree | {"spec": {name: value for name, value in tree["spec"].items() if name != "users"}}
        said = await verdict(client, MACHINE, [without | {"metadata": {"name": "vineyard", "namespace": "team-a"}}])
        stored = (await client.create(MACHINE.resource, tree)).tree
        changed = await client.replace(MACHINE.resource, stored | {"spec": without["spec"]}, dry_run=True)
        return said, changed.name

    said, name = asyncio.run(main())
    assert "say who may log in to the machines" in said
    assert name


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_is_left_out(kind: type[KubeObject]) -> None:
    left = [
        path
        for path in all_leaves(kind)
        if path.removesuffix("{}") not in FIELDS[kind] and not any(part in f"{path}." for part in ELSEWHERE)
    ]
    assert left == []


def test_how_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    fields = sum(len(all_leaves(kind)) for kind in KINDS)
    accepted = sum(len(values.accepted) for _, _, values in swept())
    refused = sum(len(values.refused) for _, _, values in swept())
    with capsys.disabled():
        print(
            f"\n{fields} fields of vSphere: {len(list(swept()))} swept, {accepted} values accepted, {refused} refused"
        )
    assert accepted > 35
    assert refused > 50
