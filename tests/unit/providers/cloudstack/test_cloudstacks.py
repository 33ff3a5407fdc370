"""A CloudStack is asked over HTTPS, and trusted with nothing but answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import web
from cs.client import PAGE_SIZE

from espalier.clusters.report.checks import limits, threads
from espalier.clusters.report.checks.questions import Credentials, LookUpError
from espalier.providers.cloudstack.checks import cloudstacks
from espalier.providers.cloudstack.checks.cloudstacks import CloudStacks
from espalier.providers.cloudstack.checks.questions import Answers, Entity, ObjectType, Place, Query, Question
from tests.support.providers.cloudstack_api import KEYS, NAME, CloudStack, error, never, running

HERE = Place(Question(ObjectType.ZONE, "", "zone-1"), "ROOT", "admin")
NETWORK = Question(ObjectType.NETWORK, "", "network-1")
OFFERING = Question(ObjectType.OFFERING, "o1", "")
TEMPLATE = Question(ObjectType.TEMPLATE, "", "rhel8-kube-v1-35")
DISK = Question(ObjectType.DISK_OFFERING, "", "Small")
GROUP, GONE = (Question(ObjectType.AFFINITY_GROUP, name, "") for name in ("group-a", "group-z"))

Change = Callable[[CloudStack], Any]


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have this machine trust a certificate."""
    return lambda path: monkeypatch.setenv("SSL_CERT_FILE", path)


Trust = Callable[[str], None]


def answers(trusted: Trust, change: Change = lambda _api: None, **more: Any) -> Answers:
    """The answers of one CloudStack; `change` is made to it before."""

    async def main() -> Answers:
        async with running() as (api, chain):
            trusted(chain)
            change(api)
            return await CloudStacks(api.resolve)(Query(api.server, **({"place": HERE} | more)), KEYS)

    return asyncio.run(main())


def refusal(
    trusted: Trust, change: Change = lambda _api: None, credentials: Credentials = KEYS, **certificate: Any
) -> LookUpError:
    """Why there are no answers."""

    async def main() -> None:
        async with running(**certificate) as (api, chain):
            trusted(chain)
            change(api)
            await CloudStacks(api.resolve)(Query(api.server, HERE, frozenset({NETWORK})), credentials)

    with pytest.raises(LookUpError) as raised:
        asyncio.run(main())
    assert KEYS.password not in str(raised.value)
    assert KEYS.username not in str(raised.value)
    return raised.value


def test_all_questions_are_answered_in_one_session(trusted: Trust) -> None:
    asked: list[CloudStack] = []
    questions = frozenset({NETWORK, OFFERING, TEMPLATE, DISK, GROUP, GONE})
    result = answers(trusted, asked.append, questions=questions)
    assert (result.zones, result.domains, result.accounts) == (1, 1, 1)
    assert result.entities == {
        NETWORK: (Entity("n1", "network-1"),),
        OFFERING: (Entity("o1", "4 CPUs, 8 GB"),),
        TEMPLATE: (Entity("t1", "rhel8-kube-v1-35"),),
        DISK: (Entity("k1", "Small", is_customized=True),),
        GROUP: (Entity("group-a", "a"),),
        GONE: (),
    }
    (api,) = asked
    assert len(api.commands) == 3 + len(questions)
    assert api.urls == {"/client/api"}  # keys and signatures are in no URL
    assert {request["domainid"] for request in api.asked if request["command"] == "listTemplates"} == {"d1"}
    assert {request["templatefilter"] for request in api.asked if request["command"] == "listTemplates"} == {
        "executable"
    }


PLACES: dict[str, tuple[Place, tuple[int, int | None, int | None]]] = {
    "by ID": (HERE._replace(zone=Question(ObjectType.ZONE, "z1", "")), (1, 1, 1)),
    "another zone": (HERE._replace(zone=Question(ObjectType.ZONE, "", "zone-3")), (0, None, None)),
    "another ID": (HERE._replace(zone=Question(ObjectType.ZONE, "z3", "")), (0, None, None)),
    "a domain below": (HERE._replace(domain="ROOT/boats"), (1, 1, 1)),
    "a domain without its root": (HERE._replace(domain="old/boats"), (1, 1, 1)),
    "no domain": (HERE._replace(domain="ROOT/ships"), (1, 0, None)),
    "no account": (HERE._replace(account="nobody"), (1, 1, 0)),
    "the account of the keys": (HERE._replace(account=""), (1, 1, None)),
}


