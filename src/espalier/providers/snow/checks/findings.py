"""Problems in the answers of Snow devices: objects that a spec names and a device lacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from espalier.api.text.listing import first
from espalier.clusters.report.checks.hosts import brief
from espalier.clusters.report.checks.limits import MOST_SHOWN
from espalier.providers.snow.checks.questions import Answers
from espalier.providers.snow.kinds import DEFAULT_INSTANCE_TYPE, SnowMachineConfigSpec

LEAST_SOFTWARE = 102
"""As in EKS Anywhere: the first version of the software of devices that machines with Kubernetes run on."""
LEAST_CPUS = 2
"""As in EKS Anywhere."""


def judge_machines(spec: SnowMachineConfigSpec, answers: Sequence[Answers | None]) -> Iterator[str]:
    """Problems of devices. `answers` are in the order of `spec.devices`, None for a device without an answer."""
    by_device = {
        device: device_answers
        for device, device_answers in zip(spec.devices, answers, strict=True)
        if device_answers is not None
    }
    for index, device in enumerate(spec.devices):
        version = re.match("[0-9]{1,9}", by_device[device].software) if device in by_device else None
        if version is not None and int(version[0]) < LEAST_SOFTWARE:
            yield (
                f"spec.devices[{index}]: found {device}, which runs software version {version[0]}; Kubernetes needs "
                f"{LEAST_SOFTWARE} or later; update the device, or use another one"
            )
    if spec.ami_id:
        images = {device: device_answers.images for device, device_answers in by_device.items()}
        advice = "correct the field, or import the image on each device"
        yield from _lacking("spec.amiID", spec.ami_id, "image", images, advice)
    instance_type = spec.instance_type or DEFAULT_INSTANCE_TYPE
    types = {device: device_answers.instance_types for device, device_answers in by_device.items()}
    yield from _lacking("spec.instanceType", instance_type, "instance type", types, "use one that all devices offer")
    for device, offered in types.items():
        if 0 < (number := (offered or {}).get(instance_type, 0)) < LEAST_CPUS:
            yield (
                f"spec.instanceType: found {instance_type}, which has {number} virtual CPU on device {device}; nodes "
                f"of Kubernetes need {LEAST_CPUS}; use a larger type"
            )
    pairs = {device: device_answers.key_pairs for device, device_answers in by_device.items()}
    advice = "correct the field, or import the key pair on each device"
    yield from _lacking("spec.sshKeyName", spec.ssh_key_name, "key pair", pairs, advice)


def _lacking(
    field: str, requested: str, object_type: str, existing: Mapping[str, Collection[str] | None], advice: str
) -> Iterator[str]:
    """One message for all devices that lack an object, with the objects that they have in common."""
    without = {
        device: objects for device, objects in existing.items() if objects is not None and requested not in objects
    }
    if not without:
        return
    in_common = sorted(set.intersection(*(set(objects) for objects in without.values())))
    names = f"device{'s' if len(without) > 1 else ''} {_shown([*without])}"
    verb = "have" if len(without) > 1 else "has"
    others = f", but {_shown(in_common)}" if in_common else ""
    yield f"{field}: found {requested}; {names} {verb} no such {object_type}{others}; {advice}"


def _shown(names: Sequence[str]) -> str:
    return brief(first(names, MOST_SHOWN))
