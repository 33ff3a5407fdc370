"""A real cluster with every option that kubeadm carries to nodes: seen there and in the API server, not in our objects.

Left out are what needs images that can't be had here (AWSIamConfig) and another Cluster API (external etcd). Rules
about what admission leaves alone reach the API server; only that of EKS Distro obeys them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509

from espalier.clusters.design.secrets import credentials
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority, KeyPair
from tests.support.environments import workload_use as use
from tests.support.environments.in_place_on_nodes import inside
from tests.support.environments.node_versions import OLD
from tests.support.environments.real_environment import RealEnvironment, Tree, real_environment, why_not
from tests.support.providers.node_manifests import manifest
from tests.support.servers.kubectl import Kubectl

WHY_NOT = why_not(OLD)

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

HOST = "10.78.0.1"
"""This machine, as nodes reach it."""
BED = "garden.example.com/bed"
PLANE_TAINT = {"key": "tools", "value": "only", "effect": "NoSchedule"}
WORKER_TAINT = {"key": "roses", "value": "rather", "effect": "PreferNoSchedule"}
RESERVED = {"memory": "64Mi"}
NAME_SERVERS = "/etc/./resolv.conf"
"""The file that nodes have, by another name than the usual."""
AUDITED = """\
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Request
  resources: [{group: "", resources: [configmaps]}]
  namespaces: [default]
