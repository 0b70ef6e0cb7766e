"""Collects what the product says is owed: REST, metrics, the overview and the flow's page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.judge.cluster import now_ms
from tests.judge.verdicts import Certainty, Claim

_AGES = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE = re.compile(r"([\d,.]+) ?(ms|s|min|h|d)\b(?: ([\d,.]+) ?(ms|s|min)\b)? (?:ago|before)")
_AMOUNT = re.compile(
    r"(at least |at most )?([\d,]+) records?\b( at least| at most)?", re.IGNORECASE
)
_LOSS = re.compile(r"(?:If )?(.+?) (?:fails now|is unreachable): (.*)")
# What an amount must be about; records that are read again or foreign ones are other amounts.
_ABOUT = re.compile(r"lost|loss|owed|behind|not (?:copied|replicated)|missing", re.IGNORECASE)
_NOT_ABOUT = re.compile(r"re-?read|again|twice|foreign|duplicate|another producer", re.IGNORECASE)
_NOTHING = re.compile(
    r"no data loss|no records? (?:were|was|would be|is|are) lost|nothing [^.;]*would be lost"
    r"|is copied\b|everything was (?:copied|replicated)|nothing is lost",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"unknown|not known", re.IGNORECASE)
_BOUNDS: dict[str, Certainty] = {"": "counted", "at least": "at_least", "at most": "at_most"}
_METRIC = re.compile(r"^(understudy_\w+)\{(.*)\} ([-+.eE\d]+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def moment(text: str | None) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000) if text else 0


def owed_claim(
    statement: str,
    owed: Mapping[str, Any],
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> Claim:
    """The `owed` object of a flow, topic or partition."""
    return Claim(
        statement=statement,
        records=owed["records"],
        certainty=owed["certainty"],
        as_of=moment(owed.get("as_of")),
        topic=topic,
        partition=partition,
        time_lag_ms=owed.get("time_lag_ms"),
        is_lag_least=owed.get("time_lag_certainty") == "at_least",
        text=str(owed.get("reason") or ""),
    )


def row_claims(
    where: str, row: Mapping[str, Any], *, topic: str | None = None, partition: int | None = None
) -> Iterator[Claim]:
    """`offset_lag` counts offsets, so it is the most that may be owed; null is unknown."""
    # Beside `owed` stands when the source was observed; `as_of` of a flow is its runner's report.
    as_of = moment((row.get("owed") or row)["as_of"])
    lag = row["offset_lag"]
    # A skipped topic has no figures, and says why.
    if row.get("state") != "skipped" and as_of:
        yield Claim(
            statement=f"{where}: offset_lag",
            records=lag,
            certainty="unknown" if lag is None else "at_most",
            as_of=as_of,
            topic=topic,
            partition=partition,
            time_lag_ms=row["time_lag_ms"],
            is_lag_least=(row.get("owed") or {}).get("time_lag_certainty") == "at_least",
            text=str(row.get("reason") or ""),
        )
    if row.get("owed"):
        yield owed_claim(f"{where}: owed", row["owed"], topic=topic, partition=partition)


def metric_claims(text: str, flow: str) -> Iterator[Claim]:
    """The series of one flow; each speaks of the moment that the age of the figures names."""
    now, found = now_ms(), []
    age_ms: float = 0
    for line in text.splitlines():
        if (parts := _METRIC.match(line)) is None:
            continue
        labels = dict(_LABEL.findall(parts[2]))
        if labels.get("flow") != flow:
            continue
        if parts[1] == "understudy_flow_source_seen_age_seconds":
            age_ms = float(parts[3]) * 1000
        elif parts[1].endswith("_offset_lag_records"):
            found.append((parts[1], labels, int(float(parts[3]))))
    for name, labels, records in found:
        number = labels.get("partition")
        yield Claim(
            statement=f"metric {name} {labels.get('topic', '')} {number or ''}".strip(),
            records=records,
            certainty="at_most",
            as_of=round(now - age_ms),
            topic=labels.get("topic"),
            partition=None if number is None else int(number),
        )


def sentence_claims(where: str, text: str, *, as_of: int | None = None) -> Iterator[Claim]:
    """Sentences that say how much is lost or owed. `as_of` is now, less the age that one says."""
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text):
        if "left behind" in sentence:
            # About one topic; what is left behind is in the total beside it.
            continue
        claim = _claim_of(where, sentence, as_of or now_ms())
        if claim is not None:
            yield claim


def headline_claims(text: str, alias: str) -> Iterator[Claim]:
    """What the overview says of one source: `If east or west fails now: no data loss (…).`"""
    found = _LOSS.match(text)
    if found is None or not re.search(rf"(?<![\w.-]){re.escape(alias)}(?![\w-])", found[1]):
        return
    said = found[2]
    as_of = now_ms() - age_of(said)
    if said.startswith("no data loss"):
        yield Claim(statement="overview", records=0, certainty="counted", as_of=as_of, text=text)
    elif said.startswith(("unknown data loss", "an unknown number")):
        yield Claim(statement="overview", records=None, certainty="unknown", as_of=as_of, text=text)
    elif (amount := _AMOUNT.search(said)) is not None:
        yield Claim(
            statement="overview",
            records=int(amount[2].replace(",", "")),
            certainty=_certainty(amount, said),
            as_of=as_of,
            text=text,
        )


def _certainty(amount: re.Match[str], text: str) -> Certainty:
    if re.search(r"and all that came since|unknown for", text):
        return "at_least"
    return _BOUNDS[(amount[1] or amount[3] or "").strip().lower()]


def _claim_of(where: str, sentence: str, as_of: int) -> Claim | None:
    amount = _AMOUNT.search(sentence)
    certainty: Certainty = "counted"
    records: int | None = 0
    if amount is not None:
        if _ABOUT.search(sentence) is None or _NOT_ABOUT.search(sentence) is not None:
            return None
        records = int(amount[2].replace(",", ""))
        certainty = _certainty(amount, sentence)
    elif _NOTHING.search(sentence) is None:
        if _UNKNOWN.search(sentence) is None or "loss" not in sentence:
            return None
        records, certainty = None, "unknown"
    elif "was last seen" in sentence:
        certainty = "at_least"
    return Claim(
        statement=where,
        records=records,
        certainty=certainty,
        # A lower bound is stated of now, whatever it was computed from.
        as_of=as_of if certainty == "at_least" else as_of - age_of(sentence),
        text=sentence.strip()[:300],
    )


def age_of(sentence: str) -> int:
    """`(checked 2 s ago)` in ms; 0 where no age is said."""
    found = _AGE.search(sentence)
    if found is None:
        return 0
    return sum(
        round(float(number.replace(",", "")) * _AGES[unit])
        for number, unit in ((found[1], found[2]), (found[3], found[4]))
        if number
    )


def text_of(page: str) -> str:
    """A piece of HTML as a person reads it."""
    plain = re.sub(r"<(script|style|form)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", plain)).split())


_FIGURE = r'<dt>{}</dt><dd[^>]*>\s*<span title="([^"]*)">([^<]*)</span>'
_BEHIND = re.compile(r"The flow is (at least )?(.+?) behind;")


def flow_page_claims(page: str, as_of: int) -> Iterator[Claim]:
    """The two figures at the head of the flow's page. `as_of`: when its source was observed."""
    amount = re.search(_FIGURE.format("Not replicated"), page)
    oldest = re.search(_FIGURE.format("RPO"), page)
    assert amount is not None, "the flow's page has no figure of what is behind"
    assert oldest is not None, "the flow's page has no age of the oldest record"
    said, shown = html.unescape(amount[1]), html.unescape(amount[2]).strip()
    number = shown.removeprefix("≥ ").replace(",", "")
    certainty: Certainty = "at_least" if shown.startswith("≥") else "at_most"
    exact = re.fullmatch(r"(at least )?([\d,]+) ms", html.unescape(oldest[1]))
    yield Claim(
        statement="the flow's page: behind",
        records=int(number) if number.isdigit() else None,
        certainty=certainty if number.isdigit() else "unknown",
        as_of=as_of,
        time_lag_ms=int(exact[2].replace(",", "")) if exact else None,
        is_lag_least=bool(exact and exact[1]),
        text=said,
    )


