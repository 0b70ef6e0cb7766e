"""A flow's settings: every key known by name, every refusal a sentence that names the key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.settings.table import KEYS
from mirrors.domain.settings.unsupported_mm2 import FAMILIES, REFUSED
from mirrors.domain.settings.validation import validate_properties
from mirrors.domain.settings.value_types import Patterns
from mirrors.domain.specs import FlowSettings
from tests.domain.cases import flow, golden, laws, settings


def refusal(key: str, text: str) -> str:
    problems = validate_properties({key: text})
    assert list(problems) == [key]
    (sentence,) = problems[key]
    assert sentence.endswith((".", "?"))
    return sentence


@pytest.mark.parametrize("key", [k for k, v in KEYS.items() if v.verdict != "ours"])
def test_defaults_are_mm2s_except_where_the_table_says_why(key: str) -> None:
    setting = KEYS[key]
    if setting.default != setting.mm2:
        assert setting.verdict == "different"
        assert setting.why


def test_the_filters_defaults_are_those_of_the_real_mm2() -> None:
    for key, default in golden("filters")["defaults"].items():
        assert (KEYS.get(key) or REFUSED[key]).mm2 == default


def test_a_flow_without_settings_has_typed_defaults() -> None:
    plain = settings()
    assert plain.topics == (".*",)
    assert plain.topics_exclude == (r"mm2.*\.internal", r".*\.replica", "__.*")
    assert (plain.tasks_max, plain.refresh_topics_interval_seconds) == (1, 5)
    assert plain.replication_factor is None
    assert (plain.delivery, plain.commit_interval_ms) == ("exactly_once", 500)
    assert (plain.start_from, plain.start_timestamp_ms) == ("earliest", None)
    assert plain.isolation_level == "read_committed"
    assert (plain.consumer, plain.producer) == ({}, {})


def test_every_setting_has_a_field_of_its_name() -> None:
    for key in KEYS.values():
        assert hasattr(settings(), key.field), key.name


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        ("topicz", "a", "topicz is not a setting of a flow. Did you mean topics?"),
        ("task.max", "1", "task.max is not a setting of a flow. Did you mean tasks.max?"),
        ("refresh.topic.interval.seconds", "1", "refresh.topic.interval.seconds is not a setting "
         "of a flow. Did you mean refresh.topics.interval.seconds?"),
        ("zzz", "a", "zzz is not a setting of a flow."),
        ("tasks.max", "x", "tasks.max must be a whole number from 1 to 1000, not 'x'."),
        ("tasks.max", "0", "tasks.max must be a whole number from 1 to 1000, not 0."),
        ("tasks.max", "-1", "tasks.max must be a whole number from 1 to 1000, not -1."),
        ("tasks.max", "1e3", "tasks.max must be a whole number from 1 to 1000, not '1e3'."),
        ("tasks.max", "1_0", "tasks.max must be a whole number from 1 to 1000, not '1_0'."),
        ("tasks.max", "٣", "tasks.max must be a whole number from 1 to 1000, not '٣'."),
        ("tasks.max", "", "tasks.max must be a whole number from 1 to 1000, not ''."),
        ("replication.factor", "0",
         "replication.factor must be a whole number from -1 to 32767 other than 0, not 0."),
        ("refresh.topics.enabled", "yes", "refresh.topics.enabled must be true or false, not "
         "'yes'."),
        ("topics", "a,,b",
         "topics has an empty element: two commas in a row, or one at an end."),
        ("topics", "(", "topics cannot use the element '(': it has a bracket ( that is not "
         "closed."),
        ("replication.policy.separator", "", "replication.policy.separator must be 1 to 8 of the "
         "characters a-z, A-Z, 0-9, dot, underscore and dash, not ''."),
        ("replication.policy.separator", "|", "replication.policy.separator must be 1 to 8 of the "
         "characters a-z, A-Z, 0-9, dot, underscore and dash, not '|'."),
        ("replication.policy.class", "com.example.Mine", "replication.policy.class must be "
         "DefaultReplicationPolicy or IdentityReplicationPolicy (with or without Kafka's or "
         "Strimzi's package before it), not 'com.example.Mine'."),
        ("start.from", "yesterday", "start.from must be earliest, latest, milliseconds since 1970, "
         "an ISO 8601 time with its zone such as 2026-11-21T08:30:00Z, or offsets such as "
         "orders:0:1500,orders:1:1700, not 'yesterday'."),
        ("start.from", "2026-11-21T08:30:00",
         "start.from must include its time zone (add Z for UTC): '2026-11-21T08:30:00'."),
        ("delivery", "at_most_once",
         "delivery must be exactly_once or at_least_once, not 'at_most_once'."),
        ("tasks.max.enforce", "false",
         "tasks.max.enforce can only be true: it always is."),
        ("topics.blacklist", "a", "topics.blacklist cannot be set: MM2 removed the name in 4.0; "
         "write topics.exclude."),
        ("ssl.truststore.location", "/x",
         "ssl.truststore.location cannot be set: it is a field of the cluster."),
        ("transforms.a.type", "x", f"transforms.a.type cannot be set: {FAMILIES['transforms.']}."),
        ("consumer.poll.timeout.ms", "1", "consumer.poll.timeout.ms cannot be set: records arrive "
         "without polling; write consumer.fetch.max.wait.ms to batch them."),
        ("consumer.fetch.min.bytez", "1", "consumer.fetch.min.bytez is not a supported client "
         "property. Did you mean consumer.fetch.min.bytes?"),
        ("source.consumer.fetch.min.bytes", "0", "source.consumer.fetch.min.bytes must be a whole "
         "number from 1 to 100000000, not 0."),
        ("consumer.interceptor.classes", "x",
         "consumer.interceptor.classes cannot be set: it loads code."),
        ("producer.acks", "1", "producer.acks must be all or -1, not '1'."),
        ("producer.override.partitioner.class", "x", "producer.override.partitioner.class cannot "
         "be set: it has no effect: a record keeps its partition."),
        ("topics", "a\x00b", "topics has more than 60000 characters, or unprintable ones."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_sentence(key: str, text: str, sentence: str) -> None:
    assert refusal(key, text) == sentence


@pytest.mark.parametrize("key", REFUSED)
def test_no_refused_key_is_ever_taken(key: str) -> None:
    assert refusal(key, "something else").startswith(f"{key} can")
    for value in REFUSED[key].only:
        assert validate_properties({key: value}) == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_whole_families_are_refused_with_their_reason(family: str) -> None:
    assert FAMILIES[family] in refusal(f"{family}something", "x")


@pytest.mark.parametrize(
    "case", [case for case in golden("validation")["cases"] if len(case["add"]) == 1],
    ids=lambda case: str(case["add"]),
)  # fmt: skip
def test_what_mm2_refuses_is_refused_here_too(case: dict[str, dict[str, str]]) -> None:
    errors = {**case.get("source_connector_errors", {}), **case["checkpoint_connector_errors"]}
    # MM2 wants the connector left out instead; here group offsets follow without either.
    honest = {"emit.checkpoints.enabled", "emit.offset-syncs.enabled"} & set(case["add"])
    # MM2's tasks drop a repeated pattern with a warning; only Connect's validation rejects it.
    is_repeated = case["add"] == {"topics": "a,a"}
    if errors and not honest and not is_repeated:
        assert validate_properties(case["add"])


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1763713800000", 1763713800000),
        ("1970-01-01T00:00:01Z", 1000),
        ("2026-11-21T08:30:00+01:00", 1795246200000),
        (" 2026-11-21T08:30:00.5Z ", 1795249800500),
        ("2026-11-21 08:30Z", 1795249800000),
    ],
)
def test_a_flow_may_start_at_a_moment(text: str, milliseconds: int) -> None:
    assert settings(start_from=text).start_timestamp_ms == milliseconds


def test_values_are_trimmed_and_flags_read_in_any_case() -> None:
    read = settings(topics=" a , b ", refresh_topics_enabled=" FALSE ", tasks_max=" 7 ")
    assert (read.topics, read.refresh_topics_enabled, read.tasks_max) == (("a", "b"), False, 7)


def test_the_more_precise_prefix_wins() -> None:
    read = FlowSettings.from_properties(
        {
            "source.consumer.fetch.min.bytes": "3",
            "consumer.fetch.min.bytes": "2",
            "consumer.check.crcs": "TRUE",
            "producer.linger.ms": "1",
            "target.producer.linger.ms": "2",
            "producer.override.linger.ms": " 3 ",
        }
    )
    assert read.consumer == {"fetch.min.bytes": "3", "check.crcs": "true"}
    assert read.producer == {"linger.ms": "3"}


def test_mm2s_own_way_to_say_where_to_start_is_understood() -> None:
    assert FlowSettings.from_properties({"consumer.auto.offset.reset": "latest"}).start_from == (
        "latest"
    )
    both = {"consumer.auto.offset.reset": "latest", "start.from": "earliest"}
    assert validate_properties(both) == {
        "start.from": [
            "start.from is earliest, but consumer.auto.offset.reset is latest: set only one."
        ]
    }


def test_values_that_do_not_fit_each_other_are_refused() -> None:
    (sentence,) = validate_properties({"consumer.reconnect.backoff.ms": "20000"}).values()
    assert sentence == [
        "consumer.reconnect.backoff.ms does not fit: reconnect.backoff.ms (20000) is more than "
        "reconnect.backoff.max.ms (10000)."
    ]


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidSettings) as refused:
        flow("a", "b", topics="(", tasks_max="x", nonsense="1")
    assert set(refused.value.fields) == {"topics", "tasks.max", "nonsense"}


def test_a_flow_is_named_after_its_pair_and_equal_by_what_was_asked_for() -> None:
    assert flow("a", "b").name == "a->b"
    assert flow("a", "b", tasks_max="2") == flow("a", "b", tasks_max="2")
    assert flow("a", "b") != flow("a", "b", tasks_max="2")


@laws
@given(
    st.dictionaries(
        st.one_of(st.text(max_size=30), st.sampled_from(sorted({*KEYS, *REFUSED}))),
        st.text(max_size=30),
        max_size=5,
    )
)
def test_any_properties_make_settings_or_sentences_that_name_their_keys(
    properties: dict[str, str],
) -> None:
    problems = validate_properties(properties)
    if not problems:
        FlowSettings.from_properties(properties)
    for key, sentences in problems.items():
        assert all(key[:100] in sentence for sentence in sentences)


def test_what_is_not_text_is_refused() -> None:
    assert validate_properties({"tasks.max": 3}) == {
        "tasks.max": ["tasks.max must be text, not int."]
    }


def test_every_list_of_patterns_is_checked_as_one() -> None:
    lists = [key.name for key in KEYS.values() if isinstance(key.kind, Patterns)]
    assert sorted(lists) == [
        "config.properties.exclude",
        "groups",
        "groups.exclude",
        "sync.schemas.subjects",
        "sync.schemas.subjects.exclude",
        "topics",
        "topics.exclude",
        "topics.priority.high",
        "topics.priority.low",
    ]
