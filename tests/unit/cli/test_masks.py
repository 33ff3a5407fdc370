"""Masks of support bundles: which values are looked for in texts, and which patterns of credentials are."""

from __future__ import annotations

import base64
import json
import random
import time
from typing import Any

import pytest
import yaml

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.cli.clusters.support import fields, values
from espalier.cli.clusters.support.masks import Masks


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def of_secret(**data: str) -> set[str]:
    return set(values.of_secret({name: b64(text) for name, text in data.items()}, []))


NUTANIX = [{"type": "basic_auth", "data": {"prismCentral": {"username": "admin", "password": "HENpass-4711-xyz"}}}]
DOCKER = {"auths": {"registry.example": {"auth": b64("jane:fishargletters")}}}
INNER = f'#cloud-config\nwrite_files:\n- path: /etc/x\n  content: |\n    {{"token": "fishargletters", "a": {[1, 2]}}}\n'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (json.dumps(NUTANIX), "HENpass-4711-xyz"),
        (json.dumps(NUTANIX, indent="\t"), "HENpass-4711-xyz"),
        (json.dumps({"a": "p\u00e4ss w\u00f6rd\n"}), "p\u00e4ss w\u00f6rd"),
        ('{"password": "fishargletters", "password": "other"}', "fishargletters"),
        ('{"password": 4815162342}', "4815162342"),
        ("a:\n- b: {c: [x, fishargletters]}\n", "fishargletters"),
        ("a: &x fishargletters\nb: *x\n", "fishargletters"),
        ("a: 1\n---\nb: 'fisharg letters'\n", "fisharg letters"),
        ("a: fishargletters\n  b: [", "fishargletters"),
        ("[default]\naws_secret_access_key = fishargletters\n", "fishargletters"),
        ("export GOVC_PASSWORD='fishargletters'\n", "fishargletters"),
        (json.dumps(DOCKER), "fishargletters"),
        (INNER, "fishargletters"),
        (json.dumps({"x": json.dumps({"y": b64("z: fishargletters")})}), "fishargletters"),
        ("proxy: https://jane:fishargletters@proxy:3128/x", "fishargletters"),
        ("x = " + b64("a: 1\nb: fishargletters\n"), "fishargletters"),
    ],
)
def test_a_structured_secret_gives_its_leaves(text: str, value: str) -> None:
    assert value in of_secret(credentials=text)


KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: garden, cluster: {server: "https://10.0.0.1:6443"}}]
contexts: [{name: kubernetes-admin@garden, context: {cluster: garden, user: kubernetes-admin}}]
current-context: kubernetes-admin@garden
"""


def test_plain_fields_of_secrets_are_no_values() -> None:
    assert of_secret(value=KUBECONFIG) == set()
    plain = "path: /etc/kubernetes/pki/ca.crt\nowner: root:root\ndnsDomain: cluster.local\nversion: v1.35.1\n"
    assert of_secret(value=plain) == set()
    policy = """rules:
