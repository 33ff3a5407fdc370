"""`make real-assets`: what it says and leaves behind when all goes well, when something lacks, and when it is killed.

The compiler is a script that stands in for Go; the real one takes minutes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from espalier.assets.cache import seal
from espalier.assets.recipes import CERT_MANAGER, HELM, PROVIDER_CRDS, TESTED

SOURCES = Path(__file__).resolve().parents[3] / "src"

# A "binary" that prints the go.mod of its source says every version that could be asked for.
GO = """\
#!/bin/sh
case "$1" in
env) echo "${GO_VERSION:-go1.99.0}"; echo "$HOME/go-cache"; exit ;;
list) echo "$HOME/module"; exit ;;
mod)
  case "$4" in
@SUMS@
  esac
  printf '{"Dir": "%s", "Sum": "%s"}' "$HOME/module" "${SUM:-$sum}"; exit ;;
esac
modfile=go.mod
while [ "$1" != -o ]; do case "$1" in -modfile=*) modfile="${1#-modfile=}" ;; esac; shift; done
echo some.where/a/package
"""
COMPILES = """{ echo '#!/bin/sh'; echo 'cat <<END'; cat "$modfile"; echo END; } > "$2" && chmod +x "$2"\n"""
FAILS = "echo '# some.where/a/package'; echo './main.go:7:2: undefined: Frobnicate'; exit 1\n"
BLOCKS = """touch "$2"; echo "$2" > "$HOME/began"; read line < "$HOME/never"\n"""


DISK = "import shutil; shutil.disk_usage = lambda path: shutil._ntuple_diskusage(10**13, 10**12, {free})"
EMPTY, FULL = DISK.format(free=9 * 10**12), DISK.format(free=3 * 2**20)


class Machine:
    """A home of its own, a disk with room, and a PATH with the compiler that a test wants."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.assets = home / "cache" / "assets"
        (home / "bin").mkdir()

    def install_go(self, behaviour: str) -> None:
        go = self.home / "bin" / "go"
        sums = "\n".join(
            f"  {module.module}@v{module.version}) sum={module.sum} ;;" for module in PROVIDER_CRDS.modules
        )
        go.write_text(GO.replace("@SUMS@", sums) + behaviour)
        go.chmod(0o755)

    def install_crds(self) -> None:
        """The definitions of each module, and a file beside them that is none."""
        for module in PROVIDER_CRDS.modules:
            file = self.home / "module" / module.folder / module.files.replace("*", f"{module.name}_things")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"kind: CustomResourceDefinition\nname: {module.name}\n")
            file.with_name(f"other_{file.name}").write_text("kind: Kustomization\n")

    def install_chart(self) -> None:
        """A chart without a version, and a namespace, in the module."""
        for name, text in (
            (CERT_MANAGER.namespace_file, "kind: Namespace\n"),
            (f"{CERT_MANAGER.chart}/Chart.yaml", "name: cert-manager\nversion: v0.0.0\nappVersion: v0.0.0\n"),
        ):
            file = self.home / "module" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def install_helm(self, behaviour: str) -> None:
        """A program in place of Helm, as if it were built."""
        home = HELM.home(self.assets)
        home.mkdir(parents=True)
        (home / "helm").write_text(f"#!/bin/sh\nfor last; do :; done\n{behaviour}\n")
        (home / "helm").chmod(0o755)
        seal(home)

    def start(self, *arguments: str, prelude: str = "pass", **environment: str) -> subprocess.Popen[str]:
        story = (
            f"import runpy, sys; sys.argv = ['assets', *{arguments!r}]; {EMPTY}; {prelude};"
            "runpy.run_module('espalier.assets', run_name='__main__')"
        )
        return subprocess.Popen(
            [sys.executable, "-S", "-c", story],  # without what is installed: it runs before anything is
            cwd=self.home,
            env={"PATH": f"{self.home}/bin:/usr/bin:/bin", "HOME": str(self.home), "PYTHONPATH": str(SOURCES)}
            | {"ESPALIER_CACHE": str(self.home / "cache")}
            | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, prelude: str = "pass", **environment: str) -> tuple[int, str]:
        with self.start(*arguments, prelude=prelude, **environment) as process:
            output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def start_blocked(self) -> tuple[subprocess.Popen[str], Path]:
        """A build whose compiler has begun to write a file, and will not go on."""
        self.install_go(BLOCKS)
        os.mkfifo(self.home / "never")
        os.mkfifo(self.home / "began")
        began = os.open(self.home / "began", os.O_RDWR)
        try:
            process = self.start()
            if not select.select([began], [], [], 60)[0]:
                process.kill()
                pytest.fail("the compiler was not started")
            return process, Path(os.read(began, 4096).decode().strip())
        finally:
            os.close(began)

    def unfinished(self) -> list[Path]:
        return list(self.assets.glob(".unfinished-*"))

    def compilers(self) -> list[int]:
        """Process IDs of this machine's compilers that still run."""
        go = os.fsencode(self.home / "bin" / "go")
        running = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if go in (process / "cmdline").read_bytes().split(b"\0"):
                    running.append(int(process.name))
        return running


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_assets_are_built_once_and_linked_by_name(machine: Machine) -> None:
    machine.install_go(COMPILES)
    definition = Path("config", "crd", "bases", "clusters.yaml")
    (machine.home / "module" / definition).parent.mkdir(parents=True)
    (machine.home / "module" / definition).write_text("kind: CustomResourceDefinition")
    machine.install_crds()
    code, output = machine.run()
    assert code == 0, output
    for announced in ("etcd, etcdctl", "kube-apiserver, kube-controller-manager, kubectl", "MiB", "min"):
        assert announced in output.split(": built")[0]
    (envtest,) = machine.assets.glob("envtest-*")
    assert f"KUBEBUILDER_ASSETS={envtest}" in output
    programs = {path.name for path in envtest.iterdir() if os.access(path, os.X_OK)}
    assert programs == {"etcd", "etcdctl", "kube-apiserver", "kube-controller-manager", "kubectl"}
    assert machine.unfinished() == []
    (etcd,), (cluster_api,) = machine.assets.glob("etcd-3.6.*"), machine.assets.glob("cluster-api-*")
    for home in (etcd, cluster_api):
        checked = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=home, capture_output=True, check=False)
        assert checked.returncode == 0
    assert (cluster_api / definition).read_text() == "kind: CustomResourceDefinition"
    assert all(os.access(cluster_api / f"cluster-api-{name}", os.X_OK) for name in ("core", "kubeadm-bootstrap"))

    (machine.home / "bin" / "go").unlink()  # what is there needs no compiler
    code, output = machine.run()
    assert code == 0
    assert output.count("up to date") == len(TESTED)
    assert ": built" not in output


