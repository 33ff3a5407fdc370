"""The authority of an etcd's members is renewed: members accept each other at every moment, in all orders."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from espalier.kube.connection.pki import KeyPair
from espalier.shoots.secrets import derived, names, peers
from espalier.shoots.secrets.persisted import Data, authority_of
from espalier.shoots.secrets.validity import validity
from tests.support.etcd.peer_secrets import NOW, PeerSecrets

YEAR = timedelta(days=365)


def accepts(reader: Data, other: Data, file: str = "ca.crt") -> bool:
    """True if who has the first files lets in one with the second, by the authorities in this file."""
    authorities = x509.load_pem_x509_certificates(reader[file])
    return any(validity(other["tls.crt"], KeyPair(pem(authority), b"").certificate) for authority in authorities)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


@dataclass
class Pods(PeerSecrets):
    """They are asked whether they accept each other."""

    mounted: list[Data] = field(default_factory=list)
    client: str = ""
    """The Secret of the pod of kube-apiserver."""
    client_mounted: Data = field(default_factory=dict)

    def use(self) -> peers.Use:
        """kube-apiserver has its Secret as well."""
        use = super().use()
        return peers.Use(use.secret, use.is_settled and self.client in ("", peers.client_secret(self.wanted)))

    def start(self) -> None:
        """All begin."""
        super().start()
        self.mounted = [self.secrets[self.wanted]] * 3
        self.replace_client()

    def replace_client(self) -> None:
        """The pod of kube-apiserver is replaced by one of the newest template."""
        self.client = peers.client_secret(self.wanted)
        self.client_mounted = self.secrets[self.client]

    def replace(self, member: int) -> Data:
        """A pod is replaced by one of the newest template."""
        self.mounted[member] = super().replace(member)
        return self.mounted[member]

    def roll(self) -> None:
        """Replace them one by one until nothing is due; at every moment all accept each other."""
        for _ in range(30):
            if outdated := self.outdated():
                self.replace(outdated[0])
                self.check()
            elif self.client != peers.client_secret(self.wanted):
                self.replace_client()
                self.check()
            if not self.reconcile() and not self.outdated() and self.client == peers.client_secret(self.wanted):
                return
        raise AssertionError("it never ends")

    def check(self) -> None:
        """All accept each other."""
        for reader in self.mounted:
            for other in self.mounted:
                assert accepts(reader, other), self.of_pods
                assert accepts(reader, other, "clients.crt"), "agents reach the etcds of other members"
            assert accepts(reader, self.client_mounted, "clients.crt"), "etcd refuses kube-apiserver"
            assert accepts(self.client_mounted, reader), "kube-apiserver refuses etcd"
            assert not accepts(reader, self.client_mounted), "kube-apiserver is neither a member nor an agent"


def started() -> Pods:
    pods = Pods()
    pods.start()
    assert not pods.reconcile()
    return pods


@pytest.mark.parametrize("is_lost", [True, False])
def test_renewal_replaces_each_member_three_times(is_lost: bool) -> None:
    pods = started()
    before, former = pods.authority(), pods.secrets[names.CA_ETCD_PEER]["clients-ca.crt"]
    assert has_former(pods.mounted[0], former)
    if is_lost:
        del pods.secrets[names.CA_ETCD_PEER]
    else:
        pods.now += 7 * YEAR
        pods.secrets[pods.wanted] = {**pods.secrets[pods.wanted], **leaf_of(pods)}
        pods.mounted = [pods.secrets[pods.wanted]] * 3
        pods.secrets[pods.client] = {**pods.secrets[pods.client], **client_leaf_of(pods)}
        pods.client_mounted = pods.secrets[pods.client]
    pods.reconcile()
    pods.roll()
    assert pods.replaced == 9
    assert pods.authority() != before
    assert pods.secrets[pods.wanted]["ca.crt"] == pods.authority(), "the old one is trusted no more"
    assert sorted(pods.secrets) == sorted((names.CA_ETCD_PEER, pods.wanted, peers.client_secret(pods.wanted)))
    assert not has_former(pods.mounted[0], former), "the former client is trusted no more"


def has_former(member: Data, former: bytes) -> bool:
    """True if a member trusts this authority of clients."""
    return former in member["clients.crt"]


def leaf_of(pods: Pods) -> Data:
    """A certificate of today by the present authority."""
    pair = authority_of(pods.secrets[names.CA_ETCD_PEER]).issue_peer("etcd-peer", names=["x"], now=pods.now, days=90)
    return {"tls.crt": pair.certificate, "tls.key": pair.key}


def client_leaf_of(pods: Pods) -> Data:
    """The same for kube-apiserver."""
    authorities = pods.secrets[names.CA_ETCD_PEER]
    data = {"ca.crt": authorities["clients-ca.crt"], "ca.key": authorities["clients-ca.key"]}
    pair = authority_of(data).issue_client("kube-apiserver", now=pods.now, days=90)
    return {"tls.crt": pair.certificate, "tls.key": pair.key}


@pytest.mark.parametrize("seed", range(40))
def test_members_accept_each_other_whatever_happens(seed: int) -> None:
    """Crashes between two writes, authorities that are deleted again, members that are replaced at any time."""
    rng = random.Random(seed)
    pods = started()
    for _ in range(30):
        match rng.randrange(6):
            case 0:
                pods.reconcile(crash=rng.randrange(3))
            case 1 if rng.random() < 0.3:
                pods.secrets.pop(names.CA_ETCD_PEER, None)
            case 2 if outdated := pods.outdated():
                pods.replace(rng.choice(outdated))
            case 3:
                member = rng.randrange(3)  # its pod is lost, and starts again
                pods.mounted[member] = pods.secrets[pods.of_pods[member]]
            case 4:
                pods.replace_client()
            case 5:  # its pod is lost, and starts again
                pods.client_mounted = pods.secrets[pods.client]
            case _:
                pods.reconcile()
        pods.check()
        assert {pods.wanted, *pods.of_pods, pods.client} <= pods.secrets.keys(), "a pod could not start"
    pods.reconcile()
    pods.roll()


def test_members_of_etcd_have_their_own_authority() -> None:
    """An API server's certificate does not make it a member: that of its client is of another authority."""
    pods = started()
    peer = KeyPair(pods.secrets[pods.wanted]["tls.crt"], b"").x509
    usages = peer.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    client = KeyPair(pods.secrets[pods.client]["tls.crt"], b"").x509
    usages = client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.CLIENT_AUTH}
    assert names.CA_ETCD_PEER not in {certificate.ca for certificate in derived.CERTIFICATES.values()}


