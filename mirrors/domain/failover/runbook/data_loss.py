"""What a run leaves on the source and what consumers read again: amounts, certainty, sentences.

Invariants:
A. A figure of an unreachable source is a lower bound and is shown with its age.
B. Offsets are an upper bound; only records that were read are counted.
C. An unknown partition never hides what is known of the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mirrors.domain.account.partition import Certainty, Owed
from mirrors.domain.account.sentences import unknown_part
from mirrors.domain.account.totals import Total, total
from mirrors.domain.failover.partitions import with_lower_bound
from mirrors.domain.formatting import duration_range, plural

# How a plan names what the account calls at_most and at_least.
_OF_PLAN: Mapping[str, Certainty] = {"observed": "at_most", "last_known": "at_least"}
# A figure of the moment needs no age.
_FRESH_MS = 1_000
_KNOWN: frozenset[str] = frozenset({"counted", "at_most", "at_least", "unknown"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Amount:
    """A sum with its certainty.

    - `records`: None if no part is known. `unknown` counts the parts without a figure.
    - `observed_at` (epoch ms): the oldest observation in the sum; `newest_at`: the newest one.
    - `offsets`: for an earlier figure, how many offsets were open then, an upper bound of the
      records.
    """

    records: int | None
    certainty: Certainty
    unknown: int = 0
    unknown_text: str = ""
    observed_at: int | None = None
    newest_at: int | None = None
    offsets: int = 0


def every_partition(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return all selected topic-partitions of a plan (as JSON).

    They are those that take part, those that are not copied, and those that are left behind.
    """
    names = ("partitions", "not_copied", "left_partitions")
    return [row for name in names for row in plan.get(name) or ()]


def topic_name(row: Mapping[str, Any]) -> str:
    """Return the topic's name; a part without a topic stands for all that may be hidden."""
    return row["topic"] or "topics that may not be visible"


def owed_of(row: Mapping[str, Any], *, taken_at: int) -> Owed:
    """Return one partition of a plan (as JSON) that was made at `taken_at` (epoch ms)."""
    records, said = row["loss"], str(row["certainty"])
    # A plan of an earlier version has no certainty of its own for the loss.
    certainty = row.get("loss_certainty") or _OF_PLAN.get(said, said)
    if records is None or certainty not in _KNOWN or certainty == "unknown":
        records, certainty = None, "unknown"
    elif records == 0 and certainty == "at_most":
        certainty = "counted"
    state = "unknown" if records is None else "behind" if records else "in_step"
    return Owed(
        topic=topic_name(row),
        partition=row["partition"],
        state=row.get("state") or state,  # type: ignore[arg-type]
        records=records,
        certainty=certainty,
        observed_at=taken_at - (row.get("source_end_age_ms") or 0),
        time_lag_ms=None,
        reason=row.get("reason") or "",
        least=row.get("least", records or 0),
    )


def sum_owed(parts: Iterable[Owed]) -> Amount:
    """Return the sum that these partitions owe."""
    parts = list(parts)
    newest = max((part.observed_at for part in parts if part.observed_at is not None), default=None)
    offsets = total(parts).records
    return _amount(total(map(with_lower_bound, parts)), offsets=offsets, newest_at=newest)


def sum_re_reads(
    rows: Sequence[Mapping[str, Any]], *, observed_at: int | None, is_final: bool
) -> Amount:
    """Sum the `re_reads` of group-partitions. `is_final`: no group consumed since then."""
    known = [row["re_reads"] for row in rows if row["re_reads"] is not None]
    unknown = len(rows) - len(known)
    certainty: Certainty = "counted" if is_final and not unknown else "at_least"
    if unknown and not sum(known):
        certainty = "unknown"
    groups = {row["group"] for row in rows if row["re_reads"] is None}
    text = f"unknown for {plural(unknown, 'group-partition')} of {_named(groups)}"
    return Amount(
        records=sum(known) if known or not unknown else None,
        certainty=certainty,
        unknown=unknown,
        unknown_text=text if unknown else "",
        observed_at=observed_at,
    )


