"""Drift: manual changes on the target, and how long they are left in place."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.cluster_snapshot import ClusterSnapshot, ConfigEntry, TopicState
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.specs import FlowSettings
from mirrors.domain.topics.drift import Baseline, Deviation, Finding, decide_drift, refusal
from mirrors.domain.topics.manual_changes import (
    manual_config_changes,
    manual_topic_changes,
    next_baselines,
)
from mirrors.domain.topics.plan import CopiedTopic
from mirrors.domain.topics.sync_plan import ConfigChange

HOUR = 3600
SET = Deviation(
    kind="topic config", name="a.t", key="retention.ms", expected="10", found="5", wanted="10"
)
COPIED = CopiedTopic(topic="t", remote_topic="a.t", partitions=2, reason="")
BASE = Baseline(topic_id="x", partitions=2, configs={"retention.ms": "10"})


def found(state: str = "open", **facts: object) -> Finding:
    return Finding(**{"state": state, "found": "5", "opened_at": 0, **facts})  # type: ignore[arg-type]


def ruled(known: Finding | None, now_s: int, grace_s: int = HOUR) -> tuple[bool, bool, bool]:
    ruling = decide_drift(SET, known, now=now_s * 1000, grace_s=grace_s)
    return ruling.leave, ruling.decided, ruling.is_new


@pytest.mark.parametrize(
    ("known", "now_s", "expected"),
    [
        (None, 5, (True, False, True)),
        (found(), HOUR - 1, (True, False, False)),
        (found(), HOUR, (False, False, False)),
        (found(found="6"), HOUR, (True, False, True)),
        (found("fixing"), 5, (False, False, False)),
        (found("accepted"), 9 * HOUR, (True, True, False)),
        (found("accepted", found="6"), 9 * HOUR, (True, False, True)),
        (found("accepted", expires_at=HOUR * 1000), HOUR - 1, (True, True, False)),
        (found("accepted", expires_at=HOUR * 1000), HOUR, (False, False, False)),
        (found("ignored", found="6", expires_at=HOUR * 1000), HOUR - 1, (True, True, False)),
        (found("ignored", expires_at=HOUR * 1000), HOUR, (False, False, False)),
    ],
)
def test_a_finding_is_left_until_its_time_is_over_or_what_was_decided_on_is_another(
    known: Finding | None, now_s: int, expected: tuple[bool, bool, bool]
) -> None:
    assert ruled(known, now_s) == expected


def test_without_grace_it_is_put_back_at_once_and_still_told() -> None:
    assert ruled(None, 5, grace_s=0) == (False, False, True)


def test_what_kafka_cannot_take_back_is_left_whatever_the_time() -> None:
    grown = dataclasses.replace(SET, kind="partitions", key="", expected="2", found="4")
    deleted = dataclasses.replace(SET, kind="deleted topic", key="", found=None)
    for row in (grown, deleted):
        for known in (None, found(), found("ignored", expires_at=1)):
            assert decide_drift(row, known, now=10**9, grace_s=0).leave
    assert decide_drift(grown, found("fixing"), now=1, grace_s=0).leave
    assert not decide_drift(deleted, found("fixing"), now=1, grace_s=0).leave


def test_every_ruling_says_what_happened_until_when_and_who_decided() -> None:
    told = decide_drift(SET, None, now=0, grace_s=HOUR).reason
    assert "retention.ms of a.t was changed manually to 5; it was 10." in told
    assert "reverted at 1970-01-01 01:00 UTC" in told
    known = found("ignored", expires_at=HOUR * 1000, who="ann", why="A test runs.")
    told = decide_drift(SET, known, now=0, grace_s=0).reason
    assert told.endswith("It is ignored until 1970-01-01 01:00 UTC by ann: A test runs.")


@pytest.mark.parametrize(
    ("choice", "why", "expires", "words"),
    [
        ("accept", " ", None, "Give a reason"),
        ("ignore", "x", None, "Enter when ignoring it ends"),
        ("ignore", "x", 5, "in the future"),
        ("accept", "x", 10**15, "at most one year"),
        ("fix", "x", 99, "does not expire"),
        ("accept", "x", None, None),
        ("ignore", "x", 99, None),
        ("fix", "x", None, None),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused_in_words(
    choice: str, why: str, expires: int | None, words: str | None
) -> None:
    told = refusal("topic config", choice, why=why, expires_at=expires, now=10)
    assert (told is None) == (words is None)
    assert (words or "") in (told or "")
    never = refusal("partitions", "fix", why="x", expires_at=None, now=10)
    assert "cannot remove partitions" in (never or "")


def picture(partitions: int = 2, topic_id: str = "x", **configs: str) -> ClusterSnapshot:
    entries = {key.replace("_", "."): ConfigEntry(value) for key, value in configs.items()}
    topic = TopicState(
        name="t", topic_id=topic_id, partitions=partitions, replication_factor=1, configs=entries
    )
    return ClusterSnapshot(taken_at=0, cluster_id="c", brokers=1, topics={"t": topic, "a.t": topic})


def change(stands: str | None, after: str | None) -> ConfigChange:
    return ConfigChange(
        topic="t",
        remote_topic="a.t",
        key="retention.ms",
        before=stands,
        after=after,
        stands=stands,
    )


def test_the_source_s_news_is_no_drift_and_a_first_look_finds_none() -> None:
    there = {"a.t": BASE}
    assert manual_config_changes([change("10", "20")], picture(), there) == []
    assert manual_config_changes([change("5", "20")], picture(), {}) == []
    (drifted,) = manual_config_changes([change("5", "20")], picture(), there)
    assert (drifted.expected, drifted.found, drifted.wanted) == ("10", "5", "20")
    # A default that somebody restored, and a topic that was recreated.
    (drifted,) = manual_config_changes([change(None, "10")], picture(), there)
    assert drifted.found is None
    assert manual_config_changes([change("5", "20")], picture(topic_id="y"), there) == []


def test_deleted_topics_and_partitions_too_many_are_found() -> None:
    there = {"a.t": BASE}
    assert manual_topic_changes([COPIED], picture(), there) == []
    (grown,) = manual_topic_changes([COPIED], picture(partitions=5), there)
    assert (grown.kind, grown.expected, grown.found, grown.wanted) == ("partitions", "2", "5", "2")
    gone = dataclasses.replace(picture(), topics={})
    (deleted,) = manual_topic_changes([COPIED], gone, there)
    assert (deleted.kind, deleted.wanted) == ("deleted topic", "2 partitions")
    assert manual_topic_changes([COPIED], gone, {}) == []
    unread = dataclasses.replace(gone, failed={"a.t": "Not authorised."})
    assert manual_topic_changes([COPIED], unread, there) == []


def test_what_is_left_is_remembered_but_for_what_somebody_made_so() -> None:
    def after(
        before: dict[str, Baseline], *unsettled: str, failed: str = ""
    ) -> dict[str, Baseline]:
        return next_baselines(
            [COPIED],
            picture(retention_ms="20", segment_ms="7"),
            picture(partitions=2),
            ConfigSelection(FlowSettings.from_properties({})),
            before,
            unsettled={("topic config", "a.t", key) for key in unsettled},
            failed=[("topic config", "a.t", failed)] if failed else [],
        )

    configs = {"retention.ms": "20", "segment.ms": "7"}
    settled = Baseline(topic_id="x", partitions=2, configs=configs)
    assert after({}) == {"a.t": settled}
    assert after({"a.t": BASE}) == {"a.t": settled}
    held = after({"a.t": BASE}, "retention.ms")["a.t"]
    assert held.configs == {"retention.ms": "10", "segment.ms": "7"}
    # What the target refused is left as it was, and the other settings are remembered.
    refused = after({"a.t": BASE}, "retention.ms", failed="retention.ms")["a.t"]
    assert refused.configs == {"retention.ms": "10", "segment.ms": "7"}
    assert after({}, "retention.ms", failed="retention.ms")["a.t"].configs == {"segment.ms": "7"}
    assert after({}, "retention.ms") == {}
