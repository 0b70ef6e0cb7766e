"""The progress of one flow: plan, live figures and source offsets, and the status built from them.

No I/O here. The flow's thread applies updates and writes the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from mirrors.domain.account.partition import REMOTE_MISSING
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.cron import shown
from mirrors.domain.flows.lanes import LaneFigure, sum_by_lane
from mirrors.domain.gaps.foreign_records import ForeignRange
from mirrors.domain.gaps.lost_ranges import GapFacts, skips_exactly
from mirrors.domain.patterns.renames import LONGEST_NAME
from mirrors.domain.runners.job_files import (
    JobSpec,
    JobState,
    JobStatus,
    PartitionStatus,
    SliceStatus,
    TopicStatus,
)
from mirrors.domain.specs import FlowSettings, FlowSpec
from mirrors.domain.transforms.rules import drops_records
from mirrors.kafka.protocol.metadata import id_bytes
from spark_runner.ipc.messages import PartitionError, PartitionFigure, PartitionWork
from spark_runner.planning.blocked_topics import BLOCKED, CANNOT_BE_CREATED, blocked_topics
from spark_runner.planning.plan import DELETED_ON_SOURCE, Plan
from spark_runner.planning.selected_topics import SelectedTopic
from spark_runner.slices.run import EpochReport
from spark_runner.slices.throughput import Amount
from spark_runner.status.foreign_records import RemoteKey, RemotePartition
from spark_runner.status.partition import (
    REPLACED_LOG,
    PartitionProgress,
    is_log_replaced,
    state_of,
)
from spark_runner.status.source_offsets import LogOffsets
from spark_runner.status.topics import topic_statuses


class FlowProgress:
    """Progress of one flow. Used by the flow's thread only."""

    def __init__(self, job: JobSpec, now: int, earlier: FlowProgress | None = None) -> None:
        """`earlier`: the progress of the same job before it planned again; its counts go on."""
        self.job = job
        self.started_at = now
        self._records = 0
        self._bytes = 0
        self._lanes: tuple[LaneFigure, ...] = ()
        # Records and bytes by partition since the job began, also of partitions no longer planned.
        self._copied: dict[TopicPartition, tuple[int, int]] = {}
        self.errors: dict[TopicPartition, PartitionError] = {}
        # Why the flow copies more slowly than it could: a limit, or too few slots.
        self.throttle_reason = ""
        self._plan: Plan | None = None
        self._rows: dict[TopicPartition, PartitionProgress] = {}
        self._remote_topics: dict[str, str] = {}
        self._remote_ids: dict[str, str] = {}
        self._blocked: tuple[str, ...] = ()
        # Partitions whose recreated topic was detected between plans.
        self._found_recreated: set[TopicPartition] = set()
        # Topics, by name, that have partitions which no plan contains yet, and these partitions.
        self._unplanned: dict[str, SelectedTopic] = {}
        self._unplanned_partitions: set[TopicPartition] = set()
        # The number of requests for headers so far.
        self._header_turn = 0
        # Whether records of a topic are counted.
        self._counted_topics: dict[str, bool] = {}
        if earlier is not None:
            self.started_at = earlier.started_at
            self._records, self._bytes = earlier._records, earlier._bytes
            self._lanes, self._copied = earlier._lanes, earlier._copied

    def apply_plan(self, plan: Plan) -> frozenset[TopicPartition]:
        """Apply a plan. Returns the partitions that only the previous plan had stopped."""
        recovered = self._recovered(plan)
        self.mark_unplanned({})
        self._remote_topics = {
            topic.topic: name
            for topic in plan.topics
            # Longer names are not valid in Kafka, so there is no such topic.
            if (name := topic.remote_topic or "") and len(name) <= LONGEST_NAME
        }
        self._remote_ids = {
            topic: work.remote_topic_id for (topic, _), work in plan.partitions.items()
        }
        for tp in plan.resumed:
            self._rows.pop(tp, None)
        for tp in plan.resumed | recovered | self._found_recreated:
            self.errors.pop(tp, None)
        self._found_recreated.clear()
        self._rows = {
            tp: self._rows.get(tp) or PartitionProgress(work.start)
            for tp, work in plan.partitions.items()
        } | {
            tp: self._rows.get(tp) or PartitionProgress(error.offset)
            for tp, error in plan.stopped.items()
        }
        for tp, error in plan.stopped.items():
            self._check_source_log(tp, error)
        self.errors = {tp: e for tp, e in self.errors.items() if tp in self._rows}
        self.errors |= plan.stopped
        # A topic that comes back counts from zero, as its row does.
        listed = {topic.topic for topic in plan.topics}
        self._copied = {tp: copied for tp, copied in self._copied.items() if tp[0] in listed}
        self._plan = plan
        self._blocked = blocked_topics(plan.topics, plan.stopped, self.job.target.alias)
        return recovered

    def mark_recreated(self, found: Mapping[TopicPartition, PartitionError]) -> None:
        """Record recreated topics that were detected between plans.

        Until the next plan, these partitions owe what the source holds now.
        """
        for tp, error in found.items():
            row, known = self._rows.get(tp), self.errors.get(tp)
            if row is None or row.position is None or (known is not None and known.gap is not None):
                continue
            gap = error.gap and dataclasses.replace(error.gap, position=row.position)
            error = dataclasses.replace(error, offset=row.position, gap=gap)
            self._check_source_log(tp, error)
            self.errors[tp] = error
            self._found_recreated.add(tp)

    def mark_unplanned(self, selected: Mapping[str, SelectedTopic]) -> bool:
        """Record selected topics and partitions that the plan lacks. Returns whether there are new.

        A paused flow makes no plan, and a plan can fail for long. Until the next plan, these
        partitions owe what the source holds. `selected`: empty if nothing differs from the plan.
        """
        found = {
            (name, number): topic
            for name, topic in selected.items()
            for number in range(topic.partitions)
            if (name, number) not in self._rows or (name, number) in self._unplanned_partitions
        }
        for tp in self._unplanned_partitions - found.keys():
            self._rows.pop(tp, None)
            self.errors.pop(tp, None)
        new = found.keys() - self._unplanned_partitions
        self._rows |= {tp: PartitionProgress(None) for tp in new}
        self._unplanned_partitions = set(found)
        self._unplanned = {name: topic for (name, _), topic in found.items()}
        return bool(new)

    def _recovered(self, plan: Plan) -> frozenset[TopicPartition]:
        """Partitions that only the previous plan had stopped. Later errors of a lane remain."""
        before = self._plan.stopped if self._plan else {}
        return frozenset(
            tp
            for tp, error in before.items()
            if tp in plan.partitions and self.errors.get(tp) is error
        )

    def _check_source_log(self, tp: TopicPartition, error: PartitionError) -> None:
        """Discard source offsets that were sampled from an earlier log of the partition."""
        known = self.errors.get(tp)
        row = self._rows[tp]
        if error.code == CANNOT_BE_CREATED:
            # Records copied into an earlier remote topic are not on the target.
            row.position = error.offset
        before = known.gap if known is not None else None
        gap = error.gap
        if gap is None or gap.kind not in REPLACED_LOG:
            return
        if before is None or (before.kind, before.now) != (gap.kind, gap.now):
            row.forget_source()

    def add_copied(self, growth: Amount) -> None:
        self._records += growth.records
        self._bytes += growth.bytes
        if growth.lanes:
            self._lanes = sum_by_lane((*self._lanes, *growth.lanes))
        for tp, (records, size) in growth.partitions.items():
            known = self._copied.get(tp, (0, 0))
            self._copied[tp] = (known[0] + records, known[1] + size)

    def apply_figures(self, figures: Iterable[PartitionFigure], now: int) -> None:
        for figure in figures:
            row = self._rows.get((figure.topic, figure.partition))
            if row is not None:
                row.apply_figure(figure, now)

    def add_errors(self, errors: Iterable[PartitionError]) -> None:
        """Add errors. An epoch repeats its errors when it ends: keep ranges that are already
        known."""
        for error in errors:
            tp = (error.topic, error.partition)
            if not _says_more(self.errors.get(tp), error):
                self.errors[tp] = error

    def gaps(self) -> dict[TopicPartition, PartitionError]:
        return {tp: error for tp, error in self.errors.items() if error.state == "gap"}

    def skipped_gaps(self) -> dict[TopicPartition, GapFacts]:
        """Gaps whose records a decision of an operator skips, by partition."""
        ways = {(d.topic, d.partition, d.facts.position): d for d in self.job.decisions}
        return {
            tp: gap
            for tp, error in self.errors.items()
            if (gap := error.gap) is not None
            and (decision := ways.get((*tp, gap.position))) is not None
            and skips_exactly(decision, gap)
        }

    def gaps_without_range(self) -> set[tuple[TopicPartition, int | None]]:
        """Gaps without offset ranges, or with a range from another position."""
        return {
            (tp, self._rows[tp].position)
            for tp, error in self.gaps().items()
            if tp in self._rows
            and (
                error.gap is None
                or error.gap.first is None
                or error.gap.position != self._rows[tp].position
            )
        }

    def apply_offsets(self, offsets: LogOffsets) -> None:
        for tp, row in self._rows.items():
            if (batches := offsets.headers.get(tp)) is not None:
                row.note_header_read(self._header_turn, is_empty=not batches)
            row.apply_sample(
                offsets.end.get(tp),
                offsets.stable.get(tp),
                offsets.as_of,
                first=offsets.first.get(tp),
                headers=offsets.headers.get(tp, ()),
                asked_at=offsets.positions.get(tp),
                is_stopped=tp in self.errors,
                is_log_known=_names_log(self.errors.get(tp)),
            )

    def partitions_without_start(self) -> list[TopicPartition]:
        """Partitions whose first owed offset is not given by a position."""
        return [
            tp
            for tp, row in self._rows.items()
            if row.position is None
            or row.is_end_below_position
            or ((error := self.errors.get(tp)) is not None and _has_lost_log(error))
        ]

    @cached_property
    def _settings(self) -> FlowSettings:
        job = self.job
        spec = FlowSpec(source=job.source, target=job.target, properties=job.properties)
        return spec.settings

    def _counts_records(self, topic: str) -> bool:
        """With `skip.replicated`, or a rule that drops some, the source holds records that are not
        owed."""
        known = self._counted_topics.get(topic)
        if known is None:
            settings = self._settings
            known = not settings.skip_replicated and not drops_records(topic, settings.transforms)
            self._counted_topics[topic] = known
        return known

    def header_requests(self) -> dict[TopicPartition, int]:
        """Offsets from which to read headers of owed records, least often asked first.

        Some of the partitions may hold nothing from there on.
        """
        self._header_turn += 1
        wanted = ((self._rows[tp].header_turn, tp, at) for tp, at in self._next_headers())
        return {tp: at for _, tp, at in sorted(wanted)}

    def _next_headers(self) -> Iterator[tuple[TopicPartition, int]]:
        for tp, row in self._rows.items():
            if (
                row.is_header_due(self._header_turn)
                and (at := row.next_header(self.errors.get(tp))) is not None
                and (at == row.log_start or self._counts_records(tp[0]))
            ):
                yield tp, at

    def has_uncounted(self) -> bool:
        """Whether owed records wait to be counted, so that the next sample is due soon."""
        return any(at < (self._rows[tp].stable_end or 0) for tp, at in self._next_headers())

    def problems(self) -> tuple[str, ...]:
        """Why partitions are stopped and topics not replicated. Whole topics come first, in one
        sentence each."""
        hidden = self._plan.not_visible if self._plan else ""
        errors = (e.reason for e in self.errors.values() if e.code not in BLOCKED)
        below = (
            self._truncation_problem(tp, row)
            for tp, row in self._rows.items()
            if row.is_end_below_position and tp not in self.errors
        )
        return (*((hidden,) if hidden else ()), *self._blocked, *errors, *below)

    def _truncation_problem(self, tp: TopicPartition, row: PartitionProgress) -> str:
        return (
            f"{tp[0]}-{tp[1]} on {self.job.source.alias} ends at {row.end}, below the "
            f"position {row.position}: the topic was truncated or recreated. Its content is being "
            "compared with what was copied."
        )

    @property
    def has_retryable_problems(self) -> bool:
        """Whether a problem may disappear without a decision, so that it is checked again later."""
        if any(error.state == "faulted" for error in self.errors.values()):
            return True
        return bool(self._blocked) or (self._plan is not None and bool(self._plan.not_visible))

    def positions(self) -> dict[TopicPartition, int]:
        return {p: row.position for p, row in self._rows.items() if row.position is not None}

    def remotes(
        self, reports: Mapping[TopicPartition, EpochReport]
    ) -> dict[RemoteKey, RemotePartition]:
        """For each partition that is copied now: the remote partitions and the position."""
        found: dict[RemoteKey, RemotePartition] = {}
        for tp, work in self._plan.partitions.items() if self._plan is not None else ():
            row = self._rows[tp]
            if tp not in reports or tp in self.errors or row.position is None:
                continue
            for name, topic_id in work.remote_topics.items():
                is_route = name != work.remote_topic
                found[*tp, name if is_route else ""] = RemotePartition(
                    name,
                    id_bytes(topic_id),
                    tp[1],
                    row.position,
                    # Of a route only its next record tells.
                    None if is_route else row.next_remote_offset,
                    *reports[tp],
                )
        return found

    def add_foreign_records(self, found: Mapping[RemoteKey, Iterable[ForeignRange]]) -> None:
        for (topic, number, route), stretches in found.items():
            if (topic, number) in self._rows:
                self._rows[topic, number].add_foreign(
                    row._replace(route=route) for row in stretches
                )

    def has_backlog(self) -> bool:
        """Whether the source holds records that are neither copied nor blocked by an error."""
        return any(
            row.stable_end is None or row.position != row.stable_end
            for tp, row in self._rows.items()
            if tp not in self.errors or row.stable_end is None
        )

    def end_reason(self, now: int) -> str:
        """Why a bounded run has ended: its window or its end offsets. Empty while it continues."""
        closes = self.job.ends_at
        if closes is not None and now >= closes:
            return f"Its window closed at {shown(closes)}."
        plan = self._plan
        if plan is None or not plan.until or self.errors:
            return ""
        for tp, work in plan.partitions.items():
            position = self._rows[tp].position
            if position is None or position < (work.stop or 0):
                return ""
        return f"Reached {plan.until}."

    @property
    def has_partitions(self) -> bool:
        return bool(self._rows)

    def partitions(self) -> list[TopicPartition]:
        return list(self._rows)

    def status(
        self,
        state: JobState,
        reason: str,
        slices: Iterable[SliceStatus],
        now: int,
    ) -> JobStatus:
        partitions = [self._partition(tp, row, state, now) for tp, row in self._rows.items()]
        partitions.sort(key=lambda row: (row.topic, row.partition))
        topics = tuple(
            topic_statuses(
                self._listed_topics(),
                partitions,
                copied=self._copied,
                left_out={tp: row.left_out for tp, row in self._rows.items() if row.left_out},
                describe_left_out=self._left_out,
            )
        )
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

    def _partition(
        self, tp: TopicPartition, row: PartitionProgress, state: JobState, now: int
    ) -> PartitionStatus:
        work = self._plan.partitions.get(tp) if self._plan else None
        error = self.errors.get(tp)
        time_lag = row.time_lag(now, error)
        shown = state_of(row, error, state, time_lag)
        held = self.throttle_reason if shown in ("lagging", "syncing") else ""
        held = held or self._left_out(row.left_out)
        records, size = self._copied.get(tp, (0, 0))
        return PartitionStatus(
            topic=tp[0],
            partition=tp[1],
            # A stopped partition has no work, but its copies exist.
            remote_topic=work.remote_topic if work else self._remote_topic(tp[0]),
            state=shown,
            reason=error.reason if error else held,
            position=row.position,
            source_end=row.end,
            source_stable_end=row.stable_end,
            time_lag_ms=time_lag,
            lane=row.lane,
            why=row.why,
            as_of=row.ends_as_of,
            gap=error.gap if error else None,
            remote_topic_id=work.remote_topic_id if work and row.foreign else "",
            strangers=tuple(row.foreign),
            route_ids=_route_ids(work, row),
            repeats=row.repeats,
            dead_letters=row.dead_letters,
            counted=row.counted(error) if self._counts_records(tp[0]) else None,
            code=error.code if error else "",
            source_first=row.log_start,
            source_end_below_position=is_log_replaced(row, error),
            records=records,
            bytes=size,
            latency=row.latency.read(now),
        )

    def _remote_topic(self, topic: str) -> str:
        unplanned = self._unplanned.get(topic)
        return self._remote_topics.get(topic) or (unplanned.remote_topic if unplanned else "")

    def _deleted(self, now: int) -> list[PartitionStatus]:
        """Partitions that were copied and that no longer exist on the source."""
        return [
            PartitionStatus(
                topic=tp[0],
                partition=tp[1],
                remote_topic=self._remote_topics.get(tp[0], ""),
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
            for tp, reason in (self._plan.deleted.items() if self._plan else ())
        ]

    def _left_out(self, count: int) -> str:
        if not count:
            return ""
        return (
            f"{count} records were left out since the start: other flows wrote them on "
            f"{self.job.source.alias} (skip.replicated)."
        )

    def _listed_topics(self) -> Iterable[TopicStatus]:
        """The topics of the plan, and those that the source has got since."""
        planned = self._plan.topics if self._plan else ()
        for topic in planned:
            unplanned = self._unplanned.get(topic.topic)
            count = unplanned.partitions if unplanned else topic.partitions
            remote_id = self._remote_ids.get(topic.topic, "")
            yield dataclasses.replace(topic, partitions=count, remote_topic_id=remote_id)
        for name in self._unplanned.keys() - {topic.topic for topic in planned}:
            selected = self._unplanned[name]
            yield TopicStatus(
                topic=name,
                remote_topic=selected.remote_topic,
                state="pending",
                reason="Not planned yet.",
                partitions=selected.partitions,
            )


def _route_ids(work: PartitionWork | None, row: PartitionProgress) -> dict[str, str]:
    """The ids of the routes that have foreign records."""
    topics = work.remote_topics if work else {}
    routes = {stretch.route for stretch in row.foreign} - {""}
    return {route: topics[route] for route in sorted(routes & topics.keys())}


def _says_more(known: PartitionError | None, said: PartitionError) -> bool:
    """Whether the planner has already found the range of this gap."""
    if known is None or known.gap is None or known.gap.first is None:
        return False
    if (said.state, said.offset) == (known.state, known.gap.position):
        return True
    # A task sees that the remote topic is missing, but not what the source still holds.
    return known.state == "gap" and said.code == known.code and said.gap is None


def _has_lost_log(error: PartitionError) -> bool:
    """Whether the source or the target may have lost the log that was copied."""
    return error.state == "gap" or error.code == REMOTE_MISSING


def _names_log(error: PartitionError | None) -> bool:
    """Whether it is known that the source holds another log, and which one."""
    gap = error.gap if error is not None else None
    return gap is not None and gap.kind in REPLACED_LOG
