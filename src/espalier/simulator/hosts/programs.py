"""Stand-ins for the programs of a simulated node; started as `nsenter`, which on a real node leads to the real ones.

Standard library, `runtime/confined.py` and `static_pods.py` only: it runs as a script, many times in an upgrade.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from espalier.runtime import confined
from espalier.simulator.hosts import static_pods

STATE = "var/lib/simulated-node/state.json"
FAULTS = "var/lib/simulated-node/faults.json"
"""Failures for tests: `{"kubelet": ["v1.36.3"]}`, versions that don't come up; `{"kubeadm": "why it fails"}`;
`{"flag": "--x=y"}`, a flag with which the kubelet does not come up; `{"file": "text"}`, a text in a file with which
static pods that mount it don't come up."""
ACCESS = "var/lib/simulated-node/access.json"
"""How the stand-ins reach the API server: `server` (host:port), `authority`, `certificate` and `key` (PEM)."""
NODE = "SIMULATED_NODE"
"""The environment variable with the path of the node's folder."""
MANIFESTS = "etc/kubernetes/manifests"
TEMPORARY = "etc/kubernetes/tmp"
ETCD_DATA = "var/lib/etcd/member"
CONFIGURATION = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
PLACES = ("etc/kubernetes", "etc/kubernetes/pki", "etc/kubernetes/pki/etcd")
RENEWED = (".crt", ".key", ".conf")
HASH = "kubernetes.io/config.hash"
MERGE = "application/merge-patch+json"

SendRequest = Callable[[str, str, Any], "tuple[int, Any]"]
"""One request to the node's API server: method, path, body -> status, object."""
CommandResult = tuple[int, str]
"""The exit code of a program, and its output."""

_KEPT_METADATA = ("name", "labels", "annotations", "ownerReferences")
"""Metadata of a recreated mirror pod."""


