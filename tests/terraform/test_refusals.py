"""Wrong configurations of the Terraform provider: one sentence each, at its attribute."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirrors.models import Flow, Role
from tests.terraform.conftest import PROVIDERS, Terraform
from tests.terraform.test_provider import CLUSTERS, FLOW

# The first test builds the provider.
pytestmark = pytest.mark.timeout(1500)

# By what is wrong: the blocks, the variables, what is said, and the line of the configuration that
# is shown with it.
CASES: dict[str, tuple[str, dict[str, str], str, str]] = {
    "no address": (CLUSTERS, {"UNDERSTUDY_URL": ""}, "Set url to the address of Understudy", ""),
    "no web address": (
        'provider "understudy" {\n  url = "understudy.example.com"\n}' + CLUSTERS,
        {},
        '"understudy.example.com" is not an address such as https://understudy.example.com.',
        "url = ",
    ),
    "no token": (CLUSTERS, {"UNDERSTUDY_TOKEN": ""}, "Set token to an API token", ""),
    "a wrong token": (CLUSTERS, {"UNDERSTUDY_TOKEN": "wrong"}, "token", ""),
    "nothing answers": (
        CLUSTERS,
        {"UNDERSTUDY_URL": "http://127.0.0.1:1"},
        "http://127.0.0.1:1 cannot be reached: dial tcp 127.0.0.1:1",
        "",
    ),
    "no such file": (
        'provider "understudy" {\n  ca_file = "/none.pem"\n}' + CLUSTERS,
        {},
        "/none.pem cannot be read: no such file or directory.",
        "ca_file = ",
    ),
    "an unknown word": (
        CLUSTERS.replace('"west:9092"', '"west:9092"\n  security_protocol = "TLS"'),
        {},
        'security_protocol is "TLS", which is not one of "PLAINTEXT", "SSL"',
        'security_protocol = "TLS"',
    ),
    "a password": (
        CLUSTERS.replace(
            '"west:9092"',
            '"west:9092"\n  security_protocol = "SASL_SSL"\n  sasl_mechanism = "PLAIN"\n'
            '  sasl_username = "u"\n  sasl_password = var.password',
        )
        + 'variable "password" {\n  sensitive = true\n  default   = "hunter2"\n}',
        {},
        "env:NAME",
        "sasl_password",
    ),
    "an unknown key": (
        CLUSTERS + FLOW.replace(" topics  ", " topicz  "),
        {},
        "topics?",
        "topicz",
    ),
    "a mistake in a rule": (
        CLUSTERS + FLOW.replace("value is not null", "vlaue is not null"),
        {},
        "did you mean value?",
        'where = "vlaue is not null"',
    ),
    "rules among the properties": (
        CLUSTERS + FLOW.replace(" topics  ", " transforms  "),
        {},
        "Move the rules from properties to the attribute transforms",
        'transforms = "orders.*"',
    ),
    "a flow without its cluster": (
        CLUSTERS + FLOW.replace("understudy_cluster.west.alias", '"nowhere"'),
        {},
        "nowhere",
        'target = "nowhere"',
    ),
    "nothing to aim at": (
        'resource "understudy_objectives" "main" {\n  flow = "east->west"\n}',
        {},
        'Set at least one of "rpo_records", "rpo_seconds", "rto_seconds"',
        "",
    ),
    "a limit below zero": (
        'resource "understudy_alert_rule" "late" {\n  name = "late"\n  kind = "time_lag"\n'
        "  threshold = -1\n}",
        {},
        "threshold is -1; the least is 0.",
        "threshold = -1",
    ),
}


@pytest.mark.parametrize("wrong", CASES)
def test_a_wrong_configuration_gets_one_sentence(
    start: Callable[..., Terraform], wrong: str
) -> None:
    blocks, variables, sentence, line = CASES[wrong]
    terraform = start()
    terraform.write(PROVIDERS, blocks)
    done = terraform.run("apply", "-auto-approve", "-input=false", **variables)
    assert done.code == 1
    # Two clusters may both be refused for what is wrong with the provider.
    assert done.text.count("Error: ") <= (2 if "understudy_cluster" in blocks else 1)
    assert sentence in done.text
    assert line in done.text
    assert "hunter2" not in done.text
    assert not Flow.objects.exists()


def test_an_object_that_exists_is_imported_instead(start: Callable[..., Terraform]) -> None:
    first, second = start("first"), start("second")
    first.write(PROVIDERS, CLUSTERS)
    first.apply()
    second.write(PROVIDERS, CLUSTERS)
    done = second.run("apply", "-auto-approve")
    assert done.code == 1
    assert "terraform import understudy_cluster.NAME 'east'" in done.text


def test_a_person_without_the_right_is_refused(start: Callable[..., Terraform]) -> None:
    viewer = start(role=Role.VIEWER)
    viewer.write(PROVIDERS, CLUSTERS)
    done = viewer.run("apply", "-auto-approve")
    assert done.code == 1
    assert "admin" in done.text
