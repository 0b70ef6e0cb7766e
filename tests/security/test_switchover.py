"""A whole automatic switchover under traffic: writes are refused, nothing is lost or duplicated.

Real access rules on real brokers; the hooks are a webhook that starts the consumers.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mirrors.domain.settings.failover import PRODUCERS
from mirrors.models import FailoverRun, FailoverStep
from mirrors.services.failover import lifecycle
from mirrors.services.failover.runbook.context import Context
from mirrors.services.failover.runbook.steps.fence import created_acls, lift_fence
from mirrors.services.failover.runbook.steps.redirect_producers import REDIRECT_PRODUCERS
from mirrors.services.failover.runbook.worker import advance
from tests.groups.world import World
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.pages import world as made
from tests.security.fenced import begin, copy_if_asked, rules_of, simulated, wait_for_rules
from tests.security.orders import Orders
from tests.security.secured import LIMITED, SecuredBroker
from tests.security.test_authorization import rule_filter
from tests.security.test_least_privilege import limited
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
Pair = tuple[SecuredBroker, SecuredBroker]
HOOKS = {"failover_start_consumers": "webhook", "failover_redirect_producers": "webhook"}


@pytest.fixture
def world(secured_pair: Pair, receiver: Receiver) -> Iterator[World]:  # noqa: F811
    sides = [
        Side(alias, broker.broker.bootstrap)
        for alias, broker in zip(("one", unique("two")), secured_pair, strict=True)
    ]
    here = World.make(*sides, groups=unique("app") + ".*", **HOOKS)
    here.flow.properties |= {"failover.webhook.url": receiver.url}
    here.flow.save()
    yield here
    for side in sides:
        side.close()


@pytest.fixture
def orders(world: World, secured_pair: Pair) -> Iterator[Orders]:
    topic = world.topic("orders")
    group = world.flow.properties["groups"].removesuffix(".*")
    admin = AdminClient({"bootstrap.servers": secured_pair[0].broker.bootstrap})
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{LIMITED}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
    ]
    for future in admin.create_acls(rules).values():
        future.result(20)
    made = Orders(world, secured_pair[0], topic, group)
    until = time.monotonic() + 20
    while not made.acked:  # the broker hears of new rules a moment later
        assert time.monotonic() < until
        made.produce()
    made.refused = 0
    yield made
    made.stop_consumer()
    with contextlib.suppress(Exception):
        for future in admin.delete_acls([rule_filter(rule) for rule in rules]).values():
            future.result(20)


def go_on(world: World, orders: Orders, run: FailoverRun, told: Receiver) -> FailoverRun:
    """The workers' turns, with the application's traffic in between."""
    until = time.monotonic() + 90
    moved = False
    while run.state in ("queued", "running"):
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        advance(run_id=run.pk)
        steps = {body["step"]: body for body in told.bodies}
        if "redirect_producers" not in steps:
            orders.produce()
        if "start_consumers" in steps and not moved:
            orders.start_consumer(world.copy.target, world.remote(orders.topic))
            moved = True
        copy_if_asked(world)
        orders.consume(at_most=2 if not moved else 1000)
        reading = run.steps.get(name="read_checkpoints")
        if not moved and "still consume" in reading.reason and len(orders.consumed) > 4:
            orders.stop_consumer()
        run.refresh_from_db()
    return run


def sent_back(world: World) -> Context:
    """The step of a run in the other direction that redirects the producers, by nobody's hook."""
    back = made.flow(world.flow.target, world.flow.source)
    facts = {"kind": "switchover", "state": "running", "mark": "back", "requested_by": "ben"}
    run = FailoverRun.objects.create(flow=back, hooks={PRODUCERS: "none"}, **facts)
    row = FailoverStep.objects.create(run=run, number=8, name="redirect_producers", does="Back")
    return Context(run=run, flow=back, spec=back.spec, row=row, alive=lambda: None)


