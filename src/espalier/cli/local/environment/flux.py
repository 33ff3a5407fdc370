"""How the stand-in for Flux fetches: with the content of the Secret that Flux itself would use."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from espalier.api.flux import GitRepositorySpec
from espalier.cli.kit import distribution
from espalier.kube.transports.wire import User
from espalier.simulator.flux.sources import Fetched, FetchFailed

ACCOUNT = User("system:serviceaccount:flux-system:kustomize-controller", ("system:masters",))
"""Flux's own, by which admission tells Flux from people."""

_REASONS = {"Unauthorized": "AuthenticationFailed", "CredentialsInURL": "URLInvalid", "URLInvalid": "URLInvalid"}


async def fetch(spec: GitRepositorySpec, secret: Mapping[str, bytes]) -> Fetched:
    """Fetch in a thread. Raises `FetchFailed`."""
    return await asyncio.to_thread(fetched, spec, secret)


def fetched(spec: GitRepositorySpec, secret: Mapping[str, bytes]) -> Fetched:
    """The branch of a repository; `identity` and `known_hosts`, or `username` and `password`, are in the Secret."""
    try:
        from espalier.gitops.repository import Access, GitError, Repository  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        message = f"there is no module {error.name}; install it with `{distribution.install('gitops')}`"
        raise FetchFailed("GitOperationFailed", message) from None
    with tempfile.TemporaryDirectory(prefix="espalier-flux-") as folder:
        files = {}
        for name in ("identity", "known_hosts"):
            if name in secret:
                files[name] = Path(folder, name)
                files[name].touch(mode=0o600)
                files[name].write_bytes(secret[name])
        texts = {name: secret[name].decode(errors="replace") for name in ("username", "password") if name in secret}
        try:
            access = Access(spec.url, **texts, key_file=files.get("identity"), known_hosts=files.get("known_hosts"))
            snapshot = Repository(access, spec.ref.branch or "master").fetch(exact=True)
        except GitError as error:
            raise FetchFailed(_REASONS.get(error.reason, "GitOperationFailed"), str(error)) from None
    if not snapshot.commit:
        raise FetchFailed("GitOperationFailed", f"{spec.url}: it has no commits yet; push some")
    return Fetched(snapshot.commit, snapshot.files)
