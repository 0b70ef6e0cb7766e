"""/metrics: its content, its access control, its cost; dashboards query existing metrics."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from controlplane.bench.scale import seed_flows
from mirrors.models import (
    DutyRun,
    Flow,
    FlowPartition,
    FlowTopic,
    HeartbeatState,
    Role,
    Runner,
    Sighting,
)
from mirrors.services.users import create_token, ensure_person
from monitoring.history import collector
from monitoring.models import ClusterSweep, FlowOutlook, LagSample
from tests.pages import world

MM2 = "kafka_connect_mirror_mirrorsourceconnector_"
DOCS = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
SMALL = "small batches while lagging"
_LAGS = ("offset_lag_records", "time_lag_seconds")
LANES = [
    {"lane": "raw", "why": "", "batches": 30, "records": 600, "bytes": 8_000},
    {"lane": "repack", "why": SMALL, "batches": 2, "records": 100, "bytes": 1_000},
]
Series = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture
def scraper(db: None) -> Client:
    ensure_person(username="prometheus", password=None, role=Role.VIEWER)
    token = create_token(username="prometheus")
    headers = {"authorization": f"Token {token}", "accept": "application/openmetrics-text"}
    return Client(headers=headers)


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.busy()
    now = timezone.now()
    flow.jobs.update(records=700, bytes=9_000, lanes=LANES, as_of=now)
    flow.runner.slots_used, flow.runner.rss_bytes = 2, 10**9
    flow.runner.memory = {"driver": 10**8, "jvm": 7 * 10**8, "workers": 2 * 10**8}
    flow.runner.seen_at = now
    flow.runner.save()
    Sighting.objects.create(name="beat", kind="beat", host="h", pid=1, seen_at=now)
    HeartbeatState.objects.create(flow=flow, seen_at=now - timedelta(seconds=4), latency_ms=250)
    ended = {"since": now, "started_at": now, "ended_at": now - timedelta(seconds=30)}
    slot = int(now.timestamp())
    DutyRun.objects.create(flow=flow, duty="checkpoints", slot=slot, **ended)
    FlowOutlook.objects.create(
        flow=flow, as_of=now, loses_at=now + timedelta(hours=2), at_risk=3, held_records=7
    )
    ClusterSweep.objects.create(cluster=flow.source, as_of=now)
    flow.topics.update(job=1, records=300, bytes=9_000)
    flow.topics.filter(topic="orders").update(latency=[10, 2_500, 40, 900])
    for number, size in enumerate((4_000, 5_000)):
        flow.partitions.filter(partition=number).update(records=size // 30, bytes=size)
    collector.collect(now=now)
    LagSample.objects.update(records_per_second=12.5, bytes_per_second=300.0)
    return flow


def scraped(client: Client, query: str = "") -> Series:
    answer = client.get(f"/metrics{query}")
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"].startswith("text/plain")
    found: Series = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            assert tuple(sorted(sample.labels.items())) not in series, sample
            series[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_a_scrape_says_what_the_pages_say_in_the_units_of_its_names(
    scraper: Client, flow: Flow
) -> None:
    found = scraped(scraper)
    [key] = found["understudy_flow_offset_lag_records"]
    assert dict(key) == {"flow": "primary->backup", "source": "primary", "target": "backup"}
    assert found["understudy_flow_offset_lag_records"][key] == 4112
    assert found["understudy_flow_time_lag_seconds"][key] == 38
    assert found["understudy_flow_records_total"][key] == 1_400
    states = {dict(key)["state"]: value for key, value in found["understudy_flow_state"].items()}
    assert [state for state, value in states.items() if value] == ["running"]
    [topic] = found["understudy_topic_time_lag_seconds"]
    assert dict(topic)["topic"] == "orders"
    assert "understudy_partition_position" not in found
    each = scraped(scraper, "?partitions=1")
    assert len(each["understudy_partition_position"]) == 3
    name = f"{MM2}byte_count"
    assert [dict(key)["topic"] for key in found[name]] == ["primary.orders"]
    assert sorted((dict(key)["partition"], size) for key, size in each[name].items()) == [
        ("0", 4_000.0), ("1", 5_000.0), ("2", 0.0),
    ]  # fmt: skip
    assert sum(each[name].values()) == sum(found[name].values())


def test_what_limits_a_flow_has_series_while_it_runs(scraper: Client, flow: Flow) -> None:
    shares = {"target_window": 0.9, "processor": 0.1}
    limit = {"name": "target_window", "share": 0.9, "seconds": 30, "shares": shares}
    speed = {"limit": limit, "source_rtt_ms": 0.5, "target_rtt_ms": 100.0}
    Flow.objects.filter(pk=flow.pk).update(speed=speed, as_of=timezone.now())
    found = scraped(scraper)
    ratios = found["understudy_flow_speed_limit_ratio"].items()
    assert {dict(key)["limit"]: value for key, value in ratios} == shares
    trips = found["understudy_flow_round_trip_seconds"].items()
    assert {dict(key)["side"]: value for key, value in trips} == {"source": 0.0005, "target": 0.1}
    Flow.objects.filter(pk=flow.pk).update(observed_state="stopped")
    assert "understudy_flow_speed_limit_ratio" not in scraped(scraper)


def test_what_lies_ahead_and_what_keeps_a_flow_honest_has_series(
    scraper: Client, flow: Flow
) -> None:
    found = scraped(scraper)

    def of(name: str) -> float:
        [value] = found[f"understudy_{name}"].values()
        return value

    assert of("flow_loses_data_seconds") == pytest.approx(7_200, abs=60)
    assert (of("flow_partitions_at_risk"), of("flow_held_records")) == (3, 7)
    assert of("flow_heartbeat_age_seconds") == pytest.approx(4, abs=60)
    assert of("flow_end_to_end_seconds") == 0.25
    assert of("flow_checkpoint_age_seconds") == pytest.approx(30, abs=60)
    assert of("cluster_sweep_age_seconds") == pytest.approx(0, abs=60)


def test_batches_are_told_by_lane_and_reason_as_the_last_job_counted_them(
    scraper: Client, flow: Flow
) -> None:
    found = scraped(scraper)
    for unit in ("batches", "records", "bytes"):
        series = found[f"understudy_flow_lane_{unit}_total"]
        told = {(dict(key)["lane"], dict(key)["why"]): value for key, value in series.items()}
        assert told == {(row["lane"], row["why"]): row[unit] for row in LANES}
        assert {dict(key)["flow"] for key in series} == {"primary->backup"}


def test_memory_is_told_by_process_and_what_waits_behind_stopped_partitions(
    scraper: Client, flow: Flow
) -> None:
    first = flow.partitions.first()
    assert first is not None
    flow.partitions.filter(pk=first.pk).update(state="faulted", offset_lag=40)
    found = scraped(scraper)
    memory = found["understudy_runner_process_memory_bytes"]
    assert {dict(key)["process"]: size for key, size in memory.items()} == flow.runner.memory
    assert [*found["understudy_flow_stopped_partitions"].values()] == [1]
    assert [*found["understudy_flow_waiting_records"].values()] == [40]


def test_mirror_maker_s_own_names_carry_the_labels_of_its_exporter(
    scraper: Client, flow: Flow
) -> None:
    found = scraped(scraper)
    [(labels, age)] = found[f"{MM2}record_age_ms"].items()
    assert dict(labels) == {"source": "primary", "target": "backup", "topic": "primary.orders"}
    assert age == 38_000
    assert [*found[f"{MM2}record_count"].values()] == [300]
    assert [*found[f"{MM2}record_rate"].values()] == [12.5]
    assert [*found[f"{MM2}byte_rate"].values()] == [300.0]
    assert [*found[f"{MM2}byte_count"].values()] == [9_000]


def test_latencies_ages_and_failed_records_have_the_names_of_mirror_maker(
    scraper: Client, flow: Flow
) -> None:
    flow.partitions.filter(partition=0).update(latency=[10, 2_500, 40, 900], time_lag_ms=30)
    flow.partitions.filter(partition=1).update(time_lag_ms=10)
    flow.partitions.filter(partition=2).update(time_lag_ms=20)
    world.gap(flow, kind="refused", state="accepted")
    flow.gaps.update(partition=1)
    world.gap(flow, kind="damaged")
    found = scraped(scraper)
    latency = f"{MM2}replication_latency_ms"
    [(labels, mean)] = found[latency].items()
    assert dict(labels) == {"source": "primary", "target": "backup", "topic": "primary.orders"}
    assert mean == 250
    ends = ("_avg", "_min", "_max")
    assert [[*found[f"{latency}{end}"].values()] for end in ends] == [[250], [40], [900]]
    ages = [[*found[f"{MM2}record_age_ms{end}"].values()] for end in ends]
    assert ages == [[20], [10], [30]]
    errors = "kafka_connect_task_error_total_"
    [(labels, failures)] = found[f"{errors}record_failures"].items()
    assert dict(labels)["connector"] == "primary->backup.MirrorSourceConnector"
    assert (failures, *found[f"{errors}records_skipped"].values()) == (2, 1)
    assert [*found[f"{errors}errors_logged"].values()] == [flow.jobs.filter(state="failed").count()]
    checkpoint = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
    assert found[f"{checkpoint}_max"].keys() == found[checkpoint].keys()


def test_the_cost_of_the_month_has_its_currency(scraper: Client, flow: Flow) -> None:
    assert "understudy_flow_month_bytes" not in scraped(scraper)
    world.costs(flow)
    found = scraped(scraper)
    assert max(found["understudy_flow_month_bytes"].values()) == 100 * 10**9
    [(labels, cost)] = found["understudy_flow_month_cost"].items()
    assert (dict(labels)["currency"], cost) == ("EUR", 50)
    assert [*found["understudy_flow_month_budget"].values()] == [40]


def test_latencies_by_partition_stand_alone(scraper: Client, flow: Flow) -> None:
    flow.topics.update(latency=[20, 2_500, 40, 900])
    flow.partitions.filter(partition=0).update(latency=[10, 2_500, 40, 900])
    found = scraped(scraper, "?partitions=1")
    [(labels, mean)] = found[f"{MM2}replication_latency_ms"].items()
    assert (dict(labels)["partition"], mean) == ("0", 250)
    assert all("partition" in dict(one) for one in found[f"{MM2}record_age_ms"])


def test_an_unknown_latency_or_age_has_no_series(scraper: Client, flow: Flow) -> None:
    flow.partitions.filter(partition=0).update(time_lag_ms=None)
    flow.topics.update(latency=None)
    found = scraped(scraper)
    assert f"{MM2}replication_latency_ms" not in found
    assert f"{MM2}record_age_ms_avg" not in found
    flow.topics.update(latency=[10, 2_500, 40, 900])
    assert f"{MM2}replication_latency_ms" in scraped(scraper)
    # A flow that no longer reports has no latency of the last minute.
    Flow.objects.update(as_of=timezone.now() - timedelta(minutes=2))
    assert f"{MM2}replication_latency_ms" not in scraped(scraper)


def test_what_is_not_known_has_no_series(scraper: Client, flow: Flow) -> None:
    world.owes(flow, offset_lag=None, time_lag_ms=None)
    found = scraped(scraper)
    assert [*found["understudy_flow_unknown_partitions"].values()] == [6]
    assert "understudy_flow_owed_records" not in found
    assert "understudy_flow_offset_lag_records" not in found
    assert "understudy_flow_time_lag_seconds" not in found


def test_0_has_no_series_while_the_source_is_silent(scraper: Client, flow: Flow) -> None:
    """It was in step when it was last read; what was written since, nobody knows."""
    world.owes(flow, offset_lag=0, time_lag_ms=0)
    FlowPartition.objects.filter(flow=flow).update(offset_lag=0, time_lag_ms=0)
    names = [f"understudy_{of}_{what}" for of in ("flow", "topic") for what in _LAGS]
    each = [*names, *(f"understudy_partition_{what}" for what in _LAGS), f"{MM2}record_age_ms"]
    found = scraped(scraper, "?partitions=1")
    assert {name: {*found[name].values()} for name in each} == {name: {0} for name in each}
    world.silence(flow, seconds=20)
    soon = scraped(scraper, "?partitions=1")
    assert [name for name in each if name not in soon] == []
    world.silence(flow, seconds=60)
    silent = scraped(scraper, "?partitions=1")
    assert [name for name in each if name in silent] == []
    assert min(silent["understudy_flow_source_seen_age_seconds"].values()) >= 60
    # Of what is left out by rule, nothing is owed whenever it was read.
    FlowTopic.objects.filter(flow=flow).update(account_state="filtered")
    assert "understudy_topic_offset_lag_records" in scraped(scraper)


def test_an_old_figure_is_not_0_and_its_age_stands_beside_it(scraper: Client, flow: Flow) -> None:
    """By offsets it is no lower bound any more; as it was observed it is no less than before."""
    seen = timezone.now() - timedelta(minutes=1)
    FlowTopic.objects.filter(flow=flow).update(observed_at=seen, least=0)
    world.sum_up(flow)
    found = scraped(scraper)
    assert [*found["understudy_flow_offset_lag_records"].values()] == [4112]
    assert min(found["understudy_flow_source_seen_age_seconds"].values()) >= 60
    assert "understudy_flow_owed_records" not in found


def test_odd_names_reach_a_scraper_as_they_are(scraper: Client, flow: Flow) -> None:
    odd = 'a "quoted"\\ name\nof two lines'
    Runner.objects.create(name=odd, master="m", slots=1)
    runners = {dict(key)["runner"] for key in scraped(scraper)["understudy_runner_up"]}
    assert runners == {"default", odd}


@pytest.mark.parametrize("query", ["", "partitions=1&"])
def test_the_shards_of_a_scrape_have_together_what_the_whole_has(
    scraper: Client, flow: Flow, query: str
) -> None:
    seed_flows.seed(flows=7, now=timezone.now(), days=0)
    Flow.objects.update(since=timezone.now())
    ages = re.compile(r"(_age_seconds|_loses_data_seconds|_forecast)$")
    whole = scraped(scraper, f"?{query}")
    parts = [scraped(scraper, f"?{query}shard={number}/3") for number in (1, 2, 3)]
    flows = [{dict(key)["flow"] for key in part["understudy_flow_state"]} for part in parts]
    assert all(flows)
    together: Series = {}
    for part in parts:
        for name, series in part.items():
            known = together.setdefault(name, {})
            assert not known.keys() & series.keys(), name
            known.update(series)
    assert {name: set(series) for name, series in together.items()} == {
        name: set(series) for name, series in whole.items()
    }
    for name, series in whole.items():
        if not ages.search(name):
            assert together[name] == series, name


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5", "1/99999"])
def test_a_shard_that_is_none_is_refused_with_one_sentence(
    scraper: Client, flow: Flow, shard: str
) -> None:
    answer = scraper.get("/metrics", {"shard": shard})
    assert answer.status_code == 400
    assert f"{shard!r} is no shard." in answer.content.decode()


def test_no_figure_is_given_without_a_token_of_somebody_with_a_role(
    flow: Flow, client: Client
) -> None:
    assert client.get("/metrics").status_code == 401
    ensure_person(username="robot", password=None, role=Role.VIEWER).groups.clear()
    token = create_token(username="robot")
    refused = client.get("/metrics", headers={"authorization": f"Token {token}", "accept": "x/y"})
    assert refused.status_code == 403
    assert refused.json()["error"]["message"].startswith("This needs the role viewer")


def expressions() -> list[str]:
    board = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
    rules = yaml.safe_load((DOCS / "rules.yml").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    return asked + [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def test_every_expression_of_board_and_rules_finds_its_metrics_and_labels(
    scraper: Client, flow: Flow
) -> None:
    Flow.objects.update(properties={"metric.names.formats": "legacy,new"})
    found = scraped(scraper)
    asked = expressions()
    assert len(asked) > 15
    for expression in asked:
        names = re.findall(r"((?:understudy|kafka_connect)_\w+)(?:\{([^}]*)\})?", expression)
        assert names, expression
        for name, matchers in names:
            assert name in found, expression
            labels = dict(next(iter(found[name])))
            for label, operator, value in re.findall(r'(\w+)(=~?)"([^"]*)"', matchers):
                assert label in labels, expression
                known = {dict(key)[label] for key in found[name]}
                wanted = value.split("|") if operator == "=~" else [value]
                assert value == "$flow" or set(wanted) <= known, expression


def test_a_scrape_asks_the_database_no_more_often_when_there_is_more(
    scraper: Client, flow: Flow
) -> None:
    """How long it takes is `make bench-web`'s to tell."""

    def queries_of_a_scrape() -> int:
        with CaptureQueriesContext(connection) as queries:
            scraper.get("/metrics")
        return len(queries)

    scraper.get("/metrics")
    before = queries_of_a_scrape()
    seed_flows.seed(flows=30, now=timezone.now(), days=0)
    assert FlowPartition.objects.count() > 2_000
    assert queries_of_a_scrape() == before
    answer = scraper.get("/metrics")
    assert answer.content.count(b"\nunderstudy_topic_offset_lag_records{") > 300
