"""Results of several runs: spreads, ratios, the file, the table, the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controlplane.bench.measurement.results import (
    Run,
    Spread,
    cpu_ratio,
    grouped,
    ratio,
    read,
    speed_ratio,
    spread,
    write,
)
from controlplane.bench.report import document, table
from controlplane.bench.run_conditions import RunConditions, machine_line, public_command
from controlplane.bench.session import Session
from spark_runner.native import loader


def run(label: str, number: int, cpu: float | None = None, **other: object) -> Run:
    values: dict[str, object] = {
        "cell": "1k-lz4-16",
        "system": label,
        "delivery": "at_least_once",
        "record_bytes": 1_024,
        "codec": "lz4",
        "batch_bytes": 65_536,
        "partitions": 16,
        "flows": 1,
        "tasks": 2,
        "started_at": 1,
        "digest_ok": True,
        "cpu_s_per_gb": cpu,
        "window_s": 30.0,
    }
    return Run(label=label, number=number, **{**values, **other})  # type: ignore[arg-type]


RUNS = [
    run("mm2-tuned", 1, 14.0, mb_s=80.0),
    run("understudy", 2, 1.0, mb_s=300.0),
    run("understudy", 3, 1.25, mb_s=280.0),
    run("mm2-tuned", 4, 18.0, mb_s=90.0),
    run("loop", 5, None, digest_ok=False, failure="r5s0.x-3 differs at record 7"),
]


def test_a_spread_is_median_and_range_of_what_was_measured() -> None:
    found = spread([3.0, None, 1.0, 2.0])
    assert found == Spread(median=2.0, least=1.0, most=3.0, count=3)
    assert f"{found:.1f}" == "2.0 (1.0-3.0)"
    assert spread([None]) is None


def test_a_ratio_ranges_from_worst_over_best_to_best_over_worst() -> None:
    found = ratio(spread([14.0, 18.0]), spread([1.0, 1.25]))
    assert found is not None
    assert found.median == pytest.approx(16 / 1.125)
    assert (found.least, found.most) == (pytest.approx(14 / 1.25), pytest.approx(18.0))


def test_a_cell_without_the_opponent_has_no_ratio() -> None:
    labels = grouped([run("understudy", 1, 1.0)])["1k-lz4-16"]
    assert cpu_ratio(labels, "understudy") is None


def test_speed_is_told_as_how_many_times_faster_and_the_whole_as_a_sum_of_what_is_known() -> None:
    labels = grouped(RUNS)["1k-lz4-16"]
    found = speed_ratio(labels, "understudy")
    assert found is not None
    assert found.median == pytest.approx(290 / 85)
    assert speed_ratio(labels, "mm2-tuned") is None
    whole = run("understudy", 9, 1.0, source_cpu_s_per_gb=0.5, target_cpu_s_per_gb=1.5)
    assert whole.all_cpu_s_per_gb == 3.0
    assert run("understudy", 9, 1.0, source_cpu_s_per_gb=0.5).all_cpu_s_per_gb is None


def test_results_are_a_list_of_runs_and_come_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "bench" / "result.json"
    write(RUNS, path)
    rows = json.loads(path.read_text())
    assert isinstance(rows, list)
    wanted = {
        "system", "record_bytes", "codec", "partitions", "delivery", "cpu_s_per_gb", "mb_s",
        "records_s", "rss_mb", "p50_ms", "p99_ms", "digest_ok",
    }  # fmt: skip
    assert all(wanted <= row.keys() for row in rows)
    assert read(path) == RUNS


def test_the_table_tells_how_much_less_cpu_and_leaves_failed_runs_out() -> None:
    text = table(RUNS)
    ours = next(line for line in text.splitlines() if " understudy " in line)
    assert "14.2 (11.2-18.0) x" in ours
    assert " loop " not in text


def test_a_run_of_latency_or_at_rest_is_no_result_of_copying() -> None:
    others = [
        run("mm2-tuned", 6, 27.23, cell="latency", p50_ms=113.7),
        run("understudy", 7, 3.5, cell="idle-1000", idle_cores=0.03),
    ]
    lines = table([*RUNS, *others]).splitlines()
    assert [line for line in lines if "27.23" in line or "3.50" in line] == []
    [live] = [line for line in lines if line.startswith("latency")]
    [idle] = [line for line in lines if line.startswith("idle-1000")]
    assert ("113.7" in live, "0.0300" in idle) == (True, True)


def test_the_page_tells_how_much_of_a_limited_line_was_used() -> None:
    far = {"cell": "target-80ms-1000mbit", "mb_s": 150.0, "wire_mb_s": 75.0}
    runs = [run("understudy", 6, 1.0, line_mb_s=125.0, **far)]
    lines = table(runs).splitlines()
    assert [line.split()[-2:] for line in lines if "-1000mbit" in line][-1] == ["75", "60%"]
    unlimited = [run("understudy", 7, 1.0, **far)]
    assert table(unlimited).splitlines()[-1].split()[-2:] == ["75", "-"]


def test_the_page_names_failed_runs_and_every_configuration() -> None:
    setting = RunConditions(
        command="make bench",
        machine="2 x Chip",
        configurations={"mm2-tuned": "offset.lag.max = 10000"},
    )
    page = document(RUNS, setting)
    assert "`make bench` wrote this page on 2 x Chip" in page
    assert "1k-lz4-16, loop: r5s0.x-3 differs at record 7" in page
    assert "offset.lag.max = 10000" in page
    assert "| 1k-lz4-16 | understudy | 2 |" in page


@pytest.mark.parametrize("place", [["--dir", "/data/b"], ["--dir=/data/b"], ["--lock", "/l"]])
def test_the_page_does_not_tell_where_things_lie_on_the_machine(place: list[str]) -> None:
    rest = ["--passes", "1", "--only", "1k-*/*"]
    told = "manage.py bench --passes 1 --only '1k-*/*'"
    assert (
        public_command(["bench", *place, *rest]) == public_command(["bench", *rest, *place]) == told
    )


def test_runs_that_are_added_stand_beside_those_of_the_last_result(tmp_path: Path) -> None:
    write(RUNS, tmp_path / "result.json")
    setting = RunConditions(configurations={"mm2-tuned": "tasks.max = 2"})
    setting.add("manage.py bench", "2 x A")
    setting.write(tmp_path / "setting.json")
    session = Session(tmp_path, say=lambda _: None)
    session.load()
    session.setting.add("manage.py bench --add --only latency", "2 x B")
    assert session.runs == RUNS
    page = document(session.runs, session.setting)
    assert "`manage.py bench` and `manage.py bench --add --only latency` wrote this" in page
    assert "2 x B" in page
    assert "tasks.max = 2" in page


@pytest.mark.parametrize(("is_used", "told"), [(True, "engine compiled"), (False, "NOT compiled")])
def test_a_page_tells_what_the_engine_ran_as(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_used: bool, told: str
) -> None:
    monkeypatch.setattr(loader, "use", lambda: None)
    monkeypatch.setattr(loader, "is_used", lambda: is_used)
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: A\nmodel name\t: A\n")
    line = machine_line(cpuinfo)
    assert line.startswith("2 x A (Python 3.")
    assert line.endswith(f"{told})")
