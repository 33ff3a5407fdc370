"""The private values in objects: the parts of a Secret, of an environment or of a command that texts may not quote.

A value counts by where it stands and by its length, whatever it consists of: it may be a word of plain letters.
"""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import msgspec

from espalier.api.text.violations import ManifestError
from espalier.api.trees import json_trees, yaml_trees

LEAST, LONGEST = 6, 4096
"""Characters of a value that is looked for: shorter ones occur everywhere."""
MOST_CHARACTERS, MOST_VALUES, MOST_LEVELS, MOST_TEXTS = 2**20, 20_000, 64, 4
"""Bounds of what is taken apart: characters of a text, values in it, levels of YAML, texts in texts."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


KEYS = r"(?:private|api|access|certificate|encryption|signing|client|account|shared|master|license)[_\-]?key"
CREDENTIAL = re.compile(
    r"(?i)passw|passphrase|token|secret|credential|authorization|cookie|signature"
    rf"|{KEYS}"
    r"|(?<![a-z])(?:pass|pwd|auth)(?![a-z])"
)
"""Is in the name of a field with a credential."""
NAMES_SOMETHING = re.compile(r"(?i)(name|namespace|ref|file|dir|path|ttl|expiration|timeout)s?$")
"""End of the name of a field that names a credential, rather than having it: `secretName`."""
PLAIN = re.compile(
    r"(?i)true|false|null|none|[0-9._:+\-]+z?|v?\d+(\.\d+)+[\w.\-+]*|\d{4}-\d\d-\d\d[t0-9:.z+\-]*|sha256"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{8}"
)
"""Words that tell nothing: numbers, versions, times, uids."""
_PLACE = re.compile(
    r"(?:/[a-z][a-z0-9._\-]*){2,}/?|/[a-z]{1,20}|[a-z]+://[A-Za-z0-9.\-]*(?::\d+)?/?|[0-9a-f.:]+/\d+"
    r"|[a-z0-9.\-]{0,200}(?:k8s|kubernetes)\.io(?:/[a-z0-9.\-]*)?|system:[a-z0-9:\-]+|kube-[a-z\-]+"
)
"""A path of a file, an address without a user and a path, a network, a name of Kubernetes itself."""
_PLAIN_FIELDS = _set(
    """
    apiversion kind name namespace path owner permissions encoding type cluster context current-context server
    host endpoint controlplaneendpoint clustername imagerepository image dnsdomain podsubnet servicesubnet
    crisocket certificatesdir mode format protocol level operation
    users usergroups verbs resources group nonresourceurls omitstages effect pathtype
    """
)
"""Fields of the files in Secrets whose values are no secret: kubeconfigs, user data, configurations of kubeadm."""
_COMMON = _set(
    """
    access address addresses administrator aggregate amazon anonymous apiserver application available basic bearer
    bootstrap bottlerocket calico cgroupfs changed cilium client cloud cluster clusters cluster-admin command
    common condition config configuration console containerd container containers control control-plane controller
    controllers controller-manager coredns create created credentials custom debug default delete deleted disable
    disabled docker domain enable enabled endpoint error errors espalier etcdadm events external failed false
    feature federation flannel garden gardener gardenlet global healthy history hostname identity ignore images
    infrastructure ingress initial install instance internal invalid issuer kubeadm kubeconfig kubectl kubelet
    kube-proxy kube-system kubernetes kubernetes-admin leader leases listen localhost logging machine machines
    manage manager managers master memory metadata metric metrics missing namespace namespaces network nginx
    normal nutanix object objects online opaque openssl option options orphan output overlay package parallel
    password patch permissive plugin policy primary private process production profile project protocol provider
    providers proxy public public_key reader readonly record region registry release remote replica replicas
    report request resource resources restart result rolling runtime scheduler script secret secrets secure server
    serverless service services session simple single snapshot source stable staging standard status storage
    string strict subnet success system systemd target template tenant testing timeout tinkerbell token tracing
    ubuntu unknown update upgrade username validate values version volume volumes vsphere warning watch webhook
    webhooks worker workers /bin/bash
    """
)
"""Words of the objects themselves: without them no message explains anything."""
_ASSIGNMENT = re.compile(r"[ \t\-]{0,40}(?:export +)?[\"']?([\w.\-]{1,100})[\"']?[ \t]{0,40}[=:](.*)")
_FLAG = re.compile(r"--?([A-Za-z][\w.\-]{0,100})(?:=(.*))?", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_QUOTES = "\"'`"


def of_secret(data: object, cut: list[str]) -> Iterator[str]:
    """The values in `data` of a Secret: each of them and what JSON, YAML, base64 and lines in them consist of.

    As everywhere here, a text with more than the bounds allow adds its name to `cut`: the rest of its values are not
    known.
    """
    for name, value in data.items() if isinstance(data, dict) else ():
        if (text := _decoded(str(value))) is not None:
            yield from of_text(str(name), text, cut)


def texts_of_secret(data: object) -> Iterator[str]:
    """The texts in `data` of a Secret that have lines, as files do."""
    for value in data.values() if isinstance(data, dict) else ():
        text = _decoded(str(value))
        if text is not None and "\n" in text.strip():
            yield text


def of_text(name: str, text: str, cut: list[str]) -> Iterator[str]:
    """The values in a text below a field or a variable of that name, each once."""
    is_cut = len(text) > MOST_CHARACTERS
    taken: dict[str, None] = {}
    waiting = [(name, text[:MOST_CHARACTERS], 0)]
    while waiting and len(taken) < MOST_VALUES:
        within, part, depth = waiting.pop()
        part = part.strip()
        if "\n" not in part and _is_value(within, part):
            taken[part] = None
        if depth == MOST_TEXTS:
            continue
        for inner_name, inner in _parts(within, part):
            if inner == part or len(inner) < LEAST:
                continue
            if len(waiting) + len(taken) >= MOST_VALUES:
                is_cut = True
                break
            waiting.append((inner_name, inner, depth + 1))
    if is_cut or waiting:
        cut.append(name)
    yield from taken


def of_command(words: Sequence[str], cut: list[str]) -> Iterator[str]:
    """The values in the arguments of a program: of its flags, and those without a flag."""
    flag = ""
    for at, word in enumerate(words):
        matched = _FLAG.fullmatch(word)
        if matched and matched[2] is None:
            flag = matched[1]
        elif matched:
            yield from of_text(matched[1], matched[2].strip(_QUOTES), cut)
            flag = ""
        elif at or len(words) == 1:  # the first is the program
            is_script = any(character in word for character in string.whitespace)
            if is_script:
                yield from of_script(word, cut)
            if not is_script or len(flag) > 1:  # `-c` is of a shell
                yield from of_text(flag, word.strip(_QUOTES), cut)
            flag = ""


def of_script(text: str, cut: list[str]) -> Iterator[str]:
    """The values in commands of a shell: of flags, and those that are assigned. Other words are a program's own."""
    flag = ""
    if len(text) > MOST_CHARACTERS:
        cut.append("")
    for word in text[:MOST_CHARACTERS].split():
        matched = _FLAG.fullmatch(word)
        if matched and matched[2] is None:
            flag = matched[1]
            continue
        name, sign, value = word.partition("=")
        if matched:
            yield from of_text(matched[1], matched[2].strip(_QUOTES), cut)
        elif flag and CREDENTIAL.search(flag):
            yield from of_text(flag, word.strip(_QUOTES), cut)
        elif sign and re.fullmatch(r"[\w.\-]{1,100}", name):
            yield from of_text(name, value.strip(_QUOTES + ";"), cut)
        flag = ""


