"""Collects all claims of one moment, has them judged, and returns the findings."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any

from tests.judge.cluster import now_ms
from tests.judge.simulations import judge_groups
from tests.judge.statements import (
    flow_page_claims,
    headline_claims,
    headline_of,
    metric_claims,
    moment,
    readiness_claims,
    row_claims,
)
from tests.judge.verdicts import (
    Claim,
    Finding,
    judge_amount,
    judge_time_lag,
    judge_unknown,
)
from tests.judge.world import World

# So soon a flow in trouble says so, and its alert fires.
SAID_WITHIN_MS = 30_000
# So soon a sync task runs after its target responds again.
GROUPS_SYNCED_MS = 40_000
# So much later a record that the target refuses reaches it while a quota throttles the flow.
THROTTLED_MS = 60_000
# Terms of readiness of which one loses points then.
ABOUT_COPIES = {"copies", "topics", "gaps", "rights", "target"}
NOT_WELL = {"degraded", "failed", "backing_off"}


def rows(world: World, path: str) -> Iterator[dict[str, Any]]:
    number = 1
    while True:
        page = world.rest(f"{path}?page_size=500&page={number}")
        yield from page["results"]
        if not page["next"]:
            return
        number += 1


def metrics(world: World) -> str:
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{world.stage.url}/metrics?partitions=1",
        headers={"Authorization": f"Token {world.stage.facts['token']}"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
        return str(reply.read().decode())


def rest_claims(world: World, flow: dict[str, Any]) -> Iterator[Claim]:
    yield from row_claims("flow", flow)
    for row in rows(world, f"{world.path}topics/"):
        topic = row["topic"]
        yield from row_claims(f"topic {topic[:60]}", row, topic=topic)
    for row in rows(world, f"{world.path}partitions/"):
        topic, number = row["topic"], row["partition"]
        where = f"partition {topic[:60]}-{number}"
        yield from row_claims(where, row, topic=topic, partition=number)


def page_claims(world: World, sentences: Iterable[str]) -> Iterator[Claim]:
    """Of the overview's sentences those that are about this round's source."""
    for sentence in sentences:
        yield from headline_claims(sentence, world.source_alias)


class Check:
    """One comparison of everything with the ledger."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.findings: list[Finding] = []

    def run(self) -> list[Finding]:
        world = self.world
        self.flow = world.rest(world.path)
        claims = list(rest_claims(world, self.flow))
        claims += metric_claims(metrics(world), world.name)
        self.tone, self.title, below = headline_of(world.person.read("/"))
        claims += page_claims(world, below)
        seen_at = moment(self.flow["owed"]["as_of"])
        claims += flow_page_claims(world.person.read(f"/{world.path}"), seen_at)
        terms = world.rest(f"{world.path}readiness/")["terms"]
        claims += readiness_claims(terms, seen_at)
        self.lost = {term["name"] for term in terms if term["lost"]}
        self.is_calm = world.is_calm
        if not world.target_is_dead:
            world.look()
        for claim in claims:
            self._judge(claim)
        self._judge_unknown(claims)
        self._judge_hiding(claims)
        self._judge_silence()
        self._judge_quota()
        # A sync task that failed at a dead target runs again with backoff.
        has_synced = now_ms() - world.target_back_at > GROUPS_SYNCED_MS
        if self.is_calm and has_synced and self.flow["observed_state"] in {"running", "degraded"}:
            world.note_readers()
            self.findings += judge_groups(world, "as the flow synchronizes them")
        return self.findings

    def _judge(self, claim: Claim) -> None:
        ledger = self.world.ledger
        until = now_ms() if claim.certainty == "at_least" else claim.as_of
        truth = ledger.owed_until(claim.as_of, until, claim.topic, claim.partition)
        found = [judge_amount(claim, truth)]
        if claim.partition is None:
            oldest = ledger.oldest_owed(claim.as_of, claim.topic)
            found.append(judge_time_lag(claim, oldest))
        self.findings += [finding for finding in found if finding is not None]

    def _judge_unknown(self, claims: list[Claim]) -> None:
        if not self.is_calm or self.flow["observed_state"] not in {"running", "degraded"}:
            return
        young = now_ms() - 20_000
        excused = set(self.world.hidden)
        for topic, lives in self.world.ledger.topics.items():
            if lives[-1].changed_at > young or (lives[-1].deleted_at or 0) > young:
                excused.add(topic)
        # A sum is as unknown as its parts.
        found = judge_unknown([claim for claim in claims if claim.topic], excused)
        if found is not None:
            self.findings.append(found)
            why = {
                f"{row['topic'][:20]}: {row['owed']['certainty']}, as of {row['owed']['as_of']}"
                for row in self.world.rest(f"{self.world.path}topics/?page_size=50")["results"]
                if row.get("owed")
            }
            rows = self.world.rest(f"{self.world.path}partitions/?page_size=200")["results"]
            why |= {
                f"{row['topic'][:20]}-{row['partition']}: {row['owed']['certainty']}, as of "
                f"{row['owed']['as_of']}"
                for row in rows
                if row.get("owed")
            }
            state = (
                f"as of {self.flow['as_of']} {self.flow['observed_state']}: {self.flow['reason']}"
            )
            self.world.steps.append(f"unknown, the flow was {state}; now {now_ms()} {sorted(why)}")

    def _judge_hiding(self, claims: list[Claim]) -> None:
        """A sum is not unknown as a whole while a part of it is known."""
        world = self.world
        if world.source_is_dead or world.desired != "running":
            return
        if now_ms() - world.started_at < SAID_WITHIN_MS:
            # Nothing was counted before its first plan.
            return
        sums = [one for one in claims if one.topic is None and "owed" in one.statement]
        for claim in sums:
            known = world.known_owed(claim.as_of) if claim.certainty == "unknown" else ""
            if known:
                self._add("unknown_without_cause", claim.statement, "unknown", known)

    def _judge_silence(self) -> None:
        """What cannot cross without a person is said: by the state, the headline, an alert."""
        world = self.world
        if world.desired != "running" or world.source_is_dead:
            return
        late = now_ms() - SAID_WITHIN_MS - (THROTTLED_MS if world.quota else 0)
        stuck = [
            topic
            for topic, since in world.trouble.items()
            if max(since, world.started_at) < late and world.ledger.owed(now_ms(), topic).least
        ]
        # A paused flow was stopped by a person; its alerts begin when it is resumed.
        if world.target_is_dead and max(world.target_died_at, world.started_at) < late:
            stuck += [name for name in world.ledger.topics if world.ledger.owed(late, name).least]
        if not stuck:
            return
        named = ", ".join(topic[:40] for topic in stuck)
        if self.flow["observed_state"] not in NOT_WELL:
            said = f"{self.flow['observed_state']} ({self.flow['reason']})"
            self._add("silent", "state of the flow", said, f"{named} cannot cross")
        if self.tone == "good":
            self._add("silent", "headline", self.title, f"{named} cannot cross")
        if not self.lost & ABOUT_COPIES:
            self._add("silent", "readiness", "copies lose no point", f"{named} cannot cross")
        firing = world.rest("alerts/?state=firing&page_size=200")["results"]
        if not any(alert["flow"] == world.flow for alert in firing):
            self._add("silent", "alerts", "none fires for the flow", f"{named} cannot cross")

    def _judge_quota(self) -> None:
        """A flow in trouble while a quota throttles it says so, if nothing else is wrong."""
        world = self.world
        state, reason = self.flow["observed_state"], self.flow["reason"]
        if world.quota is None or world.trouble or state not in NOT_WELL:
            return
        if not world.is_calm or world.quota_set_at > now_ms() - SAID_WITHIN_MS:
            return
        if "quota" not in reason:
            self._add("silent", "state of the flow", f"{state} ({reason})", "a quota throttles it")

    def _add(self, kind: Any, statement: str, said: str, true: str) -> None:
        self.findings.append(Finding(kind=kind, statement=statement, said=said, true=true))