- {level: None, users: ["system:kube-proxy"], verbs: [watch], resources: [{group: "", resources: [endpoints]}]}
- {userGroups: ["system:nodes"], nonResourceURLs: ["/healthz*"], omitStages: [RequestReceived]}
taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]
program: kube-controller-manager
"""
    assert of_secret(value=policy) == set()
    assert of_secret(enabled="true", port="6443", kind="controller", short="abcde") == set()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        '{"a":' * 200_000,
        "a: " * 300_000,
        "- " * 500_000,
        "&a [" * 200_000,
        "a:\n" + "".join(f" {'x' * depth}:\n" for depth in range(1400)),
        "".join(f"k{n}: value{n}\n" for n in range(60_000)),
        b64(b64(b64(b64(b64(b64("a" * 9999)))))),
        "&a [x,y]\n" + "\n".join(f"- &a{n + 1} [{', '.join(['*a' + str(n)] * 9)}]" for n in range(30)),
        "\x00\ud800".encode("utf-8", "replace").decode() * 9999,
        "http://[",
    ],
)
def test_a_hostile_secret_is_taken_apart_in_bounds(text: str) -> None:
    began = time.process_time()
    assert len(list(values.of_text("a", text, []))) <= values.MOST_VALUES
    assert time.process_time() - began < 60


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ("".join(f"k{n}: value{n}\n" for n in range(values.MOST_VALUES + 1)), True),
        (" " * values.MOST_CHARACTERS + "value1", True),
        ("".join(f"k{n}: value{n}\n" for n in range(100)), False),
    ],
    ids=["values", "characters", "all"],
)
def test_text_beyond_the_bounds_is_counted(text: str, is_cut: bool) -> None:
    cut: list[str] = []
    taken = list(values.of_field("userData", text, cut))
    assert (len(cut) == 1) is is_cut
    assert is_cut or {f"value{n}" for n in range(100)} <= set(taken)


WORKFLOW = {
    "name": "garden",
    "tasks": [
        {
            "worker": "{{.device_1}}",
            "actions": [
                {
                    "image": "writefile:v1",
                    "name": "write-netplan",
                    "environment": {"DEST_PATH": "/etc/netplan/c.yaml", "CONTENTS": "network:\n  psk: kestrel-9\n"},
                    "command": ["join", "--token", "peregrine"],
                }
            ],
        }
    ],
}


@pytest.mark.parametrize(
    "text",
    [yaml.safe_dump(WORKFLOW), json.dumps(WORKFLOW), "tasks: [\nenvironment:\n  A: kestrel-9\n  token: peregrine\n"],
    ids=["yaml", "json", "broken"],
)
def test_workflow_is_masked_as_text_too(text: str) -> None:
    """Tinkerbell's machine templates have it as text, TinkerbellTemplateConfigs as fields."""
    of_text = set(values.of_field("spec", {"template": {"spec": {"templateOverride": text}}}, []))
    assert {"kestrel-9", "peregrine"} <= set(values.of_field("template", WORKFLOW, []))
    assert {"kestrel-9", "peregrine"} <= of_text
    assert "write-netplan" not in of_text


@pytest.mark.parametrize("name", ["postKubeadmCommands", "userData"])
def test_long_script_is_counted(name: str) -> None:
    cut: list[str] = []
    list(values.of_field(name, ["x " * values.MOST_CHARACTERS], cut))
    assert len(cut) == 1


@pytest.mark.parametrize(
    "text",
    [
        "got HENpass-4711/xyz",
        "got xHENpass-4711/xyz.",
        f"got {b64('HENpass-4711/xyz')}",
        "got HENpass-4711%2Fxyz",
        "got two%20w4711%C3%B6rds",
        "got two+w4711%C3%B6rds&a=b",
        r"got two w4711\u00f6rds",
    ],
)
def test_a_value_is_masked_in_all_its_forms(text: str) -> None:
    shown = Masks(values=["HENpass-4711/xyz", "two w4711\u00f6rds"]).text(text)
    assert "(hidden)" in shown
    assert "4711" not in shown


def test_a_value_between_hyphens_is_masked() -> None:
    hide = Masks(values=["fisharg", "two-parts"], public=["my-fisharg"])
    shown = "--(hidden) a-(hidden)-b_(hidden) x(hidden)".replace("x(hidden)", "xfisharg")
    assert hide.text("--fisharg a-fisharg-b_two-parts xfisharg") == shown
    assert hide.text("of my-fisharg") == "of my-fisharg"  # the name of an object
    assert len(hide.text("fisharg-" * 500)) < 5000


def test_names_in_the_form_of_tokens_stay() -> None:
    """An Event is called like its object, with the time in 16 digits; and groups of API versions are names."""
    hide = Masks(values=["apiextensions.k8s.io"], public=["garden.18a5c0ffee123456", "apiextensions.k8s.io/v1"])
    assert hide.text("garden.18a5c0ffee123456") == "garden.18a5c0ffee123456"
    assert hide.text("apiextensions.k8s.io/v1") == "apiextensions.k8s.io/v1"
    assert hide.text("abcdef.18a5c0ffee123456") == "(hidden)"


def test_a_value_with_quotes_is_masked_in_json() -> None:
    value = 'pa"ss\\wörd'
    for is_ascii in (True, False):
        assert Masks(values=[value]).text(json.dumps({"x": value}, ensure_ascii=is_ascii)) == '{"x": "(hidden)"}'


def pod(**container: Any) -> set[str]:
    return fields.admitted({"spec": {"containers": [{"name": "manager", **container}]}}, "", "Pod").values


