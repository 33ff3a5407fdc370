"""AWS IAM Authenticator: users and roles of AWS log in to a cluster (`AWSIamConfig`).

kube-apiserver calls the authenticator, which runs beside it, by a webhook. The mappings of users are in the workload
cluster, and change there; the keys of the webhook are in a Secret, from which machines get them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from espalier.api.capi.kubeadm import File, FileSource, HostPathMount, SecretKey
from espalier.api.core import CONFIG_MAP, DAEMON_SET, Secret
from espalier.api.eksa.identity_providers import AWSIamConfig, AWSIamConfigSpec
from espalier.api.meta import Tree
from espalier.api.trees import yaml_text
from espalier.clusterapi import kubeconfig
from espalier.clusterapi.contract import MOVE_LABELS
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.api_server.authentication import linked
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render.cni.workloads import EVERYWHERE, NAMESPACE, account, host_path, rule
from espalier.clusters.design.rendered import Manifest
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.kubeconfig_entries import KubeconfigError, encode_data

NAME = "aws-iam-authenticator"
CERTIFICATE, KEY = "cert.pem", "key.pem"
PORT = 21362
VALID_DAYS = 3650
"""Validity of the webhook's certificate, as long as a CA's: only new machines would get another."""

_HOST = "/var/lib/kubeadm/aws-iam-authenticator"
_CONFIG = "/etc/kubernetes/aws-iam-authenticator"
_STATE = "/var/aws-iam-authenticator"
_UUIDS = uuid.UUID("6f0e0c59-1f0f-5d2b-9d43-7a0c2f1c3d5e")


def secret_name(cluster: str) -> str:
    """Name of the Secret with the keys of the webhook, as in EKS Anywhere."""
    return f"{cluster}-aws-iam-authenticator-ca"


def kubeconfig_name(cluster: str) -> str:
    """Name of the Secret with the kubeconfig for users of AWS, as in EKS Anywhere."""
    return f"{cluster}-aws-iam-kubeconfig"


def secret(render_input: RenderInput) -> Secret:
    """The Secret for the keys, without content: they are generated once, and not rendered."""
    return _secret(render_input, secret_name(render_input.name))


def kubeconfig_secret(render_input: RenderInput) -> Secret:
    """The Secret for the kubeconfig, without content: it is known once Cluster API has created its own."""
    return _secret(render_input, kubeconfig_name(render_input.name))


def _secret(render_input: RenderInput, name: str) -> Secret:
    metadata = meta(render_input, name)
    metadata.labels = metadata.labels | MOVE_LABELS
    return Secret(metadata=metadata, type="Opaque")


def user_kubeconfig(render_input: RenderInput, admin: bytes) -> bytes | None:
    """The kubeconfig for users of AWS, made from Cluster API's; None if that is invalid.

    Users bring their own credentials, and `aws-iam-authenticator` on their PATH.
    """
    try:
        access = Kubeconfig.parse(admin).context()
    except KubeconfigError:
        return None  # the cluster can't be reached by it either, which its conditions say
    program = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": NAME,
        "args": ["token", "-i", cluster_id(render_input)],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
    }
    user = f"{render_input.name}-aws"
    cluster = {"server": access.server, "certificate-authority-data": encode_data(access.certificate_authority or b"")}
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": render_input.name, "cluster": cluster}],
        "users": [{"name": user, "user": {"exec": program}}],
        "contexts": [{"name": f"{user}@{render_input.name}", "context": {"cluster": render_input.name, "user": user}}],
        "current-context": f"{user}@{render_input.name}",
    }
    return yaml_text.dump(tree).encode()


def cluster_id(render_input: RenderInput) -> str:
    """The name that tokens for this cluster contain: it never changes."""
    return str(uuid.uuid5(_UUIDS, str(render_input.key)))


def is_asked_for(render_input: RenderInput) -> bool:
    """True if the cluster links an AWSIamConfig."""
    return linked(render_input, AWSIamConfig) is not None


def flags(render_input: RenderInput) -> dict[str, str]:
    """Flags of kube-apiserver."""
    return (
        {"authentication-token-webhook-config-file": f"{_CONFIG}/kubeconfig.yaml"} if is_asked_for(render_input) else {}
    )


def files(render_input: RenderInput) -> Iterator[File]:
    """Files of control plane machines: the webhook's configuration and its keys."""
    if not is_asked_for(render_input):
        return
    webhook = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": NAME,
                "cluster": {
                    "certificate-authority": f"{_STATE}/{CERTIFICATE}",
                    "server": f"https://localhost:{PORT}/authenticate",
                },
            }
        ],
        "users": [{"name": "apiserver"}],
        "contexts": [{"name": "webhook", "context": {"cluster": NAME, "user": "apiserver"}}],
        "current-context": "webhook",
    }
    content = json.dumps(webhook, indent=2) + "\n"
    yield File(path=f"{_HOST}/kubeconfig.yaml", owner="root:root", permissions="0640", content=content)
    for key in (CERTIFICATE, KEY):
        source = FileSource(secret=SecretKey(name=secret_name(render_input.name), key=key))
        yield File(path=f"{_HOST}/pki/{key}", owner="root:root", permissions="0640", content_from=source)


