"""Previews of rules: a runner evaluates them on records from a file, and writes nothing else."""

from __future__ import annotations

import hmac
import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from mirrors import launcher
from mirrors.domain.transforms.evaluation import (
    EvaluatedRecord,
    EvaluationRequest,
    EvaluationResponse,
    RecordParts,
    SampledRecord,
)
from mirrors.domain.transforms.rules import TransformRule
from mirrors.models import Cluster, Flow, RulePreview, Runner
from mirrors.services import process_liveness
from mirrors.services.topics import transforms
from spark_runner.sql.plan import first_line
from tests.spark.conftest import MASK_KEY, MASK_VARIABLE
from tests.spark.lab import Lab, unique, wait_for

_numbers = itertools.count(int(time.time()))
ROWS = (
    RecordParts(b"k1", b'{"city": "Rome"}', (("n", b"\x00\xff"), ("none", None))),
    RecordParts(None, b'{"city": "Oslo"}', ()),
    RecordParts(b"", b"no JSON", ()),
    RecordParts(b"k4", None, ()),
)
CITY = "parse_json(cast(value as string)):city::string"


def ask(
    lab: Lab, *given: TransformRule, rule: int = 0, rows: Sequence[RecordParts] = ROWS
) -> EvaluationResponse:
    records = tuple(
        SampledRecord(3, 10 + number, 1_700_000_000_123, number == 1, parts)
        for number, parts in enumerate(rows)
    )
    preview = next(_numbers)
    request = EvaluationRequest(topic="customers", rules=given, rule=rule, records=records)
    launcher.PREVIEWS.write_request(lab.directory, preview, request)
    found = wait_for(
        lambda: launcher.PREVIEWS.read_response(lab.directory, preview),
        seconds=120,
        what="the response",
    )
    assert not launcher.PREVIEWS.request_path(lab.directory, preview).exists()
    launcher.PREVIEWS.remove(lab.directory, preview)
    return found


def test_records_are_kept_changed_dropped_or_failed_with_sparks_reason(lab: Lab) -> None:
    first = TransformRule(topics="others", value="offset")
    second = TransformRule(
        topics="customers",
        where=f"value is null or {CITY} <> 'Oslo'",
        value="concat(cast(value as string), ' ', partition, ' ', offset, ' ', timestamp)",
        headers="filter(headers, h -> h.value is not null)",
    )
    found = ask(lab, TransformRule(topics="others", value="cast(offset as string)"), second, rule=1)
    assert (found.error, found.rejections) == ("", ())
    rome, oslo, broken, tombstone = found.records
    assert rome.after == RecordParts(
        b"k1", b'{"city": "Rome"} 3 10 2023-11-14 22:13:20.123', (("n", b"\x00\xff"),)
    )
    assert oslo == EvaluatedRecord("", "", None)
    assert (broken.failed, broken.after) == ("where", None)
    assert broken.message.startswith("Malformed records are detected in record parsing")
    assert "\n" not in broken.message
    assert tombstone.after == ROWS[3]
    # A rule of another topic is checked too.
    rejected = ask(lab, first, second, rule=1)
    (rejection,) = rejected.rejections
    assert (rejection.number, rejection.field, rejected.records) == (1, "value", ())
    assert "cannot" in rejection.message.lower()


def test_a_rejected_rule_has_sparks_sentence_number_and_field(lab: Lab) -> None:
    found = ask(
        lab,
        TransformRule(topics="a", where="value is not null"),
        TransformRule(topics="b", where="vlaue = 1", value="concat(value, 5, array(1))"),
    )
    assert [(row.number, row.field) for row in found.rejections] == [(2, "where"), (2, "value")]
    assert "`vlaue` cannot be resolved" in found.rejections[0].message
    assert found.rejections[1].message.startswith("Cannot resolve")
    for row in found.rejections:
        assert not row.message.startswith("[")
        assert "SQLSTATE" not in row.message


def test_what_a_rule_raises_is_told_in_its_own_words(lab: Lab) -> None:
    rule = TransformRule(topics="customers", where="raise_error('[A] city is missing')")
    assert {row.message for row in ask(lab, rule).records} == {"[A] city is missing."}


@pytest.mark.parametrize(("message", "words"), [
    ("[USER_RAISED_EXCEPTION] [A] city is missing SQLSTATE: P0001", "[A] city is missing"),
    ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==", "Division by zero"),
    ("[A.B_1] No `vlaue`. Did you mean `value`? SQLSTATE: 42703; line 1 pos 0;\n'Filter",
     "No `vlaue`. Did you mean `value`?; line 1 pos 0"),
    ("\n[PARSE_SYNTAX_ERROR] Syntax error at or near '='. SQLSTATE: 42601 (line 1, pos 5)\n",
     "Syntax error at or near '=' (line 1, pos 5)"),
    ("Task 0 failed: org.apache.spark.SparkRuntimeException: [X] It broke.",
     "Task 0 failed: org.apache.spark.SparkRuntimeException: It broke"),
    ("[ 1, 2 ] has SQLSTATE: as a word", "[ 1, 2 ] has SQLSTATE: as a word"),
    ("Listing [ORDERS] failed", "Listing [ORDERS] failed"),
])  # fmt: skip
def test_codes_of_spark_are_removed_and_its_words_are_kept(message: str, words: str) -> None:
    assert first_line(RuntimeError(message)) == words


