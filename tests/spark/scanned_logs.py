"""Both logs read by an independent client, and what the map must return for each offset."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, is_skipped_generation, runs_topic
from tests.domain.run_map import RunMap
from tests.domain.scanned import Copy, counted, scan
from tests.spark.lab import Flow
from tests.spark.nasty_source import NUMBER, AdverseProducer
from tests.spark.reading import messages

# Downstream offset and outcome, for each upstream offset up to one beyond the position.
Answers = Sequence[tuple[int | None, str]]


@dataclasses.dataclass
class Scan:
    """One source partition and its remote one, when all is copied. Offsets are upstream ones.

    `committed`: the key of every record there ever was; `held`: those that the source holds now.
    `thinned`: the target compacts as well, so that not all that was copied is among `copies`.
    `deaths`: how often a copier may have left records behind that nobody committed; 0: never.
    """

    tp: TopicPartition
    position: int
    committed: dict[int, bytes]
    held: set[int]
    copies: list[Copy]
    thinned: bool
    deaths: int

    def wrong_copies(self, may_lack: set[int]) -> list[str]:
        """`may_lack`: what compaction or a deletion may have taken before it was copied."""
        found, upstream = [], [copy.upstream for copy in self.copies]
        if unexpected := set(upstream) - self.committed.keys():
            found.append(f"{self.tp}: aborted or foreign ones were copied: {unexpected}")
        if not self.deaths and any(a >= b for a, b in itertools.pairwise(upstream)):
            found.append(f"{self.tp}: repeated or out of order: {upstream}")
        lost = self.committed.keys() - set(upstream) - (may_lack - self.held)
        if lost and not self.thinned:
            found.append(f"{self.tp}: not copied: {sorted(lost)}")
        return found

    def wrong_answers(self, answers: Answers) -> list[str]:
        expected = scan(self.copies, self.position)
        if not expected:
            return [f"{self.tp}: {answers[0]}"] if set(answers) != {(None, "unknown")} else []
        kept = counted(self.copies)
        below, above = [copy.downstream for copy in kept], [copy.upstream for copy in kept]
        found, passed = [], set[int]()
        for upstream, (told, wanted) in enumerate(zip(answers, expected, strict=True)):
            first = bisect.bisect_left(above, upstream)
            if told[0] is None:
                is_right = wanted.outcome != "ahead" and self._is_head(kept, first, upstream)
            elif not self.thinned and told == wanted[:2]:
                is_right = not wanted.head
            else:
                here = bisect.bisect_left(below, told[0])
                over = kept[first:here]
                passed |= {copy.downstream for copy in over}
                # The record that it names may be gone from a target that compacts; no other reason
                # is there to begin before the first one that counts.
                is_right = here >= first and all(map(self._is_orphan, over))
                is_right = is_right and (self.thinned or bool(over))
            if not is_right:
                found.append(f"{self.tp}: {upstream} is {told}, by a scan {wanted}")
        stretches = sum(at - 1 not in passed for at in passed)
        if stretches > self.deaths:
            found.append(f"{self.tp}: passed over in {stretches} stretches: {sorted(passed)}")
        return found

    def _is_head(self, kept: Sequence[Copy], first: int, upstream: int) -> bool:
        """Whether nothing that was committed lies before this offset, but something else does."""
        if first == len(kept) or not all(map(self._is_orphan, kept[:first])):
            return False
        here = kept[first]
        return self._is_orphan(here) or (here.upstream > upstream and here.downstream > 0)

    def _is_orphan(self, copy: Copy) -> bool:
        """Whether a copier that died may have left it, and its successor not found it any more:
        compaction took it, as its key had come again. No group needs it then."""
        key = self.committed.get(copy.upstream)
        return (
            self.deaths > 0
            and copy.upstream not in self.held
            and any(at > copy.upstream and key == later for at, later in self.committed.items())
        )

    def figures(self) -> Counter[str]:
        copied = {copy.upstream for copy in self.copies}
        return Counter(
            {
                "offsets": self.position,
                "copies": len(self.copies),
                "aborted or marker": self.position - len(self.committed),
                "gone before they were copied": len(self.committed.keys() - copied),
                "gone after they were copied": len(copied - self.held),
                "copied twice": len(self.copies) - len(copied),
            }
        )


def scans(
    flow: Flow,
    written: AdverseProducer,
    ends: Mapping[TopicPartition, int],
    thinned: set[str],
    deaths: int,
) -> list[Scan]:
    lab, found = flow.lab, []
    for topic in written.topics:
        held = _numbers(lab.source, topic)
        for partition, copies in _numbers(lab.target, flow.remote(topic)).items():
            tp = (topic, partition)
            lay = written.offsets[tp]
            assert held[partition].items() <= lay.items(), "the source is as it was acknowledged"
            at = {number: offset for offset, number in lay.items()}
            found.append(
                Scan(
                    tp=tp,
                    position=ends[tp],
                    committed={
                        at: written.keys[number]
                        for at, number in sorted(lay.items())
                        if number not in written.aborted
                    },
                    held=set(held[partition]),
                    # A number that was never written here would lie at -1.
                    copies=[Copy(there, at.get(n, -1)) for there, n in sorted(copies.items())],
                    thinned=topic in thinned,
                    deaths=deaths,
                )
            )
    return found


def library_answers(
    flow: Flow, ends: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, Answers], int]:
    """From the topic of runs alone, for each partition; and how many runs there are."""
    blocks: dict[bytes, tuple[int, bytes]] = {}
    for _, row in messages(flow.lab.target, runs_topic(flow.source_alias)):
        key, value = (None, None) if row is None else (row.key(), row.value())
        if row is not None and isinstance(key, bytes) and isinstance(value, bytes):
            blocks[key] = (row.offset() or 0, value)
    keys = {key: BlockKey.from_bytes(key) for key in blocks}
    answers: dict[TopicPartition, Answers] = {}
    runs = 0
    for tp, end in ends.items():
        mine = [key for key, row in keys.items() if (row.topic, row.partition) == tp]
        mine = [key for key in mine if not is_skipped_generation(keys[key].generation)]
        assert len({keys[key].generation for key in mine}) <= 1, "nothing was begun again"
        rows = [run for _, body in sorted(blocks[key] for key in mine) for run in read_block(body)]
        runs += len(rows)
        known = RunMap(rows)
        found = [known.translate(at, position=end) for at in range(end + 2)]
        answers[tp] = [(answer.downstream, answer.outcome) for answer in found]
    return answers, runs


def _numbers(bootstrap: str, topic: str) -> dict[int, dict[int, int]]:
    """By partition and offset the number of each record that a reader of committed ones gets."""
    found: dict[int, dict[int, int]] = {}
    for partition, row in messages(bootstrap, topic):
        rows = found.setdefault(partition, {})
        if row is not None:
            headers = dict(row.headers() or ())
            rows[row.offset() or 0] = int(headers[NUMBER] or b"")
    return found