@pytest.mark.parametrize("name", PLACES)
def test_zones_domains_and_accounts_resolve(name: str, trusted: Trust) -> None:
    place, counts = PLACES[name]
    result = answers(trusted, lambda api: api.items["listAccounts"][0].pop("domainid"), place=place)
    assert (result.zones, result.domains, result.accounts) == counts


ADDRESSES = {
    ("192.0.2.44", 6443): "virtual machine boat-1",
    ("192.0.2.55", 6443): "another network",
    ("192.0.2.66", 6443): "load balancer rule pier",
}
FREE = {("192.0.2.66", 7443), ("192.0.2.77", 6443)}


@pytest.mark.soak
def test_the_holder_of_an_address_is_reported(trusted: Trust) -> None:
    addresses = frozenset({*ADDRESSES, *FREE})
    result = answers(trusted, questions=frozenset({NETWORK}), network=NETWORK, addresses=addresses)
    assert result.holders == ADDRESSES


def test_addresses_are_looked_up_for_a_query_only(trusted: Trust) -> None:
    asked: list[CloudStack] = []
    answers(trusted, asked.append, questions=frozenset({NETWORK}), network=NETWORK)
    assert asked[0].commands == ["listZones", "listDomains", "listAccounts", "listNetworks"]


def crowd(number: int, size: int = 0) -> Change:
    """A change: as many networks whose names have the one that is asked for in it, which is the last."""
    names = [f"network-1{'x' * (size + number - position - 1)}" for position in range(number)]
    return lambda api: api.items.update(listNetworks=[{"id": str(n), "name": name} for n, name in enumerate(names)])


def test_all_pages_are_read(trusted: Trust) -> None:
    last = PAGE_SIZE + 2
    result = answers(trusted, crowd(last + 1), questions=frozenset({NETWORK}))
    assert result.entities[NETWORK] == (Entity(str(last), "network-1"),)


def test_an_id_and_a_name_of_the_same_object_are_equal(trusted: Trust) -> None:
    """A CloudStack that does not filter."""

    async def all_offerings(asked: Mapping[str, str]) -> web.StreamResponse | None:
        if asked["command"] != "listServiceOfferings":
            return None
        items = [{"id": name, "name": "4 CPUs, 8 GB"} for name in ("o1", "o2")]
        return web.json_response({"listserviceofferingsresponse": {"count": 2, "serviceoffering": items}})

    result = answers(trusted, lambda api: setattr(api, "fault", all_offerings), questions=frozenset({OFFERING}))
    assert result.entities[OFFERING] == (Entity("o1", "4 CPUs, 8 GB"),)


def test_the_size_of_answers_is_limited(trusted: Trust, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudstacks, "LARGEST", 1 << 20)
    failure = refusal(trusted, crowd(1, 2 << 20))
    assert failure.reason == "UnexpectedAnswer"
    assert str(failure).endswith("sent more than 1 MiB")


def test_the_number_of_pages_is_limited(trusted: Trust, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudstacks, "MOST_REQUESTS", 9)

    async def endless(asked: Mapping[str, str]) -> web.StreamResponse:
        return web.json_response({"listzonesresponse": {"count": 10**9, "zone": [{"id": asked["page"]}]}})

    failure = refusal(trusted, lambda api: setattr(api, "fault", endless))
    assert str(failure).endswith("needs more than 9 requests to list it")


@pytest.mark.parametrize("keys", [Credentials(KEYS.username, "wrong"), Credentials("other", KEYS.password)])
def test_refused_keys_are_reported_as_refused(keys: Credentials, trusted: Trust) -> None:
    failure = refusal(trusted, credentials=keys)
    assert (failure.reason, failure.refused) == ("LoginRefused", True)
    assert str(failure).endswith("rejected the keys; correct api-key and secret-key in the Secret")


def test_no_request_is_sent_without_keys_for_its_url(trusted: Trust) -> None:
    asked: list[CloudStack] = []
    failure = refusal(trusted, asked.append, Credentials("", ""))
    assert (failure.reason, failure.refused, asked[0].asked) == ("LoginRefused", True, [])
    assert "set api-key, secret-key, and api-url to this URL" in str(failure)