def readiness_claims(terms: Sequence[Mapping[str, Any]], as_of: int) -> Iterator[Claim]:
    """What lost points of readiness say of amounts and ages."""
    for term in terms:
        where = f"readiness, {term['title']}"
        yield from sentence_claims(where, term["sentence"])
        if (behind := _BEHIND.search(term["sentence"])) is not None:
            yield Claim(
                statement=where,
                records=None,
                certainty="unknown",
                as_of=as_of,
                time_lag_ms=age_of(f"{behind[2]} ago"),
                is_lag_least=bool(behind[1]),
                text=term["sentence"],
            )


def drain_claims(
    kind: str, step: Mapping[str, Any], partitions: Sequence[tuple[str, int]]
) -> Iterator[Claim]:
    """`Everything was replicated` speaks of each partition of the plan that it does not except."""
    said = step["reason"]
    if "Everything was replicated" not in said:
        return
    for topic, number in partitions:
        if f"{topic}-{number}:" not in said:
            yield Claim(
                statement=f"drain of a {kind}: {topic[:60]}-{number}",
                records=0,
                certainty="counted",
                as_of=moment(step["ended_at"]),
                topic=topic,
                partition=number,
                text=said[:200],
            )


def headline_of(page: str) -> tuple[str, str, list[str]]:
    """Of the overview: the tone, the headline, and the sentences below it."""
    start = page.index('aria-label="Summary"')
    part = page[start : page.index("</section>", start)]
    tone = re.search(r'data-state="(\w+)"', part)
    title = re.search(r"<h1>(.*?)</h1>", part, re.DOTALL)
    below = re.findall(r"<(?:p|li)>(.*?)</(?:p|li)>", part, re.DOTALL)
    return (
        tone[1] if tone else "",
        text_of(title[1]) if title else "",
        [text_of(one) for one in below],
    )
