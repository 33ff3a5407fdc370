"""A push: all blobs and manifests of an archive by digest, and its tag last."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from espalier.api.trees.json_trees import decode
from espalier.cli.local.images.layout import INDEX, MANIFEST, dump
from espalier.cli.local.images.push.archive import Archive, Contents, Manifest
from espalier.cli.local.images.push.registry import PushFailed, Registry, TagInDoubt

MIB = 2**20


@dataclass
class Pushed:
    """The result of a push."""

    digest: str
    """Of the image, or of the index of images, that has the tag now."""
    sent: int = 0
    """Blobs that were sent."""
    there: int = 0
    """Blobs that the repository had."""
    bytes: int = 0
    """Of the blobs that were sent."""


class _Index(msgspec.Struct):
    manifests: list[dict[str, object]] = []


async def push(
    archive: Archive, contents: Contents, registry: Registry, *, statements: bool, show: Callable[[str], None]
) -> Pushed:
    """Push an image; whatever stops it before its end, the tag leads to what it led to before.

    `show` gets the progress. Raises `BadArchive` and `PushFailed`: `TagInDoubt` from where the tag is set.
    """
    about = contents.statements if statements else ()
    manifests = (*contents.manifests, *about)
    blobs = {blob.digest: blob for manifest in manifests for blob in manifest.blobs}
    pushed = Pushed(contents.top.digest)
    for number, blob in enumerate(blobs.values(), 1):
        if await registry.has_blob(blob.digest):
            pushed.there += 1
            continue
        show(f"push blob {number} of {len(blobs)}, {blob.size / MIB:.1f} MiB")
        archive.verify(blob)
        with archive.open(blob) as content:
            await registry.upload(blob, content)
        pushed.sent += 1
        pushed.bytes += blob.size
    show("push manifests")
    for manifest in manifests:
        listed = await _put(registry, manifest, manifest.blob.digest)
        if manifest.subject and not listed:
            await _list(registry, manifest)
    try:
        await _tag(registry, contents.manifests[-1])
    except PushFailed as error:
        raise TagInDoubt(str(error)) from None
    return pushed


async def _tag(registry: Registry, manifest: Manifest) -> None:
    tag, wanted = registry.reference.tag, manifest.blob.digest
    await _put(registry, manifest, tag)
    if (digest := await registry.digest_of(tag)) and digest != wanted:
        raise PushFailed(f"{registry.reference} is {digest} now instead of {wanted}: somebody else pushed it as well")


async def _put(registry: Registry, manifest: Manifest, name: str) -> bool:
    return await registry.put_manifest(manifest.content, manifest.blob.media_type, name, manifest.blob.digest)


async def _list(registry: Registry, statement: Manifest) -> None:
    """Enter a statement into the list on its subject, in a registry that has no such lists of its own."""
    tag = statement.subject.replace(":", "-")
    stored = await registry.manifest(tag)
    try:
        listed = decode(stored, _Index).manifests if stored else []
    except msgspec.MsgspecError as error:
        raise PushFailed(f"{tag} in {registry.reference.registry} is not an index ({error}): delete it") from None
    others = [entry for entry in listed if entry.get("digest") != statement.blob.digest]
    entry = {
        "mediaType": MANIFEST,
        "digest": statement.blob.digest,
        "size": statement.blob.size,
        "artifactType": statement.blob.artifact_type,
    }
    if len(others) == len(listed):
        content = dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": [*others, entry]})
        await registry.put_manifest(content, INDEX, tag, _digest(content))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
