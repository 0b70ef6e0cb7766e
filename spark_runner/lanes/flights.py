"""Batches that go out together: one of each of these tracks, and how they stand in the request."""

from __future__ import annotations

from spark_runner.lanes.parcel import Parcel
from spark_runner.lanes.track import Track
from spark_runner.wire.heads import TopicKey
from spark_runner.wire.stream import Buffer

Flight = dict[Track, Parcel]


Rows = list[tuple[bytes, Buffer]]
"""Partition index as 4 bytes, and batch."""


def laid_out(flight: Flight) -> tuple[list[tuple[TopicKey, Rows]], int]:
    """Topic by topic, and the bytes of all batches."""
    topics: dict[TopicKey, Rows] = {}
    size = 0
    for track, parcel in flight.items():
        size += parcel.size
        assert parcel.view is not None  # noqa: S101 - a stamped parcel has one
        rows = topics.get(track.remote_key)
        if rows is None:
            rows = topics[track.remote_key] = []
        rows.append((track.index, parcel.view))
    return list(topics.items()), size
