"""Take away offsets of consumer groups, or a whole group: what a run put there that is undone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest
from kafka.protocol.consumer import OffsetDeleteRequest

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection import DEADLINE_S, Partial
from mirrors.kafka.dialogues import Dialogues
from mirrors.kafka.errors import translate_number
from mirrors.kafka.groups import CLIENT_ID, Place


def delete_offsets(
    spec: ClusterSpec,
    group: str,
    places: Iterable[Place],
    *,
    deadline_s: float = DEADLINE_S,
) -> Partial[Place, None]:
    """Take away what an idle group committed in these partitions; others of its own stay."""
    result: Partial[Place, None] = Partial()
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics: dict[str, list[Any]] = {}
    for topic, number in places:
        part = kind.OffsetDeleteRequestPartition(partition_index=number)
        topics.setdefault(topic, []).append(part)
    if not topics:
        return result
    rows = [kind(name=name, partitions=parts) for name, parts in topics.items()]
    doing = f"take away offsets of group {group}"
    with Dialogues(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as dialogues:
        coordinators = dialogues.coordinators([group])
        for error in coordinators.failed.values():
            raise error
        (address,) = coordinators.at
        request = OffsetDeleteRequest(group_id=group, topics=rows)
        answer = dialogues.ask_coordinator(
            address, request, lambda reply: [reply.error_code], at_most=0
        )
    if answer.error_code:
        raise translate_number(answer.error_code, where=spec.alias, doing=doing)
    for topic in answer.topics:
        for part in topic.partitions:
            place = (topic.name, part.partition_index)
            if part.error_code:
                words = f"{doing} in {topic.name}-{part.partition_index}"
                result.failed[place] = translate_number(
                    part.error_code, where=spec.alias, doing=words
                )
            else:
                result.done[place] = None
    return result


def delete_group(spec: ClusterSpec, group: str, *, deadline_s: float = DEADLINE_S) -> None:
    """With all its offsets. Kafka refuses one that has members; one that is gone is well."""
    with Dialogues(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as dialogues:
        coordinators = dialogues.coordinators([group])
        for error in coordinators.failed.values():
            raise error
        (address,) = coordinators.at
        answer = dialogues.ask_coordinator(
            address,
            DeleteGroupsRequest(groups_names=[group]),
            lambda reply: [row.error_code for row in reply.results],
            at_most=2,
        )
    for row in answer.results:
        if row.error_code:
            error = translate_number(
                row.error_code, where=spec.alias, doing=f"delete group {group}"
            )
            if error.code != "not_found":
                raise error
