"""Two real brokers that demand every kind of login, a token endpoint, secrets.

They end with the tests of this folder, because an idle broker or runner takes processor time.

UNDERSTUDY_TEST_ACL_CLUSTERS=host:port,host:port uses two clusters that already run where tests only
need an authorizer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from controlplane.demo.processes.guard import Guard
from tests.security.issuer import Issuer
from tests.security.secured import OAUTH_CLIENT, SecuredBroker
from tests.security.vault import Vault, environment
from tests.spark.lab import Lab


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a database come first, so all tests of these brokers do: they start once."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & {"secured_pair", "acl_clusters"} and not item.get_closest_marker("django_db"):
            item.add_marker("django_db")


@pytest.fixture(scope="session")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    vault = Vault(tmp_path_factory.mktemp("vault"))
    with environment(vault.environment):
        yield vault


@pytest.fixture(scope="session")
def issuer(vault: Vault) -> Iterator[Issuer]:
    issuer = Issuer(OAUTH_CLIENT, vault.client_secret)
    yield issuer
    issuer.close()


@pytest.fixture(scope="package")
def secured_pair(
    tmp_path_factory: pytest.TempPathFactory, vault: Vault, issuer: Issuer, guard: Guard
) -> Iterator[tuple[SecuredBroker, SecuredBroker]]:
    """A source and a target; the same secrets and the same CA serve both."""
    source, target = (
        SecuredBroker(tmp_path_factory.mktemp(name), vault, issuer, guard.environment)
        for name in ("secured-source", "secured-target")
    )
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(SecuredBroker.start, (source, target)))
        yield source, target
    finally:
        source.broker.kill()
        target.broker.kill()


@pytest.fixture(scope="package")
def acl_clusters(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The bootstrap servers of two clusters with an authorizer, for everybody a superuser."""
    if given := os.environ.get("UNDERSTUDY_TEST_ACL_CLUSTERS"):
        one, two = given.split(",")
        return one, two
    pair: tuple[SecuredBroker, SecuredBroker] = request.getfixturevalue("secured_pair")
    return pair[0].broker.bootstrap, pair[1].broker.bootstrap


@pytest.fixture(scope="package")
def secured(secured_pair: tuple[SecuredBroker, SecuredBroker]) -> SecuredBroker:
    return secured_pair[0]


@pytest.fixture(scope="package")
def secured_lab(
    secured_pair: tuple[SecuredBroker, SecuredBroker],
    tmp_path_factory: pytest.TempPathFactory,
    guard: Guard,
) -> Iterator[Lab]:
    """A runner beside the two; the tests themselves connect as a super user."""
    source, target = (side.broker.bootstrap for side in secured_pair)
    environment = {**os.environ, **guard.environment}
    lab = Lab(source, target, tmp_path_factory.mktemp("secured-runner") / "runner", environment)
    lab.start_runner()
    yield lab
    lab.stop_runner()