def loss_sentence(loss: Amount, *, source: str, now: int) -> str:
    """Return what was not replicated, as of `now` (epoch ms)."""
    if loss.certainty == "counted" and not loss.records:
        return "No records were lost."
    if loss.certainty == "unknown" or loss.records is None:
        why = f" ({loss.unknown_text})" if loss.unknown_text else ""
        return f"How many records were not replicated is unknown{why}."
    was = "was" if loss.records == 1 else "were"
    amount = plural(loss.records, "record")
    rest = f"; {loss.unknown_text}" if loss.unknown_text else ""
    if loss.certainty == "at_most":
        return f"At most {amount} {was} not replicated (by offsets){rest}."
    if loss.certainty == "at_least":
        seen = f"{source} was last seen {_age(loss.observed_at, now, loss.newest_at)}"
        note = ""
        if loss.offsets > loss.records:
            note = f" ({loss.offsets:,} by offsets when {seen})"
        elif loss.observed_at is None or now - loss.observed_at > _FRESH_MS:
            note = f" ({seen})"
        if not loss.records:
            return f"How many records were not replicated is unknown{note}{rest}."
        return f"At least {amount} {was} not replicated{note}{rest}."
    return f"{amount} {was} not replicated{rest}."


def re_reads_sentence(re_reads: Amount, *, now: int) -> str:
    """Return what consumers read again, as of `now` (epoch ms)."""
    if re_reads.certainty == "counted" and not re_reads.records:
        return "No records are re-read."
    if re_reads.certainty == "unknown" or re_reads.records is None:
        return f"How many records are re-read is unknown ({re_reads.unknown_text})."
    amount = plural(re_reads.records, "record")
    rest = f"; {re_reads.unknown_text}" if re_reads.unknown_text else ""
    are = "is" if re_reads.records == 1 else "are"
    if re_reads.certainty == "counted":
        return f"{amount} {are} re-read{rest}."
    if re_reads.certainty == "at_least" and not re_reads.records:
        read_at = _age(re_reads.observed_at, now)
        return (
            f"Records that groups consumed since their offsets were read ({read_at}) are "
            f"re-read{rest}."
        )
    bound = "most" if re_reads.certainty == "at_most" else "least"
    old = ""
    if bound == "least":
        old = f" (by group offsets read {_age(re_reads.observed_at, now)})"
    return f"At {bound} {amount} {are} re-read{old}{rest}."


def counted_sentence(loss: Amount, re_reads: Amount, *, source: str) -> str:
    """Return what was counted after the source was reachable again."""
    parts = [loss_sentence(loss, source=source, now=0).rstrip(".")]
    parts.append(re_reads_sentence(re_reads, now=0).rstrip("."))
    return f"Counted on {source} afterwards: {_lower(parts[0])}. {parts[1]}."


def _amount(found: Total, *, offsets: int, newest_at: int | None) -> Amount:
    return Amount(
        records=None if found.certainty == "unknown" and not found.records else found.records,
        certainty=found.certainty,
        unknown=found.unknown,
        unknown_text=unknown_part(found) if found.unknown else "",
        observed_at=found.observed_at,
        newest_at=newest_at,
        offsets=offsets,
    )


def _age(observed_at: int | None, now: int, newest_at: int | None = None) -> str:
    """`at 07:31:44 to 07:32:01 UTC, 2 s to 19 s earlier`; one time where the parts agree on it."""
    if observed_at is None:
        return "at an unknown time"
    times = [observed_at] if newest_at is None else [observed_at, newest_at]
    clock = [f"{datetime.fromtimestamp(at / 1000, UTC):%H:%M:%S}" for at in times]
    ages = duration_range([max(0, now - at) for at in times])
    # Parts that are as old to a reader have one time.
    said = clock if " to " in ages else clock[:1]
    return f"at {' to '.join(said)} UTC, {ages} earlier"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _named(groups: Iterable[str], most: int = 3) -> str:
    names = sorted(groups)
    return ", ".join(names[:most]) + (" and others" if len(names) > most else "")