def forms(value: str) -> Iterator[str]:
    """The ways in which texts quote a value: as it is, in JSON, in an address, in a form, in base64."""
    yield value
    for is_ascii in (True, False):
        yield json.dumps(value, ensure_ascii=is_ascii)[1:-1]
    yield quote(value, safe="")
    yield quote_plus(value)
    yield base64.b64encode(value.encode(errors="replace")).decode().rstrip("=")


def stands_out(word: str) -> bool:
    """True for a word that no sentence has by itself: with digits among letters, capitals inside, or very long."""
    if PLAIN.fullmatch(word):
        return False
    has_digits = bool(re.search(r"\d", word)) and bool(re.search("[A-Za-z]", word))
    has_capitals = bool(re.search("[a-z][A-Z]|[A-Z][a-z].*[A-Z]", word)) or (word.isupper() and len(word) > 11)
    return has_digits or has_capitals or (len(word) > 15 and "-" not in word)


def _is_value(name: str, text: str) -> bool:
    if not LEAST <= len(text) <= LONGEST or text.lower() in _COMMON:
        return False
    if _is_credential(name):
        return True
    return not PLAIN.fullmatch(text) and not _PLACE.fullmatch(text) and name.lower() not in _PLAIN_FIELDS


def _parts(name: str, text: str) -> Iterator[tuple[str, str]]:
    """The parts of a text: leaves of JSON or YAML, values of lines, the password of a pair, decoded base64."""
    if "-----BEGIN " in text[:100]:  # the lines of a key have no structure, and patterns know them
        return
    yield from _leaves(name, text)
    for line in text.splitlines():
        matched = _ASSIGNMENT.fullmatch(line)
        if matched and not matched[2].lstrip().startswith(("[", "{", "//")):
            yield matched[1], matched[2].strip().strip(_QUOTES)
    if "\n" not in text and "://" in text:
        yield from _of_address(text)
    elif _BASE64.fullmatch(text) and len(text) % 4 == 0 and (inner := _decoded(text)) is not None:
        yield name, inner
        yield "password", inner.partition(":")[2]