@pytest.mark.parametrize(
    "container",
    [
        {"args": ["manager", "--key", "fishargletters"]},
        {"args": ["manager", "--key=fishargletters", "--leader-elect=true"]},
        {"args": ["manager", "fishargletters"]},
        {"command": ["sh", "-c", "exec manager --token fishargletters --v 2"]},
        {"command": ["sh", "-c", "X='fishargletters' exec manager"]},
        {"env": [{"name": "X", "value": "fishargletters"}]},
        {"env": [{"name": "X", "value": '{"a": ["fishargletters"]}'}]},
    ],
)
def test_letters_of_environments_are_values(container: Any) -> None:
    taken = pod(**container)
    assert "fishargletters" in taken
    assert Masks(values=taken).text("login fishargletters failed") == "login (hidden) failed"


@pytest.mark.parametrize(
    "spec",
    [
        {"kubeadmConfigSpec": {"files": [{"path": "/x", "content": "fishargletters"}]}},
        {"kubeadmConfigSpec": {"users": [{"name": "root", "passwd": "fishargletters"}]}},
        {"kubeadmConfigSpec": {"preKubeadmCommands": ["login --password fishargletters"]}},
        {"controlPlaneConfiguration": {"apiServerExtraArgs": {"x": "fishargletters"}}},
        {"proxyConfiguration": {"httpsProxy": "http://jane:fishargletters@proxy:3128"}},
        {"cloneSpec": {"userData": b64("x: fishargletters\n")}},
        {"clusterConfiguration": {"apiServer": {"extraEnvs": [{"name": "X", "value": "fishargletters"}]}}},
        {"template": {"tasks": [{"actions": [{"environment": {"CONTENTS": "x: fishargletters\n"}}]}]}},
    ],
)
def test_letters_of_private_fields_are_values(spec: Any) -> None:
    assert "fishargletters" in fields.admitted({"spec": spec}, "x", "X").values


def test_names_of_extra_arguments_are_no_values() -> None:
    arguments = [{"name": "audit-log-maxage", "value": "fishargletters"}]
    assert fields.admitted({"spec": {"extraArgs": arguments}}, "x", "X").values == {"fishargletters"}


def test_annotations_of_users_are_values() -> None:
    annotations = {"example.com/x": "fishargletters", "cluster.x-k8s.io/cloned-from-kind": "somewords"}
    assert fields.admitted({"metadata": {"annotations": annotations}}, "x", "X").values == {"fishargletters"}


def test_words_of_objects_are_no_values() -> None:
    args = ["manager", "--leader-elect", "--v=2", "--namespace=" + SYSTEM_NAMESPACE, "--config", "/etc/manager/x.yaml"]
    env = [{"name": "LEVEL", "value": "warning"}, {"name": "DNS", "valueFrom": {"secretKeyRef": {"name": "abcdefgh"}}}]
    volumes = [{"name": "certificate", "secret": {"secretName": "webhook-certificate"}}]
    tree = {"spec": {"containers": [{"args": args, "env": env}], "volumes": volumes, "dnsPolicy": "ClusterFirst"}}
    assert fields.admitted(tree, "", "Pod").values <= {SYSTEM_NAMESPACE}
    schema = {"properties": {"password": {"type": "string", "description": "Whatever you like."}}}
    crd = {"spec": {"versions": [{"schema": schema | {"token": "Whatever"}}]}}
    assert fields.admitted(crd, "apiextensions.k8s.io", "CustomResourceDefinition").values == set()


X = "orangebloss"
"""A value that no pattern finds but by what stands before it."""