def test_definitions_of_providers_alone_are_copied(machine: Machine) -> None:
    machine.install_go(FAILS)
    machine.install_crds()
    code, output = machine.run("provider-crds")
    assert code == 0, output
    (home,) = machine.assets.glob("provider-crds-*")
    assert {path.name for path in home.iterdir() if path.is_dir()} == set(PROVIDER_CRDS.contents)
    texts = [path.read_text() for path in home.glob("*/*.yaml")]
    assert texts
    assert all(text.startswith("kind: CustomResourceDefinition") for text in texts)


def test_definitions_of_another_hash_are_refused(machine: Machine) -> None:
    machine.install_go(FAILS)
    machine.install_crds()
    code, output = machine.run("provider-crds", SUM="h1:another")
    assert code == 1
    assert f"has the hash h1:another, expected is {PROVIDER_CRDS.modules[0].sum}: nothing of it is used" in output
    assert machine.unfinished() == []


def test_a_module_without_definitions_is_named(machine: Machine) -> None:
    machine.install_go(FAILS)
    (machine.home / "module").mkdir()
    code, output = machine.run("provider-crds")
    assert code == 1
    assert f"{PROVIDER_CRDS.modules[0].module} {PROVIDER_CRDS.modules[0].version} has no CRDs" in output


def test_a_chart_is_rendered_with_its_version(machine: Machine) -> None:
    """Beside the namespace that it lacks; nothing but the result stays."""
    machine.install_go(FAILS)
    machine.install_chart()
    machine.install_helm("echo ---; cat $last/Chart.yaml")
    code, output = machine.run("cert-manager", SUM=CERT_MANAGER.sum)
    assert code == 0, output
    (home,) = machine.assets.glob("cert-manager-*")
    assert {path.name for path in home.iterdir()} == {"cert-manager.yaml", "SHA256SUMS"}
    version = f"v{CERT_MANAGER.version}"
    expected = f"kind: Namespace\n---\nname: cert-manager\nversion: {version}\nappVersion: {version}\n"
    assert (home / CERT_MANAGER.file).read_text() == expected


@pytest.mark.parametrize("behaviour", ["echo no such value >&2; exit 1", "echo no such value"])
def test_a_chart_that_helm_refuses_is_named(machine: Machine, behaviour: str) -> None:
    machine.install_go(FAILS)
    machine.install_chart()
    machine.install_helm(behaviour)
    code, output = machine.run("cert-manager", SUM=CERT_MANAGER.sum)
    assert code == 1
    assert f"{CERT_MANAGER.label}: its chart can't be rendered: no such value" in output
    assert machine.unfinished() == []