- level: None
"""
OIDC = {
    "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
    "kind": "OIDCConfig",
    "metadata": {"name": "company"},
    "spec": {"issuerUrl": "https://login.example.com", "clientId": "kubernetes", "groupsClaim": "groups"},
}
AUDIT_LOG = "/var/log/kubernetes/api-audit.log"
ISSUER = "https://tokens.example.com"


async def test_options_of_kubeadm_are_in_force_on_real_nodes(home: Path) -> None:
    authority = Authority.create("mirrors", now=datetime.now(UTC))
    pair = authority.issue_server("mirror", names=[HOST], now=datetime.now(UTC))
    async with listening(home, pair) as mirror, listening(home) as proxy, real_environment(home) as env:
        await env.apply(yaml.safe_dump_all([OIDC, password(mirror), *asked(mirror, proxy, authority)]))
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=1, workers=1)
        await use.carries_pods(workload)
        plane, worker = sorted([node["name"] for node in await env.nodes()], key=lambda name: "-md-" in name)
        await nodes_are_as_asked(workload, plane, worker)
        await addresses_are_as_asked(workload)
        await the_api_server_is_as_asked(env, workload, plane)
        await requests_are_audited(env, workload, plane)
        await images_come_from_the_mirror_or_by_the_proxy(workload, mirror, proxy)


def asked(mirror: Listener, proxy: Listener, authority: Authority) -> list[Tree]:
    """The example with every option."""
    documents: list[Tree] = list(yaml.safe_load_all(manifest(1)))
    spec = documents[0]["spec"]
    spec["clusterNetwork"] |= {
        "pods": {"cidrBlocks": ["172.20.0.0/16"]},
        "services": {"cidrBlocks": ["10.97.0.0/16"]},
        "nodes": {"cidrMaskSize": 25},
        "dns": {"resolvConf": {"path": NAME_SERVERS}},
    }
    spec["controlPlaneConfiguration"] |= {
        "labels": {BED: "tools"},
        "taints": [PLANE_TAINT],
        "certSans": ["garden.example.com", "10.99.0.1"],
        "kubeletConfiguration": {"maxPods": 42},
        "apiServerExtraArgs": {"default-not-ready-toleration-seconds": "17"},
        "auditPolicyContent": AUDITED,
        "skipAdmissionForSystemResources": True,
    }
    spec["workerNodeGroupConfigurations"][0] |= {
        "labels": {BED: "roses"},
        "taints": [WORKER_TAINT],
        "kubeletConfiguration": {"maxPods": 31, "systemReserved": RESERVED},
    }
    spec["identityProviderRefs"] = [{"kind": "OIDCConfig", "name": "company"}]
    spec["podIamConfig"] = {"serviceAccountIssuer": ISSUER}
    url = f"http://{HOST}:{proxy.port}"
    spec["proxyConfiguration"] = {"httpProxy": url, "httpsProxy": url, "noProxy": [HOST]}
    spec["registryMirrorConfiguration"] = {
        "endpoint": HOST,
        "port": str(mirror.port),
        "ociNamespaces": [{"registry": "public.ecr.aws", "namespace": "copies"}],
        "caCertContent": authority.certificate.decode(),
        "authenticate": True,
    }
    return documents


def password(mirror: Listener) -> Tree:
    """The Secret with credentials of the mirror."""
    marks = {credentials.SERVERS: f"{HOST}:{mirror.port}", credentials.NAMESPACES: "default"}
    metadata = {"name": "registry-credentials", "namespace": "eksa-system", "annotations": marks}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "stringData": {"username": "rose", "password": "thorn"},
    }


async def nodes_are_as_asked(workload: Kubectl, plane: str, worker: str) -> None:
    """Labels, taints and kubelets."""
    for name, bed, taint, pods, reserved in (
        (plane, "tools", PLANE_TAINT, "42", None),
        (worker, "roses", WORKER_TAINT, "31", RESERVED),
    ):
        node = await workload.tree("node", name)
        assert node["metadata"]["labels"][BED] == bed
        assert node["spec"]["taints"] == [taint]
        assert node["spec"]["podCIDR"].endswith("/25")
        assert node["status"]["capacity"]["pods"] == pods
        kubelet = json.loads(await workload("get", "--raw", f"/api/v1/nodes/{name}/proxy/configz"))["kubeletconfig"]
        assert kubelet["resolvConf"] == NAME_SERVERS
        assert kubelet.get("systemReserved") == reserved


async def addresses_are_as_asked(workload: Kubectl) -> None:
    """Those of pods and of Services."""
    service = await workload.tree("service", "kubernetes")
    assert service["spec"]["clusterIP"] == "10.97.0.1"
    for pod in (await workload.tree("pods", "-n", "kube-system", "-l", "k8s-app=kube-dns"))["items"]:
        assert pod["status"]["podIP"].startswith("172.20.")


async def the_api_server_is_as_asked(env: RealEnvironment, workload: Kubectl, plane: str) -> None:
    """Its certificate, its flags, its issuer, its identity provider, and what its admission leaves alone."""
    server = urlsplit(Kubeconfig.load([workload.kubeconfig]).context().server)
    assert server.hostname is not None
    certificate = await asyncio.to_thread(ssl.get_server_certificate, (server.hostname, server.port or 443))
    extensions = x509.load_pem_x509_certificate(certificate.encode()).extensions
    result = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "garden.example.com" in result.get_values_for_type(x509.DNSName)
    assert IPv4Address("10.99.0.1") in result.get_values_for_type(x509.IPAddress)

    await workload("run", "seedling", f"--image={use.PROBE}", "--restart=Never", "--", "sleep")
    tolerations = (await workload.tree("pod", "seedling"))["spec"]["tolerations"]
    assert [
        toleration["tolerationSeconds"] for toleration in tolerations if toleration["key"].endswith("/not-ready")
    ] == [17]

    token = (await workload("create", "token", "default")).split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(token + "=="))["iss"] == ISSUER

    logs = await workload("logs", "-n", "kube-system", f"kube-apiserver-{plane}")
    assert "https://login.example.com/.well-known/openid-configuration" in logs, "it asks the provider for its keys"
    flags = await command_line(env, plane, "kube-apiserver")
    assert {"--oidc-client-id=kubernetes", "--oidc-groups-claim=groups"} <= set(flags)

    pid = (await inside(env, plane, "pgrep", "-x", "kube-apiserver")).strip()
    environment = await inside(env, plane, "cat", f"/proc/{pid}/environ")
    rules = re.search(r"EKS_PATCH_EXCLUSION_RULES_FILE=([^\0]+)", environment)
    assert rules is not None
    assert json.loads(await inside(env, plane, "cat", f"/proc/{pid}/root{rules[1]}"))


async def requests_are_audited(env: RealEnvironment, workload: Kubectl, plane: str) -> None:
    """Those of the policy, and no others."""
    await workload("create", "configmap", "seen", "--from-literal=colour=red")
    await workload("create", "secret", "generic", "unseen", "--from-literal=colour=blue")
    log = [json.loads(line) for line in (await inside(env, plane, "cat", AUDIT_LOG)).splitlines()]
    sent = [entry["requestObject"] for entry in log if entry["verb"] == "create" and "requestObject" in entry]
    assert [item["data"] for item in sent if item["metadata"].get("name") == "seen"] == [{"colour": "red"}]
    assert {entry["objectRef"]["resource"] for entry in log} == {"configmaps"}
    assert {entry["objectRef"]["namespace"] for entry in log} == {"default"}


async def images_come_from_the_mirror_or_by_the_proxy(workload: Kubectl, mirror: Listener, proxy: Listener) -> None:
    """Those of mirrored registries from the mirror, to which nodes say the password; others by the proxy."""
    await workload("run", "mirrored", "--image=public.ecr.aws/garden/rose:1", "--restart=Never")
    asked = await mirror.hears("HEAD /v2/copies/garden/rose/manifests/1?ns=public.ecr.aws ")
    basic = base64.b64encode(b"rose:thorn").decode()
    assert f"authorization: basic {basic}".lower() in asked.lower()
    await workload("run", "others", "--image=registry.example.com/garden/tulip:1", "--restart=Never")
    await proxy.hears("CONNECT registry.example.com:443 ")


async def command_line(env: RealEnvironment, node: str, program: str) -> list[str]:
    """The arguments of a program that runs on a node."""
    pid = (await inside(env, node, "pgrep", "-x", program)).strip()
    return (await inside(env, node, "cat", f"/proc/{pid}/cmdline")).split("\0")


class Listener:
    """A server that keeps what is asked, and has nothing."""

    def __init__(self) -> None:
        self.port = 0
        self._asked: asyncio.Queue[str] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        self._asked.put_nowait((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async def hears(self, beginning: str) -> str:
        """The first request that begins so."""
        async with asyncio.timeout(120):
            while not (asked := await self._asked.get()).startswith(beginning):
                pass
        return asked


@asynccontextmanager
async def listening(folder: Path, pair: KeyPair | None = None) -> AsyncIterator[Listener]:
    """A listener for nodes; with a key pair, by TLS."""
    context = None
    if pair is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        file = folder.parent / "listener.pem"
        file.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file)
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "0.0.0.0", 0, ssl=context)  # the bridge comes later
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener
