"""A Snow device is asked over HTTPS, by signed requests, and trusted with nothing but answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from espalier.clusters.report.checks import hosts
from espalier.clusters.report.checks.questions import Credentials, LookUpError
from espalier.providers.snow import references
from espalier.providers.snow.checks import devices
from espalier.providers.snow.checks.controller import configs
from espalier.providers.snow.checks.devices import SnowDevices
from espalier.providers.snow.checks.questions import Answers, Query
from tests.support.providers.snow_devices import ACCESS_KEY, SECRET_KEY, Device, failed, listed, never, snow_device

ALL = ["snowballdevice DescribeDevice", "snowballdevice DescribeDeviceSoftware"]
ALL += [f"ec2 Describe{name}" for name in ("InstanceTypes", "KeyPairs", "Images")]

Change = Callable[[Device], Any]


def answers(change: Change = lambda _device: None, *, images: bool = True) -> Answers:
    """The answers of one device; `change` is made before."""

    async def main() -> Answers:
        async with snow_device() as device:
            change(device)
            return await SnowDevices(device.resolve, device.ports)(Query(device.server, images), device.account)

    return asyncio.run(main())


def refusal(
    change: Change = lambda _device: None,
    account: Callable[[Credentials], Credentials] = lambda credentials: credentials,
    **certificate: Any,
) -> LookUpError:
    """Why there are no answers."""
    seen: list[str] = []

    async def main() -> None:
        async with snow_device(**certificate) as device:
            device.seen = seen
            change(device)
            asked = Query(device.server, images=True)
            await SnowDevices(device.resolve, device.ports)(asked, account(device.account))

    with pytest.raises(LookUpError) as raised:
        asyncio.run(main())
    assert SECRET_KEY not in str(raised.value) + "".join(seen)
    return raised.value


@pytest.mark.demand("L26")
def test_all_questions_are_answered_in_one_session() -> None:
    asked: list[list[str]] = []
    assert answers(lambda device: asked.append(device.asked)) == Answers(
        software="108",
        instance_types={"sbe-c.large": 2, "sbe-c.small": 1},
        key_pairs=frozenset({"operators"}),
        images=frozenset({"s.ami-1"}),  # the other is not there yet
    )
    assert asked == [ALL]


def test_keys_of_secret_are_accepted_by_device() -> None:
    profile = f"# from the field\n[127.0.0.1]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n"

    async def main() -> None:
        async with snow_device() as device, snow_device() as other:
            look_up = SnowDevices(device.resolve, device.ports)
            bundle = f"# Gerät\n{other.authority}\n{device.authority}"
            data = {"credentials": profile.encode(), "ca-bundle": bundle.encode()}
            asked = Query(device.server)
            result = await look_up(asked, configs(look_up).api.credentials(data, asked))
            assert result.software == "108"

    asyncio.run(main())


def test_images_are_only_listed_if_query_asks_for_them() -> None:
    asked: list[list[str]] = []
    assert answers(lambda device: asked.append(device.asked), images=False).images is None
    assert asked == [ALL[:-1]]


def test_all_pages_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(device: Device) -> None:
        device.images = {f"s.ami-{number}": "available" for number in range(7)}
        device.page = 3

    assert len(answers(many).images or ()) == 7
    monkeypatch.setattr(devices, "MOST_PAGES", 2)
    assert str(refusal(many)).endswith("(it has more than 2 pages)")


def test_the_size_of_answers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "LARGEST", 1 << 20)
    error = refusal(lambda device: device.key_pairs.append("a" * (2 << 20)))
    assert (error.reason, str(error)) == ("UnexpectedAnswer", "device 127.0.0.1 sent more than 1 MiB")


def test_a_locked_device_gets_no_further_request() -> None:
    asked: list[list[str]] = []

    def lock(device: Device) -> None:
        device.state = "LOCKED"
        asked.append(device.asked)

    error = refusal(lock)
    assert (error.reason, asked) == ("DeviceLocked", [ALL[:1]])
    assert str(error).startswith("device 127.0.0.1 is not unlocked: found LOCKED; unlock it")


@pytest.mark.parametrize("keys", [("other", SECRET_KEY), (ACCESS_KEY, "other")])
def test_refused_keys_are_reported_as_refused(keys: tuple[str, str]) -> None:
    error = refusal(account=lambda credentials: Credentials(*keys, credentials.authorities))
    assert (error.reason, error.refused) == ("LoginRefused", True)
    assert "rejected the keys of its profile; correct the Secret" in str(error)


def test_keys_without_permission_are_reported() -> None:
    error = refusal(on(IMAGES, lambda: failed(403, "UnauthorizedOperation")))
    assert (error.reason, error.refused) == ("LoginRefused", True)
    assert str(error) == "the keys for device 127.0.0.1 do not allow DescribeImages; allow it, or use other keys"


@pytest.mark.parametrize("keys", [("", SECRET_KEY), (ACCESS_KEY, "")])
def test_without_a_profile_nothing_is_sent(keys: tuple[str, str]) -> None:
    asked: list[list[str]] = []
    error = refusal(
        lambda device: asked.append(device.asked), lambda credentials: Credentials(*keys, credentials.authorities)
    )
    assert (error.reason, error.refused, asked) == ("LoginRefused", True, [[]])
    assert "has no profile [127.0.0.1] with aws_access_key_id and aws_secret_access_key; add it" in str(error)


CERTIFICATES: dict[str, tuple[str | None, dict[str, Any], str]] = {
    "of another device": ("other", {}, "self-signed certificate; put the certificate of the device"),
    "for another address": (None, {"name": "192.0.2.1"}, "IP address mismatch, certificate is not valid"),
    "expired": (None, {"expired": True}, "certificate has expired"),
    "none": ("", {}, "field ca-bundle of the Secret has no valid certificates"),
    "no certificate": ("MIIB", {}, "field ca-bundle of the Secret has no valid certificates"),
}


@pytest.mark.parametrize("name", CERTIFICATES)
def test_certificate_is_verified_before_any_request(name: str) -> None:
    authorities, certificate, sentence = CERTIFICATES[name]
    if authorities == "other":
        authorities = references.authorities({"ca-bundle": _another_certificate()})
    asked: list[list[str]] = []

    def account(credentials: Credentials) -> Credentials:
        return credentials if authorities is None else credentials._replace(authorities=authorities)

    error = refusal(lambda device: asked.append(device.asked), account, **certificate)
    assert (error.reason, error.refused) == ("CertificateNotVerified", True)  # with another Secret it may be
    assert sentence in str(error)
    assert asked == [[]]


def _another_certificate() -> bytes:
    async def main() -> bytes:
        async with snow_device() as device:
            return device.authority.encode()

    return asyncio.run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "::1", "snow.example.com"])
def test_local_addresses_of_the_manager_get_no_request(host: str) -> None:
    with pytest.raises(LookUpError) as raised:
        asyncio.run(
            SnowDevices(hosts.resolved)(
                Query(msgspec.structs.replace(_server(), host=host)), Credentials("a", "b", "c")
            )
        )
    assert raised.value.reason == "Unreachable"
    assert "a loopback, link-local or multicast address" in str(raised.value) or "not an IP" in str(raised.value)


def _server() -> Any:
    return Device(devices.PORTS, "").server


def on(action: str, answer: Callable[[], web.StreamResponse]) -> Change:
    async def fault(asked: str, _request: web.Request) -> web.StreamResponse | None:
        return answer() if asked == action else None

    return lambda device: setattr(device, "fault", fault)


def text(content: str | bytes, status: int = 200) -> Callable[[], web.StreamResponse]:
    return lambda: web.Response(body=content, status=status)


IMAGES, DEVICE = "DescribeImages", "DescribeDevice"
BOMB = '<!DOCTYPE a [<!ENTITY b "bbb">]><a>&b;</a>'
FAULTS: dict[str, tuple[Change, str, str]] = {
    "500": (on(IMAGES, lambda: failed(500, "InternalError", "a\nb" * 999)), "UnexpectedAnswer", "answered 500 to Desc"),
    "500 of the device": (on(DEVICE, text("oops", 500)), "UnexpectedAnswer", "answered 500 to DescribeDevice: no reas"),
    "503 without XML": (on(IMAGES, text("<html>", 503)), "UnexpectedAnswer", "answered 503 to DescribeImages"),
    "an error of text": (on(IMAGES, text("<a><Error>b</Error></a>", 500)), "UnexpectedAnswer", "answered 500 to Desc"),
    "an empty error": (on(IMAGES, text("<a><Errors><Error/></Errors></a>", 500)), "UnexpectedAnswer", "answered 500"),
    "elsewhere": (
        on(IMAGES, lambda: web.Response(status=307, headers={"Location": "/elsewhere"})),
        "UnexpectedAnswer",
        "answered 307 to DescribeImages",
    ),
    "clock": (
        on(IMAGES, lambda: failed(400, "RequestExpired", "too old")),
        "UnexpectedAnswer",
        "RequestExpired too old",
    ),
    "no XML": (on(IMAGES, text("hello")), "UnexpectedAnswer", "did not return a valid response to DescribeImages"),
    "other XML": (on(IMAGES, text("<html/>")), "UnexpectedAnswer", "it has no Images"),
    "half of it": (on(IMAGES, text("<a><imagesSet>")), "UnexpectedAnswer", "(ResponseParserError)"),
    "entities": (on(IMAGES, text(BOMB)), "UnexpectedAnswer", "the document defines a type of its own"),
    "entities in UTF-16": (on(IMAGES, text(BOMB.encode("utf-16"))), "UnexpectedAnswer", "the document defines a type"),
    "deep": (on(IMAGES, text(b"<a>" * 99_999)), "UnexpectedAnswer", "(ResponseParserError)"),
    "deep error": (on(IMAGES, text(b"<a>" * 9999 + b"</a>" * 9999, 500)), "UnexpectedAnswer", "answered 500"),
    "no number": (
        on("DescribeInstanceTypes", lambda: listed("a", "instanceTypeSet", ["<vCpuInfo><defaultVCpus/></vCpuInfo>"])),
        "UnexpectedAnswer",
        "did not return a valid response to DescribeInstanceTypes",
    ),
    "no JSON": (on(DEVICE, text("<html>")), "UnexpectedAnswer", "did not return a valid response to DescribeDevice"),
    "other JSON": (on(DEVICE, text("[]")), "UnexpectedAnswer", "did not return a valid response to DescribeDevice"),
    "deep JSON": (on(DEVICE, text('{"a":' * 999)), "UnexpectedAnswer", "nested more than 128 levels"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_errors_are_reported(name: str) -> None:
    change, reason, sentence = FAULTS[name]
    error = refusal(change)
    assert (error.reason, error.refused) == (reason, False)
    assert sentence in str(error)
    assert len(str(error)) < 500
    assert "\n" not in str(error)


def test_a_silent_device_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "LONGEST", 0.2)

    async def fault(_action: str, request: web.Request) -> None:
        await never(request)

    error = refusal(lambda device: setattr(device, "fault", fault))
    assert (error.reason, "timed out" in str(error)) == ("Unreachable", True)


def test_an_unreachable_device_is_reported() -> None:
    def gone(device: Device) -> None:
        device.ports = devices.Ports(1, 1)

    assert refusal(gone).reason == "Unreachable"


def test_no_log_has_signatures(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answers()
    assert not [
        record for record in caplog.records if ACCESS_KEY in record.getMessage() or "Signature" in record.getMessage()
    ]


PROFILES = b"""# of the snow field
[192.0.2.100]
aws_access_key_id = maker
aws_secret_access_key = a%b=c/+
region = snow

[2001:db8::1]
aws_access_key_id=other
aws_secret_access_key=b
[incomplete]
aws_access_key_id = c
"""


@pytest.mark.parametrize(
    ("device", "keys"),
    [
        ("192.0.2.100", ("maker", "a%b=c/+")),
        ("2001:DB8::1", ("other", "b")),
        ("incomplete", ("c", "")),
        ("192.0.2.1", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_device_has_the_keys_of_its_profile(device: str, keys: tuple[str, str]) -> None:
    assert references.keys_of({"credentials": PROFILES}, device) == keys


@pytest.mark.parametrize("content", [b"", b"aws = 1", b"\xff", b"[a\n[", b"[192.0.2.100]\nnothing"])
def test_an_invalid_file_of_profiles_has_no_keys(content: bytes) -> None:
    assert references.keys_of({"credentials": content}, "192.0.2.100") == ("", "")
