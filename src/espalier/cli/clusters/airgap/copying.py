"""Copies images between registries and a folder, several at a time; an image that fails does not hold up the others."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from espalier.cli.clusters.airgap.layout import ImageLayout, digest_of
from espalier.cli.clusters.airgap.registries import (
    Blob,
    GivenUp,
    Manifest,
    Registry,
    RegistryError,
    Traversal,
    Unanswered,
)
from espalier.cli.clusters.airgap.wanted import Mirror, Reference, WantedImage

AT_ONCE = 4
Say = Callable[[str], None]
RegistryOf = Callable[[str], Registry]
"""The registry of a host."""


@dataclass
class Copied:
    """The results of copying images."""

    done: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    """Those that were there before."""
    failed: dict[str, str] = field(default_factory=dict)
    """The reason, by image."""
    unanswered: set[str] = field(default_factory=set)
    """Of those that failed: the images whose registry gave no answer that counts."""
    unasked: set[str] = field(default_factory=set)
    """Of those: the images for which it was not asked any more."""
    bytes: int = 0
    """Of content that was copied."""


async def download(
    wanted: Sequence[WantedImage], layout: ImageLayout, registry_of: RegistryOf, mirror: Mirror | None, say: Say
) -> Copied:
    """Download images into a folder, from their own registries or a mirror of them."""
    locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def fetch(registry: Registry, repository: str, blob: Blob, copied: Copied) -> None:
        async with locks[blob.digest]:
            if layout.has(blob):
                return
            await registry.download(repository, blob, layout.partial(blob.digest))
            await asyncio.to_thread(layout.complete, blob)
            copied.bytes += blob.size

    async def fetch_all(
        registry: Registry, repository: str, manifest: Manifest, copied: Copied, read: Traversal, depth: int = 1
    ) -> None:
        manifests, blobs = manifest.parts
        for part in manifests:
            if read.enters(part, depth):
                named = await _part(registry, repository, part)
                await fetch_all(registry, repository, named, copied, read, depth + 1)
        for blob in blobs:
            await fetch(registry, repository, blob, copied)
        layout.add(manifest)

    async def copy(image: WantedImage, copied: Copied) -> bool:
        name = str(image.reference)
        root = layout.names().get(name)
        if root is not None and layout.is_complete(root) and (not image.digests or root.digest in image.digests):
            return False
        source = mirror.place(image.reference) if mirror is not None else image.reference
        if source is None:
            raise RegistryError(f"the mirror {mirror.host if mirror else ''} has nothing of {image.reference.registry}")
        registry = registry_of(source.registry)
        manifest = await registry.manifest(source.repository, source.name)
        if image.digests and manifest.digest not in image.digests:
            raise RegistryError(_other_digest(manifest.digest, image.digests))
        await fetch_all(registry, source.repository, manifest, copied, Traversal())
        layout.enter(name, manifest)
        return True

    layout.create()
    with layout.writing():
        return await _each({str(image.reference): image for image in wanted}, copy, say)


async def upload(layout: ImageLayout, names: Sequence[str], registry: Registry, mirror: Mirror, say: Say) -> Copied:
    """Upload images of a folder into a mirror. A tag is written last, when all content of its image is there."""
    layout.check()
    entries = layout.names()
    locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def put_all(
        target: Reference, root: Blob, name: str, copied: Copied, read: Traversal, depth: int = 1
    ) -> None:
        manifest = layout.manifest(root)
        manifests, blobs = manifest.parts
        for part in manifests:
            if read.enters(part, depth):
                await put_all(target, part, part.digest, copied, read, depth + 1)
        for blob in blobs:
            async with locks[f"{target.repository}@{blob.digest}"]:
                if await registry.has(target.repository, blob):
                    continue
                path = layout.path(blob.digest)
                if not layout.has(blob) or await asyncio.to_thread(digest_of, path) != blob.digest:
                    raise RegistryError(f"{path} is missing or damaged: remove it, and download the images again")
                await registry.upload(target.repository, blob, path)
                copied.bytes += blob.size
        await registry.put(target.repository, name, manifest)

    async def copy(name: str, copied: Copied) -> bool:
        root = entries.get(name)
        if root is None:
            raise RegistryError(_not_in(layout))
        target = mirror.place(Reference.parse(name))
        if target is None:
            raise RegistryError(f"{mirror.host} does not mirror its registry: add it to ociNamespaces")
        for _ in layout.content(root):  # also one that the mirror has: it may be from a damaged folder
            pass
        if await registry.digest(target.repository, target.name) == root.digest:
            return False
        await put_all(target, root, target.name, copied, Traversal())
        return True

    return await _each({name: name for name in names}, copy, say)


async def check(
    wanted: Sequence[WantedImage], registry_of: RegistryOf, mirror: Mirror | None, layout: ImageLayout | None, say: Say
) -> Copied:
    """Which images a mirror (or their own registries) has, with the digests of the release and of a folder.

    Their manifests are read: an index without a platform, or with a wrong size, is no image.
    """
    if layout is not None:
        layout.check()
    entries = layout.names() if layout is not None else {}

    async def inspect(registry: Registry, repository: str, manifest: Manifest, read: Traversal, depth: int = 1) -> None:
        """Read the manifests of an image. A mirror may lack those of some platforms, not of all."""
        named, present = manifest.parts[0], 0
        for part in named:
            if await registry.digest(repository, part.digest) is not None:
                present += 1
                if read.enters(part, depth):
                    named_part = await _part(registry, repository, part)
                    await inspect(registry, repository, named_part, read, depth + 1)
        if named and not present:
            raise RegistryError(f"{repository} has no platform of index {manifest.digest}: no node could run it")

    async def compare(image: WantedImage, _copied: Copied) -> bool:
        target = mirror.place(image.reference) if mirror is not None else image.reference
        if target is None:
            raise RegistryError(f"{mirror.host if mirror else ''} does not mirror {image.reference.registry}")
        registry = registry_of(target.registry)
        digest = await registry.digest(target.repository, target.name)
        if digest is None:
            raise RegistryError(f"{target}: missing")
        root = entries.get(str(image.reference))
        if layout is not None and root is None:
            raise RegistryError(_not_in(layout))
        for allowed in (image.digests, {root.digest} if root is not None else set[str]()):
            if allowed and digest not in allowed:
                raise RegistryError(f"{target}: {_other_digest(digest, allowed)}")
        manifest = await registry.manifest(target.repository, digest)
        await inspect(registry, target.repository, manifest, Traversal())
        return True

    return await _each({str(image.reference): image for image in wanted}, compare, say)


async def _part(registry: Registry, repository: str, named: Blob) -> Manifest:
    """A manifest that an index names. Raises `RegistryError`, also if it has another size."""
    manifest = await registry.manifest(repository, named.digest)
    manifest.check_size(named)
    return manifest


def _other_digest(digest: str, allowed: Collection[str]) -> str:
    return f"found digest {digest}, allowed is {', '.join(sorted(allowed))}"


def _not_in(layout: ImageLayout) -> str:
    return f"not in {layout.folder}: download it first"


async def _each(
    items: dict[str, WantedImage] | dict[str, str], copy: Callable[..., Awaitable[bool]], say: Say
) -> Copied:
    copied, gate = Copied(), asyncio.Semaphore(AT_ONCE)

    async def run(name: str, item: WantedImage | str) -> None:
        async with gate:
            number = len(copied.done) + len(copied.present) + len(copied.failed)
            size = f", {copied.bytes / 1024**2:.0f} MiB copied" if copied.bytes else ""
            say(f"{number} of {len(items)} images{size}: {name}")
            try:
                (copied.done if await copy(item, copied) else copied.present).append(name)
            except RegistryError as error:
                copied.failed[name] = str(error)
                if isinstance(error, Unanswered):
                    copied.unanswered.add(name)
                if isinstance(error, GivenUp):
                    copied.unasked.add(name)

    try:
        async with asyncio.TaskGroup() as tasks:
            for name, item in items.items():
                tasks.create_task(run(name, item))
    except ExceptionGroup as errors:  # of the folder: it is the same for each image
        raise errors.exceptions[0] from None
    return copied