def test_a_switchover_under_traffic_needs_no_person_and_loses_and_repeats_nothing(
    world: World,
    orders: Orders,
    receiver: Receiver,  # noqa: F811
) -> None:
    for _ in range(20):
        orders.produce()
    world.copy.copy()
    world.commit(orders.group, orders.topic, 0)
    before = rules_of(world, orders.topic)
    simulation = simulated(world)
    orders.start_consumer(world.copy.source, orders.topic)

    run = go_on(world, orders, begin(world, "switchover", simulation), receiver)

    assert run.state == "succeeded", (run.reason, list(run.steps.values("name", "reason")))
    # The fence held: what was refused is nowhere, what was acknowledged is there, in order, once.
    assert orders.refused > 0
    ours = [
        int(record.value or b"") for record in world.copy.target.read(world.remote(orders.topic))
    ]
    assert ours == orders.acked
    assert orders.consumed == orders.acked
    totals = run.result["totals"]
    assert (totals["loss"], totals["re_reads"], totals["written_on_source"]) == (0, 0, 0)
    assert totals["consumed"] > 0
    assert totals["refused_ms"] > 0
    world.flow.refresh_from_db()
    assert (world.flow.desired_state, world.flow.observed_state) == ("stopped", "failed_over")
    wait_for_rules(world, orders.topic, before | {("User:*", "WRITE", "DENY")})
    (rule,) = created_acls(flow_id=world.flow.pk)
    assert (rule.name, rule.operation, rule.permission) == (orders.topic, "WRITE", "DENY")
    assert [body["step"] for body in receiver.bodies] == ["start_consumers", "redirect_producers"]
    assert len({headers["X-Understudy-Delivery"] for headers, _ in receiver.got}) == 2
    # It stays until producers are sent back here, and is put up again when that is called off.
    context = sent_back(world)
    outcome = REDIRECT_PRODUCERS.act(context)
    assert outcome is not None
    assert f"The fence of run {run.pk} on {world.alias} was lifted." in outcome.words
    wait_for_rules(world, orders.topic, before)
    assert created_acls(flow_id=world.flow.pk) == set()
    assert f"fenced again, as run {run.pk} left it" in REDIRECT_PRODUCERS.undo(context)
    wait_for_rules(world, orders.topic, before | {("User:*", "WRITE", "DENY")})
    # Or until somebody takes it away.
    assert lift_fence(run_id=run.pk, who="ann")
    assert not lift_fence(run_id=run.pk, who="ann")
    wait_for_rules(world, orders.topic, before)


def test_an_abort_behind_the_fence_takes_away_exactly_its_rules_and_the_flow_runs_again(
    world: World,
    orders: Orders,
    receiver: Receiver,  # noqa: F811
) -> None:
    world.copy.copy()
    world.commit(orders.group, orders.topic, 0)
    before = rules_of(world, orders.topic)
    run = begin(world, "switchover", simulated(world))
    receiver.answers = [(403, {})]  # the receiver that starts the consumers refuses
    until = time.monotonic() + 60
    while run.state in ("queued", "running"):
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        advance(run_id=run.pk)
        copy_if_asked(world)
        run.refresh_from_db()
    assert (run.state, run.waits_for) == ("waiting", "trouble")
    assert "403" in run.reason
    wait_for_rules(world, orders.topic, before | {("User:*", "WRITE", "DENY")})
    lifecycle.abort_run(run=run, who="tester")
    advance(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "aborted", run.reason
    wait_for_rules(world, orders.topic, before)
    world.flow.refresh_from_db()
    assert world.flow.desired_state == "running"
    # A receiver that was called and may have acted is notified as well.
    assert [(body["step"], body["undo"]) for body in receiver.bodies] == [
        ("start_consumers", False),
        ("start_consumers", True),
    ]
    until = time.monotonic() + 20
    accepted = len(orders.acked)
    while len(orders.acked) == accepted:
        assert time.monotonic() < until
        orders.produce()


def test_without_the_right_to_make_rules_the_fence_says_so_and_asks_the_hook(
    world: World,
    orders: Orders,
    secured_pair: Pair,
    receiver: Receiver,  # noqa: F811
) -> None:
    world.copy.copy()
    world.commit(orders.group, orders.topic, 0)
    simulation = simulated(world)
    run = begin(world, "switchover", simulation)
    source = world.flow.source
    fields: dict[str, Any] = vars(limited(secured_pair[0], source.alias))
    for name in ("security_protocol", "sasl_mechanism", "sasl_username", "sasl_password"):
        setattr(source, name, fields[name])
    step = run.steps.get(name="fence_producers")
    source.bootstrap_servers = fields["bootstrap_servers"]
    # Only the fence is asked: everything before it was done by somebody with more rights.
    run.steps.filter(number__lt=step.number).update(
        state="succeeded", result={"source_answers": True}
    )
    source.save()
    until = time.monotonic() + 30
    while not receiver.got:
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        advance(run_id=run.pk)
    (_headers, body) = receiver.got[0]
    assert json.loads(body)["step"] == "fence_producers"
    step.refresh_from_db()
    assert step.result["how"] == "webhook"
    assert "authorized" in step.result["fell_back"]
    lifecycle.abort_run(run=run, who="tester")
    run.refresh_from_db()
    advance(run_id=run.pk)
