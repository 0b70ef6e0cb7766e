"""No secret in an exception, a log record, a configuration's repr, a report or an argument list."""

from __future__ import annotations

import base64
import logging
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import list_groups
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.connection_test.probe import probe
from mirrors.kafka.security.connection_settings import connection_facts
from mirrors.kafka.security.oauth import token_source
from tests.security.connection_attempts import LOGINS
from tests.security.secured import SecuredBroker
from tests.security.vault import Vault


def spellings(canary: str) -> list[str]:
    """The value and the forms in which a careless hand would let it out."""
    return [
        canary,
        base64.b64encode(canary.encode()).decode().rstrip("="),
        canary.encode().hex(),
    ]


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def assert_clean(vault: Vault, *texts: str) -> None:
    for text in texts:
        for canary in vault.canaries:
            for spelling in spellings(canary):
                assert spelling not in text


def failure(call: object, *arguments: object) -> str:
    """The whole traceback of a call that must fail, with the values in its frames."""
    try:
        call(*arguments)  # type: ignore[operator]
    except (UnderstudyError, KafkaException) as error:
        lines = traceback.TracebackException.from_exception(error, capture_locals=True)
        # Our own frames hold no revealed value by the time an error leaves them.
        return "".join(lines.format()) + repr(error) + str(error)
    raise AssertionError("it should have failed")


@pytest.mark.parametrize(("listener", "mechanism"), [("MTLS", ""), *LOGINS])
def test_a_login_that_works_leaves_no_secret_behind(
    secured: SecuredBroker,
    vault: Vault,
    everything_logged: pytest.LogCaptureFixture,
    listener: str,
    mechanism: str,
) -> None:
    spec = secured.spec(listener, mechanism)
    facts, config = connection_facts(spec), client_config(spec, client_id="test")
    with Admin(spec) as admin:
        admin.topic_names()
        shown = repr(vars(admin))
    list_groups(spec)
    report = probe(spec, now=int(time.time() * 1000))
    assert report.reachable
    assert_clean(vault, repr(facts), repr(config), str(config), shown, repr(report))
    assert_clean(vault, repr(spec), everything_logged.text)


@pytest.mark.parametrize(("listener", "mechanism"), [("MTLS", ""), *LOGINS[:4]])
def test_a_login_that_fails_leaves_no_secret_behind(
    secured: SecuredBroker,
    vault: Vault,
    everything_logged: pytest.LogCaptureFixture,
    listener: str,
    mechanism: str,
) -> None:
    # The right secrets at the wrong door: they are sent, refused and must not be told.
    spec = _wrong_door(secured, listener, mechanism)
    report = probe(spec, deadline_s=4, now=int(time.time() * 1000))
    assert not report.reachable
    texts = [repr(report), failure(list_groups, spec), failure(_consume, spec)]
    assert_clean(vault, *texts, everything_logged.text)


def _wrong_door(secured: SecuredBroker, listener: str, mechanism: str) -> ClusterSpec:
    if mechanism == "OAUTHBEARER":
        url = {"sasl.oauthbearer.token.endpoint.url": f"{secured.issuer.url}/foreign"}
        return secured.spec(listener, mechanism, properties=url)
    if mechanism:
        return secured.spec(listener, mechanism, sasl_username="nobody")
    return secured.spec(listener, bootstrap_servers=secured.address("UNKNOWNCA"))


def _consume(spec: ClusterSpec) -> None:
    own = {"group.id": "unused", "error_cb": lambda _: None}
    consumer = Consumer(client_config(spec, client_id="test", role="consumer", extra=own))
    try:
        consumer.list_topics(timeout=1)
    finally:
        consumer.close()


def test_a_token_endpoint_that_echoes_the_secret_is_not_quoted(
    secured: SecuredBroker, vault: Vault, everything_logged: pytest.LogCaptureFixture
) -> None:
    spec = secured.spec("LOGIN", "OAUTHBEARER", sasl_username="somebody-else")
    text = failure(connection_facts(spec).token.token)  # type: ignore[union-attr]
    assert "invalid_client" in text
    assert_clean(vault, text, everything_logged.text)


def test_tokens_do_not_show_either(secured: SecuredBroker) -> None:
    source = token_source(secured.spec("LOGIN", "OAUTHBEARER"))
    token = source.token()
    assert token.value.reveal().count(".") == 2
    assert token.value.reveal() not in repr(token) + repr(source) + repr(vars(source))


def test_no_argument_list_and_no_file_of_ours_holds_a_secret(
    secured: SecuredBroker, vault: Vault
) -> None:
    connection_facts(secured.spec("MTLS"))
    command = Path("/proc/self/cmdline").read_bytes().decode()
    held = [Path(f"/proc/self/fd/{name.name}") for name in Path("/proc/self/fd").iterdir()]
    targets = [str(link.readlink()) for link in held if link.is_symlink()]
    assert_clean(vault, command)
    assert not any("client-certificate" in target for target in targets)
