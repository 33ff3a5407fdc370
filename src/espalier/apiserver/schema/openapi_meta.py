"""Schemas shared by all kinds: metadata, owners, and the bodies of deletes and failures."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from espalier.api.meta import Tree

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
OBJECT_META = f"{META}.ObjectMeta"
OWNER_REFERENCE = f"{META}.OwnerReference"
MANAGED_FIELDS_ENTRY = f"{META}.ManagedFieldsEntry"
DELETE_OPTIONS = f"{META}.DeleteOptions"
STATUS = f"{META}.Status"


def _text(description: str, **more: object) -> Tree:
    return {"type": "string", "description": description, **more}


def _time(description: str) -> Tree:
    return _text(description, format="date-time")


def _number(description: str) -> Tree:
    return {"type": "integer", "format": "int64", "description": description}


def _flag(description: str) -> Tree:
    return {"type": "boolean", "description": description}


def _map(description: str) -> Tree:
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": description}


def _object(description: str, properties: Tree, *required: str) -> Tree:
    schema: Tree = {"type": "object", "description": description, "properties": properties}
    return {**schema, "required": list(required)} if required else schema


_LISTS: Tree = {
    "finalizers": {
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": "set",
        "x-kubernetes-patch-strategy": "merge",
        "description": "Finalizers of the object. A deleted object is removed when the list is empty.",
    },
    "ownerReferences": {
        "type": "array",
        "items": {"$ref": f"#/components/schemas/{OWNER_REFERENCE}"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["uid"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "uid",
        "description": "Owners of this object. It is garbage collected when all of them are gone.",
    },
    "managedFields": {
        "type": "array",
        "items": {"$ref": f"#/components/schemas/{MANAGED_FIELDS_ENTRY}"},
        "x-kubernetes-list-type": "atomic",
        "description": "Managers of fields; maintained by the server.",
    },
}

META_SCHEMAS: Mapping[str, Tree] = MappingProxyType(
    {
        OBJECT_META: _object(
            "Metadata that every stored object has.",
            {
                "name": _text(
                    "Name of the object, unique among objects of its kind in its namespace. It can't be changed."
                ),
                "generateName": _text("Start of a name that the server completes, when no name is given."),
                "namespace": _text("Namespace of the object; empty for cluster-scoped kinds. It can't be changed."),
                "labels": _map("Names and values by which objects are grouped and selected."),
                "annotations": _map("Names and values for tools; not used to select objects."),
                "uid": _text("Identifier of this object in time and space; set by the server."),
                "resourceVersion": _text("Opaque version of the object; changes with each write; set by the server."),
                "generation": _number(
                    "Sequence number of the desired state; increases when the spec changes; set by the server."
                ),
                "creationTimestamp": _time("When the object was created; set by the server."),
                "deletionTimestamp": _time("When deletion was requested; set by the server."),
                "deletionGracePeriodSeconds": _number("Grace period of the deletion in seconds; set with a deletion."),
                "selfLink": _text("No longer set."),
                **_LISTS,
            },
        ),
        OWNER_REFERENCE: _object(
            "An object that owns another, in the same namespace or cluster-scoped.",
            {
                "apiVersion": _text("API version of the owner."),
                "kind": _text("Kind of the owner."),
                "name": _text("Name of the owner."),
                "uid": _text("Identifier of the owner."),
                "controller": _flag("True if the owner is the controller that manages the object."),
                "blockOwnerDeletion": _flag("True if a foreground deletion of the owner waits for this object."),
            },
            "apiVersion",
            "kind",
            "name",
            "uid",
        ),
        MANAGED_FIELDS_ENTRY: _object(
            "Fields that one manager owns through one operation.",
            {
                "manager": _text("Name of the manager."),
                "operation": _text("Apply or Update."),
                "apiVersion": _text("API version that the field names follow."),
                "fieldsType": _text("Format of the set of fields: FieldsV1."),
                "fieldsV1": {"type": "object", "description": "The set of fields."},
                "subresource": _text("Subresource through which the fields were written; empty for the object itself."),
                "time": _time("When the set, or the value of a field in it, last changed."),
            },
        ),
        DELETE_OPTIONS: _object(
            "How an object is deleted.",
            {
                "apiVersion": _text("v1"),
                "kind": _text("DeleteOptions"),
                "propagationPolicy": _text("What happens to dependents: Orphan, Background or Foreground."),
                "gracePeriodSeconds": _number("Grace period of the deletion in seconds."),
                "preconditions": _object(
                    "Preconditions of the deletion.",
                    {
                        "uid": _text("The object's identifier."),
                        "resourceVersion": _text("The object's version."),
                    },
                ),
                "dryRun": {"type": "array", "items": {"type": "string"}, "description": "All: nothing is persisted."},
            },
        ),
        STATUS: _object(
            "The result of a request that returns no object.",
            {
                "apiVersion": _text("v1"),
                "kind": _text("Status"),
                "status": _text("Success or Failure."),
                "message": _text("Message for humans."),
                "reason": _text("Machine-readable reason."),
                "code": _number("The HTTP status code."),
            },
        ),
    }
)
