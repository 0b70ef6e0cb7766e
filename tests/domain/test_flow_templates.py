"""Templates: the flows of each, planned together; blockers are named."""

from __future__ import annotations

import pytest

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.migration.flow_templates import TEMPLATES, TemplatePlan, kind_of, plan_template
from mirrors.domain.settings.table import IDENTITY_POLICY
from mirrors.domain.specs import ClusterSpec, FlowSpec

IDENTITY = {"replication.policy.class": IDENTITY_POLICY}


def clusters(*aliases: str) -> list[ClusterSpec]:
    return [ClusterSpec(alias=alias, bootstrap_servers=f"{alias}:9092") for alias in aliases]


def names(kind: str, *aliases: str, **more: object) -> list[str]:
    return [flow.name for flow in plan(kind, *aliases, **more).flows]


def plan(kind: str, *aliases: str, properties: dict[str, str] | None = None) -> TemplatePlan:
    return plan_template(kind_of(kind), clusters(*aliases), properties or {})


def test_each_template_makes_its_flows() -> None:
    assert names("active-passive", "east", "west") == ["east->west"]
    assert names("active-active", "east", "west") == ["east->west", "west->east"]
    assert names("hub", "lake", "east", "west") == ["east->lake", "west->lake"]
    assert names("fan-out", "east", "west", "lake") == ["east->west", "east->lake"]
    assert names("chain", "c", "a", "b") == ["c->a", "a->b"]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_with_the_default_policy_every_template_can_be_made(kind: str) -> None:
    found = plan(kind, "east", "west")
    assert found.is_whole
    assert not any(flow.warnings for flow in found.flows)


def test_both_directions_that_keep_names_are_a_loop_and_both_flows_say_so() -> None:
    found = plan("active-active", "east", "west", properties=IDENTITY)
    assert not found.is_whole
    for flow in found.flows:
        assert "in an endless loop" in flow.problems[0]
        assert "skip.replicated=true" in flow.problems[0]
    healed = {**IDENTITY, "skip.replicated": "true"}
    assert plan("active-active", "east", "west", properties=healed).is_whole


def test_spokes_that_keep_names_would_mix_their_records_in_the_hub() -> None:
    found = plan("hub", "lake", "east", "west", properties=IDENTITY)
    assert "would both write topics on lake" in found.flows[0].problems[0]


def test_it_is_judged_beside_the_flows_there_are() -> None:
    east, west = clusters("east", "west")
    back = FlowSpec.build(source=west, target=east, properties=IDENTITY)
    found = plan_template("active-passive", [east, west], IDENTITY, active=[back])
    assert "in an endless loop" in found.flows[0].problems[0]
    taken = plan_template("active-passive", [east, west], {}, taken=["east->west"])
    assert "already exists" in taken.flows[0].problems[0]


def test_two_names_of_one_cluster_are_found() -> None:
    east, west = clusters("east", "west")
    found = plan_template("active-passive", [east, west], {}, ids={"east": "X", "west": "X"})
    assert "look like one cluster" in found.flows[0].warnings[0]


@pytest.mark.parametrize(
    ("kind", "aliases", "words"),
    [
        ("hub", ["lake"], "at least two clusters"),
        ("active-passive", ["a", "b", "c"], "needs 2 clusters, not 3"),
        ("chain", ["a", "b", "a"], "a is selected twice"),
    ],
)
def test_clusters_that_do_not_fit_the_roles_are_refused(
    kind: str, aliases: list[str], words: str
) -> None:
    with pytest.raises(InvalidSettings, match=words):
        plan(kind, *aliases)


def test_a_wrong_setting_is_refused_by_its_key() -> None:
    with pytest.raises(InvalidSettings) as refused:
        plan("hub", "a", "b", properties={"topcs": "x"})
    assert "Did you mean topics?" in refused.value.fields["topcs"][0]
    with pytest.raises(InvalidSettings, match="must be one of"):
        kind_of("star")


def test_the_digest_names_exactly_this_plan() -> None:
    one = plan("hub", "lake", "east", "west")
    assert one.digest == plan("hub", "lake", "east", "west").digest
    assert one.digest != plan("hub", "lake", "west", "east").digest
    assert one.digest != plan("hub", "lake", "east", "west", properties={"topics": "a"}).digest
