"""Kubeconfigs mean what they mean to kubectl, and what is wrong in one is named."""

from __future__ import annotations

import base64
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from espalier.kube.connection.access import Access, Impersonation
from espalier.kube.connection.kubeconfig import Kubeconfig, find_access, in_cluster_access
from espalier.kube.connection.kubeconfig_entries import KubeconfigError
from espalier.kube.connection.pki import Authority

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://c.test:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **context}}],
        "current-context": "x",
    }


def write(file: Path, tree: object) -> Path:
    file.write_text(yaml.safe_dump(tree))
    return file


def context_of(tmp_path: Path, **options: Any) -> Access:
    return Kubeconfig.load([write(tmp_path / "config", config(**options))]).context()


def test_data_is_decoded_and_wins_over_files(tmp_path: Path) -> None:
    access = context_of(
        tmp_path,
        cluster={
            "certificate-authority-data": encoded("CA"),
            "certificate-authority": "missing.crt",
            "tls-server-name": "kube.test",
            "proxy-url": "http://proxy.test:3128",
        },
        user={"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")},
        namespace="team",
    )
    assert access == Access(
        server="https://c.test:6443",
        certificate_authority=b"CA",
        tls_server_name="kube.test",
        proxy_url="http://proxy.test:3128",
        client_certificate=b"CERT",
        client_key=b"KEY",
        namespace="team",
    )
    for secret in ("KEY", "CERT"):
        assert secret not in repr(access)


def test_paths_start_at_their_file(tmp_path: Path) -> None:
    for name in ("ca.crt", "u.crt", "u.key", "token"):
        (tmp_path / name).write_text(name)
    access = context_of(
        tmp_path,
        cluster={"certificate-authority": "ca.crt"},
        user={"client-certificate": "u.crt", "client-key": str(tmp_path / "u.key"), "tokenFile": "token"},
    )
    assert (access.certificate_authority, access.client_certificate, access.client_key) == (
        b"ca.crt",
        b"u.crt",
        b"u.key",
    )
    assert access.token_file == tmp_path / "token"


def test_scalars_are_strings_and_nulls_are_absent(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "current-context: 1.30\n"
        "clusters: [{name: 0123, cluster: {server: 'http://c', insecure-skip-tls-verify: true, proxy-url: ~}}]\n"
        "users: [{name: 2026-01-02, user: {token: 12345, client-key: null, as-groups: null}}]\n"
        "contexts: [{name: 1.30, context: {cluster: 0123, user: 2026-01-02, namespace: 1e3}}]\n"
        "preferences: {}\n"
    )
    access = Kubeconfig.load([file]).context()
    assert (access.token, access.namespace, access.insecure_skip_tls_verify) == ("12345", "1e3", True)


def test_empty_file_as_of_kubectl_has_no_context(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("apiVersion: v1\nclusters: null\ncontexts: null\nusers: null\ncurrent-context: ''\nkind: Config\n")
    with pytest.raises(KubeconfigError, match=r"config: there is no context in it; use the kubeconfig of a cluster$"):
        Kubeconfig.load([file]).context()
    with pytest.raises(KubeconfigError, match=r'config: there is no context "x"; existing: none$'):
        Kubeconfig.load([file]).context("x")


def test_file_without_a_current_context_lists_all(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: a, context: {}}, {name: b, context: {}}]\n")
    with pytest.raises(KubeconfigError, match=r"no current-context is set; name one of: a, b$"):
        Kubeconfig.load([file]).context()


