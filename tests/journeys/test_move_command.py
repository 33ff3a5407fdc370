"""`espalier move` as it is called: what it prints, what it refuses, and where it begins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.flux import KUSTOMIZATION, NAME_LABEL, NAMESPACE_LABEL, GitRepository, Kustomization
from espalier.cli.clusters.moves import move
from espalier.cli.clusters.moves.lost_source import answers
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Damaged, Failure
from espalier.cli.local.environment.management import record_infrastructure
from espalier.kube.client import PatchType
from espalier.kube.connection.access import Access
from espalier.moving import folder
from espalier.runtime.definitions import until_established
from tests.support.environments.bootstraps import until_gone
from tests.support.environments.environment import LocalEnvironment
from tests.support.environments.managed_environment import CALM, EXAMPLES, GARDEN, NAMESPACE, ManagedEnvironment
from tests.support.environments.two_management_clusters import between, objects

pytestmark = pytest.mark.embedded

TARGET = Path("target.kubeconfig")


Call = Callable[..., Awaitable[tuple[str, str]]]


def calling(
    source: ManagedEnvironment,
    target: ManagedEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """Calls the command with these flags; returns what it printed."""

    @asynccontextmanager
    async def connect(flag: flags.Connection) -> AsyncIterator[connection.Connected]:
        there = target if flag.kubeconfig == TARGET else source
        yield connection.Connected(there.client, NAMESPACE)

    monkeypatch.setattr(connection, "connect", connect)
    monkeypatch.setattr(connection, "access_of", lambda _: Access(server="https://source.invalid:6443"))
    unset = {param.name: False if getattr(param, "is_flag", False) else None for param in move.move.params}

    async def call(**given: object) -> tuple[str, str]:
        assert move.move.callback is not None
        await move.move.callback(**{**unset, "names": (), **given})
        told = capsys.readouterr()
        return told.out, told.err

    return call


def test_the_command_shows_a_move_and_makes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        call = calling(source, target, monkeypatch, capsys)
        before = await objects(source)
        shown, _ = await call(to_kubeconfig=TARGET, dry_run=True)
        assert "would be moved" in shown
        assert "  machinedeployments.cluster.x-k8s.io eksa-system/garden-md-0" in shown
        assert await objects(target) == set()
        _, output = await call(to_kubeconfig=TARGET, back=True)
        assert "is not being moved" in output
        _, moved = await call(to_kubeconfig=TARGET)
        assert "cluster default/garden is moved" in moved
        assert (await objects(source), await objects(target)) == (set(), before)
        with pytest.raises(Failure, match="has no clusters that could be moved"):
            await call(to_kubeconfig=TARGET)
        assert target.clusters.get(GARDEN) is not None

    between(story)


def test_a_moved_cluster_of_git_is_to_leave_git(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        call = calling(source, target, monkeypatch, capsys)
        for kind in (GitRepository, Kustomization):
            await source.client.apply(CUSTOM_RESOURCE_DEFINITION, msgspec.to_builtins(crd_of(kind)))
        await until_established(
            source.client, {kind.resource.group_resource for kind in (GitRepository, Kustomization)}
        )
        named = {"name": "garden", "namespace": NAMESPACE}
        spec = {"interval": "1h", "prune": True, "sourceRef": {"kind": "GitRepository", "name": "fleet"}}
        await source.client.apply(Kustomization.resource, {"metadata": named, "spec": {**spec, "path": "./a"}})
        labels = {"metadata": {"labels": {NAME_LABEL: "garden", NAMESPACE_LABEL: NAMESPACE}}}
        await source.client.patch(Cluster.resource, *GARDEN[::-1], patch=labels, type=PatchType.MERGE)
        await asyncio.sleep(CALM)
        before = await objects(source)
        with pytest.raises(Failure, match="and not before, take a and the Kustomization"):
            await call(to_kubeconfig=TARGET)
        assert await objects(source) == before
        patch = {"spec": {"suspend": True}}
        await source.client.patch(KUSTOMIZATION, "garden", NAMESPACE, patch=patch, type=PatchType.MERGE)
        _, moved = await call(to_kubeconfig=TARGET)
        assert "default/garden stays suspended: now take a and the Kustomization out of" in " ".join(moved.split())
        assert target.clusters.get(GARDEN) is not None

    between(story)


def test_a_folder_is_written_and_restored_with_consent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        call, saved = calling(source, target, monkeypatch, capsys), tmp_path / "saved"
        before = await objects(source)
        counts, *listed = (await call(to_folder=saved, dry_run=True))[0].splitlines()
        assert counts == f"would be written: {len(listed)} objects of 1 cluster"
        assert {"  clusters.anywhere.eks.amazonaws.com default/garden", "  Secret eksa-system/garden-ca"} <= {*listed}
        within = tmp_path / "absent" / "a" / "saved"
        for dry_run in (True, False):
            with pytest.raises(Failure, match=f"there is no folder {within.parent}: create it, or name another one"):
                await call(to_folder=within, dry_run=dry_run)
        assert not (tmp_path / "absent").exists()
        assert not saved.exists()
        with pytest.raises(Failure, match="not in the folder: 1 of 2 clusters:\nCluster default/nobody"):
            await call(to_folder=saved, names=("garden", "nobody"))
        with pytest.raises(Failure, match="exists, and is not empty: name a new folder"):
            await call(to_folder=saved)
        restore = {"from_folder": saved, "kubeconfig": TARGET}
        with pytest.raises(Failure, match="If it is lost for good, add --source-is-lost"):
            await call(**restore)
        with pytest.raises(Failure, match=r"--cluster: not in .*: nobody; it has default/garden"):
            await call(**restore, names=("nobody",), source_is_lost=True)
        for flags_ in ({"source_is_lost": True}, {"dry_run": True}, {"back": True}):
            with pytest.raises(Failure, match=r"--namespace: .*saved has no clusters of typo; it has default/garden"):
                await call(**restore, **flags_, namespace="typo")
        assert "would be moved" in (await call(**restore, dry_run=True))[0]
        assert await objects(target) == set()
        await source.managing.stop()
        folder.claim(saved, [GARDEN], "another management cluster")
        with pytest.raises(Damaged, match="was restored to another management cluster before: default/garden"):
            await call(**restore, source_is_lost=True)
        assert await objects(target) == set()
        await call(**restore, back=True)
        with pytest.raises(Damaged, match="was restored to another management cluster before: default/garden"):
            await call(**restore, source_is_lost=True)
        (saved / "restores.json").unlink()
        _, told = await call(**restore, source_is_lost=True)
        assert "cluster default/garden is restored" in told
        assert await objects(target) == before
        noted = json.loads((saved / "restores.json").read_text())["clusters"]
        assert noted == {"default/garden": (await target.client.get(NAMESPACES, SYSTEM_NAMESPACE)).metadata.uid}
        (saved / "objects" / "foreign").touch()
        with pytest.raises(Damaged, match="has files that are not in its index: objects/foreign"):
            await call(**restore, source_is_lost=True)

    between(story)


def test_restored_cluster_that_is_gone_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It may have been moved since, and be acted on there."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        call, saved = calling(source, target, monkeypatch, capsys), tmp_path / "saved"
        restore = {"from_folder": saved, "kubeconfig": TARGET}
        await call(to_folder=saved)
        with pytest.raises(Failure, match=r"was written here at .* gone since then may have been moved"):
            await call(from_folder=saved)
        await source.managing.stop()
        await call(**restore, source_is_lost=True)
        assert "is restored already" in (await call(**restore, source_is_lost=True))[1]
        await target.client.delete(Cluster.resource, GARDEN.name, NAMESPACE)
        await until_gone(target.client, GARDEN)
        gone = "Cluster default/garden was restored here before, and is gone"
        for flags_ in ({"source_is_lost": True}, {"dry_run": True}, {"back": True}, {"source_is_lost": True}):
            with pytest.raises(Failure, match=gone):
                await call(**restore, **flags_)
        assert await objects(target) == set()
        noted = json.loads((saved / "restores.json").read_text())
        (saved / "restores.json").write_text(json.dumps(noted | {"done": []}))
        assert "is restored" in (await call(**restore, source_is_lost=True))[1]

    between(story)


def test_a_folder_of_other_machines_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        call, saved = calling(source, target, monkeypatch, capsys), tmp_path / "saved"
        await record_infrastructure(source.client, "these")
        await call(to_folder=saved)
        await source.managing.stop()
        for identity in ("", "others"):
            await record_infrastructure(target.client, identity)
            with pytest.raises(Failure, match="the target does not reach the machines of the source"):
                await call(from_folder=saved, kubeconfig=TARGET, source_is_lost=True)
            assert await objects(target) == set()
        assert not (saved / "restores.json").exists()
        await record_infrastructure(target.client, "these")
        assert "is restored" in (await call(from_folder=saved, kubeconfig=TARGET, source_is_lost=True))[1]

    between(story)


def test_a_folder_whose_source_answers_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        call, saved = calling(source, target, monkeypatch, capsys), tmp_path / "saved"
        await source.client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
        spec = (await source.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).tree["spec"]
        metadata = {"name": "hedge", "namespace": "elsewhere"}
        await source.client.create(Cluster.resource, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(CALM)
        with pytest.raises(Failure, match="not in the folder: 1 of 2 clusters:\nCluster elsewhere/hedge is being"):
            await call(to_folder=saved)

        async def living(server: str, _authority: str) -> bool:
            return server == "https://source.invalid:6443"

        monkeypatch.setattr(move, "answers", living)
        with pytest.raises(Failure, match=r"lives: https://source\.invalid:6443 answers with its certificate"):
            await call(from_folder=saved, kubeconfig=TARGET, source_is_lost=True)
        assert await objects(target) == set()

    between(story)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Give one of --to-kubeconfig, --to-folder, --from-folder"),
        (("--to-folder", "a", "--from-folder", "b"), "--to-folder and --from-folder: give one of them"),
        (("--to-folder", "a", "--back"), "omit --back"),
        (("--from-folder", "a", "--to-context", "b"), "--to-context is about --to-kubeconfig: omit it"),
        (("--to-folder", "a", "--source-is-lost"), "--source-is-lost is about --from-folder"),
    ],
    ids=lambda value: "-".join(value) or "none" if isinstance(value, tuple) else "",
)
def test_contradicting_flags_are_refused(env: LocalEnvironment, arguments: tuple[str, ...], sentence: str) -> None:
    told = env.espalier("move", *arguments)
    assert (told.code, sentence in " ".join(told.err.split())) == (2, True), told.err


def test_a_missing_folder_has_its_exit_code_in_help(env: LocalEnvironment, tmp_path: Path) -> None:
    told = env.espalier("move", "--from-folder", str(tmp_path / "absent"), "--source-is-lost")
    assert (told.code, "is no folder" in told.err) == (5, True), told.err
    assert "5 the folder is missing or damaged" in " ".join(env.espalier("move", "--help").out.split())


def test_a_folder_is_not_restored_where_clusters_live(env: LocalEnvironment, tmp_path: Path) -> None:
    """By the real command, with the certificate of a real server."""
    env.espalier("create", "cluster", "-f", str(EXAMPLES / "docker.yaml"), "--wait")
    saved = tmp_path / "saved"
    told = env.espalier("move", "--to-folder", str(saved))
    assert (told.code, "has 1 cluster; keep it" in " ".join(told.err.split())) == (0, True), told.err
    index = json.loads((saved / "index.json").read_text())
    assert asyncio.run(answers(index["server"], index["authority"]))
    assert not asyncio.run(answers(index["server"].replace("127.0.0.1", "127.0.0.2"), index["authority"]))
    told = env.espalier("move", "--to-folder", "/proc/saved")
    assert (told.code, "/proc" in told.err, "Traceback" in told.err) == (1, True, False), told.err
    told = env.espalier("move", "--from-folder", str(saved), "--source-is-lost")
    assert (told.code, "still exists at the management cluster" in " ".join(told.err.split())) == (1, True), told.err


def test_a_cluster_is_not_moved_to_where_it_is(env: LocalEnvironment) -> None:
    itself = str(env.home / "kubeconfig")
    told = env.espalier("move", "--to-kubeconfig", itself, "--cluster", "garden")
    assert (told.code, "the target is the source itself" in " ".join(told.err.split())) == (1, True)
    both = env.espalier("move", "--to-kubeconfig", itself, "--back", "--dry-run")
    assert (both.code, "omit it, or --back" in both.err) == (2, True)
