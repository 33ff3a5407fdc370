"""Pushes of images into registries that are empty, have some of it, want credentials, or fail."""

from __future__ import annotations

import asyncio
import io
import ssl
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from espalier.cli.kit.connecting.registry_credentials import Credentials
from espalier.cli.local.images.layout import INDEX, Layout
from espalier.cli.local.images.push import registry as protocol
from espalier.cli.local.images.push.archive import PIECE, Archive, BadArchive, Blob, opened
from espalier.cli.local.images.push.pushing import Pushed, push
from espalier.cli.local.images.push.reference import Reference
from espalier.cli.local.images.push.registry import PushFailed, Registry
from tests.support.objects.image_archives import compress, small_archive
from tests.support.servers.https_server import authority
from tests.support.servers.image_registry import PASSWORD, TOKEN, USER, ImageRegistry, image_registry, refused

RIGHT = Credentials(USER, PASSWORD, source="config.json")
WRONG = Credentials(USER, "battery staple", source="config.json")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture
async def registry() -> AsyncIterator[ImageRegistry]:
    async with image_registry() as running:
        yield running


pauses: list[float] = []


async def pushed(
    to: ImageRegistry,
    archive: Path,
    credentials: Credentials = RIGHT,
    *,
    statements: bool = True,
    http: bool = True,
    connector: aiohttp.TCPConnector | None = None,
) -> Pushed:
    pauses.clear()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    reference = Reference(to.address, "team/espalier", "v1")
    with opened(archive) as images:
        async with aiohttp.ClientSession(connector=connector) as session:
            place = Registry(reference, credentials, session, http, sleep)
            return await push(images, images.contents(), place, statements=statements, show=lambda _: None)


async def refusal(
    to: ImageRegistry,
    archive: Path,
    credentials: Credentials = RIGHT,
    *,
    http: bool = True,
    connector: aiohttp.TCPConnector | None = None,
) -> str:
    """The message of a push that fails; it must leave no tag, be one sentence, and have no secret."""
    before = dict(to.tags)
    with pytest.raises(PushFailed) as failure:
        await pushed(to, archive, credentials, http=http, connector=connector)
    assert to.tags == before
    message = str(failure.value)
    assert "\n" not in message
    assert credentials.password not in message or not credentials.password
    return message


async def test_both_platforms_are_pushed_with_statements(registry: ImageRegistry, archive: Path) -> None:
    done = await pushed(registry, archive)
    assert registry.tags == {"v1": done.digest}
    images = registry.manifest("v1")["manifests"]
    assert [image["platform"]["architecture"] for image in images] == ["amd64", "arm64"]
    for image in images:
        manifest = registry.manifest(image["digest"])
        assert {layer["digest"] for layer in manifest["layers"]} <= registry.blobs.keys()
    subjects = [registry.manifest(name).get("subject", {}).get("digest") for name in registry.manifests]
    assert {subject for subject in subjects if subject} == {image["digest"] for image in images}
    assert done.sent == len(registry.blobs)


async def test_second_push_sends_no_blob(registry: ImageRegistry, archive: Path) -> None:
    first = await pushed(registry, archive)
    registry.requests.clear()
    second = await pushed(registry, archive)
    assert (second.sent, second.there, second.digest) == (0, first.sent, first.digest)
    assert registry.sent("POST") == 0


async def test_only_missing_blobs_are_sent(registry: ImageRegistry, archive: Path) -> None:
    await pushed(registry, archive)
    lost = next(iter(registry.blobs))
    del registry.blobs[lost]
    again = await pushed(registry, archive)
    assert (again.sent, lost in registry.blobs) == (1, True)


async def test_tag_is_what_is_set_last(registry: ImageRegistry, archive: Path) -> None:
    await pushed(registry, archive)
    writes = [request for request in registry.requests if request.startswith(("PUT", "POST"))]
    assert writes[-1] == "PUT /v2/team/espalier/manifests/v1"
    assert [request for request in writes if request.endswith("/v1")] == writes[-1:]


