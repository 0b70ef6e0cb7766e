"""Checks of a position against the topics that exist now, and the text of each gap."""

from __future__ import annotations

from mirrors.domain.gaps.lost_ranges import GapFacts, changed_route
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
    """The first difference between two generations, as a sentence; None if they are the same."""
    for member, template in _DIFFERENCES.items():
        if getattr(known, member) != getattr(now, member):
            name = f"{known.topic}-{known.partition}"
            difference = template.format(source=source, target=target)
            return (
                f"{name} is not replicated: {difference}. The position {known.position} belongs "
                "to the earlier one, so resuming there would skip or mix records."
            )
    if (route := changed_route(known, now)) is not None:
        name = f"{known.topic}-{known.partition}"
        return (
            f"{name} is not replicated: {route[0].topic}, to which a rule routes some of its "
            f"records, was deleted and created again on {target}. What was copied there is lost. "
            f"The position {known.position} holds for all target topics, so a restart copies the "
            "records of the others again as well."
        )
    return None


def describe_truncation(facts: GapFacts, name: str, source: str, epoch: int | None) -> str:
    """What is missing from a truncated source log, by its leader epochs.

    After two unclean elections the log may reach beyond the position. Then no offset of the
    truncation is known.
    """
    which = f"offsets {facts.end} to {facts.position - 1}"
    if facts.end == facts.position:
        which = f"some offsets below {facts.end}"
    last = "" if epoch is None else f" (last common epoch {epoch})"
    return (
        f"{name} on {source} was truncated: {which} were copied from a log that its leader no "
        f"longer has{last}. Nothing was skipped."
    )


def describe_gap(facts: GapFacts, name: str, remote: str, *, source: str, target: str) -> str:
    """The text of a gap that was stored with the position."""
    if facts.kind == "truncated":
        return describe_truncation(facts, name, source, None)
    difference = (
        describe_lost_positions if facts.kind == "positions_lost" else describe_remote_truncation
    )
    return difference(facts, name, remote, target)


def describe_lost_positions(facts: GapFacts, name: str, remote: str, target: str) -> str:
    """Copies on the target after a position that does not cover them."""
    first, last = facts.copied_there or (0, 0)
    return (
        f"{name} is not replicated: the position {facts.position} belongs to the remote offset "
        f"{facts.remote_next}, but {remote} on {target} also holds copies of this flow at offsets "
        f"{first} to {last}. The target lost later positions (an unclean election, or a disk "
        "restored from a backup). Resuming from the position would copy those records again."
    )


def describe_remote_truncation(facts: GapFacts, name: str, remote: str, target: str) -> str:
    """What is missing from a remote partition that ends below a committed offset."""
    # Kafka 4.3.1, killed between two markers of a commit, omits the remaining markers after its
    # restart: it treats partitions without a leader as deleted (TransactionMarkerChannelManager).
    how = (
        "offset. With exactly-once delivery that is no record but the end of a transaction: a "
        "broker died before it wrote the marker. If you accept the gap, consumers see the records "
        "before it after the flow's next commit"
        if facts.count == 1
        else "offsets (an unclean election, or a disk restored from a backup)"
    )
    return (
        f"{name} is not replicated: {remote} on {target} ended at {facts.remote_end}, and "
        f"everything below {facts.remote_next} had been committed there. The target lost "
        f"{facts.count} {how}. The flow writes nothing more there."
    )
