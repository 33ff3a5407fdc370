"""Bodies and answers of other media types."""

from __future__ import annotations

from tests.contracts.edge_cases.requests import (
    DRY,
    JSON,
    MAPS,
    MERGE,
    ODDITIES,
    PROTOBUF,
    STRATEGIC,
    YAML,
    Ask,
    configured,
    get,
)

TYPES = (
    Ask("a type that is not there", "POST", MAPS, "a", "text/plain"),
    Ask("a media type that is none", "POST", MAPS, configured(), ";;"),
    Ask("a character set", "POST", MAPS + DRY, configured(), "application/json; charset=utf-8"),
    Ask("YAML", "POST", MAPS + DRY, "metadata: {name: strange}", YAML),
    Ask("broken YAML", "POST", MAPS, "metadata: {name: strange", YAML),
    Ask("two documents of YAML", "POST", MAPS + DRY, "metadata: {name: strange}\n---\nmetadata: {name: other}\n", YAML),
    Ask("YAML of another kind", "POST", MAPS, "apiVersion: v1\nkind: Secret\nmetadata: {name: strange}", YAML),
    Ask("protobuf that is none", "POST", MAPS, b"k8s\x00\xff\xff\xff", PROTOBUF),
    Ask("protobuf without its first bytes", "POST", MAPS, b"\x0a\x00", PROTOBUF),
    Ask("protobuf for a custom object", "POST", ODDITIES, b"k8s\x00", PROTOBUF),
    Ask("a patch as a new object", "POST", MAPS, configured(), MERGE),
    Ask("an object as a patch", "PATCH", f"{MAPS}/here", {}, JSON),
    Ask("a patch without a type", "PATCH", f"{MAPS}/here", {}, ""),
    Ask("a strategic patch of a custom object", "PATCH", f"{ODDITIES}/here", {}, STRATEGIC),
    get("an answer as a page", f"{MAPS}/here", accept="text/html"),
    get("an answer as an image, or as nothing", MAPS, accept="image/png, text/plain"),
    get(
        "an answer as a form that is not there", f"{MAPS}/here", accept="application/json;as=Nothing;v=v1;g=meta.k8s.io"
    ),
    get(
        "an answer as a list's metadata",
        f"{MAPS}/here",
        accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ),
    get("a list as an object's metadata", MAPS, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    get("metadata of an object", f"{MAPS}/here", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    get("a failure as a table", f"{MAPS}/absent", accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
)