@pytest.mark.parametrize(
    "text",
    [
        f"kubeadm init --certificate-key {X}",
        f"kubeadm init --certificate-key={X}",
        f"Server=x;Uid=y;pwd={X};z",
        f"Pwd={X}",
        f"pass={X}",
        f"DB_PASS: {X}",
        f"-passin pass:{X}",
        f"the passphrase is {X}",
        f"Password was {X}.",
        f"https://b.example/x?X-Amz-Signature={X}&a=b",
        f"https://b.example/x?Signature={X}",
        f"https://b.example/x?sv=1&sig={X}",
        f"Cookie: session={X}",
        f"Cookie: a=b; session={X}",
        f"cookie: a=1, {X}",
        f"Set-Cookie: a={X}; Path=/",
        f'{{"Cookie":["a={X}"]}}',
        f"map[Cookie:[a=b; c={X}] X:[y]]",
        f"vmware-api-session-id: {X}",
        f"vmware_soap_session={X}",
        f"curl -u admin:{X} https://a.example",
        f"curl -uadmin:{X}",
        f"curl --user admin:{X}",
        f"curl --user 'admin:{X}'",
        f"curl --proxy-user=admin:{X}",
        f"sshpass -p {X} ssh a",
        f"sshpass -p'{X}' ssh a",
        f"docker login -u jane -p {X} registry.example",
        f'{{"auths":{{"r":{{"auth":"{b64(X)}"}}}}}}',
        rf"{{\"auths\":{{\"r\":{{\"auth\":\"{b64(X)}\"}}}}}}",
        f"auth: {b64(X)}",
        f'password "two {X}"',
        f"password '{X}'",
        f'token is "{X}"',
        f"--password '{X} more'",
        f'["--password","{X}"]',
        f"'--client-secret', '{X}'",
        f"password=\n {X}",
        f"token:\n{X}\n",
        f"2026-01-01T00:00:00.123456789Z password=\n2026-01-01T00:00:00.123456789Z   {X}",
        f"Authorization: Negotiate {X}",
        f"Authorization:[Bearer {X}]",
        f"AWS4-HMAC-SHA256 Credential=a, Signature={X}",
        f"x-api-key: {X}",
        f"account_key={X}",
    ],
)
def test_a_credential_in_a_text_is_masked(text: str) -> None:
    shown = Masks().text(text)
    assert X not in shown
    assert b64(X) not in shown
    assert "(hidden)" in shown


@pytest.mark.parametrize(
    "text",
    [
        'secrets "garden-kubeconfig" not found',
        "the password is required",
        "passphrase is not set",
        "docker run --user 1000:1000 image",
        "tests passed: 5, bypass: no design=x",
        "token is invalid",
        "spec:\n  tokens:\n  - a: b",
        "credentialRef:\n  name: x",
        "secretKeyRef:\n  name: x",
        "keys: a, key=default/garden",
        "pull registry.example/a/b:v1 -u x",
        "VSphereMachineTemplateControlPlaneRolloutStrategyChanged2",
        "/apis/controlplane/v1alpha1/namespaces/eksa-system/KubeadmControlPlanes/garden",
        "a5c0ffee-0000-4000-8000-00000000aaaa",
        "garden-md-0-7d9c8b6f5x4z2-kqvtl-and-more-of-a-name",
        "authority: garden, author=jane",
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    assert Masks().text(text) == text


def test_long_encoded_values_are_masked() -> None:
    """Base64 from 32 characters on, of anything; and hexadecimal digits."""
    chance = random.Random(1)
    texts = [base64.b64encode(chance.randbytes(size)).decode() for size in (24, 25, 26, 27, 32, 64) for _ in range(200)]
    texts += [chance.randbytes(16).hex(), chance.randbytes(32).hex().upper()]
    shown = [text for text in texts if Masks().text(f"got {text}") == f"got {text}"]
    assert len(shown) <= len(texts) // 100


HOSTILE = (
    "a", "-/", "token", "--token ", "://", "-u a", "cookie:", "password=\n ", "-----BEGIN A", "-----END A-----\n",
    "password \"", "\\", "password=\\\\", "login -p", "secret.", "auth:", "ey", "pass pass", "'", "key \"", "--a-",
    "-passw", "sshpass -p", "aB1", "a-", "session_", "password is ", "token:\n\n",
)  # fmt: skip


@pytest.mark.parametrize("line", [0, 100, 4000], ids=["one line", "short lines", "long lines"])
def test_hostile_text_takes_linear_time(line: int) -> None:
    """All units together, and a quarter of that: far from sixteen times as long, whatever the machine does."""
    took = []
    for size in (2**16, 2**18):
        texts = [(unit * (size // len(HOSTILE) // len(unit))) for unit in HOSTILE]
        if line:
            texts = ["\n".join(text[at : at + line] for at in range(0, len(text), line)) for text in texts]
        began = time.process_time()
        for text in texts:
            Masks(values=["fishargletters"]).text(text)
        took.append(time.process_time() - began)
    assert took[1] < 9 * max(took[0], 0.5), took


def test_hostile_text_of_a_mebibyte_is_masked() -> None:
    for unit in ("token", "token:\n\n"):
        began = time.process_time()
        Masks().text((unit * (2**20 // len(unit)))[: 2**20])
        assert time.process_time() - began < 60, unit