def test_secrets_of_an_earlier_gardenlet_are_completed() -> None:
    """Its etcd had no TLS for clients: members are replaced once, and trust each other throughout."""
    pods = started()
    authorities = pods.secrets[names.CA_ETCD_PEER]
    pods.secrets = {
        names.CA_ETCD_PEER: {name: authorities[name] for name in ("ca.crt", "ca.key")},
        "etcd-peer-1": {name: data for name, data in pods.mounted[0].items() if name != "clients.crt"},
        **{name: {} for name in ("ca-etcd", "etcd-server", "etcd-client")},
    }
    pods.wanted, pods.client, pods.replaced = "etcd-peer-1", "", 0
    pods.of_pods, pods.mounted = ["etcd-peer-1"] * 3, [pods.secrets["etcd-peer-1"]] * 3
    assert pods.reconcile()
    for member in range(3):
        pods.replace(member)
        assert all(accepts(reader, other) for reader in pods.mounted for other in pods.mounted)
    pods.replace_client()
    pods.check()
    pods.roll()
    assert pods.replaced == 3
    assert sorted(pods.secrets) == sorted((names.CA_ETCD_PEER, pods.wanted, pods.client))


def test_renewal_waits_for_kube_apiserver() -> None:
    """The next step begins once kube-apiserver has what members have; else it would be refused."""
    pods = started()
    del pods.secrets[names.CA_ETCD_PEER]
    pods.reconcile()
    preparing = pods.wanted
    for member in range(3):
        pods.replace(member)
    pods.reconcile()
    assert pods.wanted == preparing
    pods.replace_client()
    pods.reconcile()
    assert pods.wanted != preparing


