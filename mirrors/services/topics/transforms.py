"""Previews of rules: the newest records of a topic, before and after, without writing anything.

- A worker reads the records. A worker on the runner's host then hands them to the runner as a file,
  and collects its response: no worker evaluates rules, and none waits for the runner.
- The results hold records. They are for people who may read records, and are deleted after an hour.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from mirrors import launcher
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.flows.conflicts import check_expressions, check_routes
from mirrors.domain.formatting import without_nul
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.schemas.registry import registry_of
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms import rules as rule_texts
from mirrors.domain.transforms.evaluation import (
    MOST_BYTES,
    MOST_RECORDS,
    EvaluatedRecord,
    EvaluationRequest,
    EvaluationResponse,
    PathLookup,
    SampledRecord,
)
from mirrors.domain.transforms.headers import provenance_headers
from mirrors.domain.transforms.preview import (
    PathUse,
    RecordComparison,
    compare_record,
    lookup_of,
    match_paths,
    targets_of,
    totals_of,
)
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, effect_of, first_match
from mirrors.kafka.reading.newest import NewestRecords, read_newest
from mirrors.models import Flow, RulePreview
from mirrors.services.errors import Conflict
from mirrors.services.flows.settings import check_secrets_of_rules
from mirrors.services.flows.user_code import check_user_code, with_digests
from mirrors.services.process_liveness import is_served
from mirrors.services.run_lifecycle import send_on_commit, unexpected_error_text
from mirrors.services.runners.processes import directory_of
from mirrors.services.topics.readings import check_rate

DEFAULT_COUNT = 20
READ_S = 12.0
# The first evaluation of a runner takes long: Spark loads its SQL classes.
EVALUATE_S = 60.0
_KEPT_FOR = timedelta(hours=1)


def request_preview(
    *, flow: Flow, topic: str, count: int = DEFAULT_COUNT, rules: str | None = None, who: str
) -> RulePreview:
    """Let workers evaluate the flow's rules, or others, on the newest `count` records of a topic.

    Raises InvalidSettings for rules that cannot be used and for a topic that the flow does not
    select, TooMany above the limit of previews per minute.
    """
    if not 1 <= count <= MOST_RECORDS:
        raise InvalidSettings({"count": [f"It must be between 1 and {MOST_RECORDS}."]})
    text = flow.properties.get(TRANSFORMS, "") if rules is None else rule_texts.in_one_line(rules)
    text = with_digests({TRANSFORMS: text})[TRANSFORMS]
    spec = FlowSpec.build(
        source=flow.source.spec,
        target=flow.target.spec,
        properties={**flow.spec.properties, TRANSFORMS: text},
    )
    if not spec.settings.transforms:
        sentence = f"{flow.name} has no rules, so it copies all records unchanged. Enter rules."
        raise InvalidSettings({TRANSFORMS: [sentence]})
    check_expressions(spec)
    check_routes(spec)
    check_secrets_of_rules(spec, flow.properties)
    check_user_code(flow.spec.settings.transforms, spec.settings.transforms)
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    # The right on a flow is no right to read other topics of its source.
    verdict = TopicSelection(spec.settings, policy).decide(topic)
    if not verdict.replicated:
        sentence = f"{flow.name} does not replicate {topic}: it {verdict.reason}."
        raise InvalidSettings({"topic": [sentence]})
    now = timezone.now()
    RulePreview.objects.filter(requested_at__lt=now - _KEPT_FOR).delete()
    check_rate(RulePreview, who, now, "previews")
    preview = RulePreview.objects.create(
        flow=flow,
        topic=topic,
        count=count,
        rules=text,
        is_edited=spec.settings.transforms != flow.spec.settings.transforms,
        requested_by=who[:150],
        requested_at=now,
    )
    send_on_commit("mirrors.tasks.preview_rules", preview.pk)
    return preview


def read_records(*, preview_id: int, deadline_s: float = READ_S) -> str:
    """In any worker: read the records. Return the host whose worker continues; empty at the end."""
    preview = _open_preview(preview_id)
    if preview is None or preview.request is not None:
        return ""
    with _storing_failures(preview):
        rules = rule_texts.parse_rules(preview.rules)
        match = first_match(preview.topic, rules)
        applies = match is not None and match[1].is_active
        host = _host_of_runner(preview.flow) if applies else ""
        as_of = timezone.now()
        newest = read_newest(
            preview.flow.source.spec,
            preview.topic,
            preview.count,
            most_bytes=MOST_BYTES,
            deadline_s=deadline_s,
        )
        RulePreview.objects.filter(pk=preview.pk).update(as_of=as_of)
        if match is None or not applies:
            compared = [compare_record(record) for record in newest.records]
            _end(preview, _result(preview, rules, compared, _partitions(newest), {}))
            return ""
        source, target = preview.flow.source, preview.flow.target
        request = EvaluationRequest(
            topic=preview.topic,
            rules=rules,
            rule=match[0] - 1,
            records=newest.records,
            registry=registry_of(source.alias, source.properties),
            target_registry=registry_of(target.alias, target.properties),
            subject_format=preview.flow.spec.settings.sync_schemas_subject_format,
            lookups=_lookups(match[1]),
        )
        waiting = {"request": request.to_json(), **_partitions(newest)}
        RulePreview.objects.filter(pk=preview.pk).update(request=_packed(waiting))
        return host
    return ""


def evaluate(*, preview_id: int, deadline_s: float = EVALUATE_S) -> str:
    """On the runner's host: hand over the request, or collect the response if there is one.

    Return the host, whose worker calls this again; empty at the end. Never waits.
    """
    preview = _open_preview(preview_id)
    if preview is None or preview.request is None:
        return ""
    directory = directory_of(preview.flow.runner)
    waiting = _unpacked(preview.request)
    with _storing_failures(preview):
        request = EvaluationRequest.from_json(waiting.pop("request"))
        if preview.handed_at is None:
            _check_alive(preview.flow)
            launcher.PREVIEWS.write_request(directory, preview.pk, request)
            RulePreview.objects.filter(pk=preview.pk).update(handed_at=timezone.now())
            return str(preview.flow.runner.host)
        response = launcher.PREVIEWS.read_response(directory, preview.pk)
        if response is not None:
            launcher.PREVIEWS.remove(directory, preview.pk)
            _store_response(preview, request, response, waiting)
        elif (timezone.now() - preview.handed_at).total_seconds() > deadline_s:
            launcher.PREVIEWS.remove(directory, preview.pk)
            raise Conflict(
                f"The runner {preview.flow.runner.name} did not answer within {deadline_s:.0f} s. "
                "It is busy, or it was started before an update. Read its log, restart it if it "
                "is older, then preview again."
            )
        else:
            return str(preview.flow.runner.host)
    return ""


def _store_response(
    preview: RulePreview,
    request: EvaluationRequest,
    response: EvaluationResponse,
    partitions: dict[str, Any],
) -> None:
    if response.error:
        raise Conflict(response.error)
    if response.rejections:
        rows = [row._asdict() for row in response.rejections]
        said = [f"rule {row.number}, {row.field}: {row.message}" for row in response.rejections]
        _end(preview, {"rejections": rows}, error=f"Spark rejects {'; '.join(said)}")
        return
    pairs = zip(request.records, response.records, strict=True)
    rule = request.rules[request.rule]
    source = preview.flow.source.alias if rule.provenance else ""
    compared = [
        compare_record(record, _marked(row, record, request, source)) for record, row in pairs
    ]
    # A runner of an earlier version returns no counts.
    counts = dict(zip(request.lookups, response.matches, strict=False))
    _end(preview, _result(preview, request.rules, compared, partitions, counts))


def _path_uses(rule: TransformRule) -> list[PathUse]:
    # A worker that computes no preview does not load the parser.
    from mirrors.domain.transforms.sql import path_uses  # noqa: PLC0415

    return path_uses(rule)


def _lookups(rule: TransformRule) -> tuple[PathLookup, ...]:
    found = [lookup_of(use) for use in _path_uses(rule)]
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _marked(
    evaluated: EvaluatedRecord, record: SampledRecord, request: EvaluationRequest, source: str
) -> EvaluatedRecord:
    """With the headers of provenance, which the copy loop adds; without a source as it is."""
    if not source or evaluated.after is None:
        return evaluated
    added = provenance_headers(
        source, request.topic, record.partition, record.offset, record.timestamp
    )
    headers = (*evaluated.after.headers, *added)
    return evaluated._replace(after=evaluated.after._replace(headers=headers))


def _result(
    preview: RulePreview,
    rules: Sequence[TransformRule],
    compared: Sequence[RecordComparison],
    partitions: dict[str, Any],
    counts: Mapping[PathLookup, int | None],
) -> dict[str, Any]:
    topic, spec = preview.topic, preview.flow.spec
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    remote = policy.remote_topic(topic)
    match = first_match(topic, rules)
    uses = _path_uses(match[1]) if match is not None else []
    records = [row.before for row in compared]
    newest = sorted(compared, key=lambda row: (-row.before.timestamp, row.before.offset))
    return {
        "rule": match[0] if match is not None else None,
        "effect": effect_of(topic, rules),
        "on_error": match[1].on_error if match is not None else "stop",
        "totals": dataclasses.asdict(totals_of(compared)),
        "targets": [
            {"topic": name, "records": count}
            for name, count in targets_of(compared, remote).items()
        ],
        "paths": [one.to_dict() for one in match_paths(uses, records, counts)],
        "rows": [row.to_dict(remote) for row in newest],
        **partitions,
    }


def _partitions(newest: NewestRecords) -> dict[str, Any]:
    """What was looked at: of each partition the number of records and the last stable offset."""
    rows = [
        {
            "partition": number,
            "records": sum(row.partition == number for row in newest.records),
            "end": newest.ends.get(number),
            "reason": newest.failed.get(number, ""),
        }
        for number in sorted({*newest.ends, *newest.failed})
    ]
    return {"partitions": rows, "left_out": newest.left_out}


def _host_of_runner(flow: Flow) -> str:
    """The host whose worker reaches the runner's files. Raises Conflict without one."""
    runner = flow.runner
    if runner.state == "starting":
        raise Conflict(f"The runner {runner.name} starts. Preview again in half a minute.")
    if runner.state not in ("ready", "degraded") or not runner.host:
        raise _no_runner(flow)
    if not is_served(runner.host):
        raise Conflict(
            f"No worker serves {runner.host}, the host of the runner {runner.name}. Start one "
            "there, then preview again."
        )
    return str(runner.host)


