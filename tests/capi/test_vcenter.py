"""A vCenter is asked over its real protocols; what is wrong with it, or with a spec, is named."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from espalier.clusters.report.checks.questions import Credentials, LookUpError
from espalier.providers.vsphere.checks import vcenter as session
from espalier.providers.vsphere.checks.questions import Answers, ObjectType, Query, Question
from espalier.providers.vsphere.checks.vcenter import VCenters
from espalier.providers.vsphere.server import Server
from tests.support.providers.vcenter import ACCOUNT, MISSING, NAME, VCenter, certificate, tag, vcenter, vim

pytestmark = [pytest.mark.capi, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

TEMPLATE = Question(ObjectType.TEMPLATE, "DC0", "DC0_H0_VM0")
POOLS = Question(ObjectType.RESOURCE_POOL, "DC0", "*/Resources")


@pytest.fixture(scope="module")
def center() -> Iterator[VCenter]:
    with vcenter() as made:
        yield made


NONE: frozenset[str] = frozenset()


def ask(
    center: VCenter,
    *questions: Question,
    addresses: frozenset[str] = NONE,
    tags: frozenset[str] = NONE,
    policies: frozenset[str] = NONE,
    **server: object,
) -> Answers:
    """The answers of a vCenter; `server` differs from the one that is there."""
    named = Server(**({"host": center.server.host, "thumbprint": center.thumbprint} | server))  # type: ignore[arg-type]
    asked = Query(named, frozenset(questions), addresses, tags=tags, policies=policies)
    return asyncio.run(VCenters(center.resolve)(asked, ACCOUNT))


def test_objects_resolve_by_path_name_and_pattern(center: VCenter) -> None:
    asked = {
        Question(ObjectType.DATACENTER, "DC0", "DC0"): ("/DC0",),
        Question(ObjectType.DATACENTER, "DC1", "DC1"): (),
        Question(ObjectType.NETWORK, "DC0", "DC0_DVPG0"): ("/DC0/network/DC0_DVPG0",),
        Question(ObjectType.NETWORK, "DC0", "/DC0/network/VM Network"): ("/DC0/network/VM Network",),
        Question(ObjectType.NETWORK, "DC0", "/DC0/datastore/LocalDS_0"): (),
        Question(ObjectType.DATASTORE, "DC0", "LocalDS_0"): ("/DC0/datastore/LocalDS_0",),
        Question(ObjectType.FOLDER, "DC0", ""): ("/DC0/vm",),
        Question(ObjectType.COMPUTE_CLUSTER, "DC0", "DC0_C0"): ("/DC0/host/DC0_C0",),
        POOLS: ("/DC0/host/DC0_C0/Resources", "/DC0/host/DC0_H0/Resources"),
        Question(ObjectType.TEMPLATE, "DC0", "DC0_H0_VM*"): ("/DC0/vm/DC0_H0_VM0", "/DC0/vm/DC0_H0_VM1"),
        Question(ObjectType.TEMPLATE, "DC0", "ubuntu"): (),
    }
    assert ask(center, *asked).paths == asked


def test_brackets_in_a_name_stand_for_themselves(center: VCenter) -> None:
    """As to govmomi, which Cluster API's provider looks templates up with: a pattern, or else the name itself."""
    name = "ubuntu [1.36]"
    with center.administrator() as content:
        content.searchIndex.FindByInventoryPath("/DC0/vm/DC0_C0_RP0_VM1").Rename_Task(name)
    for asked in (name, f"/DC0/vm/{name}", "ubuntu [[]1.36]"):
        question = Question(ObjectType.TEMPLATE, "DC0", asked)
        assert ask(center, question).paths[question] == (f"/DC0/vm/{name}",)


def test_templates_tell_their_disks_and_tags(center: VCenter) -> None:
    result = ask(center, TEMPLATE).templates["/DC0/vm/DC0_H0_VM0"]
    assert not result.is_template
    assert result.disks == (10 * 1024**3,)
    assert result.tags == frozenset()
    with center.administrator() as content:
        machine = content.searchIndex.FindByInventoryPath("/DC0/vm/DC0_H0_VM0")
        machine.PowerOffVM_Task()
        machine.MarkAsTemplate()
    tag(center, "/DC0/vm/DC0_H0_VM0", "os:ubuntu")
    result = ask(center, TEMPLATE).templates["/DC0/vm/DC0_H0_VM0"]
    assert result.is_template
    assert result.tags == {"os:ubuntu"}


def test_privileges_that_the_account_lacks_are_named(center: VCenter) -> None:
    datastore = Question(ObjectType.DATASTORE, "DC0", "LocalDS_0")
    assert ask(center, datastore).lacking == {}
    with center.administrator() as content:
        manager = content.authorizationManager
        role = manager.AddAuthorizationRole("reader", ["Datastore.Browse"])
        permission = vim.AuthorizationManager.Permission(
            principal=ACCOUNT.username, group=False, roleId=role, propagate=True
        )
        entity = content.searchIndex.FindByInventoryPath("/DC0/datastore/LocalDS_0")
        manager.SetEntityPermissions(entity, [permission])
    try:
        assert ask(center, datastore).lacking == {
            "/DC0/datastore/LocalDS_0": ("Datastore.AllocateSpace", "Datastore.FileManagement")
        }
    finally:
        with center.administrator() as content:
            entity = content.searchIndex.FindByInventoryPath("/DC0/datastore/LocalDS_0")
            content.authorizationManager.RemoveEntityPermission(entity, ACCOUNT.username, False)