def volumes(render_input: RenderInput) -> Iterator[HostPathMount]:
    """Volumes of kube-apiserver."""
    if is_asked_for(render_input):
        yield HostPathMount(name="authconfig", host_path=f"{_HOST}/", mount_path=f"{_CONFIG}/", read_only=False)
        yield HostPathMount(name="awsiamcert", host_path=f"{_HOST}/pki/", mount_path=f"{_STATE}/", read_only=False)


def workload(render_input: RenderInput) -> Iterable[Manifest]:
    """The authenticator and its configuration, as objects of the workload cluster."""
    config = linked(render_input, AWSIamConfig)
    if config is None:
        return
    labels = {"app": NAME}
    rules = [
        rule(["iamauthenticator.k8s.aws"], ["iamidentitymappings"], ["get", "list", "watch"]),
        rule(["iamauthenticator.k8s.aws"], ["iamidentitymappings/status"], ["patch", "update"]),
        rule([""], ["events"], ["create", "update", "patch"]),
        rule([""], ["configmaps"], ["list", "watch"]),
    ]
    for resource, body in account(NAME, labels, rules):
        yield Manifest(resource, {"apiVersion": resource.api_version, "kind": resource.kind} | body)
    settings = {"clusterID": cluster_id(render_input)}
    yield _config_map(NAME, {"config.yaml": json.dumps(settings) + "\n"})
    yield _config_map("aws-auth", _mappings(config.spec))
    yield Manifest(DAEMON_SET, _daemon_set(render_input, config.spec, labels))


def _mappings(spec: AWSIamConfigSpec) -> dict[str, str]:
    """The mappings of users and roles. JSON is YAML."""
    roles = [{"rolearn": role.role_arn, "username": role.username, "groups": role.groups} for role in spec.map_roles]
    users = [{"userarn": user.user_arn, "username": user.username, "groups": user.groups} for user in spec.map_users]
    return {"mapRoles": json.dumps(roles, indent=2) + "\n", "mapUsers": json.dumps(users, indent=2) + "\n"}


def _config_map(name: str, data: dict[str, str]) -> Manifest:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}
    return Manifest(CONFIG_MAP, body)


def _daemon_set(render_input: RenderInput, spec: AWSIamConfigSpec, labels: dict[str, str]) -> Tree:
    container: dict[str, Any] = {
        "name": NAME,
        "image": render_input.of_control_plane.distro.authenticator,
        "args": [
            "server",
            f"--backend-mode={','.join(spec.backend_mode)}",
            f"--partition={spec.partition or 'aws'}",
            "--config=/etc/aws-iam-authenticator/config.yaml",
            f"--state-dir={_STATE}",
            f"--generate-kubeconfig={_CONFIG}/kubeconfig.yaml",
            "--kubeconfig-pregenerated=true",
        ],
        "env": [{"name": "AWS_REGION", "value": spec.aws_region}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/aws-iam-authenticator/"},
            {"name": "state", "mountPath": f"{_STATE}/"},
            {"name": "output", "mountPath": f"{_CONFIG}/"},
        ],
    }
    pod = {
        "hostNetwork": True,
        # Images run as different users (10000, since 0.7.10 as 65532). The files are root's, and readable by its group.
        "securityContext": {"supplementalGroups": [0]},
        "serviceAccountName": NAME,
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": EVERYWHERE,
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            host_path("state", f"{_HOST}/pki/"),
            host_path("output", f"{_HOST}/"),
        ],
    }
    return {
        "apiVersion": DAEMON_SET.api_version,
        "kind": DAEMON_SET.kind,
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def lacks_image(render_input: RenderInput) -> bool:
    """True if the authenticator is requested and the release has no image of it."""
    return is_asked_for(render_input) and not render_input.of_control_plane.distro.authenticator


def has_keys(tree: Tree) -> bool:
    """True if a Secret has the keys."""
    return {CERTIFICATE, KEY} <= set(tree.get("data") or {})


def gives_access(tree: Tree, content: bytes) -> bool:
    """True if a Secret has this kubeconfig."""
    return (tree.get("data") or {}).get(kubeconfig.KEY) == encode_data(content)


def with_keys(body: Secret, certificate: bytes, key: bytes) -> Secret:
    """The Secret with these keys."""
    return msgspec.structs.replace(body, data={CERTIFICATE: certificate, KEY: key})


def with_access(body: Secret, content: bytes) -> Secret:
    """The Secret with this kubeconfig."""
    return msgspec.structs.replace(body, data={kubeconfig.KEY: content})
