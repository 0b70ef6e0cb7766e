"""Serializers of failover runs: requests, lists, steps, results."""

from __future__ import annotations

from typing import Any, get_args

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from mirrors.api.base import FlowField, ReasonSerializer, StrictSerializer
from mirrors.domain.account.partition import Certainty
from mirrors.domain.failback.application import CODES
from mirrors.domain.failover.runbook.steps import BY_NAME
from mirrors.domain.failover.scope import MOST_PATTERNS
from mirrors.domain.patterns.matcher import LONGEST_ELEMENT
from mirrors.lists.failover import FAILOVERS, STEPS
from mirrors.models import FailoverRun, FailoverStep
from mirrors.models.failover import FailoverKind
from mirrors.models.groups.offsets import LONGEST_GROUP
from mirrors.services.failover import lifecycle

CERTAINTIES: tuple[str, ...] = get_args(Certainty)


class ScopeSerializer(StrictSerializer):
    """One application: names or patterns of topics, and of groups. Without groups, each group with
    an offset in one of the topics belongs to it."""

    topics = serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_ELEMENT),
        min_length=1,
        max_length=MOST_PATTERNS,
    )
    groups = serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_ELEMENT),
        required=False,
        max_length=MOST_PATTERNS,
    )


class FailoverAskSerializer(StrictSerializer):
    """A switchover or failover requires a recent `simulation`, `confirm_alias` and `reason`."""

    flow = FlowField()
    kind = serializers.ChoiceField(choices=FailoverKind.choices)
    groups = serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_GROUP),
        required=False,
        max_length=lifecycle.MOST_GROUPS,
        help_text="Consumer groups; by default all that the flow synchronizes.",
    )
    scope = ScopeSerializer(
        required=False,
        help_text="Limits the run to one application; omit it to fail over the whole flow.",
    )
    simulation = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=2**63 - 1
    )
    confirm_alias = serializers.CharField(required=False, allow_blank=True, max_length=100)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class ConfirmSerializer(ReasonSerializer):
    """The reason, and the step that the person or the program means."""

    step = serializers.ChoiceField(
        choices=list(BY_NAME),
        required=False,
        help_text="The step that is confirmed. 409 if another one waits by now.",
    )


class FailoverStepSerializer(serializers.ModelSerializer[FailoverStep]):
    """`command` is the manual equivalent, `runbook` what the step checks and waits for."""

    result = serializers.SerializerMethodField()
    runbook = serializers.SerializerMethodField()

    class Meta:
        model = FailoverStep
        fields = STEPS.fields
        extra_kwargs = STEPS.extra_kwargs

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_result(self, step: FailoverStep) -> Any:
        return step.result

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}})
    def get_runbook(self, step: FailoverStep) -> dict[str, str]:
        known = BY_NAME.get(step.name)
        if known is None:
            return {}
        return {
            "check": known.check,
            "act": known.act,
            "wait": known.wait,
            "compensation": known.undo,
            "limit": f"{known.limit_s} s",
            "tries": str(known.tries),
        }


class FailoverBriefSerializer(serializers.ModelSerializer[FailoverRun]):
    """One run in the list; its own address adds plan, steps and result."""

    flow = serializers.IntegerField(source="flow_id", read_only=True)
    flow_name = serializers.CharField(source="flow.name", read_only=True)
    asked_reason = serializers.CharField(source="why", read_only=True)
    counted_loss = serializers.SerializerMethodField()
    counted_loss_certainty = serializers.SerializerMethodField()
    counted_re_reads = serializers.SerializerMethodField()
    counted_re_reads_certainty = serializers.SerializerMethodField()
    counted_sentence = serializers.SerializerMethodField()

    class Meta:
        model = FailoverRun
        fields: tuple[str, ...] = FAILOVERS.fields
        extra_kwargs = FAILOVERS.extra_kwargs

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_counted_loss(self, run: FailoverRun) -> int | None:
        """Records that were not replicated, counted on the source once it answered."""
        return _counted(run, "loss")

    @extend_schema_field(serializers.ChoiceField(choices=CERTAINTIES, allow_null=True))
    def get_counted_loss_certainty(self, run: FailoverRun) -> str | None:
        return _counted(run, "loss_certainty")

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_counted_re_reads(self, run: FailoverRun) -> int | None:
        return _counted(run, "re_reads")

    @extend_schema_field(serializers.ChoiceField(choices=CERTAINTIES, allow_null=True))
    def get_counted_re_reads_certainty(self, run: FailoverRun) -> str | None:
        return _counted(run, "re_reads_certainty")

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_counted_sentence(self, run: FailoverRun) -> str | None:
        return _counted(run, "sentence")


def _counted(run: FailoverRun, name: str) -> Any:
    return None if run.counted is None else run.counted.get(name)


class FailoverSerializer(FailoverBriefSerializer):
    """`plan` is set once both clusters were read, `result` once the run has one."""

    steps = FailoverStepSerializer(many=True, read_only=True)
    plan = serializers.SerializerMethodField()
    result = serializers.SerializerMethodField()

    counted_rows = serializers.SerializerMethodField()
    certificates: serializers.ManyRelatedField = serializers.SlugRelatedField(  # type: ignore[assignment]
        many=True, read_only=True, slug_field="number"
    )

    class Meta(FailoverBriefSerializer.Meta):
        fields = (
            *FailoverBriefSerializer.Meta.fields,
            "plan",
            "steps",
            "result",
            "counted_rows",
            "certificates",
        )

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_counted_rows(self, run: FailoverRun) -> Any:
        """The terms of `counted_loss` and `counted_re_reads`: `partitions` and `places`."""
        return run.counted_rows

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_plan(self, run: FailoverRun) -> Any:
        return run.plan

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_result(self, run: FailoverRun) -> Any:
        return run.result


class ApplicationFailbackSerializer(StrictSerializer):
    """The next step of the failback of one application."""

    next = serializers.ChoiceField(
        source="step.code",
        choices=CODES,
        help_text=(
            "List and decide on orphans; create, edit or start the reverse flow; remove the fence; "
            "wait; or simulate."
        ),
    )
    sentence = serializers.CharField(source="step.sentence")
    reverse = serializers.CharField(
        source="reverse.name", allow_null=True, default=None, help_text="The reverse flow's name."
    )
    scope = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="Of the simulation and the switchover on the reverse flow.",
    )
    topics = serializers.ListField(
        child=serializers.CharField(), help_text="Topics of the scope that it replicates."
    )
    start_from = serializers.CharField(
        help_text="`start.from` of a new reverse flow: the divergence points of these topics."
    )
    left = serializers.IntegerField(
        source="left.records",
        allow_null=True,
        help_text="Records that the failover did not replicate; null if unknown.",
    )
    orphans = serializers.IntegerField(
        source="orphans.pk",
        allow_null=True,
        default=None,
        help_text="The failback that lists them (`failbacks/{id}/`); null before it is requested.",
    )
    undecided = serializers.IntegerField(
        source="left.undecided", help_text="Listed records without a decision carried out."
    )
