"""The command `understudy` against the real REST API: output, JSON, exit codes, sentences."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from controlplane.celery import app as celery
from controlplane.cli import output
from controlplane.cli.main import main
from mirrors import rest_client
from mirrors.models import FailoverRun, Flow, FlowAccount, FlowTopic, GroupOffset, Host, Role
from mirrors.services.users import create_token, ensure_person
from monitoring.models import AlertRule
from tests.pages import world

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def flow(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setattr(celery.conf, "broker_url", "memory://")
    # A flush between tests takes the groups that a migration made.
    for role in Role:
        if role is not Role.NONE:
            Group.objects.get_or_create(name=role.word)
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
        ensure_person(username=role.word, password=None, role=role)
    return world.busy()


@pytest.fixture
def run(
    flow: Flow,
    live_server: LiveServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Run:
    """Run a command as a person with a role; returns exit code, output, errors."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def command(*words: str, role: Role | None = Role.OPERATOR) -> tuple[int, str, str]:
        monkeypatch.setenv("UNDERSTUDY_URL", live_server.url)
        token = create_token(username=role.word) if role else "none"
        monkeypatch.setenv("UNDERSTUDY_TOKEN", token)
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        told = capfd.readouterr()
        assert "Traceback" not in told.err
        return int(ended.value.code or 0), told.out, told.err

    return command


def test_an_id_is_shown_as_it_is_typed() -> None:
    row = {"id": 5003, "partition": 1200, "offset": 41_112}
    assert [output.field(name)(row) for name in row] == ["5003", "1200", "41,112"]


def test_the_list_of_flows_shows_state_and_records_owed_with_their_certainty(
    run: Run, flow: Flow
) -> None:
    code, out, _ = run("flows", "list")
    assert code == 0
    (line,) = [line for line in out.splitlines() if re.match(rf"{flow.pk}\s", line)]
    row = _json(run, "flows", "show", flow.name)
    assert row["observed_state"] in line
    bound = {"at_least": "at least ", "at_most": "at most "}.get(row["owed"]["certainty"], "")
    assert f"{bound}{row['owed']['records']:,}" in line


@pytest.mark.parametrize("by_name", [True, False])
def test_a_flow_is_found_by_id_and_by_name(run: Run, flow: Flow, by_name: bool) -> None:
    assert _json(run, "flows", "show", flow.name if by_name else str(flow.pk))["id"] == flow.pk


@pytest.mark.parametrize("words", [("topics",), ("partitions",), ("groups",)])
def test_lists_of_a_flow_have_the_rows_of_the_api(
    run: Run, flow: Flow, words: tuple[str, ...]
) -> None:
    GroupOffset.objects.create(flow=flow, group="app", as_of=flow.since)
    rows = _json(run, "flows", *words, flow.name)
    assert rows
    name = "group" if words == ("groups",) else "topic"
    _, out, _ = run("flows", *words, flow.name)
    for row in rows:
        assert row[name] in out
    assert len(_json(run, "flows", *words, flow.name, "--limit", "1")) == 1


def test_explain_says_the_rule(run: Run, flow: Flow) -> None:
    row = _json(run, "flows", "explain", flow.name, "--topic", "orders")
    assert row["replicated"] is True
    code, _, err = run("flows", "explain", flow.name)
    assert code == 2
    assert "--topic or --group" in err


def test_verbs_change_the_wanted_state_and_need_the_right(run: Run, flow: Flow) -> None:
    code, _, err = run("flows", "pause", flow.name, role=Role.VIEWER)
    assert code == 4
    assert "operator" in err
    assert run("flows", "pause", flow.name)[0] == 0
    flow.refresh_from_db()
    assert flow.desired_state == "paused"


def test_lag_ends_with_1_when_a_flow_is_not_well(run: Run, flow: Flow) -> None:
    observe(flow, seconds_ago=2)
    assert run("lag", "--check")[0] == 0
    Flow.objects.update(observed_state="degraded")
    assert run("lag")[0] == 0
    assert run("lag", "--check")[0] == 1


# Ten minutes, and the few seconds that a test takes; never less.
OLD = r"10 min( \d+ s)?"