def test_nothing_is_trusted_before_all_have_it() -> None:
    """Its certificate is presented only once the last member trusts the new authority."""
    pods = started()
    del pods.secrets[names.CA_ETCD_PEER]
    pods.reconcile()
    first = pods.mounted[0]["tls.crt"]
    pods.replace_client()
    for member in (0, 1):
        pods.replace(member)
        pods.reconcile()
        assert pods.secrets[pods.wanted]["tls.crt"] == first
    pods.replace(2)
    pods.reconcile()
    assert pods.secrets[pods.wanted]["tls.crt"] != first
    assert pods.authority() in pods.mounted[0]["ca.crt"]


def test_certificate_of_peers_is_renewed_in_place() -> None:
    """etcd reads it for each connection, so no member restarts."""
    pods = started()
    before, pods.now = pods.secrets[pods.wanted], NOW + timedelta(days=61)
    name = pods.wanted
    assert pods.reconcile()
    assert pods.wanted == name
    assert pods.secrets[name]["tls.crt"] != before["tls.crt"]
    assert pods.secrets[name]["ca.crt"] == before["ca.crt"]
    assert pods.outdated() == []


def test_renewal_without_members_takes_one_step() -> None:
    pods = started()
    before = pods.authority()
    del pods.secrets[names.CA_ETCD_PEER]
    pods.wanted = pods.client = ""
    pods.of_pods = []
    pods.reconcile()
    assert pods.secrets[pods.wanted]["ca.crt"] == pods.authority() != before
    assert len(pods.secrets) == 3


def test_ended_certificate_is_replaced_at_once() -> None:
    """The old authority's key is gone, and nobody accepts its certificate any more."""
    pods = started()
    del pods.secrets[names.CA_ETCD_PEER]
    pods.reconcile()
    preparing = pods.wanted
    pods.now += timedelta(days=89, hours=12)
    pods.reconcile()
    assert pods.wanted != preparing
    assert validity(pods.secrets[pods.wanted]["tls.crt"], pods.authority()) is not None


@pytest.mark.parametrize(
    "change",
    [{"ca.crt": b"x"}, {"tls.key": None}, {"tls.key": b"x"}, {"tls.crt": b"-----BEGIN CERTIFICATE-----\n"}, None],
)
def test_damaged_secret_of_peers_is_written_again(change: dict[str, bytes | None] | None) -> None:
    pods = started()
    name, before = pods.wanted, pods.secrets[pods.wanted]
    if change is None:
        del pods.secrets[name]
    else:
        pods.secrets[name] = {key: data for key, data in {**before, **change}.items() if data is not None}
    assert pods.reconcile()
    assert pods.wanted == name
    assert accepts(pods.secrets[name], before)
    assert accepts(before, pods.secrets[name])


def test_damaged_secret_is_rewritten_while_preparing() -> None:
    """Its certificate can't be issued again, but the members still have it."""
    pods = started()
    del pods.secrets[names.CA_ETCD_PEER]
    pods.reconcile()
    pods.wanted, preparing = pods.of_pods[0], pods.wanted  # an older view: its Etcd does not name it yet
    pods.secrets[preparing] = {**pods.secrets[preparing], "tls.crt": b"x"}
    pods.reconcile()
    assert pods.secrets[preparing]["tls.crt"] == pods.mounted[0]["tls.crt"]


@pytest.mark.parametrize("key", [None, b"x"])
def test_renewal_begins_with_a_damaged_key(key: bytes | None) -> None:
    """Nobody can present the old certificate any more, so the new one is presented."""
    pods = started()
    before = {name: data for name, data in pods.secrets[pods.wanted].items() if name != "tls.key"}
    pods.secrets[pods.wanted] = before | ({} if key is None else {"tls.key": key})
    del pods.secrets[names.CA_ETCD_PEER]
    pods.reconcile()
    assert validity(pods.secrets[pods.wanted]["tls.crt"], pods.authority()) is not None


@pytest.mark.parametrize("broken", [{}, {"ca.crt": b"x", "ca.key": b"y"}])
def test_damaged_authority_of_peers_is_renewed(broken: Data) -> None:
    pods = started()
    pods.secrets[names.CA_ETCD_PEER] = broken
    pods.reconcile()
    pods.roll()
    assert pods.replaced == 9
