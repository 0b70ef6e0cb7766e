"""The definition kept on the target: complete or refused with a reason, references only."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.replication_policy import ReplicationPolicy
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.standby import records
from mirrors.domain.standby.flow_definition import flow_body, read_flow
from mirrors.domain.standby.records import BackupRecord, backup_topic, from_records, to_records
from tests.domain.cases import is_internal

SOURCE = ClusterSpec(
    alias="one",
    bootstrap_servers="a:9092,b:9092",
    security_protocol="SASL_SSL",
    sasl_mechanism="PLAIN",
    sasl_username="copier",
    sasl_password="env:KAFKA_ONE",
    ssl_ca="file:/run/secrets/ca.pem",
    properties={"socket.timeout.ms": "7000"},
)
TARGET = ClusterSpec(alias="two", bootstrap_servers="c:9092")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def spec(source: ClusterSpec = SOURCE) -> FlowSpec:
    return FlowSpec(source=source, target=TARGET, properties={"topics": "orders.*"})


BODY = st.dictionaries(st.text(max_size=5), JSON, max_size=3)


@settings(max_examples=30)
@given(st.text(), BODY, BODY)
def test_the_last_writing_is_read_back_whatever_its_size(flow: str, old: dict, new: dict) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "PART_CHARACTERS", 7)
        patch.setattr(records, "MOST_PARTS", 100_000)
        # As compaction leaves them: for each key the last value, parts of the longer one left over.
        rows = dict(to_records(flow, "plan", old)) | dict(to_records(flow, "plan", new))
        found, trouble = from_records(rows.items())
    assert (found, trouble) == ([BackupRecord(flow=flow, kind="plan", body=new)], [])


def test_parts_of_two_writings_are_never_put_together() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "PART_CHARACTERS", 7)
        whole = list(to_records("a->b", "plan", {"digest": "first" * 5}))
        later = list(to_records("a->b", "plan", {"digest": "other" * 5}))
    found, (sentence,) = from_records({**dict(whole), **dict(later[:2])}.items())
    assert found == []
    assert sentence.startswith("The plan of a->b is skipped")
    found, (sentence,) = from_records(later[:2])
    assert (found, "its last write is incomplete" in sentence) == ([], True)


def test_a_later_version_is_left_out_by_name_and_so_is_what_others_wrote() -> None:
    key, value = next(to_records("a->b", "flow", {"x": 1}))
    newer = json.dumps({**json.loads(value), "version": 2}).encode()
    found, trouble = from_records([(key, newer), (b"\xff", b""), (None, None), (b"[]", b"1")])
    assert found == []
    assert sum("did not write" in sentence for sentence in trouble) == 3
    assert any("version 2" in sentence for sentence in trouble)
    assert from_records([(key, value), (key, None)]) == ([], [])


def test_a_flow_comes_back_as_it_was_with_references_only() -> None:
    body = json.loads(json.dumps(flow_body(spec(), runner="r", desired="running")))
    back = read_flow(body)
    assert (back.source, back.target) == (SOURCE, TARGET)
    assert (back.properties, back.runner, back.desired) == ({"topics": "orders.*"}, "r", "running")
    assert back.name == "one->two"


def test_what_is_no_reference_never_leaves() -> None:
    loose = ClusterSpec(alias="one", bootstrap_servers="a:1", sasl_password="hunter2")
    with pytest.raises(UnderstudyError, match="sasl_password of one is not a reference") as refused:
        flow_body(spec(loose), runner="r", desired="running")
    assert "hunter2" not in refused.value.message


@settings(max_examples=30)
@given(JSON | st.fixed_dictionaries({"source": JSON, "target": JSON, "properties": JSON}))
def test_a_damaged_flow_is_refused_with_a_reason(body: object) -> None:
    if not isinstance(body, dict):
        body = {"source": body}
    with pytest.raises(ValueError, match=r"its settings|has no|not text|no alias"):
        read_flow(body)


def test_no_flow_ever_copies_the_topic() -> None:
    assert is_internal(ReplicationPolicy(), backup_topic("primary"))
