"""The definition kept on the target: complete or refused with a reason, references only."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.replication_policy import ReplicationPolicy
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.standby import records
from mirrors.domain.standby.flow_definition import flow_body, read_flow
from mirrors.domain.standby.records import BackupRecord, Signer, backup_topic
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


AT = 1_790_000_000_000


def signer_of(key: Ed25519PrivateKey) -> Signer:
    return Signer(public_key=key.public_key().public_bytes_raw(), sign=key.sign)


OURS = signer_of(Ed25519PrivateKey.from_private_bytes(b"o" * 32))
OTHER = signer_of(Ed25519PrivateKey.from_private_bytes(b"x" * 32))
KEYS = {OURS.fingerprint: OURS.public_key.hex()}
to_records = functools.partial(records.to_records, signer=OURS, now=AT)
from_records = functools.partial(records.from_records, keys=KEYS)


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
    assert (found, trouble) == ([BackupRecord(flow=flow, kind="plan", body=new, written_at=AT)], [])


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


def forgeries() -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """What somebody without the key can write, each with a part of the sentence about it."""
    key, value = next(to_records("a->b", "flow", {"x": 1}))
    whole = json.loads(value)
    unsigned = {name: whole[name] for name in ("version", "parts", "digest", "text")}
    yield "it is not signed", (key, json.dumps(unsigned).encode())
    yield (
        "not trusted here",
        next(records.to_records("a->b", "flow", {"x": 1}, signer=OTHER, now=AT)),
    )
    claimed = Signer(public_key=OURS.public_key, sign=OTHER.sign)
    yield (
        "does not match",
        next(records.to_records("a->b", "flow", {"x": 1}, signer=claimed, now=AT)),
    )
    text, digest = '{"x":2}', records.digest_of({"x": 2})
    yield "does not match", (key, json.dumps(whole | {"text": text, "digest": digest}).encode())
    yield "does not match", (key, json.dumps(whole | {"at": AT + 1}).encode())
    yield "does not match", (key, json.dumps(whole | {"signature": "zz"}).encode())
    yield "not signed", (key, json.dumps(whole | {"signature": 1}).encode())
    yield "not signed", (key, json.dumps(whole | {"at": "now"}).encode())
    for field in ({"kind": "plan"}, {"flow": "a->c"}):
        yield "does not match", (json.dumps(json.loads(key) | field).encode(), value)


@pytest.mark.parametrize(("words", "record"), list(forgeries()))
def test_what_is_not_signed_by_a_trusted_key_is_refused_with_a_sentence(
    words: str, record: tuple[bytes, bytes]
) -> None:
    found, (sentence,) = from_records([record])
    assert found == []
    assert words in sentence


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