def _of_address(text: str) -> Iterator[tuple[str, str]]:
    try:
        address = urlsplit(text)
    except ValueError:
        return
    yield "password", address.password or ""


def _leaves(name: str, text: str) -> Iterator[tuple[str, str]]:
    """The scalars of a text in JSON or YAML, each with the name of the field that it is in."""
    try:
        yield from json_trees.leaves(name, text)
    except msgspec.MsgspecError:
        yield from yaml_trees.leaves(name, text, MOST_LEVELS)


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None


_COMMANDS = frozenset({"args", "command"})
_ENVIRONMENTS = frozenset({"env", "extraEnvs"})
_SCRIPTS = frozenset({"preKubeadmCommands", "postKubeadmCommands", "bootCommands"})
_VALUES = frozenset({"extraArgs", "content", "userData", "proxyConfiguration", "httpProxy", "httpsProxy", "proxy"})
_TEMPLATES = frozenset({"templateOverride"})
"""Fields of Tinkerbell's machines with a workflow as text, which a TinkerbellTemplateConfig has as fields."""
_DOMAINS = ("k8s.io", "kubernetes.io", "eks.amazonaws.com", "gardener.cloud")
"""Ends of the domains of annotations that controllers write."""


def of_field(name: str, value: Any, cut: list[str]) -> Iterator[str]:
    """The values below a field that is in no bundle, if it is of those that users put private values into."""
    waiting: list[tuple[str, Any]] = [(name, value)]
    while waiting:
        name, value = waiting.pop()
        if name in _COMMANDS and isinstance(value, list):
            yield from of_command([word for word in value if isinstance(word, str)], cut)
        elif name in _SCRIPTS:
            for _, text in _strings(value, name):
                yield from of_script(text, cut)
        elif name in _ENVIRONMENTS and isinstance(value, list):
            for variable in value:
                if isinstance(variable, dict) and isinstance(variable.get("value"), str):
                    yield from of_text(str(variable.get("name")), variable["value"], cut)
        elif name == "annotations" and isinstance(value, Mapping):
            for key, text in value.items():
                if isinstance(text, str) and not key.partition("/")[0].endswith(_DOMAINS):
                    yield from of_text(key, text, cut)
        elif name in _VALUES or name.endswith("ExtraArgs") or (name == "environment" and isinstance(value, Mapping)):
            for within, text in _strings(value, name):
                yield from of_text(within, text, cut)
        elif isinstance(value, str) and (name in _TEMPLATES or _is_credential(name)):
            if (tree := _tree(value) if name in _TEMPLATES else None) is not None:
                waiting += tree.items()
            else:
                yield from of_text(name, value, cut)
        elif isinstance(value, Mapping):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, inner) for inner in value]


def _tree(text: str) -> dict[str, Any] | None:
    """The tree of a text that is a YAML document of fields; None for any other, or one beyond the bounds."""
    try:
        trees = yaml_trees.trees(text, "") if len(text) <= MOST_CHARACTERS else []
    except ManifestError:
        return None
    return trees[0] if len(trees) == 1 and isinstance(trees[0], dict) else None


def _is_credential(name: str) -> bool:
    return bool(CREDENTIAL.search(name)) and not NAMES_SOMETHING.search(name)


def _strings(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """The texts in a value, each with the name of the field that it is in."""
    waiting = [(name, value)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, inner) for inner in value]
