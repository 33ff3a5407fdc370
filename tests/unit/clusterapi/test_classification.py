"""The effect of a change on a machine, the same for admission, plans and upgrades."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.clusterapi.changes.classification import Classification, Contents, MachineEffect, UpdateStrategy, classify
from espalier.clusterapi.changes.machine_change import MachineParts, Template
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures
from espalier.providers.docker.cluster_api import INFRASTRUCTURE as DOCKER

KNOWN = Infrastructures([DOCKER])
TAG = "bootstrap.clusterConfiguration.etcd.local.imageTag"


def machine(version: str = "v1.36.3", template: str = "new", labels: Tree | None = None, **config: Any) -> MachineParts:
    reference = Template("DockerMachineTemplate.g", template)
    return MachineParts(version, dict(config), infrastructure=reference, in_place={"labels": labels or {}})


def worker(version: str = "v1.36.3", config: str = "new") -> MachineParts:
    bootstrap: Tree = {"configRef": {"kind": "KubeadmConfigTemplate", "name": config}}
    return MachineParts(version, bootstrap, infrastructure=Template("DockerMachineTemplate.g", "a"), is_of_group=True)


def templates(old: Tree | None, new: Tree | None) -> Contents:
    """Those before and after, of whatever kind."""
    named = {name: {"template": {"spec": spec}} for name, spec in (("old", old), ("new", new)) if spec is not None}
    return lambda _kind, name: named.get(name)


NONE = templates(None, None)


@pytest.mark.demand("U24")
def test_versions_and_image_template_change_in_place() -> None:
    before = machine(
        "v1.35.4", "old", clusterConfiguration={"etcd": {"local": {"imageTag": "v3.6.6"}}, "dns": {"imageTag": "1"}}
    )
    after = machine(clusterConfiguration={"etcd": {"local": {"imageTag": "v3.6.8"}}, "dns": {"imageTag": "2"}})
    images = templates({"customImage": "node:1.35"}, {"customImage": "node:1.36"})
    result = classify(before, after, UpdateStrategy.IN_PLACE, KNOWN, images)
    assert result == Classification(MachineEffect.IN_PLACE, ("version", TAG, "infrastructure.customImage"))


@pytest.mark.parametrize(
    ("update_strategy", "effect"),
    [
        (UpdateStrategy.IN_PLACE, MachineEffect.REFUSED),
        (UpdateStrategy.FALLBACK, MachineEffect.REPLACED),
        (UpdateStrategy.ROLLING, MachineEffect.REPLACED),
    ],
)
def test_other_fields_are_refused_or_replaced(update_strategy: UpdateStrategy, effect: MachineEffect) -> None:
    before = machine("v1.35.4", "old", ntp={"a": 1}, clusterConfiguration={"certificatesDir": "r"})
    after = machine(ntp={"a": 2}, clusterConfiguration={"certificatesDir": "other"})
    mounts = templates({"extraMounts": []}, {"extraMounts": [{"hostPath": "/x"}]})
    result = classify(before, after, update_strategy, KNOWN, mounts)
    others = ("bootstrap.clusterConfiguration.certificatesDir", "bootstrap.ntp.a", "infrastructure.extraMounts")
    assert result.effect is effect
    assert result.fields == ("version", *others)
    assert result.refused == (() if update_strategy is UpdateStrategy.ROLLING else others)
    assert result.accepted == (("version", *others) if update_strategy is UpdateStrategy.ROLLING else ("version",))


@pytest.mark.parametrize("update_strategy", list(UpdateStrategy))
def test_labels_are_updated_without_touching_the_node(update_strategy: UpdateStrategy) -> None:
    result = classify(machine(), machine(labels={"team": "a"}), update_strategy, KNOWN, NONE)
    assert result == Classification(MachineEffect.METADATA, ("labels.team",))
    assert classify(machine(), machine(), update_strategy, KNOWN, NONE) == Classification()


def test_a_version_with_a_label_is_changed_in_place() -> None:
    result = classify(machine("v1.35.4"), machine(labels={"team": "a"}), UpdateStrategy.IN_PLACE, KNOWN, NONE)
    assert result == Classification(MachineEffect.IN_PLACE, ("version",))


def test_templates_of_another_kind_are_refused() -> None:
    other = MachineParts("v1.36.3", {}, infrastructure=Template("OtherTemplate.g", "x"))
    assert classify(machine(), other, UpdateStrategy.IN_PLACE, KNOWN, NONE).refused == ("infrastructure.kind",)


def test_deleted_infrastructure_template_is_skipped() -> None:
    result = classify(machine(template="old"), machine(), UpdateStrategy.IN_PLACE, KNOWN, NONE)
    assert result == Classification(MachineEffect.IN_PLACE, ("infrastructure",))


def test_bootstrap_templates_are_compared_by_content() -> None:
    same = classify(
        worker(config="old"), worker(), UpdateStrategy.IN_PLACE, KNOWN, templates({"files": []}, {"files": []})
    )
    assert (same.effect, same.refused) == (MachineEffect.IN_PLACE, ())
    other = classify(worker(config="old"), worker(), UpdateStrategy.IN_PLACE, KNOWN, templates({"ntp": 1}, {"ntp": 2}))
    assert (other.effect, other.refused) == (MachineEffect.REFUSED, ("bootstrap.ntp",))
    gone = classify(worker(config="old"), worker(), UpdateStrategy.IN_PLACE, KNOWN, NONE)
    assert (gone.effect, gone.refused) == (MachineEffect.REFUSED, ("bootstrap.configRef",))


def test_provisioning_fields_do_not_differ_in_place() -> None:
    known = Infrastructures([replace(DOCKER, provisioning_fields=frozenset({"template.spec.bootstrapped"}))])
    change = templates({}, {"bootstrapped": True})
    assert (
        classify(machine(template="old"), machine(), UpdateStrategy.IN_PLACE, known, change).effect
        is MachineEffect.IN_PLACE
    )
    assert (
        classify(machine(template="old"), machine(), UpdateStrategy.IN_PLACE, KNOWN, change).effect
        is MachineEffect.REFUSED
    )


def test_images_flags_and_files_change_in_place() -> None:
    policy: Tree = {"path": "/etc/kubernetes/audit-policy.yaml", "content": "x"}
    etcd = {"etcd": {"local": {"imageRepository": "a"}}, "apiServer": {"extraArgs": [{"name": "v", "value": "4"}]}}
    result = classify(
        machine(), machine(clusterConfiguration=etcd, files=[policy]), UpdateStrategy.IN_PLACE, KNOWN, NONE
    )
    assert (result.effect, result.refused) == (MachineEffect.IN_PLACE, ())

    elsewhere = classify(
        machine(), machine(files=[policy | {"path": "/etc/hosts"}]), UpdateStrategy.IN_PLACE, KNOWN, NONE
    )
    assert (elsewhere.effect, elsewhere.refused) == (MachineEffect.REFUSED, ("bootstrap.files[/etc/hosts]",))


def test_machine_without_infrastructure_is_classified() -> None:
    known, unknown = machine("v1.35.4"), msgspec.structs.replace(machine(), infrastructure=None)
    assert classify(known, unknown, UpdateStrategy.IN_PLACE, KNOWN, NONE).refused == ()
    assert classify(unknown, known, UpdateStrategy.IN_PLACE, KNOWN, NONE).refused == ()


@pytest.mark.parametrize(
    ("effect", "is_outdated"),
    [(item, item in (MachineEffect.IN_PLACE, MachineEffect.REPLACED, MachineEffect.REFUSED)) for item in MachineEffect],
)
def test_refused_changes_also_make_a_machine_outdated(effect: MachineEffect, is_outdated: bool) -> None:
    """Cluster API would replace the machine unless prevented."""
    assert Classification(effect).is_outdated is is_outdated
