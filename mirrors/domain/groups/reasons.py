"""Reasons of many groups or group-partitions as a few sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def summarize(reasons: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """One sentence for each reason, the most frequent first, with its count and one example.

    `reasons`: a reason without a full stop, and the group or group-partition that it is about.
    """
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for reason, example in reasons:
        counts[reason] += 1
        examples.setdefault(reason, example)
    return tuple(
        f"{examples[reason]}: {reason.removesuffix('.')}."
        if count == 1
        else f"{count} times, such as {examples[reason]}: {reason.removesuffix('.')}."
        for reason, count in counts.most_common()
    )


def name_of(group: str, topic: str, partition: int, route: str = "") -> str:
    """The group-partition in sentences. `route`: the remote topic, if a rule names it."""
    into = f" (to {route})" if route else ""
    return f"{group} in {topic}-{partition}{into}"
