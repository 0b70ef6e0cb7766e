"""Where a group that reads on the standby goes on upon the old primary: never past what it missed.

A group at a downstream offset has consumed all below it. On the old primary it must not pass

1. the first record that the flow there brought over and the group has not read (by the inverse of
   that flow's runs: exact), nor
2. the first record of the standby's own that it has not read (by the runs of the flow back), nor
3. where the flow there stands, as long as records behind it may be unread.

Whichever comes first is the place. Below the divergence point that is 1; above it, 2.
"""

from __future__ import annotations

from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import Translation, is_torn


def upstream_between(
    downstream: int, *, below: Run | None, above: Run | None, follows: int | None = None
) -> int | None:
    """The source offset of the first record copied at or behind `downstream`; None: there is none.

    `below` is the run that begins at or below it on the target, `above` the next one. `follows`:
    where the run before that one, or the last one of all, ends on the target; None: nobody says so.
    Where runs are missing the answer is the end of what is known: so nothing is passed.
    """
    if below is not None and downstream < below.downstream + below.length:
        return below.upstream + downstream - below.downstream
    if follows is not None and downstream < follows:
        return 0 if below is None else below.upstream + below.length
    return None if above is None else above.upstream


def downstream_between(
    upstream: int, *, below: Run | None, above: Run | None, follows: int | None = None
) -> int | None:
    """The target offset of the first record copied that lies at or behind `upstream`; the rest as
    in `upstream_between`."""
    if below is not None and upstream < below.upstream + below.length:
        return below.downstream + upstream - below.upstream
    if is_torn(below, follows):
        return 0 if below is None else below.downstream + below.length
    return None if above is None else above.downstream


def bring_back(
    asked: int, *, forth: int | None, back: int | None, rest: int, tail: int, undecided: bool
) -> Translation:
    """`forth`: by rule 1, `back`: by rule 2; None where nothing is left unread.

    `rest` is where the flow there stands on the old primary; `undecided`: records behind it wait
    for a person's decision (rule 3). `tail` is where the flow back has written up to.
    """
    found = [place for place in (forth, back) if place is not None]
    if undecided and rest <= min(found, default=rest):
        reason = (
            f"records from offset {rest} on exist only there and nobody has decided on them: the "
            "group does not pass them"
        )
        return Translation(upstream=asked, downstream=rest, outcome="gap", reason=reason)
    if not found:
        reason = "all that it read, and all that is there, lies before"
        return Translation(
            upstream=asked, downstream=max(rest, tail), outcome="exact", reason=reason
        )
    if forth is not None and forth == min(found):
        reason = "the first record that it has not read came from there, and has this offset there"
    else:
        reason = "the first record that it has not read was brought there by the flow back"
    return Translation(upstream=asked, downstream=min(found), outcome="exact", reason=reason)