async def test_old_registry_gets_lists_of_statements(registry: ImageRegistry, archive: Path) -> None:
    registry.lists_statements = False
    await pushed(registry, archive)
    await pushed(registry, archive)
    for image in registry.manifest("v1")["manifests"]:
        (entry,) = registry.manifest(image["digest"].replace(":", "-"))["manifests"]
        assert entry["artifactType"] == "application/spdx+json"
        assert registry.manifest(entry["digest"])["subject"]["digest"] == image["digest"]


async def test_list_of_statements_keeps_those_of_others(registry: ImageRegistry, archive: Path) -> None:
    registry.lists_statements = False
    await pushed(registry, archive)
    tag = registry.manifest("v1")["manifests"][0]["digest"].replace(":", "-")
    theirs = {"mediaType": "x", "digest": f"sha256:{'0' * 64}", "size": 1, "artifactType": "theirs"}
    registry.manifests["theirs"] = (INDEX, b'{"manifests":[' + str(theirs).replace("'", '"').encode() + b"]}")
    registry.manifests[theirs["digest"]] = ("x", b"")  # type: ignore[index]
    registry.tags[tag] = "theirs"
    await pushed(registry, archive)
    assert [entry["artifactType"] for entry in registry.manifest(tag)["manifests"]] == [
        "theirs",
        "application/spdx+json",
    ]


async def test_statements_can_be_left_out(registry: ImageRegistry, archive: Path) -> None:
    await pushed(registry, archive, statements=False)
    assert not any("subject" in registry.manifest(digest) for digest in registry.manifests)


@pytest.mark.parametrize("how", ["basic", "token"])
async def test_credentials_are_shown_when_wanted(registry: ImageRegistry, archive: Path, how: str) -> None:
    registry.authentication = how
    done = await pushed(registry, archive)
    assert registry.tags == {"v1": done.digest}


@pytest.mark.parametrize("how", ["basic", "token"])
async def test_wrong_credentials_are_named_by_source(registry: ImageRegistry, archive: Path, how: str) -> None:
    registry.authentication = how
    message = await refusal(registry, archive, WRONG)
    assert registry.address in message
    assert "401" in message
    assert "the credentials are those of config.json: log in again" in message


@pytest.mark.parametrize("how", ["basic", "token"])
async def test_missing_credentials_are_asked_for(registry: ImageRegistry, archive: Path, how: str) -> None:
    registry.authentication = how
    assert f"`docker login {registry.address}`" in await refusal(registry, archive, Credentials())


async def test_token_that_expires_is_replaced(registry: ImageRegistry, archive: Path) -> None:
    registry.authentication = "token"
    expired = iter([True])

    async def expire(request: web.Request) -> web.StreamResponse | None:
        shown = "Authorization" in request.headers and request.method == "PUT"
        return registry._challenge() if shown and next(expired, False) else None

    registry.faults.append(expire)
    assert (await pushed(registry, archive)).digest == registry.tags["v1"]


def answer(
    method: str, part: str, make: Callable[[web.Request], Awaitable[web.StreamResponse]], times: int = 10**6
) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    """A fault of requests of a method whose path has a part."""
    left = iter(range(times))

    async def fault(request: web.Request) -> web.StreamResponse | None:
        matches = request.method == method and part in request.path
        return await make(request) if matches and next(left, None) is not None else None

    return fault


