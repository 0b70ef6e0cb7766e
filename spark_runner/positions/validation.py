"""Whether a position belongs to the topics that are there now, and what is wrong when not."""

from __future__ import annotations

from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.internal_topics.records import Position

_DIFFERENCES = {
    "source_cluster": "the alias {source} now leads to another cluster",
    "target_cluster": "the alias {target} now leads to another cluster",
    "source_topic_id": "the topic was deleted and created again on {source}",
    "target_topic_id": (
        "it was copied into another remote topic before, which was deleted and created again on "
        "{target}, or had another name"
    ),
}


def describe_generation_gap(
    known: Position, now: Position, *, source: str, target: str
) -> str | None:
    """The first difference of two positions' generations, in words; None for the same one."""
    for member, template in _DIFFERENCES.items():
        if getattr(known, member) != getattr(now, member):
            place = f"{known.topic}-{known.partition}"
            difference = template.format(source=source, target=target)
            return (
                f"{place} is not copied: {difference}. The position {known.position} belongs to "
                "the earlier one, so copying on from there would skip or mix records."
            )
    return None


def describe_range_gap(place: str, source: str, position: int, first: int, end: int) -> str | None:
    """What is missing when a position lies outside what the source holds; else None."""
    if position < first:
        return (
            f"{place} on {source} now begins at {first}: offsets {position} to {first - 1} were "
            "deleted (retention or a request) before they were copied. Nothing was skipped."
        )
    if position > end:
        return (
            f"{place} on {source} now ends at {end}, before the position {position}: the source "
            "lost records that were already copied. Nothing was skipped."
        )
    return None


def describe_truncation(facts: GapFacts, place: str, source: str, epoch: int | None) -> str:
    """What is missing of a source log that is not the one that was read, as its epochs say; None
    where they say nothing, or have said it before.

    After two unclean elections it may reach beyond the position: then no number tells from where.
    """
    which = f"offsets {facts.end} to {facts.position - 1}"
    if facts.end == facts.position:
        which = f"some offsets below {facts.end}"
    last = "" if epoch is None else f" (last common epoch {epoch})"
    return (
        f"{place} on {source} was truncated: {which} were copied from a log that its leader no "
        f"longer has{last}. Nothing was skipped."
    )


def describe_gap(facts: GapFacts, place: str, remote: str, *, source: str, target: str) -> str:
    """Of a gap that was written down beside the position when it was found."""
    if facts.kind == "truncated":
        return describe_truncation(facts, place, source, None)
    difference = (
        describe_lost_positions if facts.kind == "positions_lost" else describe_remote_truncation
    )
    return difference(facts, place, remote, target)


def describe_lost_positions(facts: GapFacts, place: str, remote: str, target: str) -> str:
    """What lies on the target behind a position that tells nothing of it."""
    first, last = facts.copied_there or (0, 0)
    return (
        f"{place} is not copied: the position {facts.position} was committed with what {remote} on "
        f"{target} holds below {facts.remote_next}, and copies of this flow lie there at offsets "
        f"{first} to {last} as well. The target lost later positions (an unclean election, or a "
        "disk that was put back). From the position on records would be copied once more."
    )


def describe_remote_truncation(facts: GapFacts, place: str, remote: str, target: str) -> str:
    """What is missing of a remote partition that ends below what was committed there."""
    # Kafka 4.3.1, killed between two markers of a commit, leaves out the rest when it comes back:
    # what has no leader by then it takes for deleted (TransactionMarkerChannelManager).
    how = (
        "offset (exactly once that is no record but the end of a transaction, which a broker that "
        "died did not write: accepted, the records before it are seen with the next ones)"
        if facts.count == 1
        else "offsets (an unclean election, or a disk that was put back)"
    )
    return (
        f"{place} is not copied: {remote} on {target} ended at {facts.remote_end}, and everything "
        f"below {facts.remote_next} had been committed there. The target lost {facts.count} "
        f"{how}. Nothing more is written there."
    )
