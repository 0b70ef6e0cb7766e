"""Status files: what the driver knows of a flow, folded from plan, figures and ends.

Nothing here talks to anybody; the flow's thread feeds it and writes the file.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

from mirrors.domain.cron import shown
from mirrors.domain.flows.lanes import LaneFigure, summed
from mirrors.domain.gaps.foreign_records import Stretch
from mirrors.domain.gaps.lost_ranges import GapFacts, passes_by
from mirrors.domain.runners.job_files import (
    JobSpec,
    JobState,
    JobStatus,
    PartitionStatus,
    SliceStatus,
    TopicState,
    TopicStatus,
)
from mirrors.domain.topics.plan import LONGEST_NAME
from spark_runner.ipc.messages import PartitionError, PartitionFigure
from spark_runner.kafka_protocol.metadata import id_bytes
from spark_runner.planning.blocked_topics import BLOCKED, CANNOT_BE_CREATED, blocked_topics
from spark_runner.planning.plan import DELETED_ON_SOURCE, Plan
from spark_runner.positions.topic import Place
from spark_runner.slices.run import Report
from spark_runner.slices.throughput import Amount
from spark_runner.status.foreign_records import RemotePartition
from spark_runner.status.partition import FIRST_TRIES, OTHER_LOG, Row, is_another_log, state_of
from spark_runner.status.source_offsets import Ends
from spark_runner.status.time_lag import MOST_FIRST_RECORDS


class Board:
    """One flow's state of affairs; used by the flow's thread only."""

    def __init__(self, job: JobSpec, now: int) -> None:
        self.job = job
        self.started_at = now
        self._records = 0
        self._bytes = 0
        self._lanes: tuple[LaneFigure, ...] = ()
        self.errors: dict[Place, PartitionError] = {}
        # What makes the flow slower than it might be: a limit, or too few slots.
        self.held_back = ""
        self._plan: Plan | None = None
        self._rows: dict[Place, Row] = {}
        self._remote_topics: dict[str, str] = {}
        self._blocked: tuple[str, ...] = ()
        # Partitions that a look alone has found recreated.
        self._looked: set[Place] = set()

    def planned(self, plan: Plan) -> frozenset[Place]:
        """Take a plan up; the partitions that it stops no longer, though the plan before did."""
        healed = self._healed(plan)
        self._remote_topics = {
            topic.topic: name
            for topic in plan.topics
            # A name that Kafka does not allow is no topic.
            if (name := topic.remote_topic or "") and len(name) <= LONGEST_NAME
        }
        for place in plan.resumed:
            self._rows.pop(place, None)
        for place in plan.resumed | healed | self._looked:
            self.errors.pop(place, None)
        self._looked.clear()
        self._rows = {
            place: self._rows.get(place) or Row(work.start)
            for place, work in plan.partitions.items()
        } | {
            place: self._rows.get(place) or Row(error.offset)
            for place, error in plan.stopped.items()
        }
        for place, error in plan.stopped.items():
            self._judge_source(place, error)
        self.errors = {place: e for place, e in self.errors.items() if place in self._rows}
        self.errors |= plan.stopped
        self._plan = plan
        self._blocked = blocked_topics(plan.topics, plan.stopped, self.job.target.alias)
        return healed

    def found_recreated(self, found: Mapping[Place, PartitionError]) -> None:
        """Partitions of topics that were created again, found by a look: until a plan says so too,
        they owe what the source holds now."""
        for place, error in found.items():
            row, known = self._rows.get(place), self.errors.get(place)
            if row is None or row.position is None or (known is not None and known.gap is not None):
                continue
            gap = error.gap and dataclasses.replace(error.gap, position=row.position)
            error = dataclasses.replace(error, offset=row.position, gap=gap)
            self._judge_source(place, error)
            self.errors[place] = error
            self._looked.add(place)

    def _healed(self, plan: Plan) -> frozenset[Place]:
        """What only the plan before had stopped; a word of a lane since then stays."""
        before = self._plan.stopped if self._plan else {}
        return frozenset(
            place
            for place, error in before.items()
            if place in plan.partitions and self.errors.get(place) is error
        )

    def _judge_source(self, place: Place, error: PartitionError) -> None:
        """What was sampled of an earlier log of the source says nothing of the one there now."""
        known = self.errors.get(place)
        row = self._rows[place]
        if error.code == CANNOT_BE_CREATED:
            # Whatever was copied into an earlier remote topic is not on the target.
            row.position = error.offset
        before = known.gap if known is not None else None
        gap = error.gap
        if gap is not None and gap.kind in OTHER_LOG and (not before or before.kind != gap.kind):
            row.forget_source()

    def copied(self, growth: Amount) -> None:
        self._records += growth.records
        self._bytes += growth.bytes
        if growth.lanes:
            self._lanes = summed((*self._lanes, *growth.lanes))

    def moved(self, figures: Iterable[PartitionFigure], now: int) -> None:
        for figure in figures:
            row = self._rows.get((figure.topic, figure.partition))
            if row is not None:
                row.moved(figure, now)

    def failed(self, errors: Iterable[PartitionError]) -> None:
        """An epoch says at its end once more what has stopped: that takes no numbers away."""
        for error in errors:
            place = (error.topic, error.partition)
            if not _is_numbered(self.errors.get(place), error):
                self.errors[place] = error

    def gaps(self) -> dict[Place, PartitionError]:
        return {place: error for place, error in self.errors.items() if error.state == "gap"}

    def passed(self) -> dict[Place, GapFacts]:
        """What is in the way of a partition, where a person has decided to pass exactly that by."""
        ways = {(d.topic, d.partition, d.facts.position): d for d in self.job.decisions}
        return {
            place: gap
            for place, error in self.errors.items()
            if (gap := error.gap) is not None
            and (decision := ways.get((*place, gap.position))) is not None
            and passes_by(decision, gap)
        }

    def unnumbered(self) -> set[tuple[Place, int | None]]:
        """Gaps of which only the lane has spoken, or not from where the partition stands now."""
        return {
            (place, self._rows[place].position)
            for place, error in self.gaps().items()
            if place in self._rows
            and (
                error.gap is None
                or error.gap.first is None
                or error.gap.position != self._rows[place].position
            )
        }

    def reaches(self, ends: Ends) -> None:
        for place, row in self._rows.items():
            row.reaches(
                ends.end.get(place),
                ends.stable.get(place),
                ends.as_of,
                first=ends.first.get(place),
                records=ends.records.get(place),
                asked_at=ends.positions.get(place),
                is_stopped=place in self.errors,
            )

    def without_start(self) -> list[Place]:
        """Partitions of which no position says where the records begin that are owed."""
        return [
            place
            for place, row in self._rows.items()
            if row.position is None
            or row.is_below
            or ((error := self.errors.get(place)) is not None and error.state == "gap")
        ]

    def undated(self) -> dict[Place, int]:
        """Log starts that are owed, where it is not known how old the record there is.

        Each is asked for a few times: there may be no record, or no right to read it.
        """
        found: dict[Place, int] = {}
        for place in self.without_start():
            row = self._rows[place]
            if row.first is None or row.first_at is not None or (row.end or 0) <= row.first:
                continue
            if row.first_tries < FIRST_TRIES and len(found) < MOST_FIRST_RECORDS:
                row.first_tries += 1
                found[place] = row.first
        return found

    def troubles(self) -> tuple[str, ...]:
        """Why partitions are stopped and topics not replicated: what concerns whole topics first,
        in one sentence each."""
        hidden = self._plan.not_visible if self._plan else ""
        errors = (e.reason for e in self.errors.values() if e.code not in BLOCKED)
        below = (
            self._below(place, row)
            for place, row in self._rows.items()
            if row.is_below and place not in self.errors
        )
        return (*((hidden,) if hidden else ()), *self._blocked, *errors, *below)

    def _below(self, place: Place, row: Row) -> str:
        return (
            f"{place[0]}-{place[1]} on {self.job.source.alias} ends at {row.end}, below the "
            f"position {row.position}: the topic was truncated or recreated. What it holds now is "
            "compared with what was copied."
        )

    @property
    def is_retried(self) -> bool:
        """Whether something is stopped that may heal without a decision: the cause is looked at
        again after a while."""
        if any(error.state == "faulted" for error in self.errors.values()):
            return True
        return bool(self._blocked) or (self._plan is not None and bool(self._plan.not_visible))

    def positions(self) -> dict[Place, int]:
        return {p: row.position for p, row in self._rows.items() if row.position is not None}

    def remotes(self, reports: Mapping[Place, Report]) -> dict[Place, RemotePartition]:
        """Of what is copied now, where it is copied to, and from which position on."""
        if self._plan is None:
            return {}
        return {
            place: RemotePartition(
                work.remote_topic,
                id_bytes(work.remote_topic_id),
                place[1],
                row.position,
                row.there,
                *reports[place],
            )
            for place, work in self._plan.partitions.items()
            if place in reports
            and place not in self.errors
            and (row := self._rows[place]).position is not None
        }

    def meet_foreign(self, found: Mapping[Place, Iterable[Stretch]]) -> None:
        for place, stretches in found.items():
            if place in self._rows:
                self._rows[place].meet(stretches)

    def is_moving(self) -> bool:
        """Whether the source holds something that was not copied when it was last asked, and that
        is not waiting for anything."""
        return any(
            row.stable is None or row.position != row.stable
            for place, row in self._rows.items()
            if place not in self.errors or row.stable is None
        )

    def ended(self, now: int) -> str:
        """What ended the run by itself, in words: its window or its end. Empty while it goes on."""
        closes = self.job.ends_at
        if closes is not None and now >= closes:
            return f"Its window closed at {shown(closes)}."
        plan = self._plan
        if plan is None or not plan.until or self.errors:
            return ""
        for place, work in plan.partitions.items():
            position = self._rows[place].position
            if position is None or position < (work.stop or 0):
                return ""
        return f"Reached {plan.until}."

    @property
    def has_partitions(self) -> bool:
        return bool(self._rows)

    def places(self) -> list[Place]:
        return list(self._rows)

    def status(
        self,
        state: JobState,
        reason: str,
        slices: Iterable[SliceStatus],
        now: int,
    ) -> JobStatus:
        partitions = [self._partition(place, row, state, now) for place, row in self._rows.items()]
        partitions.sort(key=lambda row: (row.topic, row.partition))
        topics = tuple(self._topics(partitions))
        partitions += self._deleted(now)
        return JobStatus(
            job=self.job.job,
            flow=self.job.flow,
            generation=self.job.generation,
            state=state,
            reason=reason,
            started_at=self.started_at,
            as_of=now,
            records=self._records,
            bytes=self._bytes,
            lanes=self._lanes,
            warnings=self._plan.warnings if self._plan else (),
            is_planned=self._plan is not None,
            not_visible=self._plan.not_visible if self._plan else "",
            topics=topics,
            partitions=tuple(partitions),
            slices=tuple(slices),
        )

    def _partition(self, place: Place, row: Row, state: JobState, now: int) -> PartitionStatus:
        work = self._plan.partitions.get(place) if self._plan else None
        error = self.errors.get(place)
        time_lag = row.time_lag(now, error)
        shown = state_of(row, error, state, time_lag)
        held = self.held_back if shown in ("lagging", "syncing") else ""
        held = held or self._left_out(row.left_out)
        return PartitionStatus(
            topic=place[0],
            partition=place[1],
            # What has stopped has no work; its copies are there all the same.
            remote_topic=work.remote_topic if work else self._remote_topics.get(place[0], ""),
            state=shown,
            reason=error.reason if error else held,
            position=row.position,
            source_end=row.end,
            source_stable_end=row.stable,
            time_lag_ms=time_lag,
            lane=row.lane,
            why=row.why,
            as_of=row.ends_as_of,
            gap=error.gap if error else None,
            remote_topic_id=work.remote_topic_id if work and row.strangers else "",
            strangers=tuple(row.strangers),
            repeats=row.repeats,
            is_dense=row.is_dense(error),
            code=error.code if error else "",
            source_first=row.first,
            source_end_below_position=is_another_log(row, error),
        )

    def _deleted(self, now: int) -> list[PartitionStatus]:
        """Partitions that were copied and that their topic on the source no longer has."""
        return [
            PartitionStatus(
                topic=place[0],
                partition=place[1],
                remote_topic=self._remote_topics.get(place[0], ""),
                state="skipped",
                reason=reason,
                position=None,
                source_end=None,
                source_stable_end=None,
                time_lag_ms=None,
                lane="",
                as_of=now,
                code=DELETED_ON_SOURCE,
            )
            for place, reason in (self._plan.deleted.items() if self._plan else ())
        ]

    def _left_out(self, count: int) -> str:
        if not count:
            return ""
        return (
            f"{count} records were left out since the start: other flows wrote them on "
            f"{self.job.source.alias} (skip.replicated)."
        )

    def _topics(self, partitions: list[PartitionStatus]) -> Iterable[TopicStatus]:
        worst: dict[str, PartitionStatus] = {}
        codes: dict[str, str] = {}
        left_out: Counter[str] = Counter()
        for (name, _), place in self._rows.items():
            left_out[name] += place.left_out
        for row in partitions:
            if row.code in BLOCKED:
                codes[row.topic] = row.code
            known = worst.get(row.topic)
            if known is None or _RANK[row.state] > _RANK[known.state]:
                worst[row.topic] = row
        for topic in self._plan.topics if self._plan else ():
            found = worst.get(topic.topic)
            if found is None:
                yield topic
                continue
            yield TopicStatus(
                topic=topic.topic,
                remote_topic=topic.remote_topic,
                state=found.state,
                reason=self._left_out(left_out[topic.topic]) or found.reason or topic.reason
                if found.state in _WELL
                else found.reason or topic.reason,
                partitions=topic.partitions,
                code=topic.code or codes.get(topic.topic, ""),
                source_topic_id=topic.source_topic_id,
            )


_WELL = ("in_sync", "syncing", "paused")
_RANK: dict[TopicState, int] = {
    "skipped": 0,
    "in_sync": 1,
    "paused": 2,
    "syncing": 3,
    "lagging": 4,
    "pending": 5,
    "faulted": 6,
    "gap": 7,
}


def _is_numbered(known: PartitionError | None, said: PartitionError) -> bool:
    """Whether the planner has found the numbers of the very gap that is told again."""
    if known is None or known.gap is None or known.gap.first is None:
        return False
    return (said.state, said.offset) == (known.state, known.gap.position)