def status(code: int, message: str = "", **headers: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def make(_: web.Request) -> web.StreamResponse:
        made = refused(code, "SOME_CODE", message)
        made.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
        return made

    return make


async def cut(request: web.Request) -> web.StreamResponse:
    """Half of the request is read, then the connection ends."""
    await request.content.read(100)
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def half(request: web.Request) -> web.StreamResponse:
    """An answer that ends before its announced length."""
    made = web.StreamResponse(status=201, headers={"Content-Length": "1000"})
    await made.prepare(request)
    await made.write(b"half")
    assert request.transport is not None
    request.transport.abort()
    return made


async def silent(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


@pytest.mark.parametrize(
    "make", [cut, half, status(503), status(429, Retry_After="7")], ids=["cut", "half", "503", "429"]
)
@pytest.mark.parametrize(("method", "part"), [("PUT", "/uploads/"), ("PUT", "/manifests/"), ("HEAD", "/blobs/")])
async def test_moment_of_failure_is_repeated(
    registry: ImageRegistry,
    archive: Path,
    method: str,
    part: str,
    make: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> None:
    registry.faults.append(answer(method, part, make, times=2))
    assert (await pushed(registry, archive)).digest == registry.tags["v1"]
    # A connection that ends is also made anew by the client itself, without a pause.
    assert pauses in ([1.0, 4.0], [7.0, 7.0], [1.0], [])


@pytest.mark.parametrize(
    ("method", "part", "code", "words"),
    [
        ("HEAD", "/blobs/", 403, "ask for the right to push to team/espalier"),
        ("POST", "/uploads/", 403, "ask for the right to push to team/espalier"),
        ("POST", "/uploads/", 404, "create the repository team/espalier first"),
        ("PUT", "/uploads/", 413, "raise its limit"),
        ("PUT", "/uploads/", 400, "see its log"),
        ("PUT", "/manifests/", 400, "see its log"),
        ("PUT", "/manifests/v1", 409, "see its log"),
        ("PUT", "/manifests/v1", 500, "tried 4 times"),
        ("POST", "/uploads/", 503, "tried 4 times"),
    ],
)
async def test_refusal_says_what_where_and_what_to_do(
    registry: ImageRegistry, archive: Path, method: str, part: str, code: int, words: str
) -> None:
    registry.faults.append(answer(method, part, status(code, "no, be\ncause\x1b[2J")))
    message = await refusal(registry, archive)
    assert message.startswith(f"{registry.address} refused to ")
    assert str(code) in message
    assert words in message
    assert "\x1b" not in message
    if method != "HEAD":
        assert "no, be" in message


@pytest.mark.parametrize(("method", "part"), [("PUT", "/uploads/"), ("PUT", "/manifests/v1")])
async def test_silent_registry_is_given_up(
    registry: ImageRegistry, archive: Path, monkeypatch: pytest.MonkeyPatch, method: str, part: str
) -> None:
    monkeypatch.setattr(protocol, "SILENCE", 0.2)
    registry.faults.append(answer(method, part, silent))
    message = await refusal(registry, archive)
    assert (
        f"127.0.0.1 sent nothing for 0 s when asked to store the {'blob' if 'uploads' in part else 'manifest'}"
        in message
    )
    assert "tried 4 times" in message


async def test_other_server_is_not_taken_for_a_registry(registry: ImageRegistry, archive: Path) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>hello</html>", status=202)

    registry.faults.append(answer("POST", "", page))
    assert "did not say where to store the blob" in await refusal(registry, archive)


async def test_other_digest_is_noticed(registry: ImageRegistry, archive: Path) -> None:
    async def other(_: web.Request) -> web.StreamResponse:
        return web.Response(status=201, headers={"Docker-Content-Digest": f"sha256:{'0' * 64}"})

    registry.faults.append(answer("PUT", "/manifests/", other))
    assert f"has sha256:{'0' * 64}: push again" in await refusal(registry, archive)


async def test_range_in_no_proxy_is_reached_directly(
    registry: ImageRegistry, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
    assert (await pushed(registry, archive)).digest in registry.tags.values()


async def test_nobody_at_the_address_is_named(archive: Path) -> None:
    async with image_registry() as gone:
        pass
    message = await refusal(gone, archive)
    assert "127.0.0.1 could not be asked to look for sha256:" in message


async def test_registry_without_tls_names_the_flag(registry: ImageRegistry, archive: Path) -> None:
    assert "--plain-http" in await refusal(registry, archive, http=False)


async def test_untrusted_certificate_names_the_variable(archive: Path) -> None:
    async with image_registry(tls=True) as registry:
        message = await refusal(registry, archive, http=False)
    assert "a certificate that is not trusted here" in message
    assert "SSL_CERT_FILE" in message


@pytest.mark.parametrize(
    "challenge",
    [
        *("Digest realm=x", "Bearer", 'Bearer realm="file:///etc/passwd"', 'Bearer realm="nowhere"'),
        *('Bearer realm="https://a:99999/token"', 'Bearer realm="https://[::1/token"'),
    ],
)
async def test_unknown_challenge_is_named(registry: ImageRegistry, archive: Path, challenge: str) -> None:
    registry.faults.append(answer("HEAD", "", status(401, WWW_Authenticate=challenge)))
    assert "known: Basic, Bearer" in await refusal(registry, archive)


async def test_closed_port_is_named_without_tls(archive: Path) -> None:
    message = await refusal(ImageRegistry(port=1), archive)
    assert message.startswith("127.0.0.1 could not be asked to look for sha256:")
    assert "Connection refused" in message
    assert "ssl" not in message


@pytest.mark.parametrize(
    ("place", "words"),
    [("", "redirects in a circle"), ("mailto:x", "redirects to mailto:x, which is no"), ("http://[x", "redirects to")],
)
async def test_redirect_to_nowhere_is_named(registry: ImageRegistry, archive: Path, place: str, words: str) -> None:
    async def moved(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": place or request.path})

    registry.faults.append(answer("HEAD", "", moved))
    message = await refusal(registry, archive)
    assert words in message
    assert "tried" not in message


@pytest.mark.parametrize("body", ["", "<html>", "[]", "{}", '{"token": "a b\\n"}', '{"token": 7}'])
async def test_answer_without_a_token_is_named(registry: ImageRegistry, archive: Path, body: str) -> None:
    async def token(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body)

    registry.authentication = "token"
    registry.faults.append(answer("GET", "/token", token))
    message = await refusal(registry, archive)
    assert f"http://{registry.address} answered with" in message


def nested(folder: Path, depth: int) -> Path:
    """An archive of an index, that lists another one twice, and so on."""
    layout = Layout(folder / "layout", compress)
    image = layout.image("amd64", [], {})
    top = image
    for _ in range(depth):
        top = layout.document(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": [top, top]})
    layout.archive(folder / "nested.tar", "registry.example/espalier:v1", top, image, ())
    return folder / "nested.tar"


def test_index_that_is_listed_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    verify = Archive.verify

    def counted(archive: Archive, blob: Blob) -> None:
        read.append(blob.digest)
        verify(archive, blob)

    monkeypatch.setattr(Archive, "verify", counted)
    with opened(nested(tmp_path, 5)) as images:
        assert len(images.contents().manifests) == len(read) == 6


def test_index_without_a_platform_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout", lambda _source, _target: None)
    index = layout.document(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": []})
    image = layout.image("amd64", [], {})
    layout.archive(tmp_path / "empty.tar", "registry.example/a:v1", index, image, [])
    with opened(tmp_path / "empty.tar") as images, pytest.raises(BadArchive, match="no platform in it"):
        images.contents()


def test_indexes_below_too_many_are_refused(tmp_path: Path) -> None:
    with opened(nested(tmp_path, 1200)) as images, pytest.raises(BadArchive, match="more than 8 indexes"):
        images.contents()


@pytest.mark.parametrize("damage", ["cut off", "other content", "no archive", "empty"])
async def test_damaged_archive_is_not_tagged(
    registry: ImageRegistry, archive: Path, tmp_path: Path, damage: str
) -> None:
    bad = tmp_path / "bad.tar"
    content = archive.read_bytes()
    with tarfile.open(archive) as tar:
        layer = max((entry for entry in tar), key=lambda entry: entry.size)
    flipped = bytearray(content)
    flipped[layer.offset_data + 50] ^= 1
    bad.write_bytes(
        {
            "cut off": content[: layer.offset_data + 10],
            "other content": bytes(flipped),
            "no archive": b"<html>" * 1000,
            "empty": b"",
        }[damage]
    )
    with pytest.raises(BadArchive) as failure:
        await pushed(registry, bad)
    assert str(bad) in str(failure.value)
    assert registry.tags == {}


async def test_push_that_ends_anywhere_goes_on(registry: ImageRegistry, archive: Path) -> None:
    await pushed(registry, archive)
    total = len(registry.requests)
    older = b'{"manifests":[]}'
    for number in range(total - 1):  # the last one only asks what the tag leads to
        registry.blobs.clear()
        registry.manifests = {"older": (INDEX, older)}
        registry.tags = {"v1": "older"}
        left = iter(range(number))

        async def end(_: web.Request, left: Iterator[int] = left) -> web.StreamResponse | None:
            return None if next(left, None) is not None else refused(403, "DENIED", "over")

        registry.faults = [end]
        await refusal(registry, archive)
        registry.faults = []
        stored = len(registry.blobs)
        done = await pushed(registry, archive)
        assert done.there == stored
        assert registry.tags["v1"] == done.digest


def trusting() -> aiohttp.TCPConnector:
    """Connections that trust the certificates of servers of tests."""
    context = ssl.create_default_context(cadata=authority().certificate.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return aiohttp.TCPConnector(ssl=context)


async def test_registry_with_tls_takes_a_push(archive: Path) -> None:
    async with image_registry(tls=True) as registry:
        registry.authentication = "token"
        done = await pushed(registry, archive, http=False, connector=trusting())
    assert registry.tags == {"v1": done.digest}


async def test_other_host_gets_no_credentials_of_registry(registry: ImageRegistry, archive: Path) -> None:
    shown: list[str | None] = []

    async def record(request: web.Request) -> web.StreamResponse | None:
        shown.append(request.headers.get("Authorization"))
        return refused(403, "DENIED", "not yours")

    async with image_registry() as other:
        other.faults.append(record)

        async def elsewhere(request: web.Request) -> web.StreamResponse | None:
            place = f"http://{other.address}/v2/x/blobs/uploads/1"
            is_begun = request.method == "POST" and "Authorization" in request.headers
            return web.Response(status=202, headers={"Location": place}) if is_begun else None

        registry.authentication = "basic"
        registry.faults.append(elsewhere)
        await refusal(registry, archive)
    assert shown == [None]


async def test_upload_is_not_sent_without_tls(archive: Path) -> None:
    async with image_registry() as other, image_registry(tls=True) as registry:

        async def elsewhere(_: web.Request) -> web.StreamResponse:
            return web.Response(status=202, headers={"Location": f"http://{other.address}/v2/x/blobs/uploads/1"})

        registry.faults.append(answer("POST", "/uploads/", elsewhere))
        message = await refusal(registry, archive, http=False, connector=trusting())
        assert "wants uploads without TLS" in message
        assert other.requests == []


@pytest.mark.parametrize("credentials", [RIGHT, Credentials(identity_token="secret", source="config.json")])
async def test_credentials_are_not_sent_without_tls(archive: Path, credentials: Credentials) -> None:
    async with image_registry() as other, image_registry(tls=True) as registry:
        challenge = f'Bearer realm="http://{other.address}/token"'
        registry.faults.append(answer("HEAD", "", status(401, WWW_Authenticate=challenge)))
        message = await refusal(registry, archive, credentials, http=False, connector=trusting())
        assert "wants credentials sent without TLS" in message
        assert other.requests == []


async def test_identity_token_is_exchanged(registry: ImageRegistry, archive: Path) -> None:
    forms: list[str] = []

    async def exchange(request: web.Request) -> web.StreamResponse:
        forms.append((await request.content.read()).decode())
        return web.json_response({"access_token": TOKEN})

    registry.authentication = "token"
    registry.faults.append(answer("POST", "/token", exchange))
    done = await pushed(registry, archive, Credentials(identity_token="secret", source="config.json"))
    assert registry.tags == {"v1": done.digest}
    assert "grant_type=refresh_token" in forms[0]
    assert "refresh_token=secret" in forms[0]


async def test_each_piece_puts_the_limit_of_silence_off() -> None:
    async with asyncio.timeout(protocol.SILENCE) as limit:
        limits = [limit.when() or 0.0]
        async for _ in protocol._pieces(io.BytesIO(bytes(2 * PIECE)), limit):
            limits.append(limit.when() or 0.0)
        limits.append(limit.when() or 0.0)
    assert limits[0] == limits[1] < limits[2] < limits[3]
