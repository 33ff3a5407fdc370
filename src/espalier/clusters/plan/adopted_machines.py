"""Machines of clusters that were taken over from EKS Anywhere stay what they are, until others are asked for. Pure.

EKS Anywhere renders some fields otherwise than we do, and every such field would replace machines. So as long as what
we render for the machines of an owner (the control plane, a worker node group, external etcd) is what we rendered when
the cluster was taken over, and the machines are still made of what they were then, the owner keeps its fields and the
names of its templates. Whatever asks for other machines brings all of our rendering: they are replaced anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.text import paths
from espalier.clusterapi import external_etcd
from espalier.clusters.design.cluster_objects import adoption
from espalier.clusters.design.cluster_objects.adoption import Machines, claim
from espalier.clusters.design.drift import ownership
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.kube.objects import Object

T = TypeVar("T", bound=KubeObject)


class Rendered(NamedTuple):
    """The objects that are rendered for the machines of an owner."""

    owner: KubeObject
    templates: tuple[KubeObject, ...]


class Owner(NamedTuple):
    """An owner of machines as it is, with the templates that it names."""

    object: Object
    templates: tuple[Object, ...]
    missing: tuple[str, ...] = ()
    """Templates that it names and that do not exist."""


def owners_of_machines(render_input: RenderInput) -> dict[str, Rendered]:
    """The objects that are rendered for machines, by their owner as `adoption.claim` names it."""
    objects = rendered(render_input)
    owners = [Rendered(objects.control_plane, (objects.machine_template,))]
    owners += [Rendered(group.deployment, (group.machine_template, group.config_template)) for group in objects.groups]
    if objects.etcd is not None:
        owners.append(Rendered(objects.etcd.cluster, (objects.etcd.machine_template,)))
    return {claim(wanted.owner.resource, wanted.owner.metadata.name): wanted for wanted in owners}


def live(wanted: Rendered, capi_objects: ClusterAPIObjects) -> Owner | None:
    """The owner as it is; None if there is none."""
    object_ = capi_objects.of(wanted.owner.resource).get(wanted.owner.metadata.name)
    if object_ is None:
        return None
    templates, missing = [], []
    for template in wanted.templates:
        name = referenced(object_, template.resource)
        live_template = capi_objects.of(template.resource).get(name)
        if live_template is None:
            missing.append(claim(template.resource, name))
        else:
            templates.append(live_template)
    return Owner(object_, tuple(templates), tuple(missing))


def machines(wanted: Rendered, present: Owner) -> Machines:
    """The digests for the record."""
    return Machines(_digest_of_rendered(wanted), _digest_of_live(wanted, present))


def unknown_fields(wanted: Rendered, present: Owner) -> list[str]:
    """Fields of the machines that this build does not know, so that it can't keep them."""
    result = []
    for name, (tree, type_) in _typed_parts(wanted, present.object).items():
        if tree is not None and _without_empty(msgspec.to_builtins(msgspec.convert(tree, type_))) != _without_empty(
            tree
        ):
            result.append(f"{present.object.kind} {present.object.name}: {name}")
    for template, live_template in zip(wanted.templates, present.templates, strict=False):
        spec = msgspec.to_builtins(_typed(template, live_template))
        if _without_empty(spec) != _without_empty(ownership.owned_part(live_template, "spec")):
            result.append(f"{live_template.kind} {live_template.name}: spec")
    return result


def differences(wanted: Rendered, present: Owner) -> Iterator[tuple[Object, list[str]]]:
    """The fields that machines are made of, of the owner and its templates, that are rendered otherwise."""
    rendered_owner: Tree = _machine_part(msgspec.to_builtins(wanted.owner)["spec"])
    owner = _machine_part(ownership.owned_part(present.object, "spec") or {})
    yield present.object, _different(owner, rendered_owner)
    for template, live_template in zip(wanted.templates, present.templates, strict=False):
        yield (
            live_template,
            _different(ownership.owned_part(live_template, "spec") or {}, msgspec.to_builtins(_spec_of(template))),
        )


def _different(live_part: Tree, rendered_part: Tree) -> list[str]:
    before, after = _without_empty(live_part), _without_empty(rendered_part)
    differing = paths.differences({"spec": before}, {"spec": after}, parts=paths.parts_of_map)
    return sorted(paths.render(path) for path, _, _ in differing)


