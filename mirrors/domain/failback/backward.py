"""Where a group that reads on the standby goes on upon the old primary: never past what it missed.

A group at a downstream offset has consumed all below it. On the old primary it must not pass

1. the first record that the flow there brought over and the group has not read (by the inverse of
   that flow's runs: exact), nor
2. the first record of the standby's own that it has not read (by the runs of the flow back).

Whichever comes first is the place. Below the divergence point that is 1; above it, 2.
"""

from __future__ import annotations

from mirrors.domain.offsets import Translation
from mirrors.domain.runs import Run


def upstream_between(downstream: int, *, below: Run | None, above: Run | None) -> int | None:
    """The source offset of the first record copied at or behind `downstream`; None: there is none.

    `below` is the run that begins at or below it on the target, `above` the next one.
    """
    if below is not None and downstream < below.downstream + below.length:
        return below.upstream + max(0, downstream - below.downstream)
    return None if above is None else above.upstream


def bring_back(
    asked: int,
    forth: int | None,
    back: Translation | None,
    *,
    reached: int,
    rest: int,
    undecided: bool,
) -> Translation:
    """`forth`: where rule 1 leads, `back`: what the flow back says (rule 2), which is at `reached`.

    `rest` is where the flow there stands on the old primary, all that it copied lying before;
    `undecided`: records behind it wait for a person's decision, so nobody may pass them.
    """
    found = back.downstream if back is not None else None
    first = rest if forth is None and undecided else forth
    # From where the flow back stands on, what it copies will come behind all that is there.
    if back is not None and found is not None and asked < reached:
        if first is None or found < first:
            return back
    elif first is None and back is not None and found is not None and found >= rest:
        return back
    if forth is not None:
        reason = f"the record at {asked}, or the next one, came from there: it has this offset"
        return Translation(upstream=asked, downstream=forth, outcome="exact", reason=reason)
    if undecided:
        reason = (
            f"records from offset {rest} on exist only on the old primary and nobody has decided "
            "on them: the group does not pass them"
        )
        return Translation(upstream=asked, downstream=rest, outcome="gap", reason=reason)
    reason = "all that it read came from there; nothing of the standby's own is behind it yet"
    return Translation(upstream=asked, downstream=rest, outcome="exact", reason=reason)