def test_a_damaged_binary_is_built_anew(machine: Machine) -> None:
    machine.install_go(COMPILES)
    machine.run("coredns-1.14.2")
    (home,) = machine.assets.glob("coredns-*")
    binary = home / "coredns.bin"
    good = binary.read_bytes()
    binary.write_bytes(good[:-1])
    code, output = machine.run("coredns-1.14.2")
    assert code == 0
    assert ": built" in output
    assert binary.read_bytes() == good


def test_failed_build_shows_the_output_of_the_compiler(machine: Machine) -> None:
    machine.install_go(FAILS)
    code, output = machine.run()
    assert code == 1
    assert "undefined: Frobnicate" in output
    assert "some.where/a/package\n" not in output.replace("# some.where/a/package\n", "")  # progress is not a complaint
    assert [path.name for path in machine.assets.iterdir()] == [".lock"]


def test_a_binary_of_another_version_is_refused(machine: Machine) -> None:
    machine.install_go("""{ echo '#!/bin/sh'; echo 'echo v0.0.0-master'; } > "$2" && chmod +x "$2"\n""")
    code, output = machine.run()
    assert code == 1
    assert "etcd does not report version" in output
    assert "v0.0.0-master" in output
    assert machine.unfinished() == []


def test_all_that_lacks_is_named_at_once(machine: Machine) -> None:
    code, output = machine.run(prelude=FULL)
    assert code == 2
    assert "Go 1.26.0 or newer: no program 'go' on PATH; install it" in output
    assert "MiB of free disk space" in output
    assert "3 MiB are free" in output
    assert not machine.assets.exists()


def test_real_nodes_lack_root_and_debootstrap_as_well(machine: Machine) -> None:
    code, output = machine.run("nodes", prelude="import os; os.geteuid = lambda: 1000")
    assert code == 2
    assert "root, for node-root bookworm, node-base 1.34.4, node-base 1.35.4, node-base 1.36.3: run" in output
    assert "debootstrap: no such program on PATH; install it with: apt-get install debootstrap" in output
    assert "no program 'go' on PATH" in output
    assert not machine.assets.exists()


def test_an_old_go_is_not_tried(machine: Machine) -> None:
    machine.install_go(COMPILES)
    code, output = machine.run(GO_VERSION="go1.25.4")
    assert code == 2
    assert "Go 1.26.0 or newer: 'go' on PATH is go1.25.4; install it" in output


def test_unknown_component_is_answered_with_the_known(machine: Machine) -> None:
    code, output = machine.run("kubernetse")
    assert code == 2
    assert (
        "unknown component kubernetse; known: tests, flux, helm, gardener, nodes, etcd, kubernetes, etcdutl, " in output
    )
    assert "for one version: node-base-1.34.4, node-base-1.35.4, node-base-1.36.3" in output


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_build_takes_its_compiler_along(machine: Machine, ending: signal.Signals) -> None:
    process, _ = machine.start_blocked()
    with process:
        process.send_signal(ending)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + ending, output
    assert machine.compilers() == []
    assert machine.unfinished() == []


COMPILER_STARTED = """\
import signal, subprocess; Popen = subprocess.Popen;\
stop = lambda process, command: (process, 'build' in command and signal.raise_signal(signal.SIGTERM))[0];\
subprocess.Popen = lambda command, **options: stop(Popen(command, **options), command)"""
READER_STARTED = """\
import signal, threading; start = threading.Thread.start; released = threading.Condition._release_save;\
stop = lambda condition: (released(condition), signal.raise_signal(signal.SIGTERM))[0];\
threading.Thread.start = lambda thread: (setattr(threading.Condition, '_release_save', stop), start(thread))[1]"""


@pytest.mark.parametrize("moment", [COMPILER_STARTED, READER_STARTED], ids=["compiler", "reader"])
def test_signal_at_the_start_of_a_compiler_leaves_none(machine: Machine, moment: str) -> None:
    """Python runs a handler between any two of its own steps, also when a lock has been left for a moment."""
    machine.install_go(BLOCKS)
    os.mkfifo(machine.home / "never")
    code, output = machine.run(prelude=moment)
    orphans = machine.compilers()
    for compiler in orphans:
        os.kill(compiler, signal.SIGKILL)
    assert (code, orphans, machine.unfinished()) == (128 + signal.SIGTERM, [], []), output


def test_leftovers_of_killed_build_are_cleared_by_next(machine: Machine) -> None:
    process, target = machine.start_blocked()
    with process:
        process.kill()
    assert machine.unfinished() == [target.parent]
    (machine.home / "never").write_text("go home\n")  # the orphaned compiler
    machine.install_go(COMPILES)
    machine.install_crds()
    code, output = machine.run()
    assert code == 0, output
    assert machine.unfinished() == []
