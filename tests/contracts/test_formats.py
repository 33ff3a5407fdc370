"""Formats of strings in schemas of custom kinds, on the embedded API server as on kube-apiserver."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import Invalid
from tests.support.servers.widgets import GROUP, definition, established, gone

pytestmark = pytest.mark.often("in_memory", "real")  # what is judged before it is stored is the same for all stores


class Format(NamedTuple):
    """Texts that a format accepts, and others."""

    good: list[str]
    bad: list[str]


FORMATS = {
    "bsonobjectid": Format(
        ["507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011"],
        ["", "507f", "507f1f77bcf86cd79943901g", "507f1f77bcf86cd7994390110"],
    ),
    "uri": Format(
        [
            "https://a.example/b?c=d#e",
            "/a",
            "http:",
            "a:b",
            "mailto:a@b.example",
            "http://a.example:80",
            "http://[::1]/",
            "//a/b",
            "https://a/%20",
            "*",
            "http://a.example/b c",
            "a:%zz",
            "http://u:p@a.example",
        ],
        [
            "",
            "a",
            "a/b",
            "::",
            "http://a.example:port",
            "https://a/%zz",
            "http://[::1",
            "1a:b",
            "https://a\u0001",
            "http://a b",
            "http://a^b/",
            "http://[a]/",
            "http://a:1:2/",
        ],
    ),
    "email": Format(
        [
            "a@b.example",
            "a@b",
            "A <a@b.example>",
            "a+b@c.d",
            '"a b"@c.d',
            "a@[127.0.0.1]",
            " a@b.example",
            "ä@b.example",
        ],
        ["", "a", "a@", "@b", "a b@c", "a@b@c", "a..b@c", "a.@b", "a@b.example, c@d.example"],
    ),
    "hostname": Format(
        [
            "a",
            "a.example",
            "A.example",
            "1a.example",
            "a-b.example",
            "a--b.example",
            "localhost",
            "ä.example",
            "a.b-c.example",
            "xn--4ca.example",
            "$.example",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example",
            "a-",
            "a-b",
        ],
        [
            "",
            "-a",
            "a_b",
            "a..b",
            "a.example.",
            "a b",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "a.-b",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example",
            ".a",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "1.a",
            "127.0.0.1",
            "a.1",
            "ab.c",
            "a-b-c",
        ],
    ),
    "ipv4": Format(
        ["127.0.0.1", "0.0.0.0", "255.255.255.255", "127.0.0.01", "::ffff:127.0.0.1", "64:ff9b::1.2.3.4"],
        ["", "256.0.0.1", "127.0.0", "::1", "127.0.0.1/8", " 127.0.0.1"],
    ),
    "ipv6": Format(
        ["::1", "2001:db8::a", "::ffff:127.0.0.1", "::", "2001:DB8::A", "64:ff9b::1.2.3.4"],
        ["", "127.0.0.1", "::g", "fe80::1%eth0", "[::1]", "::1/64", ":::", "1:2:3:4:5:6:7:8:9"],
    ),
    "cidr": Format(
        [
            "10.0.0.0/8",
            "10.0.0.1/8",
            "2001:db8::/32",
            "0.0.0.0/0",
            "::ffff:10.0.0.0/104",
            "10.0.0.0/32",
            "10.0.0.0/08",
            "010.0.0.0/8",
        ],
        [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/a",
            "10.0.0/8",
            "10.0.0.0/-1",
            "2001:db8::/129",
            "fe80::1%eth0/64",
            "10.0.0.0/255.0.0.0",
        ],
    ),
    "mac": Format(
        [
            "00:00:5e:00:53:01",
            "00-00-5E-00-53-01",
            "0000.5e00.5301",
            "02:00:5e:10:00:00:00:01",
            "0200.5e10.0000.0001",
            "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01",
            "00005e005301",
            "02005e1000000001",
            "00000000fe8000000000000002005e1000000001",
        ],
        ["", "00:00:5e:00:53", "00:00:5e:00:53:0g", "00-00:5e-00-53-01", "0:0:5e:0:53:1", "00:00:5e:00:53:01:02"],
    ),
    "uuid": Format(
        [
            "123e4567-e89b-12d3-a456-426614174000",
            "123E4567-E89B-12D3-A456-426614174000",
            "123e4567e89b12d3a456426614174000",
            "00000000-0000-0000-0000-000000000000",
            "123e4567-e89b12d3a456426614174000",
        ],
        [
            "",
            "123e4567-e89b-12d3-a456-42661417400",
            "123e4567-e89b-12d3-a456-42661417400g",
            "{123e4567-e89b-12d3-a456-426614174000}",
            "urn:uuid:123e4567-e89b-12d3-a456-426614174000",
        ],
    ),
    "uuid3": Format(
        ["123e4567-e89b-32d3-a456-426614174000", "123e4567e89b32d3a456426614174000"],
        ["", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"],
    ),
    "uuid4": Format(
        ["123e4567-e89b-42d3-a456-426614174000", "123e4567e89b42d3b456426614174000"],
        ["", "123e4567-e89b-42d3-c456-426614174000", "123e4567-e89b-12d3-a456-426614174000"],
    ),
    "uuid5": Format(
        ["123e4567-e89b-52d3-a456-426614174000", "123e4567e89b52d3b456426614174000"],
        ["", "123e4567-e89b-52d3-c456-426614174000", "123e4567-e89b-12d3-a456-426614174000"],
    ),
    "hexcolor": Format(["#fff", "fff", "#a1B2c3", "a1b2c3"], ["", "#ffff", "#ggg", "#", "red"]),
    "rgbcolor": Format(
        ["rgb(0,0,0)", "rgb(255,255,255)", "rgb( 1 , 2 , 3 )", "rgb(1, 2, 3)"],
        ["", "rgb(256,0,0)", "rgb(0,0)", "rgba(0,0,0,0)", "RGB(0,0,0)", "rgb(01,0,0)", "rgb (0,0,0)"],
    ),
    "byte": Format(
        ["YQ==", "YWI=", "YWJj", "+/+/"], ["YQ", "YQ=", "a", "YQ==YQ==", "-_-_", "YW Jj", "YWJj=", "", "YWJj\nYWJj"]
    ),
    "password": Format(["", "a", "\x00"], []),
    "date": Format(
        ["2026-01-31", "0001-01-01", "9999-12-31", "2024-02-29"],
        ["", "2026-02-30", "2026-1-1", "2026-01-31T00:00:00Z", "26-01-31", "2023-02-29", "2026/01/31"],
    ),
    "duration": Format(
        [
            "1h",
            "1h30m",
            "1.5h",
            "-1s",
            "0",
            "1us",
            "1µs",
            "1 day",
            "2 weeks",
            "3d",
            "1w",
            "1 hour 2 minutes",
            "+1s",
            "1ms",
            "1ns",
            "3 hours",
            "5m 3s",
            "P1D",
            "1h-30m",
            "1e3s",
            "1d 1y",
            "1y 1d",
            "0s0",
            "1.5d",
            "1H",
            ".5s",
            "1.s",
        ],
        ["", "1", "h", "1y", "1 month", "a day", "00"],
    ),
    "date-time": Format(
        [
            "2026-01-31T00:00:00Z",
            "2026-01-31T00:00:00.123456789Z",
            "2026-01-31T00:00:00+02:00",
            "2026-01-31t00:00:00z",
            "2026-01-31T23:59:59-23:59",
            "2026-01-31T00:00:00+25:00",
            "2026-01-31T00:00:00x5Z",
        ],
        [
            "",
            "2026-01-31",
            "2026-02-30T00:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T00:00:60Z",
            "2026-01-31 00:00:00Z",
            "2026-01-31T00:00Z",
            "2026-01-31T00:00:00",
            "2026-01-31T00:00:00.5",
            "2026-01-31T00:00:00+0200",
        ],
    ),
    "datetime": Format(["2026-01-31T00:00:00Z"], ["", "a"]),
    "k8s-short-name": Format(["a", "a-b"], ["A", "", "a.b"]),
    "k8s-long-name": Format(["a.b"], ["A", "", "a..b"]),
    "int32": Format(["a"], []),
    "time": Format(["a"], []),
    "ip": Format(["a"], []),
    "unknown": Format(["a"], []),
    "date_time": Format(["a"], []),
}

NOTE = Resource(GROUP, "v1", "notes", "Note")


async def test_formats_accept_and_refuse_the_same(client: Client, namespace: str) -> None:
    fields = {name: f"field{number}" for number, name in enumerate(FORMATS)}
    crd = definition("notes", "Note")
    schema = {"type": "object", "properties": {of: {"type": "string", "format": name} for name, of in fields.items()}}
    schema = {"type": "object", "properties": {"spec": schema}}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd["spec"]["versions"] = [served]
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd)
    await established(client, crd["metadata"]["name"])

    async def refused(field: str, text: str) -> str:
        head = {"apiVersion": NOTE.api_version, "kind": "Note", "metadata": {"name": "a", "namespace": namespace}}
        try:
            await client.create(NOTE, {**head, "spec": {field: text}}, dry_run=True)
        except Invalid as error:
            return str(error)
        return ""

    try:
        for name, (good, bad) in FORMATS.items():
            answers = {text: await refused(fields[name], text) for text in (*good, *bad)}
            assert [text for text, why in answers.items() if not why] == good, name
            assert all(f"must be of type {name}: " in answers[text] for text in bad), name
    finally:
        await client.delete(CUSTOM_RESOURCE_DEFINITION, crd["metadata"]["name"])
        await gone(client, CUSTOM_RESOURCE_DEFINITION, crd["metadata"]["name"])
