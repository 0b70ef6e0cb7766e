"""Twenty minutes with everything on: nothing grows, nothing slows down, every copy is the same.

UNDERSTUDY_SOAK_MINUTES says how long else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from controlplane.demo.verification.topics import compare_topics, partition_counts
from tests.journeys.demo_client import Rest
from tests.journeys.refusals import refusals, sent_again
from tests.security.vault import Vault
from tests.soak.faults import BULK, GROWS, Unrest
from tests.soak.full_demo import LIMIT, WholeStage, switch_on
from tests.soak.judging import grown, say, slowed
from tests.soak.load import Traffic, create
from tests.soak.meter import Latency, RequestTimes, Series, open_files, sample, thread_names
from tests.spark.reading import records

MINUTES = float(os.environ.get("UNDERSTUDY_SOAK_MINUTES", "20"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(MINUTES * 60 + 1200)]
PARTITIONS = 4
SAMPLE_S = 5.0
# Epochs change and pools fill up meanwhile.
WARM_S = min(120.0, MINUTES * 60 / 5)
SPAN_S = MINUTES * 60 - WARM_S
TURN_S = SPAN_S / 3 / max(3, 3 * round(SPAN_S / 3 / 60))
SHOP = ("orders", "payments", "customers", "invoices", "clicks")
STOCK = ("returns", "stock")


def test_memory_latency_files_threads_and_connections_stay_flat(
    whole: WholeStage, archive: str, vault: Vault, until: Callable[..., float]
) -> None:
    primary, backup = whole.clusters["primary"], whole.clusters["backup"]
    rest = Rest(whole)
    for bootstrap, topic in ((primary, "steady"), (primary, "loose")):
        create(bootstrap, topic, PARTITIONS)
    for bootstrap in (primary, backup):
        create(bootstrap, "both", PARTITIONS)
    flows = switch_on(whole, vault, archive)
    unrest = Unrest(
        whole, flows["primary->archive"], turn_s=TURN_S, grow=round(SPAN_S / 3 / TURN_S)
    )
    unrest.prepare()

    def running() -> bool:
        return all(row["observed_state"] == "running" for row in rest("flows/")["results"])

    until(running, 120, "all flows run")
    writers = [
        Traffic(bootstrap, topic, partitions=PARTITIONS, a_second=rate, key=key)
        for bootstrap, topic, rate, key in (
            (primary, "steady", 200, "primary"),
            (primary, "loose", 50, "primary"),
            (primary, "both", 100, "left"),
            (backup, "both", 100, "right"),
        )
    ]
    for writer in writers:
        writer.start()
    until(lambda: "primary.steady" in partition_counts(backup), 60, "the steady topic is there")
    plain = Latency(backup, "primary.steady", PARTITIONS, "primary")
    secured = Latency(backup, "both", PARTITIONS, "left")
    series: dict[str, Series] = {
        "plain": plain,
        "tls": secured,
        "asking": RequestTimes(whole, flows),
    }
    for one in (*series.values(), unrest):
        one.start()
    threads = (*writers, *series.values(), unrest)
    time.sleep(WARM_S)
    began = time.monotonic()
    names, files = thread_names(whole), open_files(whole)
    samples = []
    while time.monotonic() < began + SPAN_S:
        samples.append(sample(whole))
        assert [one.error for one in threads if one.error] == []
        time.sleep(SAMPLE_S)
    wrong = grown(samples) + slowed(series, began, SPAN_S)
    others, opened = thread_names(whole), open_files(whole)
    unrest.end()
    for writer in writers:
        writer.end()
    whole.stop_traffic()
    whole.progress.wait_until_caught_up()
    for one in series.values():
        one.end()

    asking = series["asking"]
    assert isinstance(asking, RequestTimes)
    assert any(f"Limited to {LIMIT} bytes/s" in reason for reason in asking.said), asking.said
    say(f"threads that came: {dict(others - names)}, went: {dict(names - others)}")
    say(f"files that came: {dict(opened - files)}, went: {dict(files - opened)}")
    cuts = {alias: proxy.cuts for alias, proxy in whole.proxies.items()}
    say(f"{unrest.turns} turns of {TURN_S:.0f} s")
    assert min(cuts.values()) > 0, "no connection was cut"
    assert sent_again(whole) == []
    assert refusals(whole) == []
    compare(primary, backup, {topic: f"primary.{topic}" for topic in (*SHOP, "steady", GROWS)})
    compare(backup, primary, {topic: f"backup.{topic}" for topic in STOCK})
    compare(primary, archive, {topic: f"primary.{topic}" for topic in ("loose", *BULK)})
    compare_union(primary, backup)
    assert wrong == []


def compare(source: str, target: str, pairs: dict[str, str]) -> None:
    found = compare_topics(source, target, pairs)
    assert [str(difference) for difference in found.differences] == []
    assert found.records > 0
    say(f"{found.records:,} records of {', '.join(pairs)} are the same")


def compare_union(primary: str, backup: str) -> None:
    """Both clusters hold what either wrote, each origin's records in order, nothing twice."""
    here, there = records(primary, "both"), records(backup, "both")
    origins = (b"left", b"right")
    for partition in range(PARTITIONS):
        for origin in origins:
            mine = [row for row in here[partition] if row[0] == origin]
            assert mine, (origin, partition)
            assert mine == [row for row in there[partition] if row[0] == origin]
        for rows in (here, there):
            assert {row[0] for row in rows[partition]} == set(origins)
    say(f"{sum(map(len, here.values())):,} records written on both sides are the union on both")
