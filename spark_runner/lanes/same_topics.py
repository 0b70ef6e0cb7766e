"""For brokers that know topics by name only: are these still the topics that were planned?"""

from __future__ import annotations

import time

from spark_runner.lanes.track import Track
from spark_runner.lanes.verdict import Verdict
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.metadata import NO_ID

_LOOK_S = 5.0


def changed_topics(
    cluster: ClusterClient, tracks: list[Track], *, remote: bool
) -> dict[Track, Verdict]:
    """The tracks whose topic on this cluster is another one by now, each with its verdict."""
    going = [track for track in tracks if track.error is None]
    names = dict.fromkeys(_planned(track, remote=remote)[0] for track in going)
    views = cluster.describe(names, time.monotonic() + _LOOK_S)
    changed: dict[Track, Verdict] = {}
    for track in going:
        name, planned = _planned(track, remote=remote)
        view = views.get(name)
        if view is not None and (view.topic_id == planned or planned == NO_ID):
            continue
        reason = (
            f"Topic {name} was deleted and created again on {cluster.alias} while it was copied; "
            "nothing of it is copied."
        )
        changed[track] = Verdict("gap", "generation", reason)
    return changed


def _planned(track: Track, *, remote: bool) -> tuple[str, bytes]:
    if remote:
        return track.remote_topic, track.remote_id
    return track.topic, track.source_id
