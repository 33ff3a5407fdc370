"""Objects missing in a vCenter appear in the status of what names them; the Cluster waits, then goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from espalier.api import conditions
from espalier.api.capi import cluster as capi
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design.secrets import credentials as permissions
from espalier.clusters.report.checks import conclusions, controller
from espalier.clusters.report.checks.questions import LOGIN_REFUSED, Credentials, LookUpError
from espalier.kube.client import PatchType
from espalier.providers.simulated import providers
from espalier.providers.simulated.vsphere import simulated_answers
from espalier.providers.vsphere.checks.questions import REACHABLE, Answers, ObjectType, Query
from espalier.providers.vsphere.cluster_api import VSphereMachineTemplate
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig, VSphereMachineConfig
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.providers.vsphere import CREDENTIALS, MAKER, SERVER, of
from tests.support.providers.vsphere_steps import EPOCH, VINEYARD, Vineyard, put_credentials
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

DATACENTER = VSphereDatacenterConfig.resource
MACHINES = VSphereMachineConfig.resource
TAG, POLICY = "urn:vmomi:InventoryServiceTag:a:GLOBAL", "gold"
PERIOD = controller.SOON * 1.1 + CALM
"""Seconds after which what was not valid has been checked again."""


class VCenter:
    """Has whatever specs name, but for what was taken away, and remembers who asked."""

    def __init__(self) -> None:
        self.missing: set[ObjectType] = set()
        self.more: dict[ObjectType, tuple[str, ...]] = {}
        self.lacking: dict[str, tuple[str, ...]] = {}
        self.holders: dict[str, str] = {}
        self.unknown_tags: frozenset[str] = frozenset()
        self.unknown_policies: frozenset[str] = frozenset()
        self.error: LookUpError | None = None
        self.asked: list[tuple[Query, Credentials]] = []

    async def __call__(self, asked: Query, credentials: Credentials, /) -> Answers:
        self.asked.append((asked, credentials))
        if self.error is not None:
            raise self.error
        answers = await simulated_answers(asked, credentials)
        return msgspec.structs.replace(
            answers,
            paths={
                item: () if item.object_type in self.missing else (*paths, *self.more.get(item.object_type, ()))
                for item, paths in answers.paths.items()
            },
            lacking=self.lacking,
            holders={item: name for item, name in self.holders.items() if item in asked.addresses},
            unknown_tags=self.unknown_tags & asked.tags,
            unknown_policies=self.unknown_policies & asked.policies,
        )


Story = Callable[[ManagedEnvironment, VCenter, Vineyard], Awaitable[None]]


def tell(story: Story) -> None:
    async def main(simulation: Simulation) -> None:
        center = VCenter()
        async with managed_environment(simulation.clock, providers=providers(center)) as env:
            await put_credentials(env, CREDENTIALS)
            await story(env, center, Vineyard(env))

    run(main, epoch=EPOCH, seed=1)


async def apply(vineyard: Vineyard) -> None:
    """Apply all, and wait until nothing more happens."""
    for tree in vineyard.trees:
        resource = next(item for item in (Cluster.resource, DATACENTER, MACHINES) if item.kind == tree["kind"])
        await vineyard.env.client.apply(resource, tree, field_manager="kubectl")
    await asyncio.sleep(CALM)


async def status(env: ManagedEnvironment, name: str = "vineyard") -> tuple[bool | None, str, str]:
    """Of the datacenter."""
    result = (await env.client.get(DATACENTER, name, NAMESPACE)).decode(VSphereDatacenterConfig).status
    return result.spec_valid, result.failure_reason, result.failure_message


async def told(env: ManagedEnvironment) -> tuple[str, str]:
    """Why the Cluster makes no progress."""
    result = (await env.client.get(Cluster.resource, VINEYARD.name, NAMESPACE)).decode(Cluster).status
    return str(result.failure_reason or ""), str(result.failure_message or "")


async def is_made(env: ManagedEnvironment) -> bool:
    return bool((await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items)


def take(what: ObjectType) -> Callable[[VCenter], None]:
    return lambda center: center.missing.add(what)


FAULTS: dict[str, tuple[Callable[[VCenter], object], str, str]] = {
    "network": (
        take(ObjectType.NETWORK),
        "DatacenterConfigInvalid",
        "VSphereDatacenterConfig vineyard: spec.network: found",
    ),
    "datacenter": (take(ObjectType.DATACENTER), "DatacenterConfigInvalid", "spec.datacenter: found Datacenter"),
    "datastore": (take(ObjectType.DATASTORE), "MachineConfigInvalid", "spec.datastore: found Datastore"),
    "template": (take(ObjectType.TEMPLATE), "MachineConfigInvalid", "spec.template: found ubuntu-1-35"),
    "privilege": (
        lambda center: center.lacking.update({"/Datacenter/datastore/Datastore": ("Datastore.AllocateSpace",)}),
        "MachineConfigInvalid",
        "lacks privileges on /Datacenter/datastore/Datastore: Datastore.AllocateSpace",
    ),
    "tag": (
        lambda center: setattr(center, "unknown_tags", frozenset({TAG})),
        "MachineConfigInvalid",
        f"VSphereMachineConfig vineyard: spec.tags[0]: found {TAG}, but no tag",
    ),
    "storage policy": (
        lambda center: setattr(center, "unknown_policies", frozenset({POLICY})),
        "MachineConfigInvalid",
        f"VSphereMachineConfig vineyard: spec.storagePolicyName: found {POLICY}, but",
    ),
    "address": (
        lambda center: center.holders.update({"192.0.2.10": "printer"}),
        "ControlPlaneAddressTaken",
        "spec.controlPlaneConfiguration.endpoint.host: found 192.0.2.10, which virtual machine printer uses",
    ),
    "unreachable": (
        lambda center: setattr(center, "error", LookUpError("VCenterUnreachable", "vcenter can't be reached")),
        "DatacenterConfigInvalid",
        "vcenter can't be reached",
    ),
    "credentials": (
        lambda center: setattr(center, "error", LookUpError(LOGIN_REFUSED, "maker can't log in", refused=True)),
        "DatacenterConfigInvalid",
        "maker can't log in",
    ),
    "thumbprint": (
        lambda center: setattr(center, "error", LookUpError("CertificateNotVerified", "another thumbprint")),
        "DatacenterConfigInvalid",
        "another thumbprint",
    ),
}


@pytest.mark.demand("L21", "L22", "L23", "L24", "L25", "L38")
@pytest.mark.often("tag", "privilege", "unreachable")
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named_and_the_cluster_then_goes_on(fault: str) -> None:
    break_, reason, message = FAULTS[fault]

    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        break_(center)
        of(vineyard.trees, "VSphereMachineConfig").update(storagePolicyName=POLICY, tags=[TAG])
        await apply(vineyard)
        result = await told(env)
        assert result[0] == reason
        assert message in result[1]
        assert not await is_made(env)

        center.__init__()  # type: ignore[misc]  # as it should be
        if fault == "credentials":
            await put_credentials(env, {**CREDENTIALS, "password": "the-right-one"})
        await asyncio.sleep(PERIOD)
        await env.until_ready(VINEYARD)
        assert await status(env) == (True, "", "")

    tell(story)


@pytest.mark.soak
def test_lost_vcenter_stops_nothing_settled() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        before = await env.machine_names("vineyard")

        center.error = LookUpError("VCenterUnreachable", "vcenter can't be reached")
        await asyncio.sleep(controller.AGAIN * 1.1 + CALM)
        assert await status(env) == (True, "", "")
        result = (await env.client.get(DATACENTER, "vineyard", NAMESPACE)).decode(VSphereDatacenterConfig).status
        assert conditions.is_false(result.conditions, REACHABLE)
        await env.until_ready(VINEYARD)
        assert await env.machine_names("vineyard") == before

        # What the vCenter need not be asked for is still done.
        vineyard.spec["workerNodeGroupConfigurations"][0]["count"] = 3
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        assert sum(map(len, (await env.machine_names("vineyard")).values())) == sum(map(len, before.values())) + 1

    tell(story)


@pytest.mark.demand(L28="the next login uses a new one")
def test_new_password_is_used_by_the_next_login() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        before = await env.machine_names("vineyard")
        assert {item.password for _, item in center.asked} == {MAKER}
        center.asked.clear()
        await put_credentials(env, {**CREDENTIALS, "password": "a-new-canary"})
        await asyncio.sleep(CALM)
        assert {item.password for _, item in center.asked} == {"a-new-canary"}
        await env.until_ready(VINEYARD)
        assert await env.machine_names("vineyard") == before

    tell(story)


@pytest.mark.soak
@pytest.mark.parametrize(
    "annotations",
    sampled(
        [{permissions.SERVERS: "other.example.com"}, {permissions.NAMESPACES: "team-b"}, {permissions.NAMESPACES: ""}],
        1,
    ),
)
def test_credentials_go_to_no_server_unpermitted(annotations: dict[str, str]) -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        await put_credentials(env, CREDENTIALS, **annotations)
        await apply(vineyard)
        assert center.asked == []
        valid, reason, message = await status(env)
        assert (valid, reason) == (False, "CredentialsNotPermitted")
        assert f"credentials-servers with {SERVER}, and" in message
        assert (await told(env))[0] == "CredentialsNotPermitted"
        assert not await is_made(env)

        await put_credentials(env, CREDENTIALS)
        await asyncio.sleep(CALM)
        await env.until_ready(VINEYARD)

    tell(story)


@pytest.mark.soak
def test_unused_objects_are_not_checked_again() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        of_machines = [tree for tree in vineyard.trees if tree["kind"] == MACHINES.kind]
        for tree in of_machines:
            await env.client.apply(MACHINES, tree, field_manager="kubectl")
        await asyncio.sleep(CALM)
        assert center.asked == []
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        await asyncio.sleep(controller.AGAIN)
        center.asked.clear()
        await asyncio.sleep(3600)
        assert 3 * 5 <= len(center.asked) <= 3 * 7  # three objects, each about every ten minutes

    tell(story)


@pytest.mark.soak
def test_two_datacenters_need_two_machine_configs() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        datacenter = next(tree for tree in vineyard.trees if tree["kind"] == DATACENTER.kind)
        other = {**datacenter, "metadata": {**datacenter["metadata"], "name": "other"}}
        other["spec"] = {**datacenter["spec"], "datacenter": "Elsewhere", "network": "VM Network"}
        await env.client.apply(DATACENTER, other, field_manager="kubectl")
        second = {**vineyard.trees[0], "metadata": {"name": "second", "namespace": NAMESPACE}}
        endpoint = {"host": "192.0.2.11"}
        plane = {**vineyard.spec["controlPlaneConfiguration"], "endpoint": endpoint}
        second["spec"] = {**vineyard.spec, "controlPlaneConfiguration": plane}
        second["spec"]["datacenterRef"] = {"kind": DATACENTER.kind, "name": "other"}
        await env.client.apply(Cluster.resource, second, field_manager="kubectl")
        await asyncio.sleep(CALM)
        result = (await env.client.get(Cluster.resource, "second", NAMESPACE)).decode(Cluster).status
        assert result.failure_reason == "MachineConfigInvalid"
        assert "Clusters of several datacenters reference it (other, vineyard)" in str(result.failure_message)
        await env.until_ready(VINEYARD)

        await env.client.delete(Cluster.resource, "second", NAMESPACE)
        await asyncio.sleep(CALM)
        machines = (await env.client.get(MACHINES, "vineyard", NAMESPACE)).decode(VSphereMachineConfig)
        assert machines.status.spec_valid

    tell(story)


@pytest.mark.soak
def test_second_cluster_waits_for_its_own_address() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        center.holders["192.0.2.11"] = "printer"
        second = {**vineyard.trees[0], "metadata": {"name": "second", "namespace": NAMESPACE}}
        plane = {**vineyard.spec["controlPlaneConfiguration"], "endpoint": {"host": "192.0.2.11"}}
        second["spec"] = {**vineyard.spec, "controlPlaneConfiguration": plane}
        await env.client.apply(Cluster.resource, second, field_manager="kubectl")
        await asyncio.sleep(CALM)
        result = (await env.client.get(Cluster.resource, "second", NAMESPACE)).decode(Cluster).status
        assert result.failure_reason == "ControlPlaneAddressTaken"
        assert len((await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items) == 1

    tell(story)


@pytest.mark.soak
def test_two_clusters_do_not_share_an_address() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        await apply(vineyard)
        second = {**vineyard.trees[0], "metadata": {"name": "second", "namespace": NAMESPACE}}
        await env.client.apply(Cluster.resource, second, field_manager="kubectl")
        await env.until_ready(VINEYARD)
        await asyncio.sleep(PERIOD)
        result = (await env.client.get(Cluster.resource, "second", NAMESPACE)).decode(Cluster).status
        assert result.failure_reason == "ControlPlaneAddressTaken"
        assert "found 192.0.2.10, which another cluster uses" in str(result.failure_message)
        await env.client.delete(Cluster.resource, VINEYARD.name, NAMESPACE)
        await asyncio.sleep(2 * PERIOD)
        await env.until_ready(Key(NAMESPACE, "second"))

    tell(story)


@pytest.mark.demand("L25")
@pytest.mark.soak
def test_template_is_checked_for_kubernetes_version() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        before = await env.machine_names("vineyard")
        center.error = LookUpError("VCenterUnreachable", "vcenter can't be reached")
        vineyard.spec["kubernetesVersion"] = "1.36"
        await apply(vineyard)
        assert await env.machine_names("vineyard") == before
        center.error = None
        await asyncio.sleep(PERIOD)
        await env.until_ready(VINEYARD)
        assert await env.machine_names("vineyard") != before

    tell(story)


@pytest.mark.demand(L55="a template that is left out")
def test_a_template_that_is_left_out_is_looked_up() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        for tree in vineyard.trees:
            tree["spec"].pop("template", None)
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        templates = (await env.client.list(VSphereMachineTemplate.resource, SYSTEM_NAMESPACE)).items
        results = {template.decode(VSphereMachineTemplate).spec.template.spec.template for template in templates}
        assert results == {"/Datacenter/vm/Templates/0"}

    tell(story)


@pytest.mark.soak
@pytest.mark.parametrize("is_named", sampled([False, True], 1), ids=["left out", "a pattern"])
def test_other_template_or_lost_status_changes_nothing(is_named: bool) -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        for tree in (tree for tree in vineyard.trees if tree["kind"] == MACHINES.kind):
            tree["spec"] |= {"template": "Templates/*"}
            if not is_named:
                del tree["spec"]["template"]
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        before = await env.machine_names("vineyard")
        center.more[ObjectType.TEMPLATE] = ("/Datacenter/vm/Templates/newer",)
        await asyncio.sleep(controller.AGAIN * 1.1 + CALM)
        assert await env.machine_names("vineyard") == before

        center.error = LookUpError("Unreachable", "vcenter can't be reached")
        for name in ("vineyard", "vineyard-cp"):
            stored = await env.client.get(MACHINES, name, NAMESPACE)
            await env.client.replace(MACHINES, {**stored.tree, "status": {}}, subresource="status")
        await asyncio.sleep(CALM)
        waiting = (await env.client.get(Cluster.resource, VINEYARD.name, NAMESPACE)).decode(Cluster).status
        assert waiting.failure_reason == "MachineConfigInvalid"
        assert not conditions.is_false(waiting.conditions, "SpecValid")

        center.error = None
        await asyncio.sleep(PERIOD)
        machines = (await env.client.get(MACHINES, "vineyard", NAMESPACE)).decode(VSphereMachineConfig)
        assert machines.status.spec_valid
        await env.until_ready(VINEYARD)
        assert await env.machine_names("vineyard") == before

    tell(story)


@pytest.mark.soak
def test_unused_object_is_checked_before_its_next_use() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        plane = vineyard.spec["controlPlaneConfiguration"]
        own, other = plane["machineGroupRef"], {"kind": MACHINES.kind, "name": "vineyard"}
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        plane["machineGroupRef"] = other
        await apply(vineyard)
        await env.until_ready(VINEYARD)
        machines = (await env.client.get(MACHINES, own["name"], NAMESPACE)).decode(VSphereMachineConfig)
        assert machines.status.spec_valid is None

        center.missing.add(ObjectType.DATASTORE)
        plane["machineGroupRef"] = own
        await apply(vineyard)
        assert (await told(env))[0] == "MachineConfigInvalid"

    tell(story)


@pytest.mark.soak
def test_lost_or_edited_status_is_corrected() -> None:
    async def story(env: ManagedEnvironment, center: VCenter, vineyard: Vineyard) -> None:
        center.missing.add(ObjectType.NETWORK)
        await apply(vineyard)
        lie = {"status": {"specValid": True, "failureMessage": None, "failureReason": None}}
        await env.client.patch(DATACENTER, "vineyard", NAMESPACE, patch=lie, type=PatchType.MERGE, subresource="status")
        await asyncio.sleep(PERIOD)
        assert (await status(env))[:2] == (False, conclusions.INVALID)

    tell(story)


@pytest.mark.soak
def test_deleted_config_is_named_as_the_reason() -> None:
    """Whoever applies what `kubectl get -o yaml` printed names an owner that is gone: Kubernetes deletes it again."""

    async def story(env: ManagedEnvironment, _center: VCenter, vineyard: Vineyard) -> None:
        owner = {"apiVersion": Cluster.resource.api_version, "kind": "Cluster", "name": "vineyard", "uid": "of-before"}
        held = {"finalizers": ["example.com/mine"], "ownerReferences": [owner]}
        config = next(tree for tree in vineyard.trees if tree["kind"] == DATACENTER.kind)
        config["metadata"] |= held
        await apply(vineyard)
        waits = await env.until(lambda value: bool(value.status.conditions), VINEYARD)
        (ready,) = (condition for condition in waits.status.conditions if condition.type == "Ready")
        assert ready.message.endswith(", but it is being deleted: create it again once it is gone")
        patch: Tree = {"metadata": {"finalizers": None}}
        await env.client.patch(DATACENTER, "vineyard", NAMESPACE, patch=patch, type=PatchType.MERGE)
        for name in held:
            del config["metadata"][name]
        await apply(vineyard)
        await env.until_ready(VINEYARD)

    tell(story)
