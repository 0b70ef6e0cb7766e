"""Headers that the engine adds: where a record came from, and why a rule failed for it.

A header of the same name that the record already has stays in front of the added one. Values are
UTF-8 text; numbers are decimal.
"""

from __future__ import annotations

from typing import Final

from mirrors.domain.transforms.rules import TransformRule

SOURCE_CLUSTER: Final = "understudy.source.cluster"
SOURCE_TOPIC: Final = "understudy.source.topic"
SOURCE_PARTITION: Final = "understudy.source.partition"
SOURCE_OFFSET: Final = "understudy.source.offset"
# Milliseconds since the epoch, -1 for a record without a timestamp.
SOURCE_TIMESTAMP: Final = "understudy.source.timestamp"

ERROR_FLOW: Final = "understudy.error.flow"
# Counts from 1, as on pages.
ERROR_RULE: Final = "understudy.error.rule"
ERROR_FIELD: Final = "understudy.error.field"
ERROR_REASON: Final = "understudy.error.reason"

_LONGEST_TEXT: Final = 300

AddedHeader = tuple[str, bytes]


def provenance_headers(
    cluster: str, topic: str, partition: int, offset: int, timestamp: int
) -> list[AddedHeader]:
    """Where a record came from; `cluster` is an alias, `timestamp` in ms since the epoch."""
    return [
        (SOURCE_CLUSTER, cluster.encode()),
        (SOURCE_TOPIC, topic.encode()),
        (SOURCE_PARTITION, str(partition).encode()),
        (SOURCE_OFFSET, str(offset).encode()),
        (SOURCE_TIMESTAMP, str(timestamp).encode()),
    ]


def error_headers(
    flow: str, number: int, rule: TransformRule, field: str, why: str = ""
) -> list[AddedHeader]:
    """Why a record is in the dead-letter topic: the field of the rule that failed for it.

    `why`: the reason of user code.
    """
    text = rule.expressions.get(field, "")
    cut = f"{text[:_LONGEST_TEXT]}…" if len(text) > _LONGEST_TEXT else text
    reason = f"The {field} expression of rule {number} ({rule.topics}) failed: {cut}"
    if why:
        reason += f". {why}"
    return [
        (ERROR_FLOW, flow.encode()),
        (ERROR_RULE, str(number).encode()),
        (ERROR_FIELD, field.encode()),
        (ERROR_REASON, reason.encode()),
    ]
