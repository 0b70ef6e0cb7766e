"""Flows whose rules call user code: exactly once, and stopped by errors and by another file."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from mirrors.domain.transforms.evaluation import RecordParts
from mirrors.domain.transforms.headers import ERROR_REASON
from mirrors.domain.transforms.modules import Module, digest_of
from mirrors.domain.transforms.rules import TransformRule
from mirrors.services.comparison import lifecycle
from tests.spark.lab import Lab, partition_row, position, wait_for
from tests.spark.test_commands import load
from tests.spark.test_comparison import advance, row_of
from tests.spark.test_crashes import in_load
from tests.spark.test_rule_previews import ask
from tests.spark.test_rules import KILLS, rules
from tests.spark.test_user_code_in_spark import RULE, TEXTS

SHOUT = TransformRule(topics=".*", value="texts.shout(value, '!')", modules=(TEXTS,))
NAP = TransformRule(
    topics=".*",
    value="cast(cast(texts.nap(value) as string) as binary)",
    on_error="dead_letter",
    modules=(TEXTS,),
)


def rows(*values: str) -> list[dict[str, object]]:
    return [{"key": b"k", "value": value.encode()} for value in values]


def children(lab: Lab) -> set[int]:
    """The processes of user code of this runner."""
    found = set()
    for one in psutil.Process(lab.process.pid).children(recursive=True):
        # It may end meanwhile.
        with contextlib.suppress(psutil.Error):
            if "spark_runner.sql.user_functions" in one.cmdline():
                found.add(one.pid)
    return found


def test_user_code_filters_and_changes_records_and_other_topics_are_copied(lab: Lab) -> None:
    flow = lab.flow(**rules(RULE))
    topic, other = lab.create(flow.topic("t"), 2), lab.create(flow.topic("other"), 1)
    for partition in range(2):
        lab.write(topic, rows(*(f"v{n}" if n % 3 else f"drop{n}" for n in range(700))), partition)
    lab.write(other, rows("a", "b"))
    flow.start()
    flow.wait_in_sync(topic, other, seconds=120)
    for partition, records in lab.read(flow.remote(topic), target=True).items():
        kept = [f"v{n}" for n in range(700) if n % 3]
        expected = [(f"k{len(v)}".encode(), f"{v.upper()}{partition}".encode()) for v in kept]
        assert [row[:2] for row in records] == expected
    assert lab.read(flow.remote(other), target=True) == lab.read(other)
    flow.stop()


def test_killed_processes_and_workers_lose_and_repeat_nothing(lab: Lab) -> None:
    flow = lab.flow(tasks_max="1", **rules(SHOUT))
    topic = lab.create(flow.topic("w"), 4)
    flow.start().wait_state("running", seconds=120)
    with load(lab, topic, 4):
        for number in range(2 * KILLS):
            in_load(lab, flow, topic)
            if number % 2:
                status = flow.wait(lambda s: any(row.pid for row in s.slices))
                victim = next(row.pid for row in status.slices if row.pid)
                os.kill(victim, signal.SIGKILL)
                flow.wait(
                    lambda s, dead=victim: all(row.pid != dead for row in s.slices), seconds=120
                )
            else:
                [victim] = wait_for(lambda: children(lab), seconds=60, what="user code")
                os.kill(victim, signal.SIGKILL)
                wait_for(
                    lambda dead=victim: children(lab) - {dead}, seconds=60, what="a new process"
                )
        in_load(lab, flow, topic)
    flow.wait_in_sync(topic, seconds=120)
    source = lab.read(topic)
    for partition, copies in lab.read(flow.remote(topic), target=True).items():
        expected = [(value or b"").upper() + b"!" for _, value, *_ in source[partition]]
        assert [row[1] for row in copies] == expected
    flow.stop()
    wait_for(lambda: not children(lab), seconds=30, what="the end of user code")


@pytest.mark.parametrize("action", ["stop", "dead_letter"])
def test_a_record_for_which_user_code_fails_is_a_record_error(lab: Lab, action: Any) -> None:
    rule = TransformRule(
        topics=".*", value="texts.shout(value, '')", on_error=action, modules=(TEXTS,)
    )
    flow = lab.flow(**rules(rule))
    topic = lab.create(flow.topic("t"), 1)
    lab.write(topic, rows("a", "b", "50%", "c"))
    flow.start()
    if action == "stop":
        status = flow.wait(
            lambda s: s.state == "degraded" and position(s, topic, 0) == 2, seconds=120
        )
        row = partition_row(status, topic)
        assert row is not None
        assert (row.state, row.code) == ("faulted", "transform_failed")
        assert "offset 2" in row.reason
        assert "failed: texts.shout raised ValueError; correct the module" in row.reason
        expected = [b"A", b"B"]
    else:
        flow.wait_copied({(topic, 0): 4}, seconds=120)
        expected = [b"A", b"B", b"C"]
        letters = lab.read(f"dead-letters.{flow.source_alias}", target=True)[0]
        assert [row[1] for row in letters] == [b"50%"]
    assert [row[1] for row in lab.read(flow.remote(topic), target=True)[0]] == expected
    flow.stop()


INTERRUPTIONS = {
    "die": "texts.nap ended its process (exit code 3)",
    "slow": "texts.nap took longer than 10 s",
    "grow": "texts.nap raised MemoryError",
}


@pytest.mark.django_db
@pytest.mark.timeout(600)
@pytest.mark.parametrize("values", [["die"], ["slow", "grow"]], ids=["dies", "hangs-grows"])
def test_what_hangs_dies_or_grows_is_a_dead_letter_and_a_comparison_says_so(
    lab: Lab, settings: Any, values: list[str]
) -> None:
    flow = lab.flow(tasks_max="1", **rules(NAP))
    topic, good = lab.create(flow.topic("t"), 1), lab.create(flow.topic("good"), 1)
    lab.write(topic, rows("a", *values, "bcd"))
    lab.write(good, rows(*(n * "x" for n in range(1200))))
    flow.start()
    flow.wait_copied({(topic, 0): len(values) + 2, (good, 0): 1200}, seconds=240)
    assert [row[1] for row in lab.read(flow.remote(topic), target=True)[0]] == [b"1", b"3"]
    letters = lab.read(f"dead-letters.{flow.source_alias}", target=True)[0]
    found = {row[1]: dict(row[2])[ERROR_REASON].decode().rpartition(". ")[2] for row in letters}
    assert found == {value.encode(): INTERRUPTIONS[value] for value in values}
    row = row_of(lab, flow, settings)
    run = lifecycle.request_comparison(flow=row, who="ann", topics=[topic, good])
    advance(run)
    parts = {part.topic: part for part in run.parts.all()}
    assert (parts[good].verdict, parts[good].source_records) == ("same", 1200), parts[good].reason
    assert parts[topic].verdict not in ("same", "differs")
    assert "It is not known what rule 1 makes of the record at" in parts[topic].reason
    why = f"offset 1, so it was not compared: {INTERRUPTIONS[values[0]]}"
    assert why in parts[topic].reason
    flow.stop()


def test_another_file_stops_the_partitions_of_its_rule_and_runs_nothing(
    lab: Lab, functions: Path
) -> None:
    source = (functions / "texts.py").read_bytes()
    pinned = Module("pinned", digest_of(source))
    path = functions / "pinned.py"
    path.write_bytes(source + b"# changed")
    other = TransformRule(topics=".*plain", value="upper(cast(value as string))")
    rule = TransformRule(topics=".*t", value="pinned.shout(value, '')", modules=(pinned,))
    flow = lab.flow(**rules(rule, other))
    topic, plain = lab.create(flow.topic("t"), 1), lab.create(flow.topic("plain"), 1)
    lab.write(topic, rows("a"))
    lab.write(plain, rows("b"))
    flow.start()
    flow.wait_copied({(plain, 0): 1}, seconds=120)
    status = flow.wait(lambda s: s.state == "degraded", seconds=60)
    row = partition_row(status, topic)
    assert row is not None
    assert (row.state, row.code, row.gap) == ("faulted", "module_refused", None)
    changed = digest_of(path.read_bytes())
    assert f"has the SHA-256 {changed}, but the rule is saved for {pinned.sha256}" in row.reason
    assert lab.read(flow.remote(topic), target=True)[0] == []
    assert [row[1] for row in lab.read(flow.remote(plain), target=True)[0]] == [b"B"]
    # The file of the rule is back.
    path.write_bytes(source)
    flow.restart()
    flow.wait_copied({(topic, 0): 1}, seconds=120)
    assert [row[1] for row in lab.read(flow.remote(topic), target=True)[0]] == [b"A"]
    flow.stop()


def test_a_preview_shows_what_is_written(lab: Lab) -> None:
    rule = TransformRule(
        topics=".*",
        where="texts.is_wanted(value)",
        value="texts.shout(value, date_format(timestamp, 'HH'))",
        on_error="dead_letter",
        modules=(TEXTS,),
    )
    values = [b"a", b"drop", b"50%", "ü".encode(), b""]
    found = ask(lab, rule, rows=[RecordParts(b"k", value, (("h", b"1"),)) for value in values])
    assert (found.error, found.rejections) == ("", ())
    shown = [
        row.after and (row.after.key, row.after.value, list(row.after.headers))
        for row in found.records
    ]
    assert [row.failed for row in found.records] == ["", "", "value", "", ""]
    assert "texts.shout raised ValueError: a percent sign" in found.records[2].message
    flow = lab.flow(**rules(rule))
    topic = lab.create(flow.topic("t"), 1, retention_ms="-1")
    moment = 1_700_000_000_123
    lab.write(
        topic,
        [{"key": b"k", "value": v, "headers": [("h", b"1")], "timestamp": moment} for v in values],
    )
    flow.start()
    flow.wait_copied({(topic, 0): len(values)}, seconds=120)
    written = [row[:3] for row in lab.read(flow.remote(topic), target=True)[0]]
    assert written == [row for row in shown if row is not None]
    assert written[0] == (b"k", b"A22", [("h", b"1")])
    flow.stop()


def test_a_preview_says_why_user_code_cannot_be_called(lab: Lab) -> None:
    dying = TransformRule(topics=".*", key="cast(texts.nap(key) as string)", modules=(TEXTS,))
    found = ask(lab, dying, rows=[RecordParts(b"a", None, ()), RecordParts(b"die", None, ())])
    assert [row.failed for row in found.records] == ["", "key"]
    assert "texts.nap ended its process (exit code 3)" in found.records[1].message
    refused = TransformRule(
        topics=".*", value="absent.f(key)", modules=(Module("absent", "a" * 64),)
    )
    assert "There is no file " in ask(lab, refused).error
