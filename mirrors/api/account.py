"""REST fields of what flows, topics and partitions owe: amount, certainty, age, state."""

from __future__ import annotations

from typing import Any, get_args

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from mirrors.api.base import StrictModelSerializer, StrictSerializer
from mirrors.domain.account.partition import Certainty, State
from mirrors.domain.account.totals import CERTAINTY_OF, LOWER_BOUNDS, Total
from mirrors.models import Flow, FlowPartition, FlowTopic
from mirrors.services.clock import milliseconds, moment

STATES = [(state, state) for state in get_args(State)]
CERTAINTIES = [(certainty, certainty) for certainty in get_args(Certainty)]
_CERTAINTY = (
    "counted: exactly this number. at_most: an upper bound, by offsets. at_least: a lower bound, "
    "since a part is unknown or the observation is old. unknown: the amount is unknown."
)


class OwedSerializer(StrictSerializer):
    """Records of the source that the target does not hold yet."""

    records = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="The known sum; null when all of it is unknown."
    )
    offsets = serializers.IntegerField(
        read_only=True,
        help_text="Offsets not replicated when last seen: an upper bound of `records` "
        "then, since transaction markers, aborted and compacted records have "
        "offsets too.",
    )
    certainty = serializers.ChoiceField(choices=CERTAINTIES, read_only=True, help_text=_CERTAINTY)
    unknown_partitions = serializers.IntegerField(
        read_only=True, help_text="Topic-partitions whose amount is unknown; not in `records`."
    )
    time_lag_ms = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="Age of the oldest record owed, if known."
    )
    time_lag_certainty = serializers.ChoiceField(
        choices=CERTAINTIES,
        read_only=True,
        help_text="`at_least` while some records owed have an unknown age.",
    )
    as_of = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="The oldest observation of the source in it."
    )
    state = serializers.ChoiceField(
        choices=STATES, read_only=True, help_text="The worst state of its parts."
    )


class FlowOwedSerializer(OwedSerializer):
    """Records of a whole flow that the target does not hold yet."""

    revision = serializers.IntegerField(
        read_only=True, help_text="Increases with each evaluation; figures of one revision add up."
    )
    unknown_topics = serializers.ListField(child=serializers.CharField(), read_only=True)
    states = serializers.DictField(
        child=serializers.IntegerField(), read_only=True, help_text="Topic-partitions by state."
    )
    blocked_topics = serializers.IntegerField(
        read_only=True, help_text="Topics that are not replicated until a person acts."
    )
    not_visible = serializers.CharField(
        read_only=True,
        help_text="The right that the principal lacks to see topics; empty for none.",
    )


class ExactLags(serializers.Serializer[Any]):
    """`offset_lag` and `time_lag_ms` have no certainty: null where `owed` is a lower bound."""

    def to_representation(self, instance: Any) -> Any:
        found = super().to_representation(instance)
        owed = found["owed"]
        for name, certainty in CERTAINTY_OF.items():
            if name in found and (owed is None or owed[certainty] in LOWER_BOUNDS):
                found[name] = None
        return found


class AccountOfFlow(ExactLags):
    """Adds `owed` to a serializer of flows."""

    owed = serializers.SerializerMethodField()

    @extend_schema_field(FlowOwedSerializer(allow_null=True))
    def get_owed(self, flow: Flow) -> Any:
        """Null until the flow has been evaluated for the first time."""
        account = getattr(flow, "account", None)
        if account is None:
            return None
        return {
            **_owed(account.total),
            "revision": account.revision,
            "unknown_topics": account.unknown_topics,
            "states": account.states,
            "blocked_topics": account.topics_blocked,
            "not_visible": account.not_visible,
        }


class AccountOfTopic(ExactLags, StrictModelSerializer):
    """Adds `owed` to a serializer of topics."""

    owed = serializers.SerializerMethodField()

    @extend_schema_field(OwedSerializer)
    def get_owed(self, row: FlowTopic) -> Any:
        return _owed(row.total)


class AccountOfPartition(ExactLags, StrictModelSerializer):
    """Adds `owed` to a serializer of partitions."""

    owed = serializers.SerializerMethodField()

    @extend_schema_field(OwedSerializer)
    def get_owed(self, row: FlowPartition) -> Any:
        return _owed(row.total)


def _owed(total: Total) -> dict[str, Any]:
    stated = total.as_of(milliseconds(timezone.now()))
    return {
        "records": None if stated.certainty == "unknown" else stated.records,
        "offsets": total.records,
        "certainty": stated.certainty,
        "unknown_partitions": stated.unknown,
        "time_lag_ms": stated.time_lag_ms,
        "time_lag_certainty": stated.time_lag_certainty,
        "as_of": None if stated.observed_at is None else moment(stated.observed_at),
        "state": stated.state,
    }
