"""The end of a bounded run inside a reply: what lies behind it is given back, a batch is cut."""

from __future__ import annotations

from spark_runner.lanes.arena import Arena
from spark_runner.lanes.scan import CUT
from spark_runner.lanes.track import Track


def trim(track: Track, arena: Arena) -> None:
    """Asked after each scan: does nothing before the track's end is reached."""
    stop = track.stop_at
    if stop is None or track.next_fetch < stop:
        return
    queue = track.queue
    # By `first`: an old wrapper's header has the offset of its last message.
    while queue and queue[-1].arena is arena and queue[-1].first >= stop:
        parcel = queue.pop()
        track.queued_bytes -= parcel.size
        arena.users -= 1
    if not queue and not track.flying:
        track.done = max(track.done, stop)
        return
    tail = (queue or track.flying)[-1]
    if tail.arena is arena and tail.header.last_offset >= stop and not tail.stamped:
        tail.until = tail.after = stop
        tail.why = tail.why or CUT
    else:
        tail.after = max(tail.after, stop)
