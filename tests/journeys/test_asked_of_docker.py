"""Parts of EKS Anywhere manifests beside machines: identity providers, mirrors, proxies, autoscaling."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import CONFIG_MAP, SECRET, ConfigMap, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.identity_providers import AWSIamConfig, OIDCConfig
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.cli.clusters.access import kubeconfig
from espalier.cli.kit.failures import Failure
from espalier.clusters.design import names
from espalier.clusters.design.secrets import credentials
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, Invalid, NotFound
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment, managed_environment
from tests.support.histories.isolation_stories import machines

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
COMPANY = {"issuerUrl": "https://login.example.com", "clientId": "kubernetes", "groupsClaim": "groups"}
MIRROR = {"endpoint": "mirror.example.com", "port": "5000", "authenticate": True}


async def gone(env: ManagedEnvironment) -> None:
    await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
    await env.until_gone()


async def oidc(env: ManagedEnvironment, **spec: object) -> None:
    body: Tree = {"metadata": {"name": "company", "namespace": "default"}, "spec": COMPANY | spec}
    await env.client.apply(OIDCConfig.resource, body)


async def flags(env: ManagedEnvironment) -> dict[str, str]:
    kubeadm_control_plane = await env.client.get(KubeadmControlPlane.resource, "garden", "eksa-system")
    configuration = kubeadm_control_plane.decode(KubeadmControlPlane).spec.kubeadm_config_spec.cluster_configuration
    assert configuration is not None
    assert configuration.api_server is not None
    return {arg.name: arg.value for arg in configuration.api_server.extra_args}


async def password(env: ManagedEnvironment, text: str, *, marked: bool = True) -> None:
    data = {"username": b"admin", "password": text.encode()}
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    marks = {credentials.SERVERS: "mirror.example.com:5000", credentials.NAMESPACES: "default"} if marked else {}
    metadata = {"name": "registry-credentials", "namespace": "eksa-system", "annotations": marks}
    body: Tree = {"metadata": metadata, "data": encoded}
    await env.client.apply(SECRET, body)


async def carried(env: ManagedEnvironment) -> str:
    secret = await env.client.get(SECRET, "garden-node-files", "eksa-system")
    return secret.decode(Secret).data["public.ecr.aws.toml"].decode()


def basic(text: str) -> str:
    return base64.b64encode(f"admin:{text}".encode()).decode()


@pytest.mark.soak
def test_users_of_a_described_oidc_provider_are_known() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(identityProviderRefs=[{"kind": "OIDCConfig", "name": "company"}])
        waiting = await env.until(lambda item: item.status.failure_reason == Reason.CREDENTIALS_NOT_PERMITTED)
        assert "waiting for OIDCConfig company in namespace default" in (waiting.status.failure_message or "")
        with pytest.raises(Invalid, match="requires an https URL of the provider"):
            await oidc(env, issuerUrl="http://login.example.com")
        await oidc(env)
        await env.until_ready()
        assert (await flags(env))["oidc-issuer-url"] == "https://login.example.com"
        with pytest.raises(Invalid, match="it can't be changed, because clusters are created with it"):
            await oidc(env, clientId="other")
        before = await machines(env.client)
        await env.client.delete(OIDCConfig.resource, "company", "default")
        await env.until(lambda item: item.status.failure_reason == Reason.CREDENTIALS_NOT_PERMITTED)
        await oidc(env, clientId="other")
        held = await env.until(lambda item: item.status.failure_reason == Reason.CLUSTER_INVALID)
        assert "deleted and recreated with other content (oidc-client-id)" in (held.status.failure_message or "")
        await asyncio.sleep(CALM)
        assert await machines(env.client) == before
        await env.client.delete(OIDCConfig.resource, "company", "default")
        await oidc(env)
        await env.until_ready()
        assert await machines(env.client) == before
        await env.change(identityProviderRefs=[])
        await env.until_ready()
        assert "oidc-issuer-url" not in await flags(env)
        assert len((await machines(env.client)).keys() - before.keys()) == 1, "of the control plane alone"
        await gone(env)

    journey(tell)


@pytest.mark.soak
def test_new_mirror_password_reaches_new_machines_only() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(registryMirrorConfiguration=MIRROR)
        await env.until(lambda item: item.status.failure_reason == Reason.CREDENTIALS_NOT_PERMITTED)
        await password(env, "first-password")
        await env.until_ready()
        assert basic("first-password") in await carried(env)
        configs = await env.client.list(KubeadmConfig.resource, "eksa-system")
        assert all(basic("first-password") not in item.raw.decode() for item in configs.items)
        await asyncio.sleep(CALM)
        before = await machines(env.client)
        await password(env, "second-password")
        await asyncio.sleep(CALM)
        assert basic("second-password") in await carried(env)
        assert await machines(env.client) == before
        await gone(env)
        left = await env.client.list(SECRET, "eksa-system")
        assert "garden-node-files" not in {item.name for item in left.items}

    journey(tell)


@pytest.mark.soak
def test_mirror_credentials_go_where_permitted() -> None:
    async def refused(env: ManagedEnvironment, server: str) -> None:
        sentence = f"annotation {credentials.SERVERS} with {server}"
        await env.until(lambda item: sentence in (item.status.failure_message or ""))

    async def tell(env: ManagedEnvironment) -> None:
        await password(env, "some-password", marked=False)
        await env.apply(registryMirrorConfiguration=MIRROR)
        await refused(env, "mirror.example.com:5000")
        await password(env, "some-password")
        await env.until_ready()
        await gone(env)
        await env.apply(registryMirrorConfiguration=MIRROR | {"endpoint": "mine.example.com"})
        await refused(env, "mine.example.com:5000")
        left = await env.client.list(SECRET, "eksa-system")
        assert "garden-node-files" not in {item.name for item in left.items}

    journey(tell)


@pytest.mark.soak
def test_an_autoscalers_choice_is_no_drift() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        group = {"name": "md-0", "autoscalingConfiguration": {"minCount": 1, "maxCount": 4}}
        await env.apply(workerNodeGroupConfigurations=[{"name": "md-0", "count": 2}])
        await env.until_ready()
        before = await machines(env.client)
        await env.change(workerNodeGroupConfigurations=[group])
        await env.until_ready()
        assert await machines(env.client) == before, "the two that there are fit"
        await chosen(env, 4)
        await env.until_ready()
        await asyncio.sleep(CALM)
        assert len(await machines(env.client)) == 5
        assert (await deployment(env)).spec.replicas == 4
        ready = await env.until_ready()
        synced = [condition for condition in ready.status.conditions if condition.type == names.SYNCED]
        assert [item.status for item in synced] == ["True"]
        await env.change(
            workerNodeGroupConfigurations=[{"name": "md-0", "autoscalingConfiguration": {"minCount": 1, "maxCount": 3}}]
        )
        await env.until(lambda item: any(c.reason == "AutoscalerConstraintNotMet" for c in item.status.conditions))
        await chosen(env, 3)
        await env.until_ready()
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}])
        await env.until_ready()
        assert len(await machines(env.client)) == 2
        await gone(env)

    async def deployment(env: ManagedEnvironment) -> MachineDeployment:
        machine_deployment = await env.client.get(MachineDeployment.resource, "garden-md-0", "eksa-system")
        return machine_deployment.decode(MachineDeployment)

    async def chosen(env: ManagedEnvironment, number: int) -> None:
        patch = {"spec": {"replicas": number}}
        place = ("garden-md-0", "eksa-system")
        await env.client.patch(MachineDeployment.resource, *place, patch=patch, type=PatchType.MERGE)

    journey(tell)


@pytest.mark.soak
def test_a_proxy_and_an_issuer_reach_every_machine() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        proxy = {"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"}
        await env.apply(proxyConfiguration=proxy, podIamConfig={"serviceAccountIssuer": "https://s3/one"})
        await env.until_ready()
        configs = await env.client.list(KubeadmConfig.resource, "eksa-system")
        assert all("HTTP_PROXY=http://proxy:3128" in item.raw.decode() for item in configs.items)
        with pytest.raises(Forbidden, match="it can't be changed in an existing cluster"):
            await env.change(proxyConfiguration=None)
        await env.change(podIamConfig={"serviceAccountIssuer": "https://s3/two"})
        await env.until_ready()
        assert (await flags(env))["service-account-issuer"] == "https://s3/two"
        await gone(env)

    journey(tell)


@pytest.mark.soak
def test_new_proxy_credentials_reach_new_machines_only() -> None:
    def proxy(credentials: str, host: str = "proxy") -> Tree:
        return dict.fromkeys(("httpProxy", "httpsProxy"), f"http://{credentials}@{host}:3128")

    async def carried(env: ManagedEnvironment) -> str:
        secret = await env.client.get(SECRET, "garden-node-files", "eksa-system")
        return secret.decode(Secret).data["http-proxy.conf"].decode()

    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(proxyConfiguration=proxy("anna:first-password"))
        await env.until_ready()
        assert "anna:first-password@" in await carried(env)
        before = await machines(env.client)
        await env.change(proxyConfiguration=proxy("berta:second-password"))
        await env.until_ready()
        assert "berta:second-password@" in await carried(env)
        assert await machines(env.client) == before
        with pytest.raises(Forbidden) as refused:
            await env.change(proxyConfiguration=proxy("anna:third-password", "other"))
        assert "//other:3128" in str(refused.value)
        assert "//proxy:3128" in str(refused.value)
        assert "password" not in str(refused.value)

    journey(tell)


IAM: dict[str, Any] = {
    "awsRegion": "us-west-2",
    "backendMode": ["EKSConfigMap"],
    "mapRoles": [{"roleARN": "arn:aws:iam::1:role/gardeners", "username": "gardener", "groups": ["system:masters"]}],
}


@pytest.mark.demand("L17")
def test_aws_users_log_in_without_another_machine() -> None:
    async def iam(env: ManagedEnvironment, **spec: object) -> None:
        body: Tree = {"metadata": {"name": "amazon", "namespace": "default"}, "spec": IAM | spec}
        await env.client.apply(AWSIamConfig.resource, body)

    async def keys(env: ManagedEnvironment) -> dict[str, bytes]:
        secret = await env.client.get(SECRET, "garden-aws-iam-authenticator-ca", "eksa-system")
        return secret.decode(Secret).data

    async def access(env: ManagedEnvironment, name: str = "garden-aws-iam-kubeconfig") -> Tree:
        secret = await env.client.get(SECRET, name, "eksa-system")
        content: Tree = yaml.safe_load(secret.decode(Secret).data["value"])
        return content

    async def admin(env: ManagedEnvironment) -> Tree:
        return await access(env, "garden-kubeconfig")

    async def cluster_id(env: ManagedEnvironment) -> str:
        config_map = await (await env.workload()).get(CONFIG_MAP, "aws-iam-authenticator", "kube-system")
        return str(json.loads(config_map.decode(ConfigMap).data["config.yaml"])["clusterID"])

    async def mapped(env: ManagedEnvironment) -> str:
        workload = await env.workload()
        config_map = await workload.get(CONFIG_MAP, "aws-auth", "kube-system")
        return config_map.decode(ConfigMap).data["mapRoles"]

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await iam(env)
            await env.apply(identityProviderRefs=[{"kind": "AWSIamConfig", "name": "amazon"}])
            await env.until_ready()
            assert (await flags(env))["authentication-token-webhook-config-file"].endswith("/kubeconfig.yaml")
            assert "gardeners" in await mapped(env)
            await asyncio.sleep(CALM)
            before, first = await machines(env.client), await keys(env)
            assert first.keys() == {"cert.pem", "key.pem"}
            config = await access(env)
            assert yaml.safe_load(await kubeconfig.read_for_aws(env.client, GARDEN)) == config
            assert config["clusters"][0]["cluster"]["server"] == (await admin(env))["clusters"][0]["cluster"]["server"]
            assert config["users"][0]["user"]["exec"]["args"] == ["token", "-i", await cluster_id(env)]
            assert config["users"][0]["user"].keys() == {"exec"}
            await iam(env, mapRoles=[IAM["mapRoles"][0] | {"roleARN": "arn:aws:iam::1:role/weeders"}])
            await asyncio.sleep(CALM)
            assert "weeders" in await mapped(env)
            assert await machines(env.client) == before
            assert await keys(env) == first
            with pytest.raises(Invalid, match="it can't be changed, because clusters are created with it"):
                await iam(env, awsRegion="us-east-1")
            await env.change(identityProviderRefs=[])
            await env.until_ready()
            assert "authentication-token-webhook-config-file" not in await flags(env)
            with pytest.raises(NotFound):
                await access(env)
            with pytest.raises(Failure, match="the cluster has no AWSIamConfig"):
                await kubeconfig.read_for_aws(env.client, GARDEN)
            await gone(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_lost_keys_of_the_authenticator_are_made_again() -> None:
    name = "garden-aws-iam-authenticator-ca"

    async def keys(env: ManagedEnvironment) -> dict[str, bytes]:
        return (await env.client.get(SECRET, name, "eksa-system")).decode(Secret).data

    async def message(env: ManagedEnvironment) -> str:
        result = await env.until(
            lambda item: any(c.type == names.SYNCED and c.status != "True" for c in item.status.conditions)
        )
        return next(condition.message for condition in result.status.conditions if condition.type == names.SYNCED)

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, resync=300.0) as env:
            body: Tree = {"metadata": {"name": "amazon", "namespace": "default"}, "spec": IAM}
            await env.client.apply(AWSIamConfig.resource, body)
            await env.apply(identityProviderRefs=[{"kind": "AWSIamConfig", "name": "amazon"}])
            await env.until_ready()
            before = await machines(env.client)
            nothing = {"data": dict.fromkeys(await keys(env))}
            await env.client.patch(SECRET, name, "eksa-system", patch=nothing, type=PatchType.MERGE)
            assert f"Secret eksa-system/{name}: data" in await message(env)
            correct = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
            await env.client.patch(Cluster.resource, *reversed(GARDEN), patch=correct, type=PatchType.MERGE)
            await asyncio.sleep(CALM)
            second = await keys(env)
            assert second.keys() == {"cert.pem", "key.pem"}
            await env.client.delete(SECRET, name, "eksa-system")
            await asyncio.sleep(CALM)
            third = await keys(env)
            assert third.keys() == second.keys()
            assert third != second
            assert await machines(env.client) == before
            await env.until_ready()

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand(L17="releases before v0.26.0 have no image of the authenticator")
def test_release_without_authenticator_is_reported() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        body: Tree = {"metadata": {"name": "amazon", "namespace": "default"}, "spec": IAM}
        await env.client.apply(AWSIamConfig.resource, body)
        refs = [{"kind": "AWSIamConfig", "name": "amazon"}]
        with pytest.raises(Invalid, match="the image of AWS IAM Authenticator, and EKS Distro Release kubernetes-1-35"):
            await env.apply(identityProviderRefs=refs, eksaVersion="v0.25.1")
        await env.apply(identityProviderRefs=refs, eksaVersion="v0.26.0")

    journey(tell)