CERTIFICATES: dict[str, tuple[bool, dict[str, Any], str]] = {
    "an unknown authority": (False, {}, "self-signed certificate; have it signed by an authority"),
    "another name": (True, {"name": "other.example.com"}, "certificate is not valid for 'cloudstack.example.com'"),
    "expired": (True, {"expired": True}, "certificate has expired"),
}


@pytest.mark.parametrize("name", CERTIFICATES)
def test_certificate_is_verified_before_any_request(name: str, trusted: Trust) -> None:
    is_trusted, certificate, sentence = CERTIFICATES[name]
    asked: list[CloudStack] = []
    failure = refusal(trusted if is_trusted else lambda _: None, asked.append, **certificate)
    assert failure.reason == "CertificateNotVerified"
    assert sentence in str(failure)
    assert asked[0].asked == []


def test_the_secret_may_disable_verification() -> None:
    async def main() -> Answers:
        async with running(name="other.example.com", expired=True) as (api, _):
            return await CloudStacks(api.resolve)(Query(api.server, HERE), KEYS._replace(insecure=True))

    assert asyncio.run(main()).zones == 1


def test_api_without_tls_is_used_if_secret_has_its_url() -> None:
    async def main() -> Answers:
        async with running(plain=True) as (api, _):
            return await CloudStacks(api.resolve)(Query(api.server, HERE), KEYS)

    assert asyncio.run(main()).zones == 1


@pytest.mark.parametrize("url", ["https://cloudstack.example.com:99999/client/api", "https://[::1/client/api"])
def test_an_invalid_url_is_not_requested(url: str) -> None:
    async def main() -> None:
        async with running() as (api, _):
            await CloudStacks(api.resolve)(Query(msgspec.structs.replace(api.server, url=url), HERE), KEYS)

    with pytest.raises(LookUpError, match="can't be reached") as raised:
        asyncio.run(main())
    assert raised.value.reason == "Unreachable"


def answering(**answer: Any) -> Change:
    async def fault(_asked: Mapping[str, str]) -> web.StreamResponse:
        return web.Response(**answer)

    return lambda api: setattr(api, "fault", fault)


def refusing(code: int, text: str) -> Change:
    async def fault(_asked: Mapping[str, str]) -> web.StreamResponse:
        return error(code, text)

    return lambda api: setattr(api, "fault", fault)


