"""The workflow of Tinkerbell that provisions a machine, as YAML.

Tinkerbell renders it for each Hardware before parsing: double braces enclose Go templates.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from espalier.api.eksa.parts.host_os import REDHAT
from espalier.api.trees import json_trees, yaml_text
from espalier.kube.transports.wire import in_url
from espalier.providers.tinkerbell.kinds import Action, Task, Workflow

_STREAM, _WRITE, _REBOOT = (f"127.0.0.1/embedded/{name}" for name in ("image2disk", "writefile", "reboot"))
"""Images that are in the system that bare metal boots first."""

_VOLUMES = ["/dev:/dev", "/dev/console:/dev/console", "/lib/firmware:/lib/firmware:ro"]
_DISK = "{{ index .Hardware.Disks 0 }}"
_PARTITIONS = {REDHAT: 1}
_USUAL_PARTITION = 2

_STREAM_SECONDS, _ACTION_SECONDS, _WORKFLOW_SECONDS = 600, 90, 6000

IMAGE = "IMG_URL"
"""Environment variable of the first action: the URL of the image to write."""

_METADATA_PORT = 7172

_MASKS = [(bits, ipaddress.ip_network((0, bits)).netmask) for bits in range(32, 0, -1)]
_PREFIX = "{{ " + " else ".join(f'if eq .IP.Netmask "{mask}" }}}}{bits}{{{{' for bits, mask in _MASKS) + " end }}"
"""The length of the prefix that a netmask stands for: templates have no function for it."""


def usual(name: str, os: str, image: str, tinkerbell: str, proxy: Mapping[str, str]) -> Workflow:
    """The workflow that writes an operating system to the first disk, and has it find its network and Tinkerbell."""
    stream = Action(
        name="stream image to disk",
        image=_STREAM,
        timeout=_STREAM_SECONDS,
        environment={"DEST_DISK": _DISK, IMAGE: image, "COMPRESSED": "true", **proxy},
    )
    reboot = Action(
        name="reboot into the new system",
        image=_REBOOT,
        timeout=_ACTION_SECONDS,
        pid="host",
        volumes=["/worker:/worker"],
    )
    files = [_write(title, path, content, os) for title, path, content in _files(os, tinkerbell)]
    task = Task(name=name, worker="{{.device_1}}", volumes=_VOLUMES, actions=[stream, *files, reboot])
    return Workflow(name=name, id="", version="0.1", global_timeout=_WORKFLOW_SECONDS, tasks=[task])


def with_image(workflow: Workflow, image: str) -> Workflow:
    """The workflow with another operating system image, if its first action writes an image."""
    first, *other_tasks = workflow.tasks
    action, *other_actions = first.actions
    if not image or IMAGE not in action.environment:
        return workflow
    action = replace(action, environment=action.environment | {IMAGE: image})
    return replace(workflow, tasks=[replace(first, actions=[action, *other_actions]), *other_tasks])


def text(workflow: Workflow) -> str:
    """The workflow as YAML, with multi-line texts as literal blocks."""
    return _yaml(msgspec.json.encode(workflow))


@lru_cache(maxsize=1024)
def _yaml(workflow: bytes) -> str:
    """Cached, because each reconcile renders it, and writing YAML takes most of the time."""
    return yaml_text.dump(json_trees.decode(workflow, dict[str, Any]), blocks=True, allow_unicode=True)


def _files(os: str, tinkerbell: str) -> Iterator[tuple[str, str, str]]:
    """Files, each with the action that writes it, its path, and its content."""
    if os == REDHAT:
        yield "write network manager config", "/etc/NetworkManager/system-connections/machine.nmconnection", _KEY_FILE
    else:
        yield "write netplan config", "/etc/netplan/config.yaml", _NETPLAN
    folder = "/etc/cloud/cloud.cfg.d"
    metadata = {
        "datasource": {"Ec2": {"metadata_urls": [f"http://{in_url(tinkerbell)}:{_METADATA_PORT}"], "strict_id": False}},
        "manage_etc_hosts": "localhost",
        "warnings": {"dsid_missing_source": "off"},
    }
    off = {"network": {"config": "disabled"}}
    yield "disable cloud-init network capabilities", f"{folder}/99_network.cfg", _json(off)
    yield "add cloud-init config", f"{folder}/10_tinkerbell.cfg", _json(metadata)
    yield "add cloud-init ds config", "/etc/cloud/ds-identify.cfg", "datasource: Ec2\n"


def _json(content: object) -> str:
    """Content in JSON, which is valid YAML."""
    return json.dumps(content, indent=2) + "\n"


def _write(name: str, path: str, content: str, os: str) -> Action:
    partition = _PARTITIONS.get(os, _USUAL_PARTITION)
    environment = {
        "DEST_DISK": f"{{{{ formatPartition ( index .Hardware.Disks 0 ) {partition} }}}}",
        "FS_TYPE": "ext4",
        "DEST_PATH": path,
        "CONTENTS": content,
        "UID": "0",
        "GID": "0",
        "MODE": "0600",
        "DIRMODE": "0755",
    }
    return Action(name=name, image=_WRITE, timeout=_ACTION_SECONDS, environment=environment)


_NETPLAN = """\
{{- with (index .Hardware.Interfaces 0).DHCP }}
network:
  version: 2
  renderer: networkd
  ethernets:
    machine:
      match:
        macaddress: "{{ .MAC }}"
{{- if .VLANID }}
  vlans:
    vlan:
      id: {{ .VLANID }}
      link: machine
{{- end }}
      addresses:
      - "{{ .IP.Address }}/PREFIX"
{{- if .IP.Gateway }}
      routes:
      - to: default
        via: "{{ .IP.Gateway }}"
{{- end }}
{{- if .NameServers }}
      nameservers:
        addresses:
{{- range .NameServers }}
        - "{{ . }}"
{{- end }}
{{- end }}
{{- end }}
""".replace("PREFIX", _PREFIX)

_KEY_FILE = """\
{{- with (index .Hardware.Interfaces 0).DHCP }}
[connection]
id=machine
type={{ if .VLANID }}vlan{{ else }}ethernet{{ end }}
[ethernet]
mac-address={{ .MAC }}
{{- if .VLANID }}
[vlan]
id={{ .VLANID }}
{{- end }}
[ipv4]
method=manual
address1={{ .IP.Address }}/PREFIX{{ if .IP.Gateway }},{{ .IP.Gateway }}{{ end }}
{{- if .NameServers }}
dns={{ range .NameServers }}{{ . }};{{ end }}
{{- end }}
[ipv6]
method=auto
{{- end }}
""".replace("PREFIX", _PREFIX)
"""NetworkManager finds the network card of a VLAN by the MAC address as well."""
