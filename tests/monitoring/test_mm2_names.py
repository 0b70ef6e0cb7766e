"""MirrorMaker 2's metrics under its old and new names (KIP-1280), compared with its own MBeans."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from mirrors.domain.flows.bandwidth import is_live_edit
from mirrors.domain.settings.table import METRIC_NAMES, metric_names
from mirrors.domain.settings.validation import validate_properties
from mirrors.models import DutyRun, Flow, Role
from mirrors.services.users import create_token, ensure_person
from monitoring.history import collector
from monitoring.models import LagSample
from tests.domain.cases import golden
from tests.pages import world

OLD = "kafka_connect_mirror_"
NEW = "kafka_connect_plugins_"


@pytest.fixture
def flow(db: None) -> Flow:
    flow, now = world.busy(), timezone.now()
    Flow.objects.update(as_of=now)
    flow.topics.update(job=1, records=300, bytes=9_000, latency=[10, 2_500, 40, 900])
    flow.partitions.update(latency=[10, 2_500, 40, 900], time_lag_ms=30)
    ended = {"since": now, "started_at": now - timedelta(seconds=1), "ended_at": now}
    slot = int(now.timestamp())
    DutyRun.objects.create(flow=flow, duty="checkpoints", slot=slot, **ended)
    collector.collect(now=now)
    LagSample.objects.update(records_per_second=12.5, bytes_per_second=300.0)
    return flow


@pytest.fixture
def scraper(db: None) -> Client:
    ensure_person(username="prometheus", password=None, role=Role.VIEWER)
    return Client(headers={"authorization": f"Token {create_token(username='prometheus')}"})


def scraped(scraper: Client, query: str = "") -> dict[str, list[dict[str, str]]]:
    """The labels of each series of MirrorMaker 2's metrics, by name."""
    text = scraper.get(f"/metrics{query}").content.decode()
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith((OLD, NEW)):
                found.setdefault(sample.name, []).append(dict(sample.labels))
    return found


def exported(mbeans: list[str]) -> dict[str, set[str]]:
    """Names and labels that the exporter of JMX makes of MBeans, in lower case."""
    found: dict[str, set[str]] = {}
    for line in mbeans:
        bean, _, attributes = line.partition(" ")
        domain, _, properties = bean.partition(":")
        (_, kind), *labels = (part.split("=", 1) for part in properties.split(","))
        for attribute in attributes.strip("[]").split(", "):
            name = f"{domain}_{kind}_{attribute}".lower().replace(".", "_").replace("-", "_")
            found[name] = {label for label, _ in labels}
    return found


@pytest.mark.parametrize(("formats", "prefixes"), [
    (None, {OLD}),
    ("legacy", {OLD}),
    ("new", {NEW}),
    ("legacy,new", {OLD, NEW}),
    (" new , legacy ", {OLD, NEW}),
])  # fmt: skip
def test_a_flow_s_figures_have_the_names_that_it_asks_for(
    scraper: Client, flow: Flow, formats: str | None, prefixes: set[str]
) -> None:
    Flow.objects.update(properties={} if formats is None else {METRIC_NAMES: formats})
    found = scraped(scraper)
    assert {p for p in (OLD, NEW) if any(name.startswith(p) for name in found)} == prefixes


@pytest.mark.parametrize("query", ["", "?partitions=1"])
def test_every_name_and_label_is_one_of_mm2s_own(scraper: Client, flow: Flow, query: str) -> None:
    Flow.objects.update(properties={METRIC_NAMES: "legacy,new"})
    theirs, found = exported(golden("metric_names")["mbeans"]), scraped(scraper, query)
    # It counts its metrics too, which are not those of a flow.
    assert set(found) == {name for name in theirs if not name.endswith("_count_count")}
    for name, series in found.items():
        assert all(set(labels) <= theirs[name] for labels in series), name
    by_partition = [labels for labels in found[f"{NEW}record_count"] if "partition" in labels]
    assert bool(by_partition) == bool(query)


def test_both_names_carry_the_same_figures(scraper: Client, flow: Flow) -> None:
    Flow.objects.update(properties={METRIC_NAMES: "legacy,new"})
    text = scraper.get("/metrics?partitions=1").content.decode()
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition("{")
        if name.startswith((OLD, NEW)):
            plain = name.replace(NEW, "").rpartition("connector_")[2]
            values.setdefault(f"{plain} {name.startswith(NEW)}", []).append(rest.split()[-1])
    names = {key.partition(" ")[0] for key in values}
    assert len(names) == 16
    assert all(values[f"{name} True"] == values[f"{name} False"] for name in names)


def test_only_the_flow_that_asks_for_it_has_the_new_names(scraper: Client, flow: Flow) -> None:
    other = world.flow(properties={METRIC_NAMES: "new"})
    world.topic(other, job=1, records=7, bytes=70)
    found = scraped(scraper)
    assert {one["source"] for one in found[f"{OLD}mirrorsourceconnector_record_count"]} == {
        "primary"
    }
    [labels] = found[f"{NEW}record_count"]
    assert labels["connector"] == f"{other.name}.MirrorSourceConnector"
    assert (labels["source"], labels["task"]) == (other.source.alias, "0")


def test_the_setting_takes_what_mm2_takes_and_restarts_no_flow() -> None:
    for text, read, errors in golden("metric_names")["values"]:
        said = validate_properties({METRIC_NAMES: text})
        assert bool(said) == bool(errors), text
        assert said or list(metric_names({METRIC_NAMES: text})) == read
    assert list(metric_names({})) == golden("metric_names")["default"]
    assert is_live_edit({}, {METRIC_NAMES: "new"})