def retained(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> Mapping[str, Owner]:
    """The owners whose machines stay what they are, as `adoption.claim` names them."""
    record = capi_objects.adoption
    if record is None or not record.machines:
        return {}
    held: dict[int, tuple[RenderInput, Mapping[str, Owner]]] = vars(capi_objects).setdefault("retained", {})
    if id(render_input) not in held:
        held[id(render_input)] = (render_input, dict(_retained(render_input, capi_objects)))
    return held[id(render_input)][1]


def _retained(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> Iterator[tuple[str, Owner]]:
    record = capi_objects.adoption
    for name, wanted in owners_of_machines(render_input).items():
        noted = record.machines.get(name) if record is not None else None
        present = live(wanted, capi_objects) if noted is not None else None
        if present is not None and not present.missing and noted == machines(wanted, present):
            yield name, present


def of_control_plane(wanted: KubeadmControlPlane, owners: Mapping[str, Owner]) -> KubeadmControlPlane:
    """The control plane; its machines are made of what they are, if they are kept."""
    present = owners.get(claim(wanted.resource, wanted.metadata.name))
    if present is None:
        return wanted
    now = _converted(present.object, wanted, "kubeadmConfigSpec", "version")
    reference = present.object.decode(KubeadmControlPlane).spec.machine_template.spec.infrastructure_ref
    machine_template = wanted.spec.machine_template
    named = replace(machine_template.spec.infrastructure_ref, name=reference.name)
    return replace(
        wanted,
        spec=replace(
            wanted.spec,
            kubeadm_config_spec=now["kubeadmConfigSpec"],
            version=now["version"],
            machine_template=replace(machine_template, spec=replace(machine_template.spec, infrastructure_ref=named)),
        ),
    )


def of_deployment(wanted: MachineDeployment, owners: Mapping[str, Owner]) -> MachineDeployment:
    """The same for a worker node group; the names of templates are those in use anyway."""
    present = owners.get(claim(wanted.resource, wanted.metadata.name))
    if present is None:
        return wanted
    now = present.object.decode(MachineDeployment).spec.template.spec
    template = wanted.spec.template
    spec = replace(template.spec, version=now.version, failure_domain=now.failure_domain)
    return replace(wanted, spec=replace(wanted.spec, template=replace(template, spec=spec)))


def of_etcd(wanted: EtcdadmCluster, owners: Mapping[str, Owner]) -> EtcdadmCluster:
    """The same for external etcd."""
    present = owners.get(claim(wanted.resource, wanted.metadata.name))
    if present is None:
        return wanted
    now = _converted(present.object, wanted, "etcdadmConfigSpec")
    return replace(wanted, spec=replace(wanted.spec, etcdadm_config_spec=now["etcdadmConfigSpec"]))


def template(wanted: T, owner: KubeObject, owners: Mapping[str, Owner]) -> T | None:
    """The template that an owner names, as it is; None if it need not be kept."""
    present = owners.get(claim(owner.resource, owner.metadata.name))
    if present is None:
        return None
    live_template = next((template for template in present.templates if template.kind == wanted.kind), None)
    if live_template is None:
        return None
    spec = _typed(wanted, live_template)
    return replace(wanted, metadata=replace(wanted.metadata, name=live_template.name), spec=spec)


def _typed(wanted: KubeObject, live_template: Object) -> Any:
    """The part of the spec of a template that we own, as the kind of the rendered one has it."""
    tree = {"metadata": {"name": live_template.name}, "spec": ownership.owned_part(live_template, "spec")}
    return _spec_of(msgspec.convert(tree, type(wanted)))


def _converted(object_: Object, wanted: KubeObject, *fields: str) -> dict[str, Any]:
    parts = _typed_parts(Rendered(wanted, ()), object_)
    return {name: msgspec.convert(tree, type_) for name, (tree, type_) in parts.items() if name in fields}


def _typed_parts(wanted: Rendered, object_: Object) -> dict[str, tuple[Any, Any]]:
    """The fields that machines are made of in their owner itself, as trees, with the types that we have for them."""
    types = {field.encode_name: type(getattr(_spec_of(wanted.owner), field.name)) for field in _fields(wanted.owner)}
    return {name: (ownership.owned_part(object_, "spec", name), types[name]) for name in _MACHINE_FIELDS & types.keys()}


_MACHINE_FIELDS = {"kubeadmConfigSpec", "version", "etcdadmConfigSpec"}


def _fields(object_: KubeObject) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(_spec_of(object_))


def _spec_of(object_: KubeObject) -> Any:
    return object_.spec  # type: ignore[attr-defined]


def _digest_of_rendered(wanted: Rendered) -> str:
    owner: Tree = msgspec.to_builtins(wanted.owner)
    templates = [msgspec.to_builtins(_spec_of(template)) for template in wanted.templates]
    return adoption.digest(_without_empty([_machine_part(owner["spec"]), *templates]))


def _digest_of_live(wanted: Rendered, present: Owner) -> str:
    spec = ownership.owned_part(present.object, "spec") or {}
    names = [referenced(present.object, template.resource) for template in wanted.templates]
    templates = [ownership.owned_part(template, "spec") for template in present.templates]
    return adoption.digest(_without_empty([_machine_part(spec), names, *templates]))


def _machine_part(spec: Tree) -> Tree:
    """The fields that machines are made of, without the endpoints of external etcd, which follow its machines."""
    part = {name: spec.get(name) for name in _MACHINE_FIELDS}
    of_group = ((spec.get("template") or {}).get("spec")) or {}
    part |= {"group": {name: of_group.get(name) for name in ("version", "failureDomain")}}
    kubeadm = part.get("kubeadmConfigSpec") or {}
    configuration = kubeadm.get("clusterConfiguration") or {}
    etcd = configuration.get("etcd") or {}
    if external := etcd.get("external"):
        rest = {name: value for name, value in external.items() if name != "endpoints"}
        configuration = {**configuration, "etcd": {**etcd, "external": rest}}
        part["kubeadmConfigSpec"] = {**kubeadm, "clusterConfiguration": configuration}
    return part


def referenced(owner: Object, resource: Resource) -> str:
    """The name of the template of a kind that an owner names."""
    spec = owner.tree.get("spec") or {}
    of_group = (spec.get("template") or {}).get("spec") or {}
    reference: Any
    if owner.kind == KubeadmControlPlane.resource.kind:
        reference = ((spec.get("machineTemplate") or {}).get("spec") or {}).get("infrastructureRef")
    elif owner.kind == external_etcd.RESOURCE.kind:
        reference = spec.get("infrastructureTemplate")
    elif resource == KubeadmConfigTemplate.resource:
        reference = (of_group.get("bootstrap") or {}).get("configRef")
    else:
        reference = of_group.get("infrastructureRef")
    return str((reference or {}).get("name", ""))


def _without_empty(value: Any) -> Any:
    """Without empty parts: absent and empty mean the same to Cluster API."""
    if isinstance(value, dict):
        parts = {name: _without_empty(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part not in (None, "", [], {}, False)}
    return [_without_empty(part) for part in value] if isinstance(value, list) else value