class Host:
    """The programs and services of a simulated node, whose disk is the folder `root`."""

    def __init__(self, root: Path, send_request: SendRequest | None = None) -> None:
        self._root = root
        self._send_request = send_request

    def run(self, command: Sequence[str]) -> CommandResult:
        """Run a command as passed to `nsenter`."""
        command = list(command)
        if "--" in command:
            command = command[command.index("--") + 1 :]
        program, arguments = command[0], command[1:]
        name = program.rpartition("/")[2]
        if program.startswith("/") and not self._version(program):
            return 127, f"{program}: no such program on the simulated node"
        programs = {
            "systemctl": self._systemctl,
            "journalctl": lambda _: (0, "simulated journal: nothing of interest"),
            "kubeadm": self._kubeadm,
            "ctr": self._ctr,
        }
        if arguments == ["--version"]:
            return 0, f"{'Kubernetes' if name == 'kubelet' else name} {self._version(program)}"
        return programs[name](arguments) if name in programs else (127, f"{name}: no such stand-in")

    def boot(self) -> None:
        """Start all services with the programs on the disk, unless they run already."""
        for unit in self._glob("etc/systemd/system", "*.service"):
            if unit.stem not in self._services():
                self._start(unit.stem)
        if "pods" not in self._read(STATE):
            self._write(STATE, json.dumps({**self._read(STATE), "pods": self._manifest_hashes()}))

    def flags(self) -> str:
        """The kubelet's flags at its last start: the text of `kubeadm-flags.env`."""
        return str(self._services().get("kubelet", {}).get("flags", ""))

    def running(self, name: str) -> str:
        """The version with which a service runs; empty when it does not."""
        service = self._services().get(name, {})
        return service.get("version", "") if service.get("active") else ""

    def _systemctl(self, arguments: Sequence[str]) -> CommandResult:
        verb, unit = arguments[0], arguments[1] if len(arguments) > 1 else ""
        name = unit.removesuffix(".service")
        if verb == "show":
            if name == "kubelet" and self.running(name):
                self._run_static_pods()
            return 0, self._show(name)
        if verb == "reset-failed":
            return 0, ""
        if verb != "restart":
            return 1, f"the stand-in for systemctl does not support {verb}"
        if not self._unit(name):
            return 5, f"Failed to restart {unit}: Unit {unit} not found."
        self._start(name)
        if self.running("kubelet"):
            self._report_versions()
            self._run_static_pods()
        return 0, ""

    def _show(self, name: str) -> str:
        program = self._unit(name)
        if not program:
            return "LoadState=not-found\nActiveState=inactive\nSubState=dead\nNRestarts=0\n"
        service = self._services().get(name, {})
        state = ("active", "running") if service.get("active") else ("activating", "auto-restart")
        return (
            f"LoadState=loaded\nExecStart={{ path={program} ; argv[]={program} ; ignore_errors=no }}\n"
            f"ActiveState={state[0]}\nSubState={state[1]}\nNRestarts={0 if service.get('active') else 5}\n"
        )

    def _start(self, name: str) -> None:
        version = self._version(self._unit(name))
        flags = self._text(FLAGS) if name == "kubelet" else ""
        faulty_flag = self._faults().get("flag") or "\0"
        active = bool(version) and version not in self._faults().get(name, ()) and faulty_flag not in flags
        services = {**self._services(), name: {"active": active, "version": version, "flags": flags.strip()}}
        self._write(STATE, json.dumps({**self._read(STATE), "services": services}))

    def _ctr(self, _arguments: Sequence[str]) -> CommandResult:
        version = self.running("containerd")
        return (0, f"Server:\n  Version: {version}") if version else (1, "ctr: cannot access the containerd socket")

    def _report_versions(self) -> None:
        """Update the Node's nodeInfo, as a starting kubelet does: its version and the container runtime's."""
        info = {"kubeletVersion": self.running("kubelet")}
        if runtime := self.running("containerd"):
            info["containerRuntimeVersion"] = f"containerd://{runtime}"
        self._request("PATCH", f"/api/v1/nodes/{self._name()}/status", {"status": {"nodeInfo": info}})

    def _kubeadm(self, arguments: Sequence[str]) -> CommandResult:
        version = self._version("/usr/bin/kubeadm") or self._version("/usr/local/bin/kubeadm")
        if arguments[:1] == ["version"]:
            return 0, version
        if fault := self._faults().get("kubeadm"):
            return 1, f"[upgrade] simulated fault\nerror execution phase: {fault}"
        if arguments == ["certs", "renew", "all"]:
            return self._renew()
        if arguments[:2] not in (["upgrade", "apply"], ["upgrade", "node"]):
            return 1, f"the stand-in for kubeadm does not support {' '.join(arguments)}"
        is_control_plane = bool(self._glob(MANIFESTS, "kube-apiserver.yaml"))
        access = f"etc/kubernetes/{'admin' if is_control_plane else 'kubelet'}.conf"
        if not self._text(access):
            return 1, f"error: couldn't create a client from /{access}: no such file or directory"
        configured = self._configuration()
        if configured is None:
            return 1, f"error: unable to fetch the kubeadm-config ConfigMap: {CONFIGURATION} is not there"
        if arguments[1] == "apply":
            if reason := self._version_error(arguments[2], version):
                return 1, f"error execution phase preflight: the version argument is invalid:\n\n\t- {reason}"
            changed = {**configured, "kubernetesVersion": arguments[2]}
            if "--dry-run" in arguments:
                return 0, "[upgrade/successful] finished the dry run"
            return self._pull_failure(changed) or self._apply(changed)
        if is_control_plane:
            if failure := self._pull_failure(configured):
                return failure
            self._render(configured)
        self._write(f"{self._new_backup_folder('kubeadm-kubelet-config')}/config.yaml", "kind: KubeletConfiguration\n")
        return 0, "[upgrade] The configuration for this node was successfully updated!"

    def _renew(self) -> CommandResult:
        """Write each certificate and kubeconfig anew; the text counts how often."""
        paths = [path for folder in PLACES for path in self._glob(folder, "*") if path.suffix in RENEWED]
        renewed = [path.relative_to(self._root).as_posix() for path in paths if path.name != "kubelet.conf"]
        for path in renewed:
            times = re.search(r"\d+", self._text(path))
            self._write(path, f"issued {int(times[0]) + 1 if times else 1} times anew\n")
        return 0, "Done renewing certificates. You must restart the kube-apiserver, kube-controller-manager, ..."

    def _configuration(self) -> dict[str, Any] | None:
        """The ClusterConfiguration in ConfigMap kubeadm-config; None if the ConfigMap is unavailable."""
        status, config_map = self._request("GET", CONFIGURATION, None)
        if status != 200:
            return None
        tree = json.loads(config_map["data"]["ClusterConfiguration"])
        return tree if isinstance(tree, dict) else None

    def _version_error(self, version: str, own: str) -> str:
        """The reason why kubeadm, itself of version `own`, refuses a target version; empty if it does not.

        Allowed is at most one minor above the API server's version, and at most one below `own`.
        """
        _, response = self._request("GET", "/version", None)
        from espalier.api.text.versions import parsed  # noqa: PLC0415 - only kubeadm compares versions, and all start often

        target, current, kubeadm = parsed(version), parsed(str(response.get("gitVersion", ""))), parsed(own)
        if target is None or current is None or kubeadm is None:
            return f'couldn\'t parse version "{version}"'
        if (target.major, target.minor) < (kubeadm.major, kubeadm.minor - 1):
            return f'Version to upgrade to "{version}" is lower than the lowest that kubeadm {own} supports'
        if target.prerelease is None and (target.major, target.minor) > (current.major, current.minor + 1):
            return f'Version to upgrade to "{version}" is too high; kubeadm goes up by one minor at a time'
        return ""

    def _pull_failure(self, configuration: dict[str, Any]) -> CommandResult | None:
        """The failure of image pulls from a registry at 127.0.0.1, where none runs; else None. Nothing is pulled."""
        repository = str(configuration.get("imageRepository") or "")
        if not repository.startswith("127.0.0.1:"):
            return None
        return 2, f"[preflight] Some fatal errors occurred:\n\t[ERROR ImagePull]: can't pull {repository}/etcd: refused"

    def _apply(self, configuration: dict[str, Any]) -> CommandResult:
        version = str(configuration["kubernetesVersion"])
        self._render(configuration)
        text = json.dumps(configuration, indent=2, sort_keys=True)
        self._request("PATCH", CONFIGURATION, {"data": {"ClusterConfiguration": text}})
        proxy = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
        status, daemon_set = self._request("GET", proxy, None)
        if status == 200:
            containers = daemon_set["spec"]["template"]["spec"]["containers"]
            for container in containers:
                container["image"] = f"{container['image'].rpartition(':')[0]}:{version}"
            self._request("PATCH", proxy, {"spec": {"template": {"spec": {"containers": containers}}}})
        return 0, f'[upgrade] SUCCESS! A control plane node of your cluster was upgraded to "{version}".'

    def _render(self, configuration: dict[str, Any]) -> None:
        """Rewrite manifests that differ; like kubeadm, back up the old ones, and etcd's data."""
        backup = self._new_backup_folder("kubeadm-backup-manifests")
        data = self._new_backup_folder("kubeadm-backup-etcd")
        rendered = static_pods.rendered(configuration, str(configuration.get("kubernetesVersion", "")))
        present = {name: self._text(f"{MANIFESTS}/{name}.yaml") for name in rendered}
        if present.get("etcd"):
            self._write(f"{data}/etcd/member/snap/db", self._text(f"{ETCD_DATA}/snap/db"))
        for name, text in present.items():
            if text and text != rendered[name].manifest:
                self._write(f"{backup}/{name}.yaml", text)
                self._write(f"{MANIFESTS}/{name}.yaml", rendered[name].manifest)
        self._run_static_pods()

    def _new_backup_folder(self, kind: str) -> str:
        """The path of a new folder of kubeadm for the backups of one run."""
        return f"{TEMPORARY}/{kind}-{len(self._glob(TEMPORARY, f'{kind}-*'))}"

    def _run_static_pods(self) -> None:
        """Run static pods with changed manifests, as the kubelet does: replace or delete their mirror pods."""
        recorded = self._read(STATE).get("pods") or {}
        hashes = self._manifest_hashes()
        if hashes == recorded or self._send_request is None:
            return
        for name, hash_ in hashes.items():
            if hash_ != recorded.get(name):
                self._replace_mirror(name, self._text(f"{MANIFESTS}/{name}.yaml"), hash_)
        for name in recorded.keys() - hashes.keys():
            self._delete_mirror(self._mirror_path(name))
        self._write(STATE, json.dumps({**self._read(STATE), "pods": hashes}))

    def _manifest_hashes(self) -> dict[str, str]:
        names = [path.name for path in self._glob(MANIFESTS, "[!.]*.yaml")]
        texts = {name.removesuffix(".yaml"): self._text(f"{MANIFESTS}/{name}") for name in names}
        import hashlib  # noqa: PLC0415 - as in `api_of`

        return {name: hashlib.sha256(text.encode()).hexdigest()[:32] for name, text in texts.items()}

    def _replace_mirror(self, name: str, manifest: str, hash_: str) -> None:
        path = self._mirror_path(name)
        image, annotations = static_pods.image_of(manifest), static_pods.annotations_of(manifest)
        status, pod = self._request("GET", path, None)
        if status not in (200, 404):
            return
        if status == 404:
            pod = {
                "metadata": {"name": f"{name}-{self._name()}", "annotations": {static_pods.MIRROR: hash_}},
                "spec": {"nodeName": self._name(), "hostNetwork": True, "containers": [{}]},
            }
        paths = enumerate(static_pods.host_paths_of(manifest))
        volumes = [{"name": f"host-{number}", "hostPath": {"path": mounted}} for number, mounted in paths]
        changes = {"name": name, "image": image, "command": static_pods.command_of(manifest)}
        containers = [pod["spec"]["containers"][0] | changes, *pod["spec"]["containers"][1:]]
        metadata = {part: pod["metadata"][part] for part in _KEPT_METADATA if part in pod["metadata"]}
        metadata["annotations"] = {**metadata["annotations"], **annotations, HASH: hash_}
        spec = {**pod["spec"], "containers": containers, "volumes": volumes}
        if status == 200:  # as a kubelet does: the spec of a pod is immutable
            self._delete_mirror(path)
        mirror = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        status, pod = self._request("POST", path.rpartition("/")[0], mirror)
        if status >= 300:
            return
        faulty_text = self._faults().get("file") or "\0"
        fails = any(faulty_text in text for path in static_pods.host_paths_of(manifest) for text in self._texts(path))
        self._request("PATCH", f"{path}/status", {"status": self._mirror_status(pod, fails=fails)})

    def _mirror_status(self, pod: Any, *, fails: bool) -> dict[str, Any]:
        """The status of a static pod that was just started, as the simulated kubelet reports those of other pods."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        status, node = self._request("GET", f"/api/v1/nodes/{self._name()}", None)
        addresses = (node.get("status") or {}).get("addresses") or () if status == 200 else ()
        address = next((entry["address"] for entry in addresses if entry["type"] == "InternalIP"), "")
        unready = {"reason": "ContainersNotReady", "message": "containers with unready status"}
        return {
            "phase": "Running",
            "startTime": now,
            "qosClass": "BestEffort",
            **({"hostIP": address, "hostIPs": [{"ip": address}]} if address else {}),
            **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
            "conditions": [
                {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
                | ({"status": "False", **unready} if fails and type_ in ("Ready", "ContainersReady") else {})
                for type_ in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": container["image"],
                    "containerID": f"containerd://{pod['metadata']['uid']}-{container['name']}",
                    "ready": not fails,
                    "started": not fails,
                    "restartCount": 0,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}} if fails else {"running": {"startedAt": now}},
                    "lastState": {},
                }
                for container in pod["spec"]["containers"]
            ],
        }

    def _delete_mirror(self, path: str) -> None:
        """Delete a mirror pod, without its annotation, so that the simulated kubelet does not recreate it."""
        self._request("PATCH", path, {"metadata": {"annotations": {static_pods.MIRROR: None}}})
        self._request("DELETE", path, {"gracePeriodSeconds": 0})

    def _mirror_path(self, name: str) -> str:
        return f"/api/v1/namespaces/kube-system/pods/{name}-{self._name()}"

    def _request(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if self._send_request is None:
            return 503, {}
        try:
            return self._send_request(method, path, body)
        except OSError as error:
            return 503, {"message": str(error)}

    def _unit(self, name: str) -> str:
        match = re.search(r"(?m)^ExecStart=(\S+)", self._text(f"etc/systemd/system/{name}.service"))
        return match[1] if match else ""

    def _version(self, path: str) -> str:
        """The version of a program on the disk; empty when it is missing or incomplete."""
        match = re.match(r"#!/bin/sh\n# simulated (\S+) (\S+)\necho \1 \2\n$", self._text(path))
        return match[2] if match else ""

    def _name(self) -> str:
        return self._text("etc/hostname").strip()

    def _services(self) -> dict[str, Any]:
        services = self._read(STATE).get("services")
        return (
            {name: service for name, service in services.items() if isinstance(service, dict)}
            if isinstance(services, dict)
            else {}
        )

    def _faults(self) -> dict[str, Any]:
        return self._read(FAULTS)

    def _read(self, path: str) -> dict[str, Any]:
        text = self._text(path)
        tree = json.loads(text) if text else {}
        return tree if isinstance(tree, dict) else {}

    def _write(self, path: str, text: str) -> None:
        confined.write(self._root, path, text, 0o644)

    def _text(self, path: str) -> str:
        """The content of a file on the disk; empty when it is missing or not a file."""
        try:
            return confined.text(self._root, path)
        except OSError:
            return ""

    def _texts(self, path: str) -> Iterator[str]:
        """The content of a file, or of the files directly in a folder."""
        yield self._text(path)
        for inner in self._glob(path.lstrip("/"), "*"):
            yield self._text(f"{path}/{inner.name}")

    def _glob(self, folder: str, pattern: str) -> Sequence[Path]:
        try:
            return sorted(confined.place(self._root, folder).glob(pattern))
        except OSError:
            return ()


def api_of(root: Path) -> SendRequest | None:
    """A function that sends requests to the API server of the node's cluster; None without `ACCESS` to one."""
    if not confined.is_file(root, ACCESS):
        return None
    access = json.loads(confined.text(root, ACCESS))

    def send_request(method: str, path: str, body: Any) -> tuple[int, Any]:
        import http.client  # noqa: PLC0415 - only some stand-ins send requests, and all start often
        import ssl  # noqa: PLC0415
        import tempfile  # noqa: PLC0415

        context = ssl.create_default_context(cadata=access["authority"])
        with tempfile.NamedTemporaryFile("w") as pair:
            pair.write(access["certificate"] + access["key"])
            pair.flush()
            context.load_cert_chain(pair.name)
        connection = http.client.HTTPSConnection(access["server"], timeout=10, context=context)
        try:
            headers = {"Content-Type": MERGE if method == "PATCH" else "application/json"} if body is not None else {}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"{}")
        finally:
            connection.close()

    return send_request


def main() -> int:
    """`nsenter ... -- COMMAND` on the node whose folder `SIMULATED_NODE` names. Return the exit code."""
    root = Path(os.environ[NODE])
    code, output = Host(root, api_of(root)).run(sys.argv[1:])
    sys.stdout.write(output + "\n" if output else "")
    return code


if __name__ == "__main__":
    sys.exit(main())