def test_first_of_several_files_wins(tmp_path: Path) -> None:
    first, second = config(), config(cluster={"server": "https://other.test"})
    del first["current-context"]
    second["contexts"].append({"name": "y", "context": {"cluster": "c"}})
    second["current-context"] = "y"
    files = [write(tmp_path / "1", first), tmp_path / "missing", write(tmp_path / "2", second)]
    merged = Kubeconfig.load(files)
    assert merged.contexts == ["x", "y"]
    assert merged.current_context == "y"
    assert merged.context().server == "https://c.test:6443"
    assert merged.context("x").namespace == "default"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": {"certificate-authority-data": "%%%"}}, 'cluster "c": certificate-authority-data is not base64'),
        ({"user": {"client-key-data": "a", "client-certificate": "b"}}, 'user "u": client-'),
        (
            {"user": {"client-certificate-data": encoded("x")}},
            'user "u": client-certificate is given without client-key',
        ),
        ({"user": {"client-key": "no/such.key"}}, r'user "u": client-key: cannot read .*no/such\.key: No such file'),
        ({"user": {"username": "a", "password": "hunter2"}}, 'user "u": username and password'),
        ({"user": {"auth-provider": {"name": "oidc"}}}, 'user "u": auth-provider'),
        ({"user": {"as-groups": ["a"]}}, 'user "u": as-groups'),
        (
            {"user": {"exec": {"command": "x", "apiVersion": "v0", "interactiveMode": "Never"}}},
            "exec.apiVersion: found 'v0'",
        ),
        (
            {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}},
            r"exec\.interactiveMode must be",
        ),
        ({"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}}, "command"),
        ({"cluster": {"server": "c.test"}}, 'cluster "c": server must be'),
        ({"cluster": {"proxy-url": "socks5://c.test"}}, 'cluster "c": proxy-url must be'),
        ({"cluster": {"insecure-skip-tls-verify": "maybe"}}, "insecure-skip-tls-verify"),
        ({"context": {"cluster": "missing"}}, 'context "x": there is no cluster "missing"'),
    ],
)
def test_each_problem_is_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    tree = config(options.get("cluster"), options.get("user"))
    tree["contexts"][0]["context"] |= options.get("context", {})
    file = write(tmp_path / "config", tree)
    with pytest.raises(KubeconfigError, match=message) as caught:
        Kubeconfig.load([file]).context()
    assert str(file) in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: b: c", "cannot be read: line 1: this is not YAML"),
        ("- a", "its top must be a mapping"),
        ("clusters: 7", "clusters must be a list"),
        ("users: [{user: {}}]", r"users\[0\] has no name"),
        ("users: [{name: a, user: secret}]", r"users\[0\]\.user must be a mapping"),
    ],
)
def test_an_invalid_kubeconfig_is_reported_as_such(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "config"
    file.write_text(content)
    with pytest.raises(KubeconfigError, match=message) as caught:
        Kubeconfig.load([file])
    assert str(file) in str(caught.value)


def test_missing_file_and_missing_context_are_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=f"there is no kubeconfig at {tmp_path / 'none'}"):
        Kubeconfig.load([tmp_path / "none"])
    with pytest.raises(KubeconfigError, match='there is no context "z"; existing: x'):
        Kubeconfig.load([write(tmp_path / "config", config())]).context("z")


def test_a_plugin_is_what_its_file_says(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    plugin = context_of(
        tmp_path,
        cluster={"certificate-authority-data": encoded("CA"), "extensions": [extension]},
        user={
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "command": "bin/login",
                "args": ["--cluster", "c"],
                "env": [{"name": "PROFILE", "value": "p"}],
                "provideClusterInfo": True,
                "installHint": None,
            }
        },
    ).exec_plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/login")
    assert (plugin.args, plugin.env, plugin.interactive_mode) == (("--cluster", "c"), {"PROFILE": "p"}, "IfAvailable")
    assert plugin.cluster == {
        "server": "https://c.test:6443",
        "certificate-authority-data": encoded("CA"),
        "config": {"audience": "a"},
    }