def _check_alive(flow: Flow) -> None:
    status = launcher.read_runner(directory_of(flow.runner))
    if status is None or not launcher.is_alive(status.pid, status.start_tick):
        raise _no_runner(flow)


def _no_runner(flow: Flow) -> Conflict:
    return Conflict(
        f"The runner {flow.runner.name} does not run, and Spark evaluates rules there. Start "
        f"{flow.name} or another flow of this runner, then preview again."
    )


def _open_preview(preview_id: int) -> RulePreview | None:
    rows = RulePreview.objects.select_related("flow__source", "flow__target", "flow__runner")
    return rows.filter(pk=preview_id, ended_at=None).first()


@contextlib.contextmanager
def _storing_failures(preview: RulePreview) -> Iterator[None]:
    """A refusal ends the preview with its sentence."""
    try:
        yield
    except UnderstudyError as error:
        _end(preview, {}, error=error.message)
    except Exception as error:
        _end(preview, {}, error=unexpected_error_text(error))
        raise


def _end(preview: RulePreview, result: dict[str, Any], error: str = "") -> None:
    RulePreview.objects.filter(pk=preview.pk, ended_at=None).update(
        ended_at=timezone.now(),
        error=without_nul(error),
        request=None,
        result=_packed(result) if result else None,
    )


def _packed(found: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(found).encode())


def _unpacked(body: bytes | memoryview) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(bytes(body)))
    return found
