"""Flags of `eksctl anywhere` that this command lacks, and what does the same here."""

from __future__ import annotations

from collections.abc import Mapping

_TIMEOUT = "--timeout is for all of it"
_CHECKS = "spec.machineHealthCheck of the Cluster has it"
_HARDWARE = "`espalier generate hardware -z FILE | kubectl apply -f -` before it does that"
_KUBECONFIG = "--kubeconfig is that of the management cluster; the cluster's own is not needed"
_RELEASES = "`espalier releases import` brings Bundles of your own"

ADVICE: Mapping[str, str] = {
    "--bundles-override": _RELEASES,
    "--control-plane-wait-timeout": _TIMEOUT,
    "--external-etcd-wait-timeout": _TIMEOUT,
    "--force-cleanup": "nothing is left to clean up: the same command goes on, or `espalier delete cluster` ends it",
    "--hardware-csv": _HARDWARE,
    "--install-packages": "curated packages are no part of Espalier (docs/second-day.md#curated-packages)",
    "--no-timeouts": "--no-wait returns at once, and the manager goes on",
    "--node-startup-timeout": _CHECKS,
    "--per-machine-wait-timeout": _TIMEOUT,
    "--skip-ip-check": "no address is pinged: they are compared with those of other clusters",
    "--skip-validations": "no check can be skipped as a whole; annotations allow some (docs/reference/metadata.md)",
    "--tinkerbell-bootstrap-ip": "Tinkerbell runs there before a cluster is created (docs/tinkerbell.md)",
    "--unhealthy-machine-timeout": _CHECKS,
    "--w-config": _KUBECONFIG,
    "-v": "`espalier describe cluster NAME --watch` shows what is done",
    "-w": _KUBECONFIG,
    "-z": _HARDWARE,
}
"""What does the same, by flag of its `create`, `upgrade` and `delete cluster`."""
