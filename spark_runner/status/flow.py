"""The progress of one flow: its plan, live figures, source offsets and errors by partition.

No I/O here. The flow's thread applies updates; `job` builds the status from them.
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
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import FlowSettings, FlowSpec
from mirrors.domain.transforms.rules import drops_records
from mirrors.kafka.protocol.metadata import id_bytes
from spark_runner.ipc.messages import PartitionError, PartitionFigure
from spark_runner.planning.blocked_topics import BLOCKED, CANNOT_BE_CREATED, blocked_topics
from spark_runner.planning.plan import Plan
from spark_runner.planning.selected_topics import SelectedTopic
from spark_runner.slices.run import EpochReport
from spark_runner.slices.throughput import Amount
from spark_runner.status.foreign_records import RemoteKey, RemotePartition
from spark_runner.status.partition import REPLACED_LOG, PartitionProgress
from spark_runner.status.source_offsets import LogOffsets


class FlowProgress:
    """Progress of one flow. Used by the flow's thread only.

    - `rows`: the partitions of the plan, those that it stopped, and those that no plan has yet.
    - `copied`: records and bytes by partition since the job began, also of partitions that are no
      longer planned. `records`, `bytes` and `lanes` are those of the whole flow.
    - `unplanned`: topics that have partitions which no plan contains yet, by name.
    - `throttle_reason`: why it copies more slowly than it could: a limit, or too few slots.
    """

    def __init__(self, job: JobSpec, now: int, earlier: FlowProgress | None = None) -> None:
        """`earlier`: the progress of the same job before it planned again; its counts go on."""
        self.job = job
        self.started_at = now
        self.records = 0
        self.bytes = 0
        self.lanes: tuple[LaneFigure, ...] = ()
        self.copied: dict[TopicPartition, tuple[int, int]] = {}
        self.errors: dict[TopicPartition, PartitionError] = {}
        self.throttle_reason = ""
        self.plan: Plan | None = None
        self.rows: dict[TopicPartition, PartitionProgress] = {}
        self.remote_topics: dict[str, str] = {}
        self.remote_ids: dict[str, str] = {}
        self._blocked: tuple[str, ...] = ()
        # Partitions whose recreated topic was detected between plans.
        self._found_recreated: set[TopicPartition] = set()
        self.unplanned: dict[str, SelectedTopic] = {}
        self._unplanned_partitions: set[TopicPartition] = set()
        # The number of requests for headers so far.
        self._header_turn = 0
        # Whether records of a topic are counted.
        self._counted_topics: dict[str, bool] = {}
        if earlier is not None:
            self.started_at = earlier.started_at
            self.records, self.bytes = earlier.records, earlier.bytes
            self.lanes, self.copied = earlier.lanes, earlier.copied

    def apply_plan(self, plan: Plan) -> frozenset[TopicPartition]:
        """Apply a plan. Returns the partitions that only the previous plan had stopped."""
        recovered = self._recovered(plan)
        self.mark_unplanned({})
        self.remote_topics = {
            topic.topic: name
            for topic in plan.topics
            # Longer names are not valid in Kafka, so there is no such topic.
            if (name := topic.remote_topic or "") and len(name) <= LONGEST_NAME
        }
        self.remote_ids = {
            topic: work.remote_topic_id for (topic, _), work in plan.partitions.items()
        }
        for tp in plan.resumed:
            self.rows.pop(tp, None)
        for tp in plan.resumed | recovered | self._found_recreated:
            self.errors.pop(tp, None)
        self._found_recreated.clear()
        self.rows = {
            tp: self.rows.get(tp) or PartitionProgress(work.start)
            for tp, work in plan.partitions.items()
        } | {
            tp: self.rows.get(tp) or PartitionProgress(error.offset)
            for tp, error in plan.stopped.items()
        }
        for tp, error in plan.stopped.items():
            self._check_source_log(tp, error)
        self.errors = {tp: e for tp, e in self.errors.items() if tp in self.rows}
        self.errors |= plan.stopped
        # A topic that comes back counts from zero, as its row does.
        listed = {topic.topic for topic in plan.topics}
        self.copied = {tp: copied for tp, copied in self.copied.items() if tp[0] in listed}
        self.plan = plan
        self._blocked = blocked_topics(plan.topics, plan.stopped, self.job.target.alias)
        return recovered

    def mark_recreated(self, found: Mapping[TopicPartition, PartitionError]) -> None:
        """Record recreated topics that were detected between plans.

        Until the next plan, these partitions owe what the source holds now.
        """
        for tp, error in found.items():
            row, known = self.rows.get(tp), self.errors.get(tp)
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
            if (name, number) not in self.rows or (name, number) in self._unplanned_partitions
        }
        for tp in self._unplanned_partitions - found.keys():
            self.rows.pop(tp, None)
            self.errors.pop(tp, None)
        new = found.keys() - self._unplanned_partitions
        self.rows |= {tp: PartitionProgress(None) for tp in new}
        self._unplanned_partitions = set(found)
        self.unplanned = {name: topic for (name, _), topic in found.items()}
        return bool(new)

    def _recovered(self, plan: Plan) -> frozenset[TopicPartition]:
        """Partitions that only the previous plan had stopped. Later errors of a lane remain."""
        before = self.plan.stopped if self.plan else {}
        return frozenset(
            tp
            for tp, error in before.items()
            if tp in plan.partitions and self.errors.get(tp) is error
        )

    def _check_source_log(self, tp: TopicPartition, error: PartitionError) -> None:
        """Discard source offsets that were sampled from an earlier log of the partition."""
        known = self.errors.get(tp)
        row = self.rows[tp]
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
        self.records += growth.records
        self.bytes += growth.bytes
        if growth.lanes:
            self.lanes = sum_by_lane((*self.lanes, *growth.lanes))
        for tp, (records, size) in growth.partitions.items():
            known = self.copied.get(tp, (0, 0))
            self.copied[tp] = (known[0] + records, known[1] + size)

    def apply_figures(self, figures: Iterable[PartitionFigure], now: int) -> None:
        for figure in figures:
            row = self.rows.get((figure.topic, figure.partition))
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
            (tp, self.rows[tp].position)
            for tp, error in self.gaps().items()
            if tp in self.rows
            and (
                error.gap is None
                or error.gap.first is None
                or error.gap.position != self.rows[tp].position
            )
        }

    def apply_offsets(self, offsets: LogOffsets) -> None:
        for tp, row in self.rows.items():
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
            for tp, row in self.rows.items()
            if row.position is None
            or row.is_end_below_position
            or ((error := self.errors.get(tp)) is not None and _has_lost_log(error))
        ]

    @cached_property
    def _settings(self) -> FlowSettings:
        job = self.job
        spec = FlowSpec(source=job.source, target=job.target, properties=job.properties)
        return spec.settings

    def counts_records(self, topic: str) -> bool:
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
        wanted = ((self.rows[tp].header_turn, tp, at) for tp, at in self._next_headers())
        return {tp: at for _, tp, at in sorted(wanted)}

    def _next_headers(self) -> Iterator[tuple[TopicPartition, int]]:
        for tp, row in self.rows.items():
            if (
                row.is_header_due(self._header_turn)
                and (at := row.next_header(self.errors.get(tp))) is not None
                and (at == row.log_start or self.counts_records(tp[0]))
            ):
                yield tp, at

    def has_uncounted(self) -> bool:
        """Whether owed records wait to be counted, so that the next sample is due soon."""
        return any(at < (self.rows[tp].stable_end or 0) for tp, at in self._next_headers())

    def problems(self) -> tuple[str, ...]:
        """Why partitions are stopped and topics not replicated. Whole topics come first, in one
        sentence each."""
        hidden = self.plan.not_visible if self.plan else ""
        errors = (e.reason for e in self.errors.values() if e.code not in BLOCKED)
        below = (
            self._truncation_problem(tp, row)
            for tp, row in self.rows.items()
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
        return bool(self._blocked) or (self.plan is not None and bool(self.plan.not_visible))

    def positions(self) -> dict[TopicPartition, int]:
        return {p: row.position for p, row in self.rows.items() if row.position is not None}

    def remotes(
        self, reports: Mapping[TopicPartition, EpochReport]
    ) -> dict[RemoteKey, RemotePartition]:
        """For each partition that is copied now: the remote partitions and the position."""
        found: dict[RemoteKey, RemotePartition] = {}
        for tp, work in self.plan.partitions.items() if self.plan is not None else ():
            row = self.rows[tp]
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
            if (topic, number) in self.rows:
                self.rows[topic, number].add_foreign(row._replace(route=route) for row in stretches)

    def has_backlog(self) -> bool:
        """Whether the source holds records that are neither copied nor blocked by an error."""
        return any(
            row.stable_end is None or row.position != row.stable_end
            for tp, row in self.rows.items()
            if tp not in self.errors or row.stable_end is None
        )

    def end_reason(self, now: int) -> str:
        """Why a bounded run has ended: its window or its end offsets. Empty while it continues."""
        closes = self.job.ends_at
        if closes is not None and now >= closes:
            return f"Its window closed at {shown(closes)}."
        plan = self.plan
        if plan is None or not plan.until or self.errors:
            return ""
        for tp, work in plan.partitions.items():
            position = self.rows[tp].position
            if position is None or position < (work.stop or 0):
                return ""
        return f"Reached {plan.until}."

    @property
    def has_partitions(self) -> bool:
        return bool(self.rows)

    def partitions(self) -> list[TopicPartition]:
        return list(self.rows)


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
