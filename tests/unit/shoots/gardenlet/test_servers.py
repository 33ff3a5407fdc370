"""Servers in the status of another seed's bucket: no seed connects to one that its operators have not named."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.shoots.bucket_providers import PUBLIC_CLOUDS, UNDECLARED
from espalier.shoots.gardenlet.backups.servers import untrusted

AWS = PUBLIC_CLOUDS["aws"].domains
BUCKET = "b-1"
TEXTS = (
    "https://evil.example/x",
    "http://evil.example:8080",
    "s3://evil.example",
    "evil.example",
    "evil.example.",
    "EVIL.example",
    "evil.example:443",
    "evil:443",
    "10.0.0.7",
    "10.0.0.7:9000",
    "[fd00::7]:9000",
    "fd00::7",
    "//evil.example/x",
    "evil.example/bucket",
    "user@evil.example",
    "https://s3.amazonaws.com@evil.example",
    "https://s3.amazonaws.com.evil.example",
    "https://amazonaws.com.evil.example/",
    " https://evil.example",
    "[bad",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("place", ["value", "nested", "list", "key"])
def test_no_server_is_trusted_wherever_it_stands(place: str, text: str) -> None:
    status: Any = {
        "value": {"store": text},
        "nested": {"a": {"b": {"store": text}}},
        "list": {"stores": ["s3.eu-west-1.amazonaws.com", text]},
        "key": {"stores": {text: 1}},
    }[place]
    (problem,) = untrusted(status, {}, AWS, BUCKET, {})
    assert problem.startswith("status.providerStatus.")
    assert "found " in problem


@pytest.mark.parametrize("field", ["endpoint", "storageHost", "proxyURL", "server"])
def test_field_for_server_names_one_in_single_word(field: str) -> None:
    assert untrusted({field: "evil"}, {}, AWS, BUCKET, {}) == [f"status.providerStatus.{field}: found evil"]
    assert untrusted({"phase": "ready"}, {}, AWS, BUCKET, {}) == []


@pytest.mark.parametrize("provider", [*PUBLIC_CLOUDS, "acme"])
def test_servers_of_the_provider_are_its_own_alone(provider: str) -> None:
    own = PUBLIC_CLOUDS.get(provider, UNDECLARED).domains
    for other, declared in PUBLIC_CLOUDS.items():
        for domain in declared.domains:
            is_trusted = not untrusted({"url": f"https://store.{domain}/x"}, {}, own, BUCKET, {})
            assert is_trusted is (provider == other)


@pytest.mark.parametrize(
    "url", ["https://evil-amazonaws.com/x", "https://amazonaws.com/x", "https://evil@s3.amazonaws.com/x"]
)
def test_similar_name_is_not_of_the_provider(url: str) -> None:
    assert untrusted({"url": "https://s3.amazonaws.com/x"}, {}, AWS, BUCKET, {}) == []
    assert len(untrusted({"url": url}, {}, AWS, BUCKET, {})) == 1


def test_servers_of_the_seed_and_in_use_are_trusted() -> None:
    status = {"apiVersion": "acme.provider.example/v1", "kind": "Status", "url": "https://store.acme.example:9000/b"}
    assert len(untrusted(status, {}, (), BUCKET, {})) == 1
    assert untrusted(status, {"endpoints": ["https://store.acme.example"]}, (), BUCKET, {}) == []
    assert untrusted(status, {}, (), BUCKET, status) == []
    assert len(untrusted({**status, "url": "https://other.acme.example"}, {}, (), BUCKET, status)) == 1
    harmless = {"bucket": BUCKET, "url": f"s3://{BUCKET}", "version": "1.2.3", "count": 3, "text": "it is ready"}
    assert untrusted(harmless, {}, (), BUCKET, {}) == []
