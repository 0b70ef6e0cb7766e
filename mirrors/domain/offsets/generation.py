"""The generation id of an offset map: a short hash of its two topics' ids."""

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
    """Return 16 hexadecimal digits of the ids.

    A partition that an operator restarts gets another generation by `resets`, because its offsets
    may refer to other records.
    """
    ids = "\0".join((source_cluster, source_topic_id, target_cluster, target_topic_id))
    if resets:
        ids += f"\0{resets}"
    return hashlib.blake2b(ids.encode(), digest_size=8).hexdigest()


def generation_of(row: Position, into: str = "") -> str:
    """Return the generation of a committed position; of its target topic with the id `into`."""
    return generation(
        row.source_cluster,
        row.source_topic_id,
        row.target_cluster,
        into or row.target_topic_id,
        row.resets - row.kept,
    )
