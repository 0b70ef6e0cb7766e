"""How often new topics are detected, and that nothing is requested where detection is off."""

from __future__ import annotations

from tests.spark.lab import Lab, topic_row


def test_new_topics_are_looked_for_at_the_interval_and_never_when_switched_off(lab: Lab) -> None:
    often = lab.flow(refresh_topics_interval_seconds="1")
    never = lab.flow(refresh_topics_interval_seconds="1", refresh_topics_enabled="false")
    for flow in (often, never):
        lab.create(flow.topic("first"))
        flow.start()
    for flow in (often, never):
        flow.wait(lambda status, flow=flow: topic_row(status, flow.topic("first")))
    missed = lab.create(never.topic("second"))
    # Two looks of the one are two looks that the other did not take.
    for name in ("second", "third"):
        found = lab.create(often.topic(name))
        often.wait(lambda status, found=found: topic_row(status, found), seconds=20)
    status = never.status()
    assert status is not None
    assert topic_row(status, missed) is None
    # A restart by a person looks again.
    never.stop()
    never.restart()
    never.wait(lambda status: topic_row(status, missed), seconds=20)
    for flow in (often, never):
        flow.stop()