JSON = "application/json"
FAULTS: dict[str, tuple[Change, str, str]] = {
    "500": (answering(status=500, text="a\nb" * 999), "UnexpectedAnswer", "response: HTTP 500 Internal Server Error"),
    "elsewhere": (
        answering(status=302, headers={"Location": "https://other.example.com"}),
        "UnexpectedAnswer",
        "response: HTTP 302 Found",
    ),
    "its own error": (refusing(530, "x" * 9999), "UnexpectedAnswer", "answered 530 to listZones: xxx"),
    "an error with keys in it": (
        refusing(530, f"not for {KEYS.username}, nor for {KEYS.password}"),
        "UnexpectedAnswer",
        "answered 530 to listZones: not for ..., nor for ...",
    ),
    "an unknown command": (
        refusing(432, "no"),
        "UnexpectedAnswer",
        "the keys do not allow listZones on cloudstack.example.com",
    ),
    "not allowed": (refusing(531, "no"), "UnexpectedAnswer", "grant their account a role that does (no)"),
    "a wrong parameter": (refusing(431, "what?"), "UnexpectedAnswer", "answered 431 to listZones: what?"),
    "no JSON": (answering(text="<html>"), "UnexpectedAnswer", "response: JSON (application/json) was expected"),
    "broken JSON": (
        answering(text="{", content_type=JSON),
        "UnexpectedAnswer",
        "did not return a valid CloudStack response",
    ),
    "a list": (
        answering(text="[]", content_type=JSON),
        "UnexpectedAnswer",
        "did not return a valid CloudStack response",
    ),
    "numbers": (
        answering(text='{"a": {"count": 1, "zone": [7]}}', content_type=JSON),
        "UnexpectedAnswer",
        "did not return a valid CloudStack response",
    ),
    "deep JSON": (answering(text="[" * 5000, content_type=JSON), "UnexpectedAnswer", "more than 128 levels deep"),
    "an error that is none": (
        answering(status=500, text='{"a": [1]}', content_type=JSON),
        "UnexpectedAnswer",
        "did not return a valid CloudStack response",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_of_the_server_is_reported(name: str, trusted: Trust) -> None:
    change, reason, sentence = FAULTS[name]
    failure = refusal(trusted, change)
    assert (failure.reason, failure.refused) == (reason, False)
    assert sentence in str(failure)
    assert len(str(failure)) < 500


def test_a_silent_server_times_out(trusted: Trust, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudstacks, "CONNECT", 0.2)
    failure = refusal(trusted, lambda api: setattr(api, "fault", never))
    assert failure.reason == "Unreachable"
    assert "can't be reached: timed out" in str(failure) or "timed out" in str(failure)


@pytest.mark.soak
def test_a_slow_server_times_out(trusted: Trust, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says something, now and then, and never ends."""
    monkeypatch.setattr(cloudstacks, "LONGEST", 0.5)
    failure = refusal(trusted, lambda api: setattr(api, "fault", never))
    assert failure.reason == "Unreachable"
    assert str(failure).endswith("did not answer all questions within 0.5 s")


@pytest.mark.soak
def test_thread_is_free_once_its_session_is_aborted(trusted: Trust, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running() as (api, chain):
            trusted(chain)
            ask, asked = CloudStacks(api.resolve), Query(api.server, HERE)
            api.fault = never
            monkeypatch.setattr(cloudstacks, "LONGEST", 0.5)
            for _ in range(threads.CONTROLLERS):
                with pytest.raises(LookUpError, match="did not answer all questions"):
                    await ask(asked, KEYS)
            api.fault = None
            monkeypatch.setattr(cloudstacks, "LONGEST", limits.CONNECT / 2)
            assert (await ask(asked, KEYS)).zones == 1

    asyncio.run(main())


def test_an_unreachable_server_is_reported(trusted: Trust) -> None:
    failure = refusal(trusted, lambda api: setattr(api, "resolve", lambda _host, _port: [("127.0.0.1", 1)]))
    assert failure.reason == "Unreachable"
    assert f"{NAME}:" in str(failure)


def test_a_name_is_resolved_once(trusted: Trust) -> None:
    """Whatever a name means later: another connection of the session goes to the same address."""
    resolved: list[str] = []

    def change(api: CloudStack) -> None:
        resolve = api.resolve

        def noted(host: str, port: int) -> list[tuple[str, int]]:
            resolved.append(host)
            return resolve(host, port)

        async def closing(asked: Mapping[str, str]) -> web.StreamResponse | None:
            if asked["command"] != "listZones":
                return None
            answer = web.json_response({"listzonesresponse": {"count": 1, "zone": [{"id": "z1", "name": "zone-1"}]}})
            answer.force_close()
            return answer

        api.fault = closing
        setattr(api, "resolve", noted)  # noqa: B010

    assert answers(trusted, change).domains == 1
    assert resolved == [NAME]


def test_local_addresses_of_the_manager_get_no_request(trusted: Trust) -> None:
    asked: list[CloudStack] = []

    async def main() -> None:
        async with running() as (api, chain):
            trusted(chain)
            asked.append(api)
            server = msgspec.structs.replace(api.server, url=f"https://localhost:{api.port}/client/api")
            await CloudStacks()(Query(server, HERE), KEYS)

    with pytest.raises(LookUpError, match="a loopback, link-local or multicast address"):
        asyncio.run(main())
    assert asked[0].asked == []


def test_a_slow_server_delays_no_other(trusted: Trust) -> None:
    async def main() -> None:
        async with running() as (slow, _), running() as (quick, chain):
            trusted(chain)
            slow.fault = never
            ask = CloudStacks(quick.resolve)
            keys = KEYS._replace(insecure=True)
            waiting = [asyncio.create_task(ask(Query(slow.server, HERE), keys)) for _ in range(5)]
            await asyncio.sleep(0)
            assert (await ask(Query(quick.server, HERE), KEYS)).zones == 1
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())
