"""Spark's UI and event log of a runner: setting, form, REST, restart, page, and who sees what."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from mirrors import launcher
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.runners.job_files import RunnerStatus
from mirrors.models import Runner
from mirrors.services.runners import processes
from mirrors.services.runners import settings as services
from tests.pages import world
from tests.pages.conftest import As, signed_in  # noqa: F401 - a fixture

WHO = "tester"
URL = "http://127.0.0.1:4040"
pytestmark = pytest.mark.django_db

STATUS = RunnerStatus(
    name="default",
    host="h",
    pid=1,
    start_tick=1,
    state="ready",
    reason="",
    master="local[4]",
    slots=4,
    slots_used=0,
    application_id="local-1",
    started_at=0,
    as_of=1,
)


@pytest.fixture
def runner() -> Runner:
    return services.create_runner(name="seen", master="local[4]", who=WHO)


def test_an_event_log_is_a_directory_or_an_address_without_a_login(runner: Runner) -> None:
    for good in ("/var/log/spark", "hdfs://namenode:8020/logs", "s3a://bucket/logs", ""):
        services.update_runner(runner=runner, event_log=good, who=WHO)
        runner.refresh_from_db()
        assert runner.event_log == good
    for bad in ("logs", "hdfs://user:secret@host/logs", "s3a://b/x?key=1", "/a b", "/" + "x" * 500):
        with pytest.raises(InvalidSettings) as caught:
            services.update_runner(runner=runner, event_log=bad, who=WHO)
        assert "absolute directory" in str(caught.value.fields["event_log"])


def test_a_change_restarts_the_process_and_says_so(runner: Runner) -> None:
    Runner.objects.filter(pk=runner.pk).update(state="ready")
    runner.refresh_from_db()
    [sentence] = services.restarts_of_update(runner=runner, spark_ui=True)
    assert sentence == "Runner seen: its process stops and starts again on local[4]."
    assert services.restarts_of_update(runner=runner, slots=9) == []
    assert processes.outdated_start(runner=runner, status=STATUS) == ""
    services.update_runner(runner=runner, spark_ui=True, event_log="/logs", who=WHO)
    runner.refresh_from_db()
    assert processes.outdated_start(runner=runner, status=STATUS) == (
        "Its event log was changed from none to /logs and its Spark UI was switched on."
    )
    started = dataclasses.replace(STATUS, ui=True, event_log="/logs")
    assert processes.outdated_start(runner=runner, status=started) == ""


def test_a_start_passes_them_to_the_process(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def start(*_: Any, **options: Any) -> launcher.RunnerProcess:
        given.update(options)
        return launcher.RunnerProcess(1, 1)

    monkeypatch.setattr(launcher, "start_runner", start)
    services.update_runner(runner=runner, spark_ui=True, event_log="/logs", who=WHO)
    runner.refresh_from_db()
    assert processes.start(runner=runner, reason="It is needed.")
    assert given == {"ui": True, "event_log": "/logs"}


def test_a_report_of_an_older_runner_is_read(tmp_path: Path) -> None:
    old = STATUS.to_json()
    for name in ('"ui": false, ', '"ui_url": "", ', '"event_log": "", ', ', "warnings": []'):
        assert name in old
        old = old.replace(name, "")
    assert RunnerStatus.from_json(old) == STATUS
    told = dataclasses.replace(STATUS, ui=True, ui_url=URL, warnings=("No event log.",))
    assert RunnerStatus.from_json(told.to_json()) == told


@pytest.fixture
def shown() -> Runner:
    runner = world.flow(world.cluster("east"), world.cluster("west")).runner
    assert runner is not None
    runner.spark_ui, runner.spark_ui_url, runner.event_log = True, URL, "/logs"
    runner.spark_warnings = ["No event log is written: <x>."]
    runner.save()
    return runner


def test_operators_see_the_address_on_both_pages_and_viewers_do_not(
    signed_in: As,  # noqa: F811
    shown: Runner,
) -> None:
    flow = shown.flows.get()
    for path in (f"/runners/{shown.name}/", f"/flows/{flow.pk}/jobs/"):
        assert f'href="{URL}/jobs/"' in signed_in("operator").get(path).content.decode()
        page = signed_in("viewer").get(path).content.decode()
        assert URL not in page
        assert "operator or admin" in page
    page = signed_in("viewer").get(f"/runners/{shown.name}/").content.decode()
    assert "No event log is written: &lt;x&gt;." in page
    assert "/logs" in page


def test_the_form_keeps_what_it_shows(signed_in: As, shown: Runner) -> None:  # noqa: F811
    shown.failover_hosts = "a, b"
    shown.save()
    admin = signed_in("admin")
    page = admin.get(f"/runners/{shown.name}/edit/").content.decode()
    for name in ("failover_hosts", "event_log", "spark_ui"):
        assert f'name="{name}"' in page
    asked = {"master": shown.master, "slots": shown.slots, "host": shown.host}
    asked |= {"failover_hosts": "a, b", "event_log": "/logs", "spark_ui": "on"}
    page = admin.post(f"/runners/{shown.name}/edit/", {**asked, "spark_ui": ""}).content.decode()
    assert "spark_ui" in page
    answer = admin.post(f"/runners/{shown.name}/edit/", asked)
    assert answer.status_code == 302, "nothing is changed"
    shown.refresh_from_db()
    assert (shown.spark_ui, shown.event_log, shown.failover_hosts) == (True, "/logs", "a, b")


def test_rest_sets_both_and_gives_the_address_to_operators_only(
    signed_in: As,  # noqa: F811
    shown: Runner,
) -> None:
    path = f"/api/v1/runners/{shown.name}/"
    assert signed_in("operator").get(path).json()["spark_ui_url"] == URL
    answer = signed_in("viewer").get(path).json()
    assert (answer["spark_ui_url"], answer["spark_ui"], answer["event_log"]) == ("", True, "/logs")
    admin = signed_in("admin")
    change = {"spark_ui": False, "event_log": ""}
    answer = admin.patch(path, change, content_type="application/json")
    assert answer.status_code == 200, answer.content
    shown.refresh_from_db()
    assert (shown.spark_ui, shown.event_log) == (False, "")
    answer = admin.patch(path, {"event_log": "logs"}, content_type="application/json")
    assert answer.status_code == 400
