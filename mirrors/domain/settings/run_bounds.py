"""Parser of run bounds: where a run begins or ends, as an end of the log, a time, or offsets.

Offsets are written `orders:0:1500,orders:1:1700`: topic, partition and offset as kafka-get-offsets
prints them, joined by commas. Topic names contain neither sign, a properties file keeps them on one
line, and the tool's output can be pasted.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re

from mirrors.domain.cluster_snapshot import TopicPartition

_UTC_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OTHERS = (
    "milliseconds since 1970, an ISO 8601 time with its zone such as 2026-11-21T08:30:00Z, or "
    "offsets such as orders:0:1500,orders:1:1700"
)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LARGEST_PARTITION = 2**31 - 1
_LARGEST_OFFSET = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class StartFrom:
    """Where to start: one of the two ends, a time, or an offset for each partition."""

    description = f"earliest, latest, {_OTHERS}"

    def parse(self, text: str) -> str:
        word = text.strip()
        if word not in {"earliest", "latest"}:
            start_milliseconds(word)
        return word


@dataclasses.dataclass(frozen=True)
class RunUntil:
    """Where a run ends: at the log ends of its start, at a time, or at offsets."""

    description = f"end, {_OTHERS}"

    def parse(self, text: str) -> str:
        word = text.strip()
        if word != "end":
            if word in {"earliest", "latest"}:
                raise ValueError(f"must be {self.description}, not {text!r}")
            start_milliseconds(word, self.description)
        return word


def start_milliseconds(text: str, words: str = StartFrom.description) -> int | None:
    """Return the time (epoch ms) in the text; None for earliest, latest and offsets.

    `words` is the description of valid values, for the error.
    """
    if text in {"earliest", "latest"} or named_offsets(text) is not None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"must be {words}, not {text!r}") from None
    if moment.tzinfo is None:
        raise ValueError(f"must include its time zone (add Z for UTC): {text!r}")
    if moment < _UTC_START:
        raise ValueError(f"must not be before 1970, as {text!r} is")
    return int((moment - _UTC_START) / dt.timedelta(milliseconds=1))


def named_offsets(text: str) -> dict[TopicPartition, int] | None:
    """Return the offset of each named partition; None for a keyword, a number or a time."""
    if not ("," in text or text.count(":") == 2) or _is_moment(text):
        return None
    found: dict[TopicPartition, int] = {}
    for element in (part.strip() for part in text.split(",")):
        tp, offset = _named(element)
        if tp in found:
            raise ValueError(f"names {shown_partition(tp)} twice")
        found[tp] = offset
    return found


def shown_partition(tp: TopicPartition) -> str:
    return f"{tp[0]}:{tp[1]}"


def _named(element: str) -> tuple[TopicPartition, int]:
    topic, *numbers = element.split(":")
    if len(numbers) != 2:
        raise ValueError(f"must list offsets as topic:partition:offset, not {element!r}")
    if not _TOPIC.fullmatch(topic):
        raise ValueError(f"names {topic!r}, which is not a valid topic name")
    for what, digits, largest in zip(
        ("partition", "offset"), numbers, (_LARGEST_PARTITION, _LARGEST_OFFSET), strict=True
    ):
        # int() alone would take "1_000" and Arabic digits, and digits without end.
        is_whole = digits.isascii() and digits.isdigit() and len(digits) <= 20
        if not is_whole or int(digits) > largest:
            raise ValueError(
                f"names {element!r}: its {what} must be a whole number from 0 to {largest}"
            )
    return (topic, int(numbers[0])), int(numbers[1])


def _is_moment(text: str) -> bool:
    """Return whether it is a time, which may have two colons, and a comma before its fractions."""
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
