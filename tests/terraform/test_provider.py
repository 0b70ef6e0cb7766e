"""The Terraform provider: apply, an empty plan, drift, import, destroy, with the real Terraform."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.api.terraform import PATH, rendered
from controlplane.declarations.kinds import KINDS
from mirrors.models import (
    Cluster,
    Drill,
    Flow,
    FlowObjectives,
    Hook,
    Role,
    Runner,
)
from monitoring.models import AlertRule, Channel, TransferPrice
from tests.terraform.conftest import PROVIDERS, Terraform

# The first test builds the provider.
pytestmark = pytest.mark.timeout(1500)
Start = Callable[..., Terraform]
SECRET = "https://hooks.example.com/services/T0/B0/abcdef"
LATE = "East is late"
CLUSTERS = """
resource "understudy_cluster" "east" {
  alias             = "east"
  bootstrap_servers = "east-1:9092,east-2:9092"
}
resource "understudy_cluster" "west" {
  alias             = "west"
  bootstrap_servers = "west:9092"
  properties        = { "request.timeout.ms" = 20000 }
}
"""
FLOW = """
resource "understudy_flow" "main" {
  source        = understudy_cluster.east.alias
  target        = understudy_cluster.west.alias
  labels        = ["payments", "eu"]
  desired_state = "stopped"
  properties = {
    topics                      = "orders.*"
    "sync.group.offsets.enabled" = true
  }
  transforms = [
    { topics = "audit" },
    { topics = "orders.*", where = "value is not null", on_error = "dead_letter" },
  ]
}
"""
PARTS = f"""
resource "understudy_runner" "big" {{
  name   = "big"
  master = "local[2,4]"
}}
resource "understudy_channel" "on_call" {{
  name   = "on-call"
  kind   = "slack"
  target = "{SECRET}"
}}
resource "understudy_hook" "dns" {{
  name = "dns"
  url  = "https://hooks.example.com/dns"
}}
resource "understudy_objectives" "main" {{
  flow        = understudy_flow.main.name
  rpo_seconds = 60
}}
resource "understudy_price" "main" {{
  flow           = understudy_flow.main.name
  per_gb         = 0.020
  currency       = "EUR"
  monthly_budget = 500
}}
resource "understudy_alert_rule" "late" {{
  name      = "{LATE}"
  kind      = "time_lag"
  flow      = understudy_flow.main.name
  threshold = 60.5
  channels  = [understudy_channel.on_call.name]
}}
resource "understudy_drill" "weekly" {{
  flow     = understudy_flow.main.id
  schedule = "0 6 * * 1"
}}
"""
IDENTITIES = {
    "cluster.east": "east",
    "cluster.west": "west",
    "flow.main": "east->west",
    "runner.big": "big",
    "channel.on_call": "on-call",
    "hook.dns": "dns",
    "objectives.main": "east->west",
    "price.main": "east->west",
    "alert_rule.late": LATE,
    "drill.weekly": "east->west",
}


@pytest.fixture
def terraform(start: Start) -> Terraform:
    return start()


@pytest.mark.django_db
def test_the_provider_is_built_with_the_fields_of_the_api() -> None:
    """Otherwise: manage.py write_terraform."""
    assert PATH.read_text(encoding="utf-8") == rendered()


def test_every_kind_is_applied_and_a_second_plan_is_empty(terraform: Terraform) -> None:
    terraform.write(PROVIDERS, CLUSTERS, FLOW, PARTS)
    terraform.apply()
    plan = terraform.plan()
    assert plan.code == 0, plan.text
    flow = Flow.objects.get()
    assert flow.properties["topics"] == "orders.*"
    assert flow.spec.settings.transforms[1].where == "value is not null"
    assert [label.name for label in flow.labels.order_by("name")] == ["eu", "payments"]
    assert FlowObjectives.objects.get(flow=flow).rpo_seconds == 60
    assert str(TransferPrice.objects.get().per_gb) == "0.020000"
    assert AlertRule.objects.get(name=LATE).channels.get().target == SECRET
    assert Drill.objects.get().flow == flow
    # Each kind of `apply` is a resource.
    assert len({name.partition(".")[0] for name in IDENTITIES}) == len(KINDS)
    done = terraform.run("destroy", "-auto-approve")
    assert done.code == 0, done.text
    for model in (Cluster, Flow, Channel, Hook, Drill, TransferPrice):
        assert not model.objects.exists()
    assert not Runner.objects.filter(name="big").exists()
    assert not AlertRule.objects.filter(name=LATE).exists()


def test_a_change_is_planned_with_its_effect_and_written_alone(terraform: Terraform) -> None:
    terraform.write(PROVIDERS, CLUSTERS, FLOW.replace('"stopped"', '"running"'))
    terraform.apply()
    Flow.objects.update(observed_state="running")
    changed = FLOW.replace('"stopped"', '"running"').replace('"orders.*"\n', '"bills"\n')
    terraform.write(PROVIDERS, CLUSTERS, changed)
    plan = terraform.plan()
    assert plan.code == 2, plan.text
    assert "0 to add, 1 to change, 0 to destroy" in plan.text
    assert "start again with the new topics" in plan.text
    terraform.apply()
    assert Flow.objects.get().properties["topics"] == "bills"
    assert terraform.plan().code == 0


def test_what_somebody_changed_or_deleted_on_the_server_is_planned(terraform: Terraform) -> None:
    terraform.write(PROVIDERS, CLUSTERS, FLOW, PARTS)
    terraform.apply()
    AlertRule.objects.filter(name=LATE).delete()
    Channel.objects.update(target="https://hooks.example.com/of-somebody")
    Cluster.objects.filter(alias="west").update(bootstrap_servers="elsewhere:9092")
    flow = Flow.objects.get()
    flow.properties = {**flow.properties, "topics": "other", "transforms": '[{"topics": "x"}]'}
    flow.save()
    plan = terraform.plan()
    assert plan.code == 2, plan.text
    assert "1 to add, 3 to change, 0 to destroy" in plan.text
    assert '"elsewhere:9092" -> "west:9092"' in plan.text
    assert "of-somebody" not in plan.text
    terraform.apply()
    assert terraform.plan().code == 0
    assert Flow.objects.get().properties["topics"] == "orders.*"
    assert Channel.objects.get().target == SECRET
    assert "of-somebody" not in (terraform.directory / "terraform.tfstate.backup").read_text()


def test_objects_are_imported_by_their_names(start: Start) -> None:
    first, second = start("first"), start("second")
    first.write(PROVIDERS, CLUSTERS, FLOW, PARTS)
    first.apply()
    imports = [
        f'import {{\n to = understudy_{address}\n id = "{name}"\n}}'
        for address, name in IDENTITIES.items()
    ]
    second.write(PROVIDERS, CLUSTERS, FLOW, PARTS, *imports)
    plan = second.plan()
    assert f"{len(IDENTITIES)} to import, 0 to add" in plan.text, plan.text
    # What may be a secret is not read, so it is written once; the drill names its flow by the id.
    assert "3 to change, 0 to destroy" in plan.text
    second.apply()
    assert second.plan().code == 0
    assert Flow.objects.count() == 1


def test_another_source_replaces_a_running_flow_only_if_told(terraform: Terraform) -> None:
    running = FLOW.replace('desired_state = "stopped"', "")
    objectives = (
        PARTS[PARTS.index('resource "understudy_objectives"') :].partition("\n}")[0] + "\n}"
    )
    terraform.write(PROVIDERS, CLUSTERS, running, objectives)
    terraform.apply()
    assert Flow.objects.get().desired_state == "running"
    third = CLUSTERS.replace('"east"', '"north"')
    north = third[: third.index('resource "understudy_cluster" "west"')]
    moved = running.replace("understudy_cluster.east", "understudy_cluster.north")
    terraform.write(PROVIDERS, CLUSTERS, north, moved, objectives)
    refused = terraform.run("apply", "-auto-approve")
    assert refused.code == 1
    assert "east->west is not stopped. Stop it, wait until" in refused.text
    assert "Or set stop_on_destroy = true and apply that first." in refused.text
    told = running.replace("properties = {", "stop_on_destroy = true\nproperties = {")
    terraform.write(PROVIDERS, CLUSTERS, north, told, objectives)
    terraform.apply()
    moved = told.replace("understudy_cluster.east", "understudy_cluster.north")
    terraform.write(PROVIDERS, CLUSTERS, north, moved, objectives)
    terraform.apply()
    flow = Flow.objects.get()
    assert flow.name == "north->west"
    # What belongs to the flow was made again with it.
    assert FlowObjectives.objects.get().flow == flow
    assert terraform.plan().code == 0


def test_a_change_after_the_plan_is_not_overwritten(terraform: Terraform, tmp_path: Path) -> None:
    terraform.write(PROVIDERS, CLUSTERS, FLOW)
    terraform.apply()
    terraform.write(PROVIDERS, CLUSTERS, FLOW.replace('"orders.*"\n', '"bills"\n'))
    planned = str(tmp_path / "planned")
    assert terraform.run("plan", "-input=false", f"-out={planned}").code == 0
    flow = Flow.objects.get()
    flow.properties = {**flow.properties, "topics": "urgent"}
    flow.save()
    done = terraform.run("apply", planned)
    assert done.code == 1
    assert "Somebody changed it on the server after the plan" in done.text
    assert Flow.objects.get().properties["topics"] == "urgent"


def test_data_sources_show_a_flow_and_its_readiness(start: Start) -> None:
    admin = start("admin")
    admin.write(PROVIDERS, CLUSTERS, FLOW)
    admin.apply()
    viewer = start("viewer", role=Role.VIEWER)
    viewer.write(
        PROVIDERS,
        'data "understudy_flow" "main" {\n  flow = "east->west"\n}',
        'data "understudy_readiness" "main" {\n  flow = "east->west"\n}',
    )
    viewer.apply()
    state = viewer.state()
    flow = state["data.understudy_flow.main"]
    assert (flow["desired_state"], flow["offset_lag"]) == ("stopped", None)
    assert state["data.understudy_readiness.main"]["proven"]["state"] == "never"
