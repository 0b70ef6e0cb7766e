"""Topics and configs are selected as in MM2, rule by rule, with a reason for a person."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.cluster_snapshot import ConfigEntry
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.filters.topics import ConfigSelection, TopicSelection, preview_selection
from mirrors.domain.patterns.matcher import NamePatterns
from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.specs import FlowSettings
from tests.domain.cases import IDENTITY, golden, laws, settings

FILTERS = golden("filters")
DEFAULTS = FILTERS["defaults"]
TOPIC_CASES = [case for case in FILTERS["cases"] if case["filter"] == "topics"]
CONFIG_CASES = [case for case in FILTERS["cases"] if case["filter"] == "config properties"]
OF_OTHERS = ("us-west.heartbeats", "a.b.heartbeats")


def of_java(config: dict[str, str], name: str) -> NamePatterns:
    elements = config.get(name, DEFAULTS[name])
    return NamePatterns([e.strip() for e in elements.split(",")] if elements.strip() else [])


@pytest.mark.parametrize("case", TOPIC_CASES, ids=lambda case: str(case["config"]))
def test_topics_are_filtered_as_in_java(case: dict[str, Any]) -> None:
    config = {k: v for k, v in case["config"].items() if k in {"topics", "topics.exclude"}}
    if isinstance(case["rows"], dict):
        with pytest.raises(InvalidSettings) as refused:
            FlowSettings.from_properties(config)
        assert list(refused.value.fields) == ["topics"]
        return
    include, exclude = of_java(config, "topics"), of_java(config, "topics.exclude")
    for name, wanted in case["rows"]:
        assert (include.matches(name) and not exclude.matches(name)) is wanted, name


@pytest.mark.parametrize("case", CONFIG_CASES, ids=lambda case: str(case["config"]))
def test_configs_are_filtered_as_in_java(case: dict[str, Any]) -> None:
    config = case["config"]
    if config.get("use.defaults.from", "target") not in {"source", "target"}:
        with pytest.raises(InvalidSettings, match="must be target or source"):
            FlowSettings.from_properties(config)
        return
    selection = ConfigSelection(FlowSettings.from_properties(config))
    for name, kept, default_kept in case["rows"]:
        assert selection.keeps(name) is kept
        taken = selection.at_creation({name: ConfigEntry("1", "DEFAULT_CONFIG")})
        assert bool(taken) is (kept and default_kept)


@pytest.mark.parametrize("case", golden("cycles_and_selection")["cases"], ids=str)
def test_the_selection_is_mm2s(case: dict[str, Any]) -> None:
    separator = case["config"].get("replication.policy.separator", ".")
    policy = ReplicationPolicy(
        kind=case["policy"],
        source_alias="source",
        target_alias="target",
        separator=separator,
        internal_separator=separator,
        cycle_rule="4.3",
    )
    chosen = {
        "all (.*, nothing excluded)": {"topics.exclude": ""},
        "defaults": {},
        "none (topics empty)": {"topics": ""},
    }[case["topic_filter"]]
    heartbeats = str(case["heartbeats_replication_enabled"]).lower()
    selection = TopicSelection(
        FlowSettings.from_properties(chosen | {"heartbeats.replication.enabled": heartbeats}),
        policy,
    )
    answers = [[topic, selection.decide(topic).replicated] for topic, *_ in case["rows"]]
    # Heartbeats of clusters that are not this flow's are topics like others: `topics` selects them.
    unknown = case["topic_filter"] == "none (topics empty)"
    assert answers == [
        [topic, wanted and not (unknown and topic in OF_OTHERS)]
        for topic, _, wanted, _ in case["rows"]
    ]


def decide(topic: str, **keys: str) -> tuple[bool, str]:
    chosen = settings(**keys)
    verdict = TopicSelection(chosen, policy_for(chosen, "primary", "backup")).decide(topic)
    return verdict.replicated, verdict.reason


@pytest.mark.parametrize(
    ("topic", "keys", "replicated", "reason"),
    [
        ("orders", {}, True, "matches topics (.*)"),
        ("orders", {"topics": "pay.*, ord.*"}, True, "matches topics (ord.*)"),
        ("orders", {"topics": "pay.*"}, False, "matches no element of topics"),
        ("orders", {"topics": ""}, False, "topics is empty, so it matches nothing"),
        ("a.replica", {}, False, r"matches topics.exclude (.*\.replica)"),
        ("orders", {"topics_exclude": "or.*"}, False, "matches topics.exclude (or.*)"),
        ("primary.checkpoints.internal", {"topics": "primary.checkpoints.internal"}, False,
         "is an internal topic of MirrorMaker 2"),
        ("mm2-offset-syncs.x.internal", {"topics_exclude": "", "topics": ".*"}, False,
         "is an internal topic of MirrorMaker 2"),
        ("payments.checkpoints.internal", {}, False,
         "has the name of an internal topic of MirrorMaker 2; to replicate it, name it in topics "
         "without a wildcard"),
        ("payments.checkpoints.internal", {"topics": r"payments\.checkpoints\.internal"}, True,
         r"matches topics (payments\.checkpoints\.internal)"),
        ("mm2024.internal", {"topics": "mm2024.internal", "topics_exclude": ""}, True,
         "matches topics (mm2024.internal)"),
        ("sensors.heartbeats", {"topics": "orders.*"}, False, "matches no element of topics"),
        ("sensors.heartbeats", {}, True, "matches topics (.*)"),
        ("sensors.heartbeats", {"topics_exclude": "sensors.*"}, False,
         "matches topics.exclude (sensors.*)"),
        ("heartbeats", {"topics_exclude": "heart.*"}, False, "matches topics.exclude (heart.*)"),
        ("__x", {"topics_exclude": ""}, False, "begins with __, as Kafka's internal topics do"),
        (".x", {}, False, "begins with a dot, so MirrorMaker 2 treats it as internal"),
        ("_schemas", {}, False, "holds the schemas of a registry, and a registry that reads a copy "
         "of it must not be written to; to replicate it for a standby registry, name it in topics "
         "without a wildcard"),
        ("_schemas", {"topics": "orders,_schemas"}, True, "matches topics (_schemas)"),
        ("heartbeats", {"topics": "foo"}, True, "is a heartbeats topic, which "
         "heartbeats.replication.enabled replicates"),
        ("backup.orders", {}, False,
         "already originates from backup: replicating it would create a loop"),
        ("primary.orders", {}, False,
         "already originates from primary: replicating it would create a loop"),
        ("x.backup.orders", {}, False,
         "already originates from x and backup: replicating it would create a loop"),
        ("third.orders", {}, True, "matches topics (.*)"),
    ],
)  # fmt: skip
def test_the_reason_names_the_rule_that_decided(
    topic: str, keys: dict[str, str], replicated: bool, reason: str
) -> None:
    assert decide(topic, **keys) == (replicated, reason)


@pytest.mark.parametrize("separator", [".", "_", "__", "-"])
@pytest.mark.parametrize("policy", [IDENTITY, "DefaultReplicationPolicy"])
@pytest.mark.parametrize("topic", ["mm2-positions.x.internal", "mm2-runs.x.internal"])
def test_our_own_topics_are_never_copied_whatever_is_asked_for(
    separator: str, policy: str, topic: str
) -> None:
    chosen = {
        "topics_exclude": "",
        "replication_policy_separator": separator,
        "replication_policy_class": policy,
    }
    assert decide(topic, **chosen)[0] is False


def test_every_rule_is_told_in_its_order() -> None:
    chosen = settings(topics_exclude="b.*")
    rules = TopicSelection(chosen, policy_for(chosen, "a", "b")).decide("b.orders").rules
    assert [(rule.rule, rule.passed) for rule in rules] == [
        ("heartbeats.replication.enabled", None),
        ("topics", True),
        ("topics.exclude", False),
        ("internal", True),
        ("bookkeeping", True),
        ("cycle", False),
    ]


@laws
@given(
    topic=st.text("ab.-_", min_size=1, max_size=8), exclude=st.sampled_from(["a.*", "", r".*\."])
)
def test_a_topic_is_copied_exactly_when_no_rule_says_no(topic: str, exclude: str) -> None:
    chosen = settings(topics_exclude=exclude)
    verdict = TopicSelection(chosen, policy_for(chosen, "a", "b")).decide(topic)
    assert verdict.replicated == all(rule.passed is not False for rule in verdict.rules)


@pytest.mark.parametrize(
    "case",
    [case for case in golden("config_sync")["cases"] if case["when"] == "topic creation"],
    ids=lambda case: str(case["filter"]),
)
def test_a_new_topic_takes_over_the_configs_that_mm2_would_take(case: dict[str, Any]) -> None:
    selection = ConfigSelection(FlowSettings.from_properties(case["filter"]))
    configs = {name: ConfigEntry("7", source) for name, source, _ in case["rows"]}
    taken = selection.at_creation(configs)
    assert taken == {name: "7" for name, _, action in case["rows"] if action == "set"}


@pytest.mark.parametrize("entry", [
    ConfigEntry("7", read_only=True), ConfigEntry("7", sensitive=True), ConfigEntry(None),
])  # fmt: skip
def test_what_cannot_be_set_or_seen_is_not_taken_over(entry: ConfigEntry) -> None:
    assert ConfigSelection(settings()).at_creation({"retention.ms": entry}) == {}


@laws
@given(
    names=st.sets(st.text("abm2.", min_size=1, max_size=4), max_size=12),
    topics=st.sampled_from(["a.*", "a, ab, zz", ""]),
    most=st.integers(0, 3),
)
def test_a_preview_counts_every_topic_and_lists_the_first(
    names: set[str], topics: str, most: int
) -> None:
    chosen = settings(topics=topics, topics_exclude="ab.*")
    policy = policy_for(chosen, "a", "b")
    found = preview_selection(chosen, policy, names, most=most)
    selection = TopicSelection(chosen, policy)
    wanted = sorted(name for name in names if selection.decide(name).replicated)
    assert found.selected == len(wanted)
    assert [row.topic for row in found.rows if row.replicated] == wanted[:most]
    assert all(row.remote_topic == f"a.{row.topic}" for row in found.rows if row.replicated)
    assert sum(not row.replicated for row in found.rows) == min(most, found.excluded)


def test_a_preview_names_what_is_not_on_the_source() -> None:
    chosen = settings(topics="orders, orders-old, pay.*")
    names = ["orders", "__orders"]
    found = preview_selection(chosen, policy_for(chosen, "a", "b"), names, most=5)
    assert found.missing == ("orders-old",)
    assert (found.selected, found.excluded) == (1, 0)
