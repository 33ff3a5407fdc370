"""A Prism Central is asked over HTTPS, and trusted with nothing but answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from espalier.clusters.report.checks.questions import Credentials, LookUpError
from espalier.providers.nutanix.checks import prism
from espalier.providers.nutanix.checks.prism import PrismCentrals
from espalier.providers.nutanix.checks.questions import (
    Answers,
    CategoryValue,
    Entity,
    GpuModel,
    ObjectType,
    Query,
    Question,
)
from tests.support.providers.prism import ACCOUNT, EAST, NAME, WEST, Prism, entity, never, prism_central

CLUSTER = Question(ObjectType.CLUSTER, False, "CLUSTER-1")
SUBNETS = [Question(ObjectType.SUBNET, False, "subnet-2"), Question(ObjectType.SUBNET, True, "S3")]
IMAGE, PROJECT = Question(ObjectType.IMAGE, False, "ubuntu-1-35"), Question(ObjectType.PROJECT, False, "none")
CENTRAL = Question(ObjectType.CLUSTER, False, "Central")
THERE = (CategoryValue("stone", "granite"), CategoryValue("a/b", "c d"))
GONE = (CategoryValue("stone", "marble"), CategoryValue("..", "users"), CategoryValue("stone", "."))


def asked_of(center: Prism, **more: Any) -> Query:
    return Query(center.server, **more)


def answers(center_of: Callable[[Prism], Any] = lambda _center: None, **more: Any) -> Answers:
    """The answers of one Prism Central; `center_of` changes it before."""

    async def main() -> Answers:
        async with prism_central() as center:
            center_of(center)
            return await PrismCentrals(center.resolve)(asked_of(center, **more), ACCOUNT)

    return asyncio.run(main())


def refusal(
    change: Callable[[Prism], Any] = lambda _center: None,
    credentials: Credentials = ACCOUNT,
    *,
    server: dict[str, Any] | None = None,
    asked: dict[str, Any] | None = None,
    **certificate: Any,
) -> LookUpError:
    """Why there are no answers."""

    async def main() -> None:
        async with prism_central(**certificate) as center:
            change(center)
            where = msgspec.structs.replace(center.server, **(server or {}))
            questions = {"questions": frozenset({CLUSTER})} | (asked or {})
            await PrismCentrals(center.resolve)(Query(where, **questions), credentials)

    with pytest.raises(LookUpError) as raised:
        asyncio.run(main())
    assert ACCOUNT.password not in str(raised.value)
    return raised.value


def test_all_questions_are_answered_in_one_session() -> None:
    questions = frozenset({CLUSTER, *SUBNETS, IMAGE, PROJECT, CENTRAL})
    asked: list[list[str]] = []
    categories = frozenset({*THERE, *GONE})
    result = answers(lambda center: asked.append(center.asked), questions=questions, categories=categories, gpus=True)
    assert result.entities == {
        CLUSTER: (Entity(EAST, "cluster-1"),),
        SUBNETS[0]: (Entity("s2", "subnet-2", WEST),),
        SUBNETS[1]: (Entity("s3", "vpc"),),
        IMAGE: (Entity("i1", "ubuntu-1-35"),),
        PROJECT: (),
        CENTRAL: (),
    }
    assert result.categories == frozenset(THERE)
    (paths,) = asked
    of_categories = [path for path in paths if path.startswith("GET /categories/")]
    assert of_categories == [
        "GET /categories/a%2Fb/c%20d",
        *(f"GET /categories/stone/{n}" for n in ("granite", "marble")),
    ]
    assert result.gpus == (GpuModel(EAST, "Ampere 40", 8757, "PASSTHROUGH_GRAPHICS", 2),)


def test_only_questions_and_account_are_requested() -> None:
    seen: list[list[str]] = []
    assert answers(lambda center: seen.append(center.asked)) == Answers()
    assert seen == [["GET /users/me"]]


def test_all_pages_are_read() -> None:
    def many(center: Prism) -> None:
        center.entities["images"] = [entity(f"image-{number}", str(number)) for number in range(prism.PAGE + 3)]

    last = Question(ObjectType.IMAGE, False, f"image-{prism.PAGE + 2}")
    assert answers(many, questions=frozenset({last})).entities[last] == (Entity(str(prism.PAGE + 2), last.value),)


def test_the_number_of_entities_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prism, "MOST_ENTITIES", 4)
    monkeypatch.setattr(prism, "PAGE", 2)
    error = refusal(lambda center: center.entities["clusters"].extend([entity("a", str(n)) for n in range(9)]))
    assert str(error).endswith("has more than 4 clusters, the most that can be searched")


def test_the_size_of_answers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prism, "LARGEST", 1 << 20)
    error = refusal(lambda center: center.entities["clusters"].append(entity("a" * (2 << 20), "1")))
    assert error.reason == "UnexpectedAnswer"
    assert str(error).endswith("sent more than 1 MiB")


@pytest.mark.parametrize("account", [Credentials("maker", "wrong"), Credentials("other", ACCOUNT.password)])
def test_a_refused_account_is_reported_as_refused(account: Credentials) -> None:
    error = refusal(credentials=account)
    assert (error.reason, error.refused) == ("LoginRefused", True)
    assert str(error) == f"{account.username} can't log in; correct the Secret with the credentials"


@pytest.mark.parametrize("name", ["", "a:b"])
def test_an_invalid_account_is_not_sent(name: str) -> None:
    asked: list[list[str]] = []
    error = refusal(lambda center: asked.append(center.asked), Credentials(name, "x"))
    assert (error.reason, error.refused, asked) == ("LoginRefused", True, [[]])


CERTIFICATES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an unknown authority": (
        {"authorities": ""},
        {},
        "self-signed certificate; add the certificate of its authority",
    ),
    "another name": ({}, {"name": "other.example.com"}, "certificate is not valid for 'prism.example.com'"),
    "expired": ({}, {"expired": True}, "certificate has expired"),
    "no authorities": ({"authorities": "MIIB"}, {}, "spec.additionalTrustBundle can't be read"),
}


@pytest.mark.parametrize("name", CERTIFICATES)
def test_certificate_is_verified_before_any_request(name: str) -> None:
    server, certificate, sentence = CERTIFICATES[name]
    asked: list[list[str]] = []
    error = refusal(lambda center: asked.append(center.asked), server=server, **certificate)
    assert error.reason == "CertificateNotVerified"
    assert sentence in str(error)
    assert asked == [[]]


def test_comments_of_a_trust_bundle_are_skipped() -> None:
    async def main() -> Answers:
        async with prism_central() as center:
            bundle = f"# Główny urząd\n{center.server.authorities}"
            where = msgspec.structs.replace(center.server, authorities=bundle)
            return await PrismCentrals(center.resolve)(Query(where), ACCOUNT)

    assert asyncio.run(main()) == Answers()


def test_unverified_server_may_have_any_certificate() -> None:
    async def main() -> Answers:
        async with prism_central(name="other.example.com", expired=True) as center:
            where = msgspec.structs.replace(center.server, insecure=True, authorities="")
            return await PrismCentrals(center.resolve)(Query(where), ACCOUNT)

    assert asyncio.run(main()) == Answers()


def answering(**answer: Any) -> Callable[[Prism], None]:
    async def fault(request: web.Request) -> web.StreamResponse | None:
        return web.Response(**answer) if request.method == "POST" else None

    return lambda center: setattr(center, "fault", fault)


FAULTS: dict[str, tuple[Callable[[Prism], None], str, str]] = {
    "500": (
        answering(status=500, text="a\nb" * 999),
        "UnexpectedAnswer",
        "answered 500 to a request to list clusters: a ba",
    ),
    "not allowed": (
        answering(status=403),
        "UnexpectedAnswer",
        "maker is not allowed to list clusters on prism.example.com",
    ),
    "not there": (
        answering(status=404, text="no API"),
        "UnexpectedAnswer",
        "answered 404 to a request to list clusters",
    ),
    "elsewhere": (
        answering(status=302, headers={"Location": "https://other.example.com"}),
        "UnexpectedAnswer",
        "answered 302",
    ),
    "no JSON": (answering(text="<html>"), "UnexpectedAnswer", "did not return a valid Prism Central response"),
    "another JSON": (
        answering(text='{"entities": {}}'),
        "UnexpectedAnswer",
        "did not return a valid Prism Central response",
    ),
    "deep JSON": (answering(text="[" * 5000), "UnexpectedAnswer", "nested more than 128 levels deep"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_of_the_server_is_reported(name: str) -> None:
    change, reason, sentence = FAULTS[name]
    error = refusal(change)
    assert (error.reason, error.refused) == (reason, False)
    assert sentence in str(error)
    assert len(str(error)) < 500


def test_a_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prism, "CONNECT", 0.1)
    error = refusal(lambda center: setattr(center, "fault", never))
    assert error.reason == "Unreachable"
    assert "timed out: no response within 0.1 s" in str(error)


def test_an_unreachable_server_is_reported() -> None:
    async def main() -> None:
        async with prism_central() as center:
            asked = asked_of(center)
        await PrismCentrals(center.resolve)(asked, ACCOUNT)

    with pytest.raises(LookUpError) as raised:
        asyncio.run(main())
    assert raised.value.reason == "Unreachable"
    assert str(raised.value).startswith(f"{NAME}:")


@pytest.mark.parametrize("host", ["127.0.0.1:9440", "localhost:9440", "[::1]:9440", f"{'a' * 64}.example:9440"])
def test_local_addresses_of_the_manager_get_no_request(host: str) -> None:
    async def main() -> None:
        async with prism_central() as center:
            await PrismCentrals()(Query(msgspec.structs.replace(center.server, host=host)), ACCOUNT)

    with pytest.raises(LookUpError) as raised:
        asyncio.run(main())
    assert raised.value.reason == "Unreachable"
    assert f"{host} can't be reached: " in str(raised.value)
