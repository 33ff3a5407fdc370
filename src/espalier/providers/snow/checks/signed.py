"""Requests to a Snow device, signed as AWS does, and answers of its EC2-compatible API. Pure.

botocore makes signatures and reads answers; it sends nothing itself. The model has the part of EC2's API that is used:
botocore's own model of EC2 takes 36 MiB of memory.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from typing import Any

from espalier.clusters.report.checks.questions import Credentials

REGION = "snow"
EC2, DEVICE = "ec2", "snowballdevice"
"""Names of services in signatures."""
VERSION = "2016-11-15"

IMAGES, INSTANCE_TYPES, KEY_PAIRS = "DescribeImages", "DescribeInstanceTypes", "DescribeKeyPairs"
"""Actions of EC2."""
ACTIONS = (IMAGES, INSTANCE_TYPES, KEY_PAIRS)


class NotReadable(ValueError):
    """The response is not valid for EC2."""


def signed(
    url: str, headers: Mapping[str, str], body: bytes, *, service: str, credentials: Credentials
) -> dict[str, str]:
    """The headers of a POST with its signature."""
    request = _library("awsrequest").AWSRequest("POST", url, headers=dict(headers), data=body)
    account = _library("credentials").ReadOnlyCredentials(credentials.username, credentials.password, None)
    _library("auth").SigV4Auth(account, service, REGION).add_auth(request)
    return dict(request.headers.items())


def read(action: str, status: int, content: bytes) -> Mapping[str, Any]:
    """A response of EC2, by member; errors have `Error` with `Code` and `Message`. Raises `NotReadable`."""
    if b"<!DOCTYPE" in content.replace(b"\0", b""):  # entities would be replaced; in UTF-16, too
        raise NotReadable("the document defines a type of its own")
    shape = _library("model").ServiceModel(_MODEL, EC2).operation_model(action).output_shape
    parser = _library("parsers").create_parser("ec2")
    try:
        answer: Mapping[str, Any] = parser.parse({"status_code": status, "headers": {}, "body": content}, shape)
    except Exception as error:  # the parser raises all kinds of errors for invalid answers
        raise NotReadable(type(error).__name__) from None  # its text quotes the whole answer
    return answer


def _library(name: str) -> Any:
    """A part of botocore, which takes 0.2 s to load, so only in managers with such clusters. It has no types. At its
    default log level, it would log requests with their signatures."""
    logging.getLogger("botocore").setLevel(logging.WARNING)
    return importlib.import_module(f"botocore.{name}")


def _list(item: str) -> dict[str, Any]:
    return {"type": "list", "member": {"shape": item, "locationName": "item"}}


def _structure(**members: tuple[str, str]) -> dict[str, Any]:
    """A shape with members of these names in XML, and these shapes."""
    named = {name: {"shape": shape, "locationName": at} for name, (at, shape) in members.items()}
    return {"type": "structure", "members": named}


_MODEL: dict[str, Any] = {
    "metadata": {"apiVersion": VERSION, "protocol": EC2, "endpointPrefix": EC2},
    "operations": {
        action: {"name": action, "http": {"method": "POST", "requestUri": "/"}, "output": {"shape": f"{action}Result"}}
        for action in ACTIONS
    },
    "shapes": {
        "String": {"type": "string"},
        "Integer": {"type": "integer"},
        f"{IMAGES}Result": _structure(Images=("imagesSet", "Images"), NextToken=("nextToken", "String")),
        "Images": _list("Image"),
        "Image": _structure(ImageId=("imageId", "String"), State=("imageState", "String")),
        f"{INSTANCE_TYPES}Result": _structure(
            InstanceTypes=("instanceTypeSet", "InstanceTypes"), NextToken=("nextToken", "String")
        ),
        "InstanceTypes": _list("InstanceType"),
        "InstanceType": _structure(InstanceType=("instanceType", "String"), VCpuInfo=("vCpuInfo", "VCpuInfo")),
        "VCpuInfo": _structure(DefaultVCpus=("defaultVCpus", "Integer")),
        f"{KEY_PAIRS}Result": _structure(KeyPairs=("keySet", "KeyPairs")),
        "KeyPairs": _list("KeyPair"),
        "KeyPair": _structure(KeyName=("keyName", "String")),
    },
}