def test_lag_shows_its_age_and_ends_with_1_when_it_is_old_or_unknown(run: Run, flow: Flow) -> None:
    observe(flow, seconds_ago=600)
    for command in (("flows", "list"), ("lag",), ("flows", "topics", flow.name)):
        _, out, _ = run(*command)
        assert re.search(r"\bseen\b", out.splitlines()[0])
        assert re.search(rf"\b{OLD} ago", out), out
    code, _, err = run("lag", "--check")
    assert code == 1
    assert re.fullmatch(rf"{flow.name}: its lag is {OLD} old, so it may be more by now\.\n", err)

    FlowAccount.objects.all().delete()
    Flow.objects.update(as_of=None)
    code, out, err = run("lag", "--check")
    assert code == 1
    assert "never" in out
    assert err == f"{flow.name}: its lag is unknown, since its source was never observed.\n"

    # A person ended it, and nothing observes its source.
    Flow.objects.update(observed_state="stopped")
    assert run("lag", "--check")[0] == 0


@pytest.mark.parametrize("wrong_by", [-86_400, 86_400])
def test_an_age_is_by_the_clock_of_the_server(
    run: Run, flow: Flow, wrong_by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(flow, seconds_ago=2)

    class WrongClock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(seconds=wrong_by)

    monkeypatch.setattr(rest_client, "datetime", WrongClock)
    code, out, err = run("lag", "--check")
    assert code == 0, err
    assert re.search(r"\d s ago", out)


def observe(flow: Flow, *, seconds_ago: float) -> None:
    """All figures of the flow were observed then."""
    at = timezone.now() - timedelta(seconds=seconds_ago)
    FlowTopic.objects.update(observed_at=at)
    FlowAccount.objects.update(observed_at=at)
    Flow.objects.update(as_of=at)


@pytest.mark.parametrize(("verification", "code"), [("verified", 0), ("partly_verified", 1)])
def test_a_simulation_ends_with_0_only_when_everything_is_verified(
    run: Run, flow: Flow, verification: str, code: int
) -> None:
    ended = {"state": "succeeded", "ended_at": flow.since, "verification": verification}
    made = FailoverRun.objects.create(
        flow=flow, kind="simulation", mark="m", requested_by="tester", **ended
    )
    assert run("failover", "show", str(made.pk))[0] == code


def test_a_refused_request_is_a_sentence_and_2(run: Run, flow: Flow) -> None:
    code, out, err = run("flows", "show", "nowhere->nothing")
    assert (code, out) == (2, "")
    assert "nowhere->nothing" in err
    assert run("failover", "show", "99")[0] == 2


def test_a_bad_token_is_4_and_a_dead_address_3(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("flows", "list", role=None)[0] == 4
    code, _, err = run("--url", "http://127.0.0.1:9", "flows", "list")
    assert code == 3
    assert "http://127.0.0.1:9 cannot be reached" in err


def test_a_login_is_kept_for_the_owner_alone_and_used_later(
    run: Run,
    flow: Flow,
    live_server: LiveServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run("version")
    monkeypatch.delenv("UNDERSTUDY_TOKEN")
    monkeypatch.delenv("UNDERSTUDY_URL")
    secret = tmp_path / "token"
    secret.write_text(create_token(username="viewer") + "\n")
    with secret.open() as typed, monkeypatch.context() as inside:
        inside.setattr("sys.stdin", typed)
        with pytest.raises(SystemExit):
            main(["login", live_server.url])
    kept = tmp_path / "config" / "understudy" / "login.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["--json", "flows", "list"])
    told = capfd.readouterr()
    assert ended.value.code in (0, None)
    assert {row["id"] for row in json.loads(told.out)} >= {flow.pk}
    assert secret.read_text().strip() not in told.out + told.err


def test_any_address_can_be_read_as_json(run: Run) -> None:
    code, out, _ = run("get", "/api/v1/topology/")
    assert code == 0
    assert json.loads(out)


@pytest.mark.parametrize("position", ["orders", "orders:x:1", "orders:0:-1", ":0:1"])
def test_a_position_that_cannot_be_read_is_refused_with_an_example(
    run: Run, flow: Flow, position: str
) -> None:
    code, _, err = run("translate", flow.name, position)
    assert code == 2
    assert "orders:0:1200" in err


def test_files_are_planned_applied_and_then_unchanged(run: Run, flow: Flow, tmp_path: Path) -> None:
    text = run("declarations", role=Role.ADMIN)[1]
    folder = tmp_path / "objects"
    folder.mkdir()
    (folder / "all.yaml").write_text(text)
    (folder / "late.yml").write_text(
        "kind: AlertRule\nname: Late\nspec: {kind: time_lag, threshold: 60}\n"
    )
    code, out, err = run("apply", "-f", str(folder), "--plan", role=Role.ADMIN)
    assert (code, err) == (1, "")
    assert f"+ AlertRule Late  ({folder}/late.yml:1)" in out
    assert "1 to change" in out
    assert not AlertRule.objects.filter(name="Late").exists()
    assert run("apply", "-f", str(folder), role=Role.ADMIN)[0] == 2
    assert run("apply", "-f", str(folder), "--yes", role=Role.ADMIN)[0] == 0
    assert AlertRule.objects.get(name="Late").threshold == 60
    assert run("apply", "-f", str(folder), "--plan", role=Role.ADMIN)[0] == 0
    (folder / "late.yml").write_text("kind: AlertRule\nname: Late\nspec: {treshold: 60}\n")
    code, _, err = run("apply", "-f", str(folder), "--yes", role=Role.ADMIN)
    assert code == 2
    assert f"{folder}/late.yml:3: AlertRule has no field treshold." in err
    (folder / "late.yml").write_text(
        "kind: AlertRule\nname: Late\nspec: {kind: time_lag, threshold: 70}\n"
    )
    AlertRule.objects.filter(name="Late").update(threshold=65)
    code, _, err = run("apply", "-f", str(folder), "--yes", role=Role.ADMIN)
    assert code == 2
    assert "AlertRule Late, threshold: somebody changed it after" in err
    told = ("apply", "-f", str(folder), "--yes", "--overwrite-drift")
    assert run(*told, role=Role.ADMIN)[0] == 0
    assert AlertRule.objects.get(name="Late").threshold == 70
    code, _, err = run("apply", "-f", str(folder), "--prune", "nobody", role=Role.ADMIN)
    assert code == 2
    assert "label:nobody: No flow of the files has the label nobody" in err


def test_files_without_documents_and_folders_without_files_say_so(run: Run, tmp_path: Path) -> None:
    code, _, err = run("apply", "-f", str(tmp_path), "--plan", role=Role.ADMIN)
    assert (code, f"{tmp_path} has no file that ends with .yaml or .yml." in err) == (2, True)
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    code, out, _ = run("apply", "-f", str(tmp_path), "--plan", role=Role.ADMIN)
    assert (code, "The files have no document." in out) == (0, True)


def _json(run: Run, *words: str) -> Any:
    code, out, err = run("--json", *words)
    assert code == 0, err
    return json.loads(out)


def test_pools_are_listed_and_balanced(run: Run, flow: Flow) -> None:
    assert "No runner has a pool." in run("runners", "pools")[1]
    flow.runner.pool = "east"
    flow.runner.save()
    out = run("runners", "pools")[1]
    assert "east" in out
    assert "alone" in out
    # Its flow has not reported, so the rate is unknown.
    assert "unknown" in out
    code, _, err = run("runners", "balance", "east", role=Role.ADMIN)
    assert code == 2
    assert "It has one runner" in " ".join(err.split())
    assert run("runners", "balance", "east", role=Role.VIEWER)[0] == 4


def test_a_host_is_drained_and_takes_runners_again(run: Run, flow: Flow) -> None:
    now = timezone.now()
    Host.objects.create(name="blade-1", renewed_at=now, held_since=now)
    code, _, err = run("hosts", "drain", "blade-1", "--wait", "0", role=Role.ADMIN)
    assert code == 2
    assert "No other host" in err
    Host.objects.create(name="blade-2", renewed_at=now, held_since=now)
    flow.runner.host = "blade-1"
    flow.runner.save()
    code, out, _ = run("hosts", "drain", "blade-1", "--wait", "0", role=Role.ADMIN)
    assert code == 1, "its runner has no other host"
    assert "its list of other hosts is empty" in " ".join(out.split())
    lines = {line.split()[0]: line for line in run("hosts", "list")[1].splitlines()}
    assert "drained, stays: 1" in lines["blade-1"]
    assert "drain" not in lines["blade-2"]
    assert run("hosts", "end-drain", "blade-1", role=Role.VIEWER)[0] == 4
    assert run("hosts", "end-drain", "blade-1", role=Role.ADMIN)[0] == 0
    assert not Host.objects.exclude(draining_since=None).exists()
    code, _, err = run("hosts", "drain", "nosuch", role=Role.ADMIN)
    assert code == 2
    assert "nosuch" in err