def test_a_user_may_act_as_another(tmp_path: Path) -> None:
    user = {"token": "t", "as": "joe", "as-uid": "7", "as-groups": ["g", "h"], "as-user-extra": {"scopes": ["a", "b"]}}
    impersonation = context_of(tmp_path, user=user).impersonation
    assert impersonation == Impersonation("joe", "7", ("g", "h"), {"scopes": ("a", "b")})
    assert impersonation.headers() == [
        ("Impersonate-User", "joe"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-scopes", "a"),
        ("Impersonate-Extra-scopes", "b"),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"cluster": {"certificate-authority": "/etc/passwd"}},
        {"user": {"client-certificate": "/etc/passwd"}},
        {"user": {"tokenFile": "/etc/passwd"}},
        {
            "user": {
                "exec": {
                    "command": "rm",
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "interactiveMode": "Never",
                }
            }
        },
    ],
)
def test_kubeconfig_from_the_api_names_no_local_file(options: dict[str, Any]) -> None:
    content = yaml.safe_dump(config(**options)).encode()
    with pytest.raises(KubeconfigError, match=r"Secret ns/c-kubeconfig.*only a local kubeconfig may"):
        Kubeconfig.parse(content, source="Secret ns/c-kubeconfig").context()


def of_cluster(name: str = "garden") -> Kubeconfig:
    authority = Authority.create("kubernetes", now=NOW)
    return Kubeconfig.of_cluster(
        name,
        server=f"https://{name}.test:6443",
        certificate_authority=authority.certificate,
        user=f"{name}-admin",
        credentials=authority.issue_client("kubernetes-admin", groups=["system:masters"], now=NOW),
        namespace="team",
    )


def test_a_copy_of_a_context_needs_no_file(tmp_path: Path) -> None:
    """That of the chosen context, of several files, and nothing of the others."""
    for name in ("ca.crt", "cert", "key"):
        (tmp_path / name).write_text(name)
    first = write(tmp_path / "first", config(user={"token": "other"}))
    tree = config(
        cluster={"server": "https://b.test", "certificate-authority": "ca.crt", "tls-server-name": "kube.test"},
        user={"client-certificate": "cert", "client-key": "key"},
        namespace="team",
    )
    for kind, name in (("cluster", "bc"), ("user", "bu"), ("context", "b")):
        tree[f"{kind}s"][0]["name"] = name
    tree["contexts"][0]["context"] |= {"cluster": "bc", "user": "bu"}
    loaded = Kubeconfig.load([first, write(tmp_path / "second", tree)])
    loaded.current_context = "b"
    content = loaded.alone().to_bytes()
    copy = Kubeconfig.parse(content)
    assert copy.contexts == ["b"]
    assert b"other" not in content
    shown = ("server", "tls_server_name", "namespace", "certificate_authority", "client_certificate", "client_key")
    assert [getattr(copy.context(), name) for name in shown] == [getattr(loaded.context(), name) for name in shown]
    assert copy.context().client_key == b"key"
    assert copy.alone().to_bytes() == content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": {"tokenFile": "token"}}, "tokenFile names a file of this machine"),
        (
            {"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws"}}},
            "exec.command names a file of this machine",
        ),
        ({"cluster": {"insecure-skip-tls-verify": True}}, "insecure-skip-tls-verify: found true"),
        ({"user": {"client-key": "missing", "client-certificate": "missing"}}, "cannot read"),
    ],
)
def test_what_can_not_be_copied_is_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    loaded = Kubeconfig.load([write(tmp_path / "config", config(**options))])
    with pytest.raises(KubeconfigError, match=message):
        loaded.alone()


def test_new_cluster_gets_kubeconfig_that_can_be_read() -> None:
    made = of_cluster()
    read = Kubeconfig.parse(made.to_bytes())
    assert read.current_context == "garden-admin@garden"
    assert read.context() == made.context()
    assert read.context().namespace == "team"


def test_a_new_cluster_is_merged_into_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "config"
    link = tmp_path / "link"
    link.symlink_to(file)
    of_cluster().merge_into(link)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert link.is_symlink()

    tree = yaml.safe_load(file.read_text())
    tree["extensions"] = [{"name": "mine", "extension": {"a": 1}}]
    tree["clusters"][0]["cluster"]["extensions"] = [{"name": "theirs"}]
    write(file, tree)
    file.chmod(0o644)
    of_cluster("other").merge_into(file, switch=False)
    of_cluster("other").merge_into(file, switch=False)
    merged = Kubeconfig.load([file])
    assert merged.contexts == ["garden-admin@garden", "other-admin@other"]
    assert merged.current_context == "garden-admin@garden"
    assert merged.context("other-admin@other").server == "https://other.test:6443"
    written = yaml.safe_load(file.read_text())
    assert written["extensions"][0]["name"] == "mine"
    assert written["clusters"][0]["cluster"]["extensions"] == [{"name": "theirs"}]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["config"]