def test_a_failed_change_names_its_field_and_other_records_go_on(lab: Lab) -> None:
    value = "if(value is null, value, cast(to_json(parse_json(cast(value as string))) as binary))"
    found = ask(lab, TransformRule(topics="customers", value=value))
    assert [row.failed for row in found.records] == ["", "", "value", ""]
    assert json.loads(found.records[0].after.value) == {"city": "Rome"}


def test_functions_of_rules_are_evaluated_and_a_missing_secret_is_named(lab: Lab) -> None:
    masked = TransformRule(
        topics="customers",
        where="value is not null and value <> cast('no JSON' as binary)",
        value="json_mask(value, 'x', 'city')",
    )
    first, second, *dropped = ask(lab, masked).records
    assert json.loads(first.after.value) == json.loads(second.after.value) == {"city": "x"}
    assert dropped == [EvaluatedRecord("", "", None)] * 2
    failed = ask(lab, TransformRule(topics="customers", value="json_drop(value, 'city')"))
    assert [row.failed for row in failed.records] == ["", "", "value", ""]
    assert failed.records[2].message
    value = f"hmac_value(value, 'env:{MASK_VARIABLE}')"
    hashed = ask(lab, TransformRule(topics="customers", value=value)).records[0].after
    assert hashed.value == hmac.new(MASK_KEY.encode(), ROWS[0].value, "sha256").hexdigest().encode()
    secret = TransformRule(topics="customers", key="hmac_value(key, 'env:NOT_THERE')")
    assert "env:NOT_THERE" in ask(lab, secret).error


@pytest.mark.parametrize("text", ["", "{}", '{"topic": "a", "rules": "[", "records": []}'])
def test_a_request_that_cannot_be_read_is_answered(lab: Lab, text: str) -> None:
    preview = next(_numbers)
    path = launcher.PREVIEWS.request_path(lab.directory, preview)
    launcher.write_whole(path, text)
    found = wait_for(
        lambda: launcher.PREVIEWS.read_response(lab.directory, preview), what="the response"
    )
    assert "cannot read the request" in found.error
    launcher.PREVIEWS.remove(lab.directory, preview)


def test_rules_that_make_too_much_of_the_records_are_refused(lab: Lab) -> None:
    huge = TransformRule(topics="customers", value="repeat('x', 5000000)")
    assert "more than 16 MiB" in ask(lab, huge).error


@pytest.mark.django_db
def test_a_preview_runs_from_the_request_to_the_records(
    lab: Lab, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RUNNER_ROOT = lab.directory.parent
    topic = lab.create(unique("preview"), 2)
    lab.write(topic, [{"key": b"k", "value": b'{"city": "Oslo", "card": 1}'}, {"value": b"{}"}])
    lab.write(topic, [{"value": b"no JSON", "headers": [("h", b"x")]}, {"value": None}], 1)
    source, target = (
        Cluster.objects.create(alias=alias, bootstrap_servers=servers)
        for alias, servers in (("a", lab.source), ("b", lab.target))
    )
    runner = Runner.objects.create(
        name=lab.directory.name,
        master="local[1]",
        slots=1,
        state="ready",
        host=settings.UNDERSTUDY_HOST,
    )
    process_liveness.record_process(kind=process_liveness.RECONCILE_WORKER, name="w", pid=1)
    flow = Flow.objects.create(
        source=source, target=target, runner=runner, properties={"topics": topic}
    )
    text = f"""[{{"topics": "{topic}", "where": "value is not null",
        "value": "to_json(parse_json(cast(value as string)))"}}]"""
    preview = transforms.request_preview(flow=flow, topic=topic, rules=text, who="ann")
    assert transforms.read_records(preview_id=preview.pk) == settings.UNDERSTUDY_HOST
    wait_for(
        lambda: not transforms.evaluate(preview_id=preview.pk), seconds=120, what="the response"
    )
    row = RulePreview.objects.get()
    assert (row.error, row.request, row.is_edited) == ("", None, True)
    found = {(one["partition"], one["offset"]): one for one in row.found["rows"]}
    assert found[0, 0]["after"]["value"] == '{"card":1,"city":"Oslo"}'
    assert {tp: one["outcome"] for tp, one in found.items()} == {
        (0, 0): "changed",
        (0, 1): "kept",
        (1, 0): "failed",
        (1, 1): "dropped",
    }
    assert found[1, 0]["message"].startswith("Malformed records are detected")
    # Nothing was written, and no file is left.
    assert topic not in lab.on_target.list_topics(timeout=20).topics
    assert list((lab.directory / launcher.PREVIEWS.folder).iterdir()) == []
