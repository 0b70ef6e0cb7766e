"""The tables of a comparison: what it found, and each partition with what of it was compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from mirrors.models import Comparison, ComparisonFinding, ComparisonPart
from mirrors.models.comparisons import PartVerdict
from mirrors.views.tables import Column, Question

# A verdict, and the state whose shape and colour it has.
SHOWN = {"same": "succeeded", "partly": "attention", "differs": "critical", "unread": "unknown"}
WORDS = {"same": "the same", "partly": "the same so far", "unread": "not read"}
ABOUTS = ("topic", "partition", "config", "acl", "group", "content")
_NAMES = {
    "topic": "Topics",
    "partition": "Partitions",
    "config": "Settings",
    "acl": "Access rules",
    "group": "Group offsets",
}


@dataclasses.dataclass(frozen=True)
class Part:
    """One tab with its table."""

    label: str
    template: str
    question: Question
    labels: dict[str, str]
    rows: Callable[[Comparison], QuerySet[Any]]


def _findings(run: Comparison) -> QuerySet[ComparisonFinding]:
    return ComparisonFinding.objects.filter(comparison=run)


def _parts(run: Comparison) -> QuerySet[ComparisonPart]:
    return ComparisonPart.objects.filter(comparison=run)


FINDINGS = Question(
    columns=(
        Column("about", "About", ("about", "name", "partition")),
        Column("weight", "Weight", ("weight", "id")),
        Column("kind", "What", ("kind", "name", "partition")),
        Column("name", "Name", ("name", "partition", "source_offset")),
        Column("partition", "Partition", ("partition", "name"), number=True),
        Column("source_offset", "Source offset", ("source_offset",), number=True),
        Column("target_offset", "Target offset", ("target_offset",), number=True),
        Column("sentence", "In words"),
    ),
    search=("name", "sentence"),
    default="weight",
    filters={"about": ABOUTS, "weight": ("differs", "note")},
)
PARTITIONS = Question(
    columns=(
        Column("topic", "Topic", ("topic", "partition")),
        Column("partition", "Partition", ("partition", "topic"), number=True),
        Column("verdict", "Content", ("verdict", "topic", "partition")),
        Column(
            "source_records",
            "Source records",
            ("source_records",),
            number=True,
            title="Records that were read on the source",
        ),
        Column(
            "target_records",
            "Target records",
            ("target_records",),
            number=True,
            title="Records that were read on the target",
        ),
        Column("differences", "Differences", ("differences",), number=True),
        Column(
            "explained",
            "Compacted",
            ("explained",),
            number=True,
            title="Records that only one side still has, as compaction leaves them",
        ),
        Column(
            "unread",
            "Not read",
            ("unread",),
            number=True,
            title="Source offsets that were asked for and not compared",
        ),
        Column("source_first", "From", ("source_first",), number=True),
        Column("next", "To", ("next",), number=True, title="Compared up to, but without"),
        Column("target_first", "Target from", ("target_first",), number=True),
        Column("target_end", "Target to", ("target_end",), number=True),
        Column("source_digest", "Digest", title="Of the source; where all agrees, of the target"),
        Column("target_digest", "Target digest"),
        Column("reason", "Reason"),
    ),
    search=("topic", "remote_topic", "reason"),
    default="verdict",
    filters={"verdict": tuple(PartVerdict.values)},
)
PARTS = {
    "findings": Part(
        "What was found",
        "mirrors/_comparison_findings.html",
        FINDINGS,
        {"about": "About", "weight": "Weight"},
        _findings,
    ),
    "partitions": Part(
        "Partitions",
        "mirrors/_comparison_partitions.html",
        PARTITIONS,
        {"verdict": "Content"},
        _parts,
    ),
}


def mark(run: Comparison) -> Any:
    """Give a comparison the state and the word that its page shows."""
    marked: Any = run
    marked.shown = SHOWN.get(run.verdict, "unknown") if run.verdict else run.state
    marked.words = WORDS.get(run.verdict, run.verdict)
    return marked


def aspects_of(run: Comparison) -> list[dict[str, Any]]:
    """One line an aspect; one of which nothing could be compared says why."""
    return [
        {
            **row,
            "label": _NAMES.get(row["about"], row["about"]),
            "state": "critical" if row["differs"] else "good" if row["compared"] else "unknown",
        }
        for row in (run.summary or {}).get("aspects", [])
    ]