def test_file_changed_by_another_program_is_left_alone(tmp_path: Path) -> None:
    file = write(tmp_path / "config", config())
    (tmp_path / "config.lock").touch()
    before = file.read_bytes()
    with pytest.raises(KubeconfigError, match=r"another program.*config\.lock"):
        of_cluster().merge_into(file)
    assert file.read_bytes() == before


def test_file_of_our_own_is_replaced_whatever_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And never absent in between: kubectl without a kubeconfig asks whoever listens on localhost:8080."""
    file, removed = tmp_path / "config", []
    monkeypatch.setattr(Path, "unlink", lambda self, **_: removed.append(self.name))
    for before in ("a: b: c", "clusters: []\ncurrent-context: old\n"):
        file.write_text(before)
        (tmp_path / "config.lock").rename(tmp_path / "kept") if removed else None
        of_cluster().merge_into(file, alone=True)
        assert Kubeconfig.load([file]).current_context == of_cluster().current_context
    assert set(removed) == {"config.lock"}


def test_a_file_that_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("a: b: c")
    with pytest.raises(KubeconfigError, match="not YAML"):
        of_cluster().merge_into(file)
    assert file.read_text() == "a: b: c"
    assert not (tmp_path / "config.lock").exists()


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
    st.text(min_size=1, alphabet="aZ09:/=+-_.~ #'\"\\"),
)
def test_a_written_file_is_read_back(name: str, token: str) -> None:
    made = Kubeconfig.of_cluster(name, server="https://a", certificate_authority=b"CA", user=name, credentials=token)
    access = Kubeconfig.parse(made.to_bytes()).context(f"{name}@{name}")
    assert access.token == token


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    for name, content in (("token", "t"), ("ca.crt", "CA"), ("namespace", "eksa-system\n")):
        (tmp_path / name).write_text(content)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster_access(environment, tmp_path) == Access(
        server="https://[fd00::1]:443",
        certificate_authority=b"CA",
        token_file=tmp_path / "token",
        namespace="eksa-system",
    )
    assert in_cluster_access({}, tmp_path) is None
    assert in_cluster_access(environment, tmp_path / "none") is None


def test_a_command_finds_its_server_as_kubectl_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    explicit = write(tmp_path / "explicit", config(cluster={"server": "https://explicit"}))
    named = write(tmp_path / "named", config(cluster={"server": "https://named"}))
    environment = {"KUBECONFIG": f"{tmp_path / 'none'}:{named}"}
    assert find_access(kubeconfig=explicit, environment=environment).server == "https://explicit"
    assert find_access(environment=environment).server == "https://named"
    with pytest.raises(KubeconfigError, match=r"no kubeconfig at .*\.kube/config"):
        find_access(environment={})
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", config(cluster={"server": "https://home"}))
    assert find_access(environment={}).server == "https://home"


def of_garden(server: str = "https://garden:6443", user: str = "jane") -> Kubeconfig:
    return Kubeconfig.of_cluster(
        "garden", server=server, certificate_authority=b"ca", user=user, credentials=f"token-of-{user}"
    )


def test_merged_context_takes_nothing_away(tmp_path: Path) -> None:
    file = tmp_path / "config"
    orchard = Kubeconfig.of_cluster(
        "orchard",
        server="https://orchard:6443",
        certificate_authority=b"ca",
        user="jane",
        credentials="other",
    )
    orchard.merge_into(file)
    of_garden().for_merge(file).merge_into(file, switch=False)
    merged = Kubeconfig.load([file])
    assert merged.current_context == "jane@orchard"
    assert merged.context("jane@orchard").token == "other"
    assert merged.context("jane@garden").token == "token-of-jane"
    assert merged.context("jane@garden").server == "https://garden:6443"


def test_a_merge_is_repeated_with_new_credentials(tmp_path: Path) -> None:
    file = tmp_path / "config"
    for token in ("first", "second"):
        made = Kubeconfig.of_cluster(
            "garden", server="https://garden:6443", certificate_authority=b"ca", user="jane", credentials=token
        )
        made.for_merge(file).merge_into(file, switch=False)
    merged = Kubeconfig.load([file])
    assert (merged.contexts, merged.context("jane@garden").token) == (["jane@garden"], "second")


def test_another_cluster_of_that_name_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    of_garden("https://elsewhere:6443").merge_into(file)
    before = file.read_bytes()
    with pytest.raises(KubeconfigError, match="found cluster garden with server https://elsewhere:6443, allowed is"):
        of_garden().for_merge(file)
    assert file.read_bytes() == before


def test_another_context_of_that_name_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    tree = yaml.safe_load(of_garden("https://elsewhere:6443").to_bytes())
    tree["clusters"][0]["name"] = tree["contexts"][0]["context"]["cluster"] = "other"
    file.write_text(yaml.safe_dump(tree))
    with pytest.raises(KubeconfigError, match="found context jane@garden with server https://elsewhere:6443"):
        of_garden().for_merge(file)


def test_a_user_of_another_context_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    tree = yaml.safe_load(of_garden("https://elsewhere:6443").to_bytes())
    tree["clusters"][0]["name"] = tree["contexts"][0]["context"]["cluster"] = tree["contexts"][0]["name"] = "other"
    tree["users"][0]["name"] = tree["contexts"][0]["context"]["user"] = "jane@garden"
    file.write_text(yaml.safe_dump(tree))
    with pytest.raises(KubeconfigError, match="found user jane@garden in context other"):
        of_garden().for_merge(file)


def test_nothing_is_merged_without_a_current_context(tmp_path: Path) -> None:
    tree = yaml.safe_load(of_garden().to_bytes()) | {"current-context": ""}
    made = Kubeconfig.parse(yaml.safe_dump(tree).encode(), source="Secret garden-kubeconfig")
    with pytest.raises(KubeconfigError, match="Secret garden-kubeconfig: no current-context is set; name one of"):
        made.for_merge(tmp_path / "config")


def test_an_exec_plugin_is_merged(tmp_path: Path) -> None:
    file = tmp_path / "config"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "espalier", "args": []}
    made = Kubeconfig.of_cluster(
        "garden", server="https://garden:6443", certificate_authority=b"ca", user="jane", credentials=plugin
    )
    made.for_merge(file).merge_into(file, switch=False)
    assert yaml.safe_load(file.read_bytes())["users"][0]["user"]["exec"]["command"] == "espalier"


def test_an_administrator_acts_as_somebody() -> None:
    made = Kubeconfig.parse(of_garden().impersonating("joe", ["dev"]).to_bytes())
    acting = made.context().impersonation
    assert acting is not None
    assert dict(acting.headers()) == {"Impersonate-User": "joe", "Impersonate-Group": "dev"}
    assert made.context().token == "token-of-jane"


def test_acting_as_somebody_replaces_another_user() -> None:
    """A group, an extra or a uid of another user would be rights that nobody asked for."""
    tree = yaml.safe_load(of_garden().to_bytes())
    tree["users"][0]["user"] |= {"as": "root", "as-groups": ["system:masters"], "as-uid": "1", "as-user-extra": {}}
    made = Kubeconfig.parse(Kubeconfig.parse(yaml.safe_dump(tree).encode()).impersonating("joe", []).to_bytes())
    acting = made.context().impersonation
    assert acting is not None
    assert list(acting.headers()) == [("Impersonate-User", "joe")]


def test_nobody_acts_without_a_user() -> None:
    tree = yaml.safe_load(of_garden().to_bytes())
    del tree["contexts"][0]["context"]["user"]
    with pytest.raises(KubeconfigError, match='context "jane@garden": there is no user ""'):
        Kubeconfig.parse(yaml.safe_dump(tree).encode()).impersonating("joe", [])
