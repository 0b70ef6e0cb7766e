"""Exact translation: for every upstream offset the same as a scan of the target."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import Translation
from tests.domain.cases import laws
from tests.domain.run_map import RunMap
from tests.domain.scanned import Copy, scan

MAP = RunMap([Run(10, 0, 5), Run(17, 5, 3), Run(20, 9, 1)])


def told(upstream: int, position: int = 25) -> tuple[int | None, str]:
    found = MAP.translate(upstream, position=position)
    return found.downstream, found.outcome


def test_a_copied_record_is_translated_exactly() -> None:
    assert [told(upstream) for upstream in (10, 14, 17, 19, 20)] == [
        (0, "exact"), (4, "exact"), (5, "exact"), (7, "exact"), (9, "exact"),
    ]  # fmt: skip


def test_a_record_that_was_never_copied_leads_to_the_next_one() -> None:
    assert told(3) == (0, "gap")
    assert told(15) == (5, "gap")
    assert told(22) == (10, "gap")


def test_at_the_position_a_group_has_read_all_and_beyond_it_is_ahead() -> None:
    assert told(25) == (10, "exact")
    assert told(26) == (10, "ahead")
    assert MAP.translate(28, position=25).reason == "the group is 3 offsets ahead of replication"


def test_without_a_map_the_answer_is_unknown() -> None:
    assert RunMap([]).translate(5, position=9).outcome == "unknown"
    assert MAP.translate(5, position=None).outcome == "unknown"


def test_nobody_is_led_past_what_another_copied_before_a_takeover() -> None:
    taken_over = RunMap([Run(1000, 800, 50)])
    answers = [taken_over.translate(at, position=1050) for at in (500, 999, 1000, 1050)]
    assert [answer.downstream for answer in answers] == [None, None, 800, 850]
    assert answers[0].outcome == "unknown"
    assert "replicated nothing before source offset 1000" in answers[0].reason


def test_after_a_restart_that_copied_twice_the_later_copy_counts() -> None:
    twice = RunMap([Run(0, 0, 10), Run(5, 10, 10)])
    answers = [twice.translate(upstream, position=15).downstream for upstream in (4, 5, 7, 14, 15)]
    assert answers == [4, 10, 12, 19, 20]


def copied(source: list[bool], stops: list[int], back: int) -> tuple[dict[int, int], int]:
    """What was written (downstream to upstream offsets), and the position.

    Copied in several goes, each beginning so far before the last one's end, ending in a marker.
    """
    written: dict[int, int] = {}
    position = downstream = 0
    for stop in stops:
        start, position = max(0, position - back), max(position - back, min(stop, len(source)))
        for upstream in range(start, position):
            if source[upstream]:
                written[downstream] = upstream
                downstream += 1
        downstream += 1
    return written, position


def runs_of(written: dict[int, int]) -> list[Run]:
    runs: list[Run] = []
    for downstream, upstream in written.items():
        last = runs[-1] if runs else Run(-9, -9, 0)
        if (last.upstream + last.length, last.downstream + last.length) == (upstream, downstream):
            runs[-1] = last._replace(length=last.length + 1)
        else:
            runs.append(Run(upstream, downstream, 1))
    return runs


def judge(answers: Sequence[Translation], copies: Sequence[Copy], position: int) -> None:
    """Answers for all offsets up to one beyond the position, as a scan says; and that is right."""
    expected = scan(copies, position)
    if not expected:
        assert {answer.outcome for answer in answers} == {"unknown"}
        return
    for upstream, (answer, wanted) in enumerate(zip(answers, expected, strict=True)):
        told = (answer.downstream, answer.outcome)
        assert told == ((None, "unknown") if wanted.head else wanted[:2]), (upstream, wanted)
        # What a group has not read lies behind the answer; and nothing else does, unless some of
        # it was copied twice, of which the later copy counts.
        behind = [copy.upstream for copy in copies if copy.downstream >= wanted.downstream]
        needed = {copy.upstream for copy in copies if upstream <= copy.upstream < position}
        assert needed <= set(behind)
        once = len({copy.upstream for copy in copies}) == len(copies)
        assert not once or needed == set(behind)


@laws
@given(
    source=st.lists(st.booleans(), max_size=25),
    stops=st.lists(st.integers(0, 25), max_size=4).map(sorted),
    back=st.sampled_from([0, 0, 2, 5]),
)
def test_every_offset_is_translated_as_a_scan_of_the_target_would(
    source: list[bool], stops: list[int], back: int
) -> None:
    written, position = copied(source, stops, back)
    found = RunMap(runs_of(written))
    answers = [found.translate(asked, position=position) for asked in range(position + 2)]
    judge(answers, [Copy(down, up) for down, up in written.items()], position)
