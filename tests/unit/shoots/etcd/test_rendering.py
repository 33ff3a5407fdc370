"""The rendered objects of an Etcd."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
import pytest
import yaml

from espalier.api.core import CONFIG_MAP, NETWORK_POLICY, POD_DISRUPTION_BUDGET, SERVICE, STATEFUL_SET
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import OwnerReference, Tree
from espalier.cli.backups.etcd_agent import etcd_agent
from espalier.cli.backups.etcd_guard import etcd_guard
from espalier.etcdbackup.restore.members import membership
from espalier.shoots.etcd.rendering import Rendered, rendered
from espalier.shoots.etcd.settings import InvalidEtcd, agent_command

OWNER = OwnerReference(api_version="druid.gardener.cloud/v1alpha1", kind="Etcd", name="etcd-main", uid="u")
STORE = {"provider": "S3", "container": "b", "prefix": "entry/etcd-main/2", "secretRef": {"name": "etcd-backup"}}
SOURCE = {"provider": "GCS", "container": "a", "prefix": "entry/etcd-main/1", "secretRef": {"name": "source"}}


def etcd(*, replicas: int = 1, annotations: dict[str, str] | None = None, **backup: Any) -> Etcd:
    marks = {metadata_keys.EPOCH: "2", metadata_keys.SOURCE_EPOCH: "1"} if annotations is None else annotations
    body = {
        "metadata": {"name": "etcd-main", "namespace": "shoot--team--garden", "annotations": marks},
        "spec": {"replicas": replicas, "backup": {"store": STORE, **backup}},
    }
    return msgspec.convert(body, Etcd)


def stateful_set(made: Etcd) -> Tree:
    [body] = [object_.body for object_ in rendered(made, OWNER) if object_.resource == STATEFUL_SET]
    return body


def containers(made: Etcd) -> dict[str, Tree]:
    return {container["name"]: container for container in stateful_set(made)["spec"]["template"]["spec"]["containers"]}


def test_etcd_has_pod_claim_configuration_and_services() -> None:
    objects: list[Rendered] = rendered(etcd(), OWNER)
    assert {(object_.resource, object_.name) for object_ in objects} == {
        (STATEFUL_SET, "etcd-main"),
        (CONFIG_MAP, "etcd-main-config"),
        (SERVICE, "etcd-main-client"),
        (SERVICE, "etcd-main-agent"),
        (SERVICE, "etcd-main-peer"),
        (NETWORK_POLICY, "etcd-main"),
    }
    spec = stateful_set(etcd())["spec"]
    assert spec["template"]["spec"]["shareProcessNamespace"] is True
    assert list(containers(etcd())) == ["etcd", "backup-restore"]
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["etcd-main"]


def test_single_etcd_member_is_elected_at_once() -> None:
    [configuration] = [object_ for object_ in rendered(etcd(), OWNER) if object_.resource == CONFIG_MAP]
    settings = yaml.safe_load(configuration.body["data"]["etcd.conf.yaml"])
    heartbeat, election = settings["heartbeat-interval"], settings["election-timeout"]
    assert 5 * heartbeat <= election <= 250, "etcd refuses less than five heartbeats"


@pytest.mark.demand("G50")
def test_copy_version_is_agent_alone_and_has_no_data() -> None:
    copy = etcd(sourceStore=SOURCE)
    assert list(containers(copy)) == ["backup-restore"]
    assert "volumeClaimTemplates" not in stateful_set(copy)["spec"]
    assert [object_.name for object_ in rendered(copy, OWNER) if object_.resource == SERVICE] == ["etcd-main-agent"]
    environment = {container["name"]: container["value"] for container in containers(copy)["backup-restore"]["env"]}
    assert environment == {
        "AWS_APPLICATION_CREDENTIALS": "/var/etcd-backup",
        "SOURCE_GOOGLE_APPLICATION_CREDENTIALS": "/var/source-etcd-backup",
    }


@pytest.mark.parametrize("made", [etcd(), etcd(sourceStore=SOURCE), etcd(annotations={metadata_keys.EPOCH: "1"})])
def test_command_of_agent_is_one_that_it_understands(made: Etcd) -> None:
    program, group, verb, *words = agent_command(made)
    assert (program, group) == ("espalier", "etcd-agent")
    context = etcd_agent.commands[verb].make_context(verb, words)
    assert context.params["cluster"] == "entry/etcd-main"
    assert context.params["epoch"] == int(made.metadata.annotations[metadata_keys.EPOCH])


@pytest.mark.parametrize("made", [etcd(), etcd(sourceStore=SOURCE)])
def test_an_agent_reads_the_times_of_its_garden(made: Etcd) -> None:
    timing = Timing(lease_wait=300)
    bodies = {object_.resource: object_.body for object_ in rendered(made, OWNER, timing)}
    pod = bodies[STATEFUL_SET]["spec"]["template"]["spec"]
    agent = next(container for container in pod["containers"] if container["name"] == "backup-restore")
    _, _, verb, *words = agent["command"]
    path = etcd_agent.commands[verb].make_context(verb, words).params["timing"]
    [mount] = [volume_mount for volume_mount in agent["volumeMounts"] if volume_mount["mountPath"] == str(path.parent)]
    assert {"name": mount["name"], "configMap": {"name": "etcd-main-config"}} in pod["volumes"]
    assert msgspec.json.decode(bodies[CONFIG_MAP]["data"][path.name], type=Timing) == timing


def test_every_setting_of_backups_reaches_the_agent() -> None:
    made = etcd(
        fullSnapshotSchedule="0 */2 * * *",
        deltaSnapshotPeriod="5m",
        deltaSnapshotRetentionPeriod="1h",
        garbageCollectionPolicy="LimitBased",
        garbageCollectionPeriod="12h",
        etcdSnapshotTimeout="10m",
    )
    _, _, verb, *words = agent_command(made)
    params = etcd_agent.commands[verb].make_context(verb, words).params
    assert params["schedule"] == "0 */2 * * *"
    assert params["garbage_collection_policy"] == "limit-based"
    assert (params["delta_snapshot_period"], params["garbage_collection_period"]) == ("5m", "12h")


def test_command_of_etcd_is_understood_by_its_guard() -> None:
    program, name, *words = containers(etcd())["etcd"]["command"]
    assert (program, name) == ("espalier", "etcd-guard")
    params = etcd_guard.make_context("etcd-guard", words).params
    assert shlex.join(params["command"]) == "etcd --config-file=/var/etcd/config/etcd.conf.yaml"
    assert params["control"] == "/run/etcd/guard.sock"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (etcd(replicas=2), "spec.replicas: found 2, allowed are 0, 1 and 3"),
        (etcd(replicas=3), "spec.etcd.peerUrlTls.serverTLSSecretRef: found none"),
        (etcd(replicas=3, sourceStore=SOURCE), "spec.replicas: found 3, allowed is 1"),
        (etcd(annotations={}), "annotation espalier.gardener.cloud/epoch: found '', allowed is the number"),
        (etcd(annotations={metadata_keys.EPOCH: "-1"}), "found '-1'"),
        (etcd(sourceStore=SOURCE, annotations={metadata_keys.EPOCH: "2"}), "annotation espalier.gardener.cloud/source"),
        (etcd(sourceStore=STORE), "found the same as spec.backup.store"),
        (etcd(store=None), "spec.backup.store: found none"),
        (etcd(store={**STORE, "provider": "s3://evil"}), "spec.backup.store.provider: found 's3://evil'"),
        (etcd(store={**STORE, "container": None}), "spec.backup.store.container: found none"),
    ],
)
def test_an_etcd_that_can_not_run_is_refused_by_field(made: Etcd, message: str) -> None:
    with pytest.raises(InvalidEtcd) as refused:
        rendered(made, OWNER)
    assert message in str(refused.value)


def test_another_configuration_makes_pods_anew() -> None:
    def checksum(made: Etcd) -> str:
        annotations: dict[str, str] = stateful_set(made)["spec"]["template"]["metadata"]["annotations"]
        return annotations["checksum/etcd-config"]

    bigger = etcd()
    bigger.spec.etcd.quota = 1 << 30
    assert checksum(bigger) != checksum(etcd())


def members() -> Etcd:
    """An etcd with three members."""
    made = msgspec.to_builtins(etcd())
    made["spec"] |= {"replicas": 3, "etcd": {"peerUrlTls": {"serverTLSSecretRef": {"name": "etcd-peer"}}}}
    return msgspec.convert(made, Etcd)


def test_three_members_know_each_other_by_pods_names() -> None:
    run = containers(members())["backup-restore"]
    flags = dict(word.removeprefix("--").split("=", 1) for word in run["command"][4:])
    hosts = [f"etcd-main-{number}.etcd-main-peer.shoot--team--garden.svc" for number in range(3)]
    named = [(host.partition(".")[0], host) for host in hosts]
    assert flags["name"] == "$(POD_NAME)"
    assert flags["initial-cluster"] == ",".join(f"{name}=https://{host}:2380" for name, host in named)
    assert flags["initial-advertise-peer-urls"] == f"https://$(POD_NAME){hosts[0].removeprefix('etcd-main-0')}:2380"
    assert flags["member-clients"] == ",".join(f"{name}=http://{host}:2379" for name, host in named)
    assert flags["member-agents"] == ",".join(f"{name}=https://{host}:8080" for name, host in named)
    assert run["env"][-1] == {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    guard = containers(members())["etcd"]["command"]
    assert guard[-1] == f"--config-file={flags['member-config']}"
    spec = stateful_set(members())["spec"]
    assert (spec["replicas"], spec["serviceName"]) == (3, "etcd-main-peer")


def test_members_find_each_other_before_they_serve() -> None:
    """None of them gets ready alone."""
    [peers] = [object_.body for object_ in rendered(members(), OWNER) if object_.name == "etcd-main-peer"]
    assert peers["spec"]["publishNotReadyAddresses"] is True
    assert peers["spec"]["clusterIP"] == "None"


def test_members_of_another_epoch_are_strangers() -> None:
    """Back in a seed, an etcd has the URLs that it had there before, and so had members that may still run."""
    identities = set()
    for epoch in ("2", "4"):
        made = msgspec.to_builtins(members())
        made["metadata"]["annotations"][metadata_keys.EPOCH] = epoch
        command = containers(msgspec.convert(made, Etcd))["backup-restore"]["command"]
        flags = dict(word.removeprefix("--").split("=", 1) for word in command[4:])
        urls = flags["initial-advertise-peer-urls"].replace("$(POD_NAME)", "etcd-main-0")
        identities.add(membership("etcd-main-0", "", flags["initial-cluster-token"], urls).own.id)
    assert len(identities) == 2


def secured(made: Etcd, *, plain: bool = False) -> Etcd:
    """An etcd that demands certificates of its clients."""
    tree = msgspec.to_builtins(made)
    tree["spec"]["etcd"] = {
        name: {"serverTLSSecretRef": {"name": "etcd-peer-1"}} for name in ("peerUrlTls", "clientUrlTls")
    }
    tree["metadata"]["annotations"] |= {metadata_keys.PLAIN_CLIENTS: "true"} if plain else {}
    return msgspec.convert(tree, Etcd)


@pytest.mark.parametrize("made", [etcd(), members()], ids=["one", "three"])
def test_clients_of_etcd_present_certificates(made: Etcd) -> None:
    """Its agent, in the same pod, has a socket without."""
    [text] = [object_.body["data"] for object_ in rendered(secured(made), OWNER) if object_.resource == CONFIG_MAP]
    configuration = yaml.safe_load(text["etcd.conf.yaml"])
    assert configuration["listen-client-urls"] == "unix:///run/etcd/client.sock,unixs:///run/etcd/clients.sock"
    assert configuration["client-transport-security"] == {
        "cert-file": "/var/etcd/peer/tls.crt",
        "key-file": "/var/etcd/peer/tls.key",
        "trusted-ca-file": "/var/etcd/peer/clients.crt",
        "client-cert-auth": True,
        "skip-client-san-verification": True,
    }
    pods = containers(secured(made))
    guard = etcd_guard.make_context("etcd-guard", list(pods["etcd"]["command"][2:])).params
    assert (guard["etcd_socket"], guard["plain_socket"]) == ("/run/etcd/clients.sock", "")
    assert "--endpoints=unix:///run/etcd/client.sock" in pods["backup-restore"]["command"]
    assert {"name": "etcd-peer-tls", "mountPath": "/var/etcd/peer", "readOnly": True} in pods["etcd"]["volumeMounts"]
    clients = [word for word in pods["backup-restore"]["command"] if word.startswith("--member-clients=")]
    assert not [word for word in clients if "http://" in word]


def test_etcd_takes_plain_clients_while_there_are_some() -> None:
    """Its members call each other so, as one of an earlier gardenlet does not understand TLS."""
    pods = containers(secured(members(), plain=True))
    guard = etcd_guard.make_context("etcd-guard", list(pods["etcd"]["command"][2:])).params
    assert (guard["etcd_socket"], guard["plain_socket"]) == ("/run/etcd/clients.sock", "/run/etcd/client.sock")
    [clients] = [word for word in pods["backup-restore"]["command"] if word.startswith("--member-clients=")]
    assert "https://" not in clients


def test_etcd_of_an_earlier_gardenlet_is_not_restarted() -> None:
    """Its configuration is the same to the byte: a changed file ends etcd."""
    [text] = [object_.body["data"] for object_ in rendered(etcd(), OWNER) if object_.resource == CONFIG_MAP]
    assert "listen-client-urls: unix:///run/etcd/client.sock\n" in text["etcd.conf.yaml"]
    assert "client-transport-security" not in text["etcd.conf.yaml"]
    assert not [word for word in containers(etcd())["etcd"]["command"] if "plain" in word]


def test_certificates_of_clients_are_those_of_members() -> None:
    made = secured(etcd())
    assert made.spec.etcd.peer_url_tls is not None
    made.spec.etcd.peer_url_tls = None
    with pytest.raises(InvalidEtcd, match=r"clientUrlTls.serverTLSSecretRef.name: found etcd-peer-1, allowed is none"):
        rendered(made, OWNER)


def test_members_demand_certificates_of_each_other() -> None:
    [text] = [object_.body["data"] for object_ in rendered(members(), OWNER) if object_.resource == CONFIG_MAP]
    configuration = yaml.safe_load(text["etcd.conf.yaml"])
    assert configuration["listen-peer-urls"] == "https://0.0.0.0:2380"
    assert configuration["peer-transport-security"] == {
        "cert-file": "/var/etcd/peer/tls.crt",
        "key-file": "/var/etcd/peer/tls.key",
        "trusted-ca-file": "/var/etcd/peer/ca.crt",
        "client-cert-auth": True,
        "skip-client-san-verification": True,
    }
    assert not {"name", "election-timeout", "advertise-client-urls"} & configuration.keys()
    mounts = containers(members())["etcd"]["volumeMounts"]
    assert {"name": "etcd-peer-tls", "mountPath": "/var/etcd/peer", "readOnly": True} in mounts


@pytest.mark.parametrize("replicas", [1, 3])
def test_agents_answer_who_has_a_certificate_alone(replicas: int) -> None:
    """Any pod of the seed reaches them, and their calls end an epoch for good."""
    made = msgspec.to_builtins(members())
    made["spec"]["replicas"] = replicas
    run = containers(msgspec.convert(made, Etcd))
    flags = dict(word.removeprefix("--").split("=", 1) for word in run["backup-restore"]["command"][4:])
    assert [flags[name] for name in ("server-cert", "server-key", "client-ca")] == [
        f"/var/etcd/peer/{name}" for name in ("tls.crt", "tls.key", "ca.crt")
    ]
    assert {"name": "etcd-peer-tls", "mountPath": "/var/etcd/peer", "readOnly": True} in run["backup-restore"][
        "volumeMounts"
    ]
    assert run["etcd"]["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"


def test_pods_of_its_namespace_alone_reach_etcd() -> None:
    """etcd asks no client for a certificate: whoever reaches it reads and writes all of a shoot."""
    [policy] = [object_.body["spec"] for object_ in rendered(members(), OWNER) if object_.resource == NETWORK_POLICY]
    assert policy["podSelector"] == stateful_set(members())["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress"]
    [inside, anybody] = policy["ingress"]
    assert inside["from"] == [{"podSelector": {}}], "a selector of namespaces would add others"
    assert [port["port"] for port in inside["ports"]] == [2379, 2380]
    assert anybody == {"ports": [{"port": 8080, "protocol": "TCP"}]}, "agents ask for certificates"


def test_members_are_apart_and_drained_one_by_one() -> None:
    apart = stateful_set(members())["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    [required] = apart["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["topologyKey"] == "kubernetes.io/hostname"
    [budget] = [object_.body for object_ in rendered(members(), OWNER) if object_.resource == POD_DISRUPTION_BUDGET]
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == stateful_set(members())["spec"]["selector"]
    assert "affinity" not in stateful_set(etcd())["spec"]["template"]["spec"]
