"""The manifests that install a garden."""

from __future__ import annotations

from espalier.cli.install.garden_manifests import of_garden
from espalier.kube.transports.wire import User
from espalier.shoots.admission import users


def test_installed_account_is_that_of_garden_webhooks() -> None:
    """They would refuse its ownership epochs."""
    (account,) = (tree["metadata"] for tree in of_garden("") if tree["kind"] == "ServiceAccount")
    user = User(f"system:serviceaccount:{account['namespace']}:{account['name']}", ("system:authenticated",))
    assert users.is_garden(user)


def test_shoot_and_its_status_have_separate_webhooks() -> None:
    (configuration,) = (tree for tree in of_garden("https://garden") if tree["kind"].startswith("Validating"))
    asked = {hook["name"]: (hook["rules"][0]["resources"], hook["failurePolicy"]) for hook in configuration["webhooks"]}
    assert asked["validate.shoots.core.gardener.cloud"] == (["shoots"], "Fail")
    assert asked["validate.status.shoots.core.gardener.cloud"] == (["shoots/status"], "Fail")
