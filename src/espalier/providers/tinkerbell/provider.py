"""The infrastructure provider Tinkerbell."""

from __future__ import annotations

from espalier.api.definitions.reference import Annotation, described
from espalier.clusters.design.provider import Links, Provider
from espalier.kube.rbac import Right
from espalier.providers.tinkerbell import references, render, rules
from espalier.providers.tinkerbell.cluster_api import INFRASTRUCTURE
from espalier.providers.tinkerbell.hardware import controller, rack
from espalier.providers.tinkerbell.hardware.findings import problems
from espalier.providers.tinkerbell.kinds import (
    KINDS,
    TinkerbellDatacenterConfig,
    TinkerbellMachineConfig,
    TinkerbellTemplateConfig,
)

TINKERBELL = Provider(
    links=Links(
        TinkerbellDatacenterConfig.resource,
        machine_configs=(TinkerbellMachineConfig.resource,),
        with_users=(TinkerbellMachineConfig.resource,),
        defaults=rules.DEFAULTS,
        further=references.further,
        further_kinds=(TinkerbellTemplateConfig.resource,),
        violations=rules.linked_violations,
        problems=problems,
    ),
    infrastructure=INFRASTRUCTURE,
    kinds=KINDS,
    render=render,
    rules=rules,
    images=("tinkerbell.kubeVip",),
    needs_workers=False,
    node_startup_timeout=render.NODE_STARTUP_TIMEOUT,
    complete=render.complete,
    settings=render.settings,
    changes=rules.changes,
    no_proxy=render.no_proxy,
    controllers=(controller.controller,),
    rights=(Right((TinkerbellMachineConfig.resource,), ("patch",), "status"),),
    system_rights=controller.RIGHTS,
    annotations=described(Annotation, rack),
    tested_with="simulated machines on the Hardware of the management cluster",
)
