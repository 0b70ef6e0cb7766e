"""Forms of clusters and runners: errors at the field, the impact before an edit is saved."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from mirrors.models import Cluster, ClusterTest, Flow, Runner, Sighting
from mirrors.services.errors import Conflict
from mirrors.services.flows.settings import create_flow
from mirrors.services.runners.cleanup import clean_up
from tests.pages import world
from tests.pages.world import error_at

CLUSTER = {"alias": "east", "bootstrap_servers": "east:9092", "security_protocol": "PLAINTEXT"}
OAUTH = {
    "alias": "east",
    "bootstrap_servers": "east:9093",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_username": "understudy",
    "sasl_password": "env:KAFKA_CLIENT_SECRET",
    "oauth_endpoint": "https://login.example.org/token",
    "oauth_scope": "kafka",
}


def test_a_cluster_is_added_and_tested_at_once(admin: Client) -> None:
    answer = admin.post("/add/cluster/", CLUSTER)
    assert answer["Location"] == "/clusters/east/"
    assert Cluster.objects.get(alias="east").bootstrap_servers == "east:9092"
    assert ClusterTest.objects.get().requested_by == "the-admin"
    text = admin.get("/clusters/east/").content.decode()
    assert "A worker asks east" in text
    assert 'data-every="1"' in text


def test_every_security_setting_reaches_the_row_and_comes_back_into_the_form(
    admin: Client,
) -> None:
    files = {"ssl_certificate": "", "ssl_key": "", "properties": "reconnect.backoff.ms=100"}
    answer = admin.post("/add/cluster/", {**OAUTH, **files})
    assert answer.status_code == 302, re.findall(r"errorlist.*", answer.content.decode())
    cluster = Cluster.objects.get()
    assert cluster.sasl_mechanism == "OAUTHBEARER"
    assert cluster.properties == {
        "reconnect.backoff.ms": "100",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example.org/token",
        "sasl.oauthbearer.scope": "kafka",
    }
    text = admin.get("/clusters/east/edit/").content.decode()
    assert 'value="https://login.example.org/token"' in text
    assert "reconnect.backoff.ms=100</textarea>" in text


def test_the_schema_registry_has_fields_of_its_own(admin: Client) -> None:
    registry = {
        "registry_urls": "https://a.example:8081,https://b.example:8081",
        "registry_username": "copier",
        "registry_password": "env:KAFKA_REGISTRY",
        "registry_ca": "file:/run/secrets/ca.pem",
    }
    assert admin.post("/add/cluster/", CLUSTER | registry).status_code == 302
    assert Cluster.objects.get().properties == {
        "schema.registry.url": "https://a.example:8081,https://b.example:8081",
        "schema.registry.basic.auth.username": "copier",
        "schema.registry.basic.auth.password": "env:KAFKA_REGISTRY",
        "schema.registry.ssl.ca": "file:/run/secrets/ca.pem",
    }
    text = admin.get("/clusters/east/edit/").content.decode()
    assert 'value="https://a.example:8081,https://b.example:8081"' in text
    assert 'value="env:KAFKA_REGISTRY"' in text
    assert "schema.registry" not in re.findall(r"<textarea.*?</textarea>", text, re.DOTALL)[-1]


@pytest.mark.parametrize(
    ("registry", "words"),
    [
        ({"registry_urls": "registry:8081"}, "must be one URL or more"),
        ({"registry_password": "env:KAFKA_REGISTRY"}, "schema.registry.url is not"),
        ({"registry_token": "env:UNDERSTUDY_SECRET"}, "belongs to Understudy itself"),
        ({"registry_urls": "http://10.0.0.9"}, "without encryption"),
        ({"registry_urls": "http://169.254.169.254"}, "may connect to"),
    ],
)
def test_a_schema_registry_that_cannot_be_used_is_refused(
    admin: Client, registry: dict[str, str], words: str
) -> None:
    usual = {"registry_urls": "https://a.example", "registry_token": "env:KAFKA_REGISTRY"}
    if "registry_password" in registry:
        usual = {}
    answer = admin.post("/add/cluster/", CLUSTER | usual | registry)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Cluster.objects.exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"alias": ""}, "alias"),
        ({"alias": "not an alias/"}, "alias"),
        ({"bootstrap_servers": "no-port"}, "bootstrap_servers"),
        ({"security_protocol": "NONSENSE"}, "security_protocol"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_username": "understudy",
                "sasl_password": "plain-secret",
            },
            "sasl_password",
        ),
        ({"properties": "no equals sign"}, "properties"),
        ({"properties": "plugin.library.paths=/tmp/evil.so"}, "properties"),
        ({"properties": "client.id=a\nclient.id=b"}, "properties"),
    ],
)
def test_an_error_in_a_cluster_is_shown_at_its_field(
    admin: Client, change: dict[str, str], field: str
) -> None:
    answer = admin.post("/add/cluster/", {**CLUSTER, **change})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert error_at(text, field), text[text.index("<form method") :][:3000]
    assert re.search(rf'name="{field}"[^>]*aria-invalid="true"', text)
    assert "Not saved. Correct these fields:" in text
    assert not Cluster.objects.exists()


@pytest.mark.parametrize(
    ("protocol", "cleared"),
    [
        ("PLAINTEXT", ("sasl_mechanism", "sasl_username", "sasl_password", "ssl_ca")),
        ("SSL", ("sasl_mechanism", "sasl_username", "sasl_password")),
        ("SASL_PLAINTEXT", ("ssl_ca",)),
    ],
)
def test_fields_that_another_protocol_hides_are_cleared(
    admin: Client, protocol: str, cleared: tuple[str, ...]
) -> None:
    scram = {
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "u",
        "sasl_password": "env:KAFKA_P",
    }
    world.cluster("east", security_protocol="SASL_SSL", ssl_ca="file:/run/secrets/ca.pem", **scram)
    change = {**CLUSTER, **scram, "ssl_ca": "file:/run/secrets/ca.pem"}
    change["security_protocol"] = protocol
    text = admin.post("/clusters/east/edit/", change).content.decode()
    assert "What this changes" in text, re.findall(r"errorlist.*", text)
    seen = re.search(r'name="seen" value="(\w+)"', text)
    assert seen
    answer = admin.post("/clusters/east/edit/", {**change, "apply": "yes", "seen": seen[1]})
    assert answer.status_code == 302
    saved = Cluster.objects.get()
    assert saved.security_protocol == protocol
    assert [getattr(saved, name) for name in cleared] == [""] * len(cleared)
    kept = {"sasl_mechanism", "ssl_ca"} - set(cleared)
    assert all(getattr(saved, name) for name in kept)


def test_the_review_of_a_cluster_refuses_what_saving_refuses(admin: Client) -> None:
    world.cluster("east")
    change = {**CLUSTER, "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    answer = admin.post("/clusters/east/edit/", change)
    assert answer.status_code == 422
    assert error_at(answer.content.decode(), "sasl_username")
    assert "What this changes" not in answer.content.decode()


def test_the_review_of_a_runner_refuses_what_saving_refuses(admin: Client) -> None:
    world.runner("second")
    answer = admin.post("/runners/second/edit/", {"master": "yarn9", "slots": "4", "host": ""})
    assert answer.status_code == 422
    assert error_at(answer.content.decode(), "master")
    assert "What this changes" not in answer.content.decode()


def test_a_saved_cluster_is_tested_again_and_its_old_error_is_gone(admin: Client) -> None:
    now = timezone.now()
    east = world.cluster("east", reachable=False, reason="Connection refused.", checked_at=now)
    change = {**CLUSTER, "bootstrap_servers": "other:9092"}
    text = admin.post("/clusters/east/edit/", change).content.decode()
    seen = re.search(r'name="seen" value="(\w+)"', text)
    assert seen
    admin.post("/clusters/east/edit/", {**change, "apply": "yes", "seen": seen[1]})
    east.refresh_from_db()
    assert (east.reachable, east.reason, east.checked_at) == (None, "", None)
    assert ClusterTest.objects.get().requested_by == "the-admin"
    page = admin.get("/clusters/east/").content.decode()
    assert "Connection refused." not in page
    assert "bootstrap.servers: east:9092 → other:9092" in page


def test_a_cluster_that_never_responded_has_no_last_contact(admin: Client) -> None:
    world.cluster("east", reachable=False, reason="Refused.", checked_at=timezone.now())
    for page in ("/clusters/", "/clusters/east/"):
        assert "never reached" in admin.get(page).content.decode()


def test_a_taken_alias_is_shown_at_its_field(admin: Client) -> None:
    world.cluster("east")
    assert "already registered" in error_at(
        admin.post("/add/cluster/", CLUSTER).content.decode(), "alias"
    )


def test_an_edit_of_a_cluster_shows_what_it_restarts_before_it_happens(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    world.flow(*pair)
    change = {"bootstrap_servers": "other:9092", "security_protocol": "PLAINTEXT"}
    text = admin.post("/clusters/primary/edit/", change).content.decode()
    assert "What this changes" in text
    assert "primary→backup: its slices stop at a commit" in text
    assert ">primary:9092</del>" in text
    assert Cluster.objects.get(alias="primary").bootstrap_servers == "primary:9092"
    seen = re.search(r'name="seen" value="(\w+)"', text)
    assert seen
    agreed = {**change, "apply": "yes", "seen": seen[1]}
    assert admin.post("/clusters/primary/edit/", agreed).status_code == 302
    assert Cluster.objects.get(alias="primary").bootstrap_servers == "other:9092"


def test_an_agreement_to_other_consequences_than_shown_changes_nothing(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    change = {"bootstrap_servers": "other:9092", "security_protocol": "PLAINTEXT"}
    text = admin.post("/clusters/primary/edit/", change).content.decode()
    seen = re.search(r'name="seen" value="(\w+)"', text)
    assert seen
    world.flow(*pair)
    agreed = {**change, "apply": "yes", "seen": seen[1]}
    text = admin.post("/clusters/primary/edit/", agreed).content.decode()
    assert "its slices stop at a commit" in text
    assert Cluster.objects.get(alias="primary").bootstrap_servers == "primary:9092"


def test_a_cluster_in_use_is_not_deleted_and_a_free_one_only_with_its_alias(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    flow = world.flow(*pair)
    answer = admin.post("/clusters/primary/delete/", {"typed": "primary"})
    assert answer.status_code == 422
    assert "cannot be removed while primary-&gt;backup uses it" in answer.content.decode()
    flow.delete()
    assert "Type primary exactly" in (
        admin.post("/clusters/primary/delete/", {"typed": "Primary"}).content.decode()
    )
    assert admin.post("/clusters/primary/delete/", {"typed": "primary"}).status_code == 302
    assert not Cluster.objects.filter(alias="primary").exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"master": "yarn9"}, "master"),
        ({"slots": "0"}, "slots"),
        ({"slots": "x"}, "slots"),
    ],
)
def test_an_error_in_a_runner_is_shown_at_its_field(
    admin: Client, change: dict[str, str], field: str
) -> None:
    good = {"name": "second", "master": "local[8,4]", "slots": "8"}
    answer = admin.post("/add/runner/", {**good, **change})
    assert answer.status_code == 422
    assert error_at(answer.content.decode(), field)
    assert not Runner.objects.exists()


def test_a_runner_is_added_and_its_edit_says_what_it_restarts(admin: Client) -> None:
    good = {"name": "second", "master": "local[8,4]", "slots": "8", "host": ""}
    assert admin.post("/add/runner/", good)["Location"] == "/runners/second/"
    Runner.objects.update(state="ready")
    change = {"master": "local[16,4]", "slots": "16", "host": ""}
    text = admin.post("/runners/second/edit/", change).content.decode()
    assert "its process stops and starts again on local[16,4]" in text
    assert Runner.objects.get().master == "local[8,4]"


def test_a_runner_without_flows_is_deleted_and_its_jobs_stay(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    second = world.runner("second")
    flow = world.flow(*pair, runner=second)
    job = world.job(flow, state="stopped", ended_at=timezone.now())
    answer = admin.post("/runners/second/delete/")
    assert answer.status_code == 409
    assert "hosts primary-&gt;backup" in answer.content.decode()
    Flow.objects.update(runner=world.runner("default"))
    assert admin.get("/runners/second/delete/").status_code == 200
    assert admin.post("/runners/second/delete/")["Location"] == "/runners/"
    assert not Runner.objects.filter(name="second").exists()
    assert admin.get(f"/flows/{flow.pk}/jobs/{job.pk}/").status_code == 200
    assert "second" in admin.get("/audit/").content.decode()


def test_a_runner_with_a_process_is_retired_until_it_has_ended(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    host = settings.UNDERSTUDY_HOST
    second = world.runner("second", state="ready", host=host, pid=2**22 - 2, start_tick=1)
    Sighting.objects.create(
        name=f"worker@{host}", kind="reconcile worker", host=host, pid=1, seen_at=timezone.now()
    )
    admin.post("/runners/second/delete/")
    assert "Its process ends first" in admin.get("/runners/second/").content.decode()
    second.refresh_from_db()
    with pytest.raises(Conflict, match="being deleted"):
        create_flow(source=pair[0], target=pair[1], properties={}, runner=second, who="x")
    clean_up()
    assert not Runner.objects.filter(name="second").exists()
