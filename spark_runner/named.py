"""Holds the offsets that a person named against the source before anything is made or copied."""

from __future__ import annotations

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.keys.control import START
from mirrors.domain.named_offsets import missing, named_by, outside, refusal
from mirrors.domain.snapshot import ClusterSnapshot
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics import TopicPlan
from mirrors.kafka.admin import Admin


def check_offsets(
    source: Admin,
    spec: FlowSpec,
    seen: ClusterSnapshot,
    topics: TopicPlan,
    *,
    is_new: bool,
    deadline_s: float,
) -> None:
    """Raises KafkaRefused for what the source does not have; asked at the first plan of a job.

    Of a flow that has positions only ends count, and what lies before its positions is done.
    """
    alias = spec.source.alias
    for key, named in named_by(spec.settings).items():
        if not named or (key == START and not is_new):
            continue
        for place, offset in named.items():
            if (why := missing(place, seen, topics, alias)) is not None:
                raise KafkaRefused(refusal(key, place, offset, why), code="offsets_named")
        ends = source.list_offsets(named, "latest", deadline_s=deadline_s)
        first = dict.fromkeys(named, 0)
        if is_new:
            # Of a new flow every one is checked, before anything of it is created or copied.
            ends.raise_first()
            first = source.list_offsets(named, "earliest", deadline_s=deadline_s).raise_first().done
        for place, offset in named.items():
            # Of a flow that was checked before, a partition without a leader waits alone.
            if place not in ends.done:
                continue
            if (why := outside(offset, first[place], ends.done[place], alias)) is not None:
                raise KafkaRefused(refusal(key, place, offset, why), code="offsets_named")
