"""Where a group of the standby resumes on the old primary: never past an unread record.

A group at a downstream offset has consumed all below it. On the old primary it must not pass
1. the first record that the forward flow copied and the group has not read (by the inverse of that
   flow's runs: exact), nor
2. the first record of the standby's own that it has not read (by the runs of the reverse flow), nor
3. the forward flow's position, as long as records after it may be unread.

The lowest of them is the resume offset. Below the divergence point that is 1; above it, 2.
"""

from __future__ import annotations

from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import Translation, is_torn


def upstream_between(
    downstream: int, *, below: Run | None, above: Run | None, follows: int | None = None
) -> int | None:
    """Return the source offset of the first record copied at or after `downstream`, or None.

    - `below`: the run that begins at or below it on the target. `above`: the next one.
    - `follows`: where the run before that one, or the last one of all, ends on the target; None if
      unknown.

    Where runs are missing, the result is the end of what is known, so that nothing is skipped.
    """
    if below is not None and downstream < below.downstream + below.length:
        return below.upstream + downstream - below.downstream
    if follows is not None and downstream < follows:
        return 0 if below is None else below.upstream + below.length
    return None if above is None else above.upstream


def downstream_between(
    upstream: int, *, below: Run | None, above: Run | None, follows: int | None = None
) -> int | None:
    """Return the target offset of the first record copied from `upstream` or after it.

    For the other arguments see `upstream_between`.
    """
    if below is not None and upstream < below.upstream + below.length:
        return below.downstream + upstream - below.upstream
    if is_torn(below, follows):
        return 0 if below is None else below.downstream + below.length
    return None if above is None else above.downstream


def translate_back(
    asked: int, *, forth: int | None, back: int | None, rest: int, tail: int, undecided: bool
) -> Translation:
    """Return the resume offset on the old primary.

    - `forth`: by rule 1, `back`: by rule 2; None if nothing is left unread.
    - `rest`: the forward flow's position. `undecided`: records after it wait for a decision (rule
      3).
    - `tail`: up to where the reverse flow has written.
    """
    found = [place for place in (forth, back) if place is not None]
    if undecided and rest <= min(found, default=rest):
        reason = (
            f"records from offset {rest} on exist only on the old primary and wait for a decision: "
            "the group does not skip them"
        )
        return Translation(upstream=asked, downstream=rest, outcome="gap", reason=reason)
    if not found:
        reason = "the group has read all records before this offset, and no others exist"
        return Translation(
            upstream=asked, downstream=max(rest, tail), outcome="exact", reason=reason
        )
    if forth is not None and forth == min(found):
        reason = "the first unread record came from the old primary, where it has this offset"
    else:
        reason = "the first unread record was replicated there by the reverse flow"
    return Translation(upstream=asked, downstream=min(found), outcome="exact", reason=reason)
