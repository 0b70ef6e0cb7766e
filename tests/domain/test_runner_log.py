"""The part of a runner's log that is shown: bounded, without secrets, of one flow on request."""

from __future__ import annotations

from mirrors.domain.runners.log import LONGEST_LINE, entries, last_lines, of_flow

HEAD = "2026-11-22 02:33:24,100 INFO spark_runner"
LOG = f"""{HEAD} [MainThread]: Ready: 256 slots
{HEAD} [MainThread]: Flow 3 (east->west): generation 1, running
{HEAD} [MainThread]: Flow 31 (east->lake): generation 1, running
2026-11-22 02:33:25,000 ERROR spark_runner.flow [calls-3]: Operation plan
Traceback (most recent call last):
ValueError: no
2026-11-22 02:33:26,000 WARNING spark_runner.spark [slice-0]: east->west slice 0 epoch 2: Gone.
2026-11-22 02:33:27,000 ERROR spark_runner.clerk [clerk-3]: Errand look
{HEAD} [slice-0]: far-east->west slice 0 epoch 2: Gone.
"""


def test_a_flow_finds_its_own_lines_with_the_stack_of_an_error_and_no_others() -> None:
    mine = of_flow(last_lines(LOG), flow=3, name="east->west")
    assert [line.rpartition("]: ")[2] for line in mine] == [
        "Flow 3 (east->west): generation 1, running",
        "Operation plan",
        "Traceback (most recent call last):",
        "ValueError: no",
        "east->west slice 0 epoch 2: Gone.",
        "Errand look",
    ]


def test_people_read_the_newest_first_and_a_stack_below_its_error() -> None:
    found = entries(["  cut", *last_lines(LOG)])
    assert (found[0].when, found[0].level) == ("2026-11-22 02:33:24", "info")
    error = [entry for entry in found if entry.level == "error"][-1]
    assert error.text.endswith("Operation plan\nTraceback (most recent call last):\nValueError: no")
    assert (found[-1].when, found[-1].text) == ("", "  cut")


def test_only_so_many_lines_of_such_a_length_are_kept() -> None:
    assert last_lines("a\n\nb\nc\n", most=2) == ["b", "c"]
    [long] = last_lines("x" * 5_000)
    assert len(long) == LONGEST_LINE
    assert long.endswith("…")


def test_what_looks_like_a_secret_is_hidden() -> None:
    [line] = last_lines(
        "sasl.password=hunter2 ssl.key.password: hunter3 token=hunter4 "
        "http://me:hunter5@host/ partition=3"
    )
    assert "hunter" not in line
    assert "sasl.password=[hidden]" in line
    assert "http://[hidden]@host/ partition=3" in line
