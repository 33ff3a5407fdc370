"""`upgrader STEP`: what the containers of the upgrader pod run."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import certificates, changes, contents, draining, steps
from .api import SECRETS, RetryingApi
from .files import Files
from .host import DONE, FAILED, Clock, Commands, StepFailed, hold_lock
from .node import Node

ROOT = "ESPALIER_CONTAINER_ROOT"
"""Environment variable: the directory that replaces `/` outside of a container. Simulated nodes set it."""
TERMINATION_LOG = "dev/termination-log"
MAX_MESSAGE = 4000
"""Bytes; a kubelet truncates at 4096."""


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Run one step; returns the exit code, and writes the result as the container's termination message."""
    options = _parser().parse_args(arguments)
    root = Path(environment.get(ROOT, "/"))
    try:
        message, code = _run(options, environment, root), DONE
    except StepFailed as failed:
        message, code = str(failed), failed.code
    except Exception as error:
        traceback.print_exc()
        message = f"step {options.step} failed unexpectedly ({type(error).__name__}: {error})"
        message, code = f"{message}; see its log; delete the pod to retry", FAILED
    print(message, file=sys.stderr if code else sys.stdout, flush=True)
    with contextlib.suppress(OSError):  # The message is in the log as well.
        (root / TERMINATION_LOG).write_bytes(message.encode()[:MAX_MESSAGE])
    return code


def _run(options: argparse.Namespace, environment: Mapping[str, str], root: Path) -> str:
    name = environment.get("NODE_NAME", "")
    if not name:
        raise StepFailed("NODE_NAME is not set: the pod was not created by a NodeUpgrade")
    clock = Clock()
    api = RetryingApi(environment, root / SECRETS, clock)
    if options.step in ("drain", "uncordon"):
        cordon = draining.Cordon(name, api, clock)
        if options.step == "uncordon":
            return draining.uncordon(cordon)
        return draining.drain(cordon, environment.get("KUBERNETES_VERSION", "true"), timeout=options.timeout)
    files = Files(root / environment.get("HOST_ROOT", "/host").lstrip("/"))
    image = root / contents.IMAGE_FOLDER
    held = hold_lock(files, clock)
    try:
        node = Node(name, files, Commands(held), api, image, contents.read(image), clock, _say)
        folder = root / options.changes.lstrip("/") if getattr(options, "changes", "") else None
        asked = changes.read_changes(folder, environment.get("NODE_UPGRADE", ""))
        return _on_host(options, node, environment, asked)
    finally:
        os.close(held)


def _on_host(options: argparse.Namespace, node: Node, environment: Mapping[str, str], asked: changes.Changes) -> str:
    match options.step:
        case "certificates":
            return certificates.renew(node, environment.get("KUBERNETES_VERSION", ""), asked.upgrade)
        case "copy":
            versions = environment.get("KUBERNETES_VERSION", ""), environment.get("ETCD_VERSION", "")
            return steps.copy(node, versions[0], asked, versions[1])
        case "containerd":
            return steps.containerd(node)
        case "cni-plugins":
            return steps.cni_plugins(node)
        case "kubeadm":
            ignored = [name for name in options.ignore_preflight_errors.split(",") if name]
            kubeadm_options = steps.KubeadmOptions(options.role, ignored, options.patches)
            return steps.kubeadm(node, options.kubernetes_version, kubeadm_options, asked)
        case "kubelet":
            return steps.kubelet(node, asked)
    return steps.done(node, asked)


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "upgrader", description="The steps of an in-place upgrade of a node, in order; each can be repeated."
    )
    commands = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--changes", default="", metavar="DIR", help="directory with file and kubelet flag changes")
    commands.add_parser("copy", parents=[parent], help="check the node, then copy the new components to the host")
    commands.add_parser("containerd", help="upgrade containerd and restart it")
    commands.add_parser("cni-plugins", help="upgrade the CNI plugins")
    upgrade = commands.add_parser("kubeadm", parents=[parent], help="upgrade kubeadm and run kubeadm upgrade")
    upgrade.add_argument("--role", required=True, choices=steps.ROLES)
    upgrade.add_argument("--kubernetes-version", required=True, metavar="VERSION")
    upgrade.add_argument("--ignore-preflight-errors", default="", metavar="NAMES", help="separated by commas")
    upgrade.add_argument("--patches", default="", metavar="DIR", help="directory of the host with kubeadm patches")
    drain = commands.add_parser("drain", help="cordon the node and evict its pods")
    drain.add_argument("--timeout", type=float, default=0, metavar="SECONDS", help="0 for no limit")
    commands.add_parser("kubelet", parents=[parent], help="upgrade kubelet and kubectl, and restart the kubelet")
    commands.add_parser("uncordon", help="uncordon the node")
    commands.add_parser("certificates", help="renew the certificates of kubeadm, and change nothing else")
    commands.add_parser("done", parents=[parent], help="check that everything runs, and remove the work directory")
    return parser