def test_missing_tags_and_policies_are_reported(center: VCenter) -> None:
    there = tag(center, "/DC0/vm/DC0_H0_VM1", "team:garden")
    gone = "urn:vmomi:InventoryServiceTag:00000000-0000-0000-0000-000000000000:GLOBAL"
    result = ask(
        center,
        TEMPLATE,
        tags=frozenset({*there, gone, "team:garden"}),
        policies=frozenset({"vSAN Default Storage Policy", "gold"}),
    )
    assert result.unknown_tags == {gone, "team:garden"}
    assert result.unknown_policies == {"gold"}
    assert result.paths[TEMPLATE] == ("/DC0/vm/DC0_H0_VM0",)


def test_an_address_that_a_machine_has_is_reported(center: VCenter) -> None:
    with center.administrator() as content:
        machine = content.searchIndex.FindByInventoryPath("/DC0/vm/DC0_C0_RP0_VM0")
        spec = vim.vm.ConfigSpec(extraConfig=[vim.option.OptionValue(key="SET.guest.ipAddress", value="10.9.8.7")])
        machine.ReconfigVM_Task(spec)
    assert ask(center, addresses=frozenset({"10.9.8.7", "10.9.8.8"})).holders == {"10.9.8.7": "DC0_C0_RP0_VM0"}


def refusal(center: VCenter, account: Credentials = ACCOUNT, **server: object) -> tuple[str, str]:
    named = Server(**({"host": center.server.host, "thumbprint": center.thumbprint} | server))  # type: ignore[arg-type]
    with pytest.raises(LookUpError) as refused:
        asyncio.run(VCenters(center.resolve)(Query(named), account))
    assert account.password not in str(refused.value)
    return refused.value.reason, str(refused.value)


@pytest.mark.demand(L21="against govmomi's simulator")
def test_other_thumbprint_is_reported_with_the_actual(center: VCenter) -> None:
    reason, message = refusal(center, thumbprint=":".join(["AA"] * 20))
    assert reason == "CertificateNotVerified"
    assert f"has thumbprint {center.thumbprint}, but spec.thumbprint is AA:AA" in message


def test_certificate_of_unknown_authority_is_refused(center: VCenter) -> None:
    reason, message = refusal(center, thumbprint="")
    assert reason == "CertificateNotVerified"
    assert "set spec.thumbprint" in message


def test_any_certificate_is_trusted_on_request(center: VCenter) -> None:
    ask(center, thumbprint="", insecure=True)


def test_thumbprint_counts_for_an_insecure_server(center: VCenter) -> None:
    assert refusal(center, thumbprint=":".join(["AA"] * 20), insecure=True)[0] == "CertificateNotVerified"


@pytest.mark.parametrize("expired", [False, True])
def test_trusted_authority_needs_no_thumbprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expired: bool) -> None:
    cert, key = certificate(tmp_path, expired=expired)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with vcenter("-cert", str(cert), "-key", str(key)) as center:
        if expired:
            reason, message = refusal(center, thumbprint="")
            assert reason == "CertificateNotVerified"
            assert "expired" in message
        else:
            ask(center, thumbprint="")


def test_wrong_password_is_reported_as_refused(center: VCenter) -> None:
    reason, message = refusal(center, Credentials(ACCOUNT.username, "plum"))
    assert (reason, message) == (
        "LoginRefused",
        "espalier@vsphere.local can't log in; correct the Secret with the credentials",
    )


def test_a_server_that_is_away_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    center = VCenter(("127.0.0.1", port), ":".join(["AA"] * 20))
    reason, message = refusal(center)
    assert reason == "VCenterUnreachable"
    assert message.startswith(f"{NAME}:{port} can't be reached")


@contextmanager
def listening(answer: bytes) -> Iterator[tuple[str, int]]:
    """Something else than a vCenter: it sends `answer`, again and again, to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        while answer:
                            connection.sendall(answer)
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n"])
def test_a_server_that_is_no_vcenter_is_reported(answer: bytes) -> None:
    with listening(answer) as address:
        reason, _ = refusal(VCenter(address, ":".join(["AA"] * 20)))
    assert reason in ("VCenterUnreachable", "UnexpectedAnswer")


def test_one_that_gives_no_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LONGEST", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reason, message = refusal(VCenter(silent.getsockname(), ":".join(["AA"] * 20)))
    assert reason == "VCenterUnreachable"
    assert "did not answer" in message


def test_nothing_is_missing_beyond_the_search_limit(center: VCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST_OBJECTS", 1)
    with pytest.raises(
        LookUpError, match=r"datacenter DC0 has \d+ objects, .*give template DC0_H0_VM0 as a path: /DC0/vm"
    ):
        ask(center, TEMPLATE)
    with pytest.raises(LookUpError, match="a folder has"):
        ask(center, Question(ObjectType.TEMPLATE, "DC0", "/DC0/vm/DC0_*"))
    path = "/DC0/vm/DC0_H0_VM0"
    assert ask(center, Question(ObjectType.TEMPLATE, "DC0", path)).paths[
        Question(ObjectType.TEMPLATE, "DC0", path)
    ] == (path,)


def test_more_than_a_session_may_read_is_refused(center: VCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LARGEST", 2000)
    assert refusal(center)[0] == "UnexpectedAnswer"
