"""Heartbeats with a read-only source: the target receives them, as in MirrorMaker 2."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.topics.acls import AclRule
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import read_to_end
from mirrors.models import Flow, HeartbeatState
from mirrors.services import clusters
from mirrors.services.clock import milliseconds
from mirrors.services.flows import settings
from mirrors.services.heartbeats import emitter
from tests.security.secured import LIMITED, SecuredBroker

Pair = tuple[SecuredBroker, SecuredBroker]


@pytest.fixture
def flow(db: None, secured_pair: Pair) -> Iterator[Flow]:
    """The source knows us as one that may do nothing there; on the target we may do all."""
    source, target = secured_pair
    login = {"sasl_username": LIMITED, "sasl_password": "env:KAFKA_TEST_LIMITED"}
    specs = (
        source.spec("LOGIN", "PLAIN", alias="closed", **login),
        target.spec("PLAINTEXT", alias="open"),
    )
    one, two = (clusters.create_cluster(spec=spec, who="tester") for spec in specs)
    yield settings.create_flow(source=one, target=two, properties={}, who="tester")
    emitter.OPEN.close()


def test_they_are_written_on_the_target_and_the_reason_says_what_that_proves_less(
    flow: Flow, secured_pair: Pair
) -> None:
    now = datetime.now(tz=UTC)
    emitter.emit_heartbeats(now=now)
    state = HeartbeatState.objects.get(flow=flow)
    assert (state.place, state.written_at) == ("target", now)
    assert "not authorized" in state.reason
    assert "written on open, as MirrorMaker 2 does" in state.reason
    key = Heartbeat("closed", "open", 0).key
    with Admin(secured_pair[1].spec("PLAINTEXT", alias="open")) as admin:
        found = read_to_end(admin, "heartbeats", since=milliseconds(now))
    assert [record.key for record in found] == [key]


@pytest.mark.parametrize("opened", [0, 1], ids=["source", "target"])
def test_rights_that_are_granted_later_are_used_at_the_next_turn(
    db: None, secured_pair: Pair, opened: int
) -> None:
    """Both clusters refuse at first; each turn tries both, and the sentences name both."""
    login = {"sasl_username": LIMITED, "sasl_password": "env:KAFKA_TEST_LIMITED"}
    one, two = (
        clusters.create_cluster(
            spec=broker.spec("LOGIN", "PLAIN", alias=alias, **login), who="tester"
        )
        for broker, alias in zip(secured_pair, ("closed", "shut"), strict=True)
    )
    flow = settings.create_flow(source=one, target=two, properties={}, who="tester")
    now = datetime.now(tz=UTC)
    try:
        for turn in range(2):
            emitter.emit_heartbeats(now=now + timedelta(seconds=turn))
            state = HeartbeatState.objects.get(flow=flow)
            assert state.written_at is None
            assert "Cluster shut" in state.error
            assert "Cluster closed" in state.reason
            assert "So they are written" not in state.reason
        with _everything_allowed(secured_pair[opened]):
            # Each node of the cluster, the controller too, applies new ACLs a moment later.
            for turn in range(5, 25):
                emitter.emit_heartbeats(now=now + timedelta(seconds=turn))
                state.refresh_from_db()
                if state.written_at is not None:
                    break
                time.sleep(0.25)
        assert state.written_at == now + timedelta(seconds=turn), (state.error, state.reason)
        assert state.place == ("source", "target")[opened]
        assert state.error == ""
    finally:
        emitter.OPEN.close()


@contextlib.contextmanager
def _everything_allowed(broker: SecuredBroker) -> Iterator[None]:
    rules = [
        AclRule(
            name="heartbeats",
            principal=f"User:{LIMITED}",
            host="*",
            operation=operation,
            permission="ALLOW",
        )
        for operation in ("CREATE", "DESCRIBE", "WRITE")
    ]
    with Acls(broker.spec("PLAINTEXT")) as acls:
        acls.create_rules(rules).raise_first()
        # The broker responds before its authorizer has them.
        until = time.monotonic() + 10
        wanted = {rule.operation for rule in rules}
        while not wanted <= {
            rule.operation for rule in acls.rules() or () if rule.principal == f"User:{LIMITED}"
        }:
            assert time.monotonic() < until, "the authorizer has no ACL of the principal"
            time.sleep(0.05)
        yield
        acls.delete_rules(rules).raise_first()
