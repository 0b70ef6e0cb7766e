"""A short name for the two topics that a map of offsets belongs to: made again, they are others."""

from __future__ import annotations

import hashlib

from mirrors.domain.internal_topics.records import Position


def generation(
    source_cluster: str,
    source_topic_id: str,
    target_cluster: str,
    target_topic_id: str,
    resets: int = 0,
) -> str:
    """16 hexadecimal digits of ids as texts.

    A partition that an operator let begin anew has another one too, by `resets`: its offsets may
    hold other records now.
    """
    ids = "\0".join((source_cluster, source_topic_id, target_cluster, target_topic_id))
    if resets:
        ids += f"\0{resets}"
    return hashlib.blake2b(ids.encode(), digest_size=8).hexdigest()


def generation_of(row: Position) -> str:
    """The one that a committed position belongs to."""
    return generation(
        row.source_cluster,
        row.source_topic_id,
        row.target_cluster,
        row.target_topic_id,
        row.resets - row.kept,
    )
