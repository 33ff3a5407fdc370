"""Credentials from Docker's configuration and its helpers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from espalier.cli.kit.connecting.registry_credentials import Credentials, CredentialsFailed, credentials_for

HOST = "registry.example:5000"
AUTH = base64.b64encode(b"robot:pass:word").decode()


def configured(folder: Path, configuration: Any, **helpers: str) -> dict[str, str]:
    """The environment in which Docker has a configuration, and helpers that are scripts."""
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    (folder / "config.json").write_text(text)
    for name, script in helpers.items():
        program = folder / f"docker-credential-{name}"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return {"DOCKER_CONFIG": str(folder), "PATH": f"{folder}:/usr/bin:/bin"}


def shown(credentials: Credentials) -> tuple[str, str, str]:
    return credentials.user, credentials.password, credentials.identity_token


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, ("", "", "")),
        ({"auths": {HOST: {"auth": AUTH}}}, ("robot", "pass:word", "")),
        ({"auths": {f"https://{HOST}/v2/": {"auth": AUTH}}}, ("robot", "pass:word", "")),
        ({"auths": {f"{HOST}/team": {"auth": AUTH}}}, ("", "", "")),
        ({"auths": {"other.example": {"auth": AUTH}}}, ("", "", "")),
        ({"auths": {HOST: {"username": "robot", "password": "x"}}}, ("robot", "x", "")),
        ({"auths": {HOST: {"auth": AUTH, "identitytoken": "token"}}}, ("", "", "token")),
        ({"auths": {HOST: {}}}, ("", "", "")),
    ],
)
def test_file_has_what_a_login_wrote(tmp_path: Path, configuration: Any, expected: tuple[str, str, str]) -> None:
    assert shown(credentials_for(HOST, configured(tmp_path, configuration))) == expected


def test_hub_has_a_key_of_its_own(tmp_path: Path) -> None:
    environment = configured(tmp_path, {"auths": {"https://index.docker.io/v1/": {"auth": AUTH}}})
    assert credentials_for("docker.io", environment).user == "robot"


def test_missing_file_is_no_failure(tmp_path: Path) -> None:
    assert shown(credentials_for(HOST, {"DOCKER_CONFIG": str(tmp_path / "nowhere")})) == ("", "", "")


ANSWER = """read host; echo '{"Username": "'$host'", "Secret": "s"}'"""


@pytest.mark.parametrize("configuration", [{"credHelpers": {HOST: "x"}}, {"credsStore": "x"}])
def test_helper_is_asked_for_the_registry(tmp_path: Path, configuration: Any) -> None:
    assert shown(credentials_for(HOST, configured(tmp_path, configuration, x=ANSWER))) == (HOST, "s", "")


def test_helper_of_registry_goes_before_the_store(tmp_path: Path) -> None:
    configuration = {"credHelpers": {HOST: "x"}, "credsStore": "y"}
    assert credentials_for(HOST, configured(tmp_path, configuration, x=ANSWER, y="exit 9")).password == "s"


def test_helper_may_give_an_identity_token(tmp_path: Path) -> None:
    script = """echo '{"Username": "<token>", "Secret": "t"}'"""
    assert shown(credentials_for(HOST, configured(tmp_path, {"credsStore": "x"}, x=script))) == ("", "", "t")


def test_file_counts_where_the_store_has_nothing(tmp_path: Path) -> None:
    configuration = {"credsStore": "x", "auths": {HOST: {"auth": AUTH}}}
    script = "echo credentials not found in native keychain; exit 1"
    assert credentials_for(HOST, configured(tmp_path, configuration, x=script)).user == "robot"


@pytest.mark.parametrize(
    ("configuration", "script", "words"),
    [
        ("{", "", "is not a configuration of Docker"),
        ('{"auths": 7}', "", "is not a configuration of Docker"),
        ({"auths": {HOST: {"auth": "%%%"}}}, "", "is not USER:PASSWORD in base64: log in again"),
        ({"auths": {HOST: {"auth": base64.b64encode(b"robot").decode()}}}, "", "is not USER:PASSWORD in base64"),
        ({"credHelpers": {HOST: "absent"}}, "", "docker-credential-absent, which"),
        ({"credHelpers": {HOST: "../x"}}, "", "which is no name of a program"),
        ({"credsStore": "x"}, "echo locked >&2; exit 1", f"docker-credential-x has no credentials for {HOST}: locked"),
        ({"credsStore": "x"}, "exit 1", "it gives no reason"),
        ({"credsStore": "x"}, "echo hello", "answered"),
    ],
)
def test_bad_configuration_is_named(tmp_path: Path, configuration: Any, script: str, words: str) -> None:
    with pytest.raises(CredentialsFailed) as failure:
        credentials_for(HOST, configured(tmp_path, configuration, x=script))
    assert words in str(failure.value)


def test_slow_helper_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("espalier.cli.kit.connecting.registry_credentials.HELPER_SECONDS", 0.2)
    with pytest.raises(CredentialsFailed, match="gave no credentials"):
        credentials_for(HOST, configured(tmp_path, {"credsStore": "x"}, x="exec sleep 30"))


def test_secrets_are_not_shown_by_accident() -> None:
    assert "pass:word" not in repr(Credentials("robot", "pass:word", "token"))
