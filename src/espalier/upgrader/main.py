"""`upgrader STEP`: what the containers of the upgrader pod run."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import changes, contents, draining, steps
from .api import SECRETS, PatientApi
from .files import Files
from .host import DONE, FAILED, Clock, Commands, StepFailed, hold_lock
from .node import Node

ROOT = "ESPALIER_CONTAINER_ROOT"
"""Environment variable: the folder that stands for `/` where there is no container. Simulated nodes set it."""
MESSAGE = "dev/termination-log"
LONGEST_MESSAGE = 4000
"""Bytes; a kubelet cuts at 4096."""


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Run one step; returns the exit code, and leaves a sentence as the container's termination message."""
    options = _parser().parse_args(arguments)
    root = Path(environment.get(ROOT, "/"))
    try:
        sentence, code = _run(options, environment, root), DONE
    except StepFailed as failed:
        sentence, code = str(failed), failed.code
    except Exception as error:
        traceback.print_exc()
        sentence = f"the step {options.step} failed unexpectedly ({type(error).__name__}: {error})"
        sentence, code = f"{sentence}; its log says where; delete the pod to try again", FAILED
    print(sentence, file=sys.stderr if code else sys.stdout, flush=True)
    with contextlib.suppress(OSError):  # The sentence is in the log as well.
        (root / MESSAGE).write_bytes(sentence.encode()[:LONGEST_MESSAGE])
    return code


def _run(options: argparse.Namespace, environment: Mapping[str, str], root: Path) -> str:
    name = environment.get("NODE_NAME", "")
    if not name:
        raise StepFailed("NODE_NAME does not say on which node this runs: the pod was not made by a NodeUpgrade")
    clock = Clock()
    api = PatientApi(environment, root / SECRETS, clock)
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
        return _on_host(options, node, environment.get("KUBERNETES_VERSION", ""), asked)
    finally:
        os.close(held)


def _on_host(options: argparse.Namespace, node: Node, version: str, asked: changes.Changes) -> str:
    match options.step:
        case "copy":
            return steps.copy(node, version, asked)
        case "containerd":
            return steps.containerd(node)
        case "cni-plugins":
            return steps.cni_plugins(node)
        case "kubeadm":
            ignored = [name for name in options.ignore_preflight_errors.split(",") if name]
            how = steps.How(options.role, ignored, options.patches)
            return steps.kubeadm(node, options.kubernetes_version, how, asked)
        case "kubelet":
            return steps.kubelet(node, asked)
    return steps.done(node, asked)


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "upgrader", description="The steps of a node's upgrade in place, in this order; each may be run again."
    )
    commands = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    brings = argparse.ArgumentParser(add_help=False)
    brings.add_argument("--changes", default="", metavar="FOLDER", help="with files and kubelet flags that change too")
    commands.add_parser("copy", parents=[brings], help="check, then copy the new components to the host")
    commands.add_parser("containerd", help="upgrade containerd and restart it")
    commands.add_parser("cni-plugins", help="upgrade the CNI plugins")
    upgrade = commands.add_parser("kubeadm", parents=[brings], help="upgrade kubeadm and run kubeadm upgrade")
    upgrade.add_argument("--role", required=True, choices=steps.ROLES)
    upgrade.add_argument("--kubernetes-version", required=True, metavar="VERSION")
    upgrade.add_argument("--ignore-preflight-errors", default="", metavar="NAMES", help="further ones, by commas")
    upgrade.add_argument("--patches", default="", metavar="FOLDER", help="of the host, with patches for kubeadm")
    drain = commands.add_parser("drain", help="cordon the node and evict its pods")
    drain.add_argument("--timeout", type=float, default=0, metavar="SECONDS", help="0: without a limit")
    commands.add_parser("kubelet", parents=[brings], help="upgrade kubelet and kubectl, and restart the kubelet")
    commands.add_parser("uncordon", help="uncordon the node")
    commands.add_parser("done", parents=[brings], help="check that everything runs, and remove the work folder")
    return parser
