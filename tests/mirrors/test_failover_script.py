"""A plan as a shell script: valid bash, every name quoted, no part of a name executed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mirrors.domain.failover.script import failover_script

# Notes each argument with a NUL behind it, and a second NUL behind the last; remembers places.
TOOL = """\
#!/bin/bash
for word in "$0" "$@"; do printf '%s\\0' "$word" >> "$NOTES/calls"; done
printf '\\0' >> "$NOTES/calls"
for word in "$@"; do
  if [[ $word == "$NOTES"* || $word == /tmp/*offsets.csv ]]; then cp "$word" "$NOTES/kept"; fi
  if [[ $word == --export && ! -e $NOTES/busy ]]; then cat "$NOTES/kept"; fi
done
"""
HOSTILE = (
    "--execute",
    "$(touch HERE)",
    "`touch HERE`",
    "a\n touch HERE\n",
    "it's",
    '"; touch HERE; "',
    "back\\slash\\",
    " ",
    "a=b,c",
    "!! *?[x]",
    "grüße 漢字",
    "\x1b[31m",
    "CSV\nEND",
    "~",
)
names = st.sampled_from(HOSTILE) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40
)


def place(group: str, topic: str = "primary.orders", **facts: Any) -> dict[str, Any]:
    row = {"group": group, "topic": "orders", "remote_topic": topic, "partition": 0, "reason": ""}
    return {**row, "downstream_offset": 5, **facts}


def plan(places: Sequence[dict[str, Any]], topics: Sequence[str] = ("orders",)) -> dict[str, Any]:
    return {
        "flow": "primary->backup",
        "digest": "d" * 64,
        "taken_at": 1_700_000_000_000,
        "places": list(places),
        "partitions": [{"topic": topic} for topic in topics],
        "blockers": [],
        "warnings": [{"code": "x", "where": "$(touch HERE)", "sentence": "a\nb `touch HERE`"}],
        "clients": [{"sentence": "$(touch HERE) changes\n touch HERE"}],
    }


def script(of: dict[str, Any]) -> str:
    return failover_script(of, title="Run 1.", source_bootstrap="s:1", target_bootstrap="t:1")


class Bench:
    """A directory with tools that note how they were called."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("kafka-consumer-groups.sh", "kafka-acls.sh"):
            path = directory / name
            path.write_text(TOOL)
            path.chmod(0o755)

    def run(self, text: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        for name in ("calls", "kept"):
            (self.directory / name).unlink(missing_ok=True)
        path = self.directory / "failover.sh"
        path.write_text(text, encoding="utf-8")
        subprocess.run(["bash", "-n", path], check=True, timeout=60)
        given = {"KAFKA_BIN": str(self.directory), "NOTES": str(self.directory), **environment}
        return subprocess.run(
            ["bash", path, *words],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], **given},
        )

    def calls(self) -> list[list[str]]:
        text = (self.directory / "calls").read_bytes().decode()
        return [call.split("\0")[1:] for call in text.split("\0\0") if call]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("tools"))


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(groups=st.lists(names, unique=True, min_size=1, max_size=3), topics=st.lists(names))
@example(groups=list(HOSTILE), topics=list(HOSTILE))
def test_every_name_arrives_as_it_is_and_nothing_of_it_is_run(
    bench: Bench, groups: list[str], topics: list[str]
) -> None:
    text = script(plan([place(group) for group in groups], topics))
    done = bench.run(text, "groups")
    assert done.returncode == 0, done.stderr
    told = [call for call in bench.calls() if "--execute" in call[3:]]
    assert sorted(call[2] for call in told) == sorted(f"--group={group}" for group in groups)
    assert all(call[3:5] == ["--reset-offsets", "--from-file"] for call in told)
    if topics:
        done = bench.run(text, "fence")
        assert done.returncode == 0, done.stderr
        denied = [word for call in bench.calls() for word in call if word.startswith("--topic=")]
        assert denied == [f"--topic={topic}" for topic in sorted(set(topics))]
    for act in ("check", "clients"):
        assert bench.run(text, act).returncode == 0
    assert not (bench.directory / "HERE").exists()


def test_the_places_are_a_line_each_and_read_back(bench: Bench) -> None:
    rows = [place("billing", partition=number, downstream_offset=10 * number) for number in (0, 1)]
    text = script(plan(rows))
    done = bench.run(text, "groups")
    assert (bench.directory / "kept").read_text() == "primary.orders,0,0\nprimary.orders,1,10\n"
    assert "Group billing has its offsets in 2 partitions." in done.stdout
    first, second = bench.calls()
    assert first[:2] == ["--bootstrap-server", "t:1"]
    assert "--execute" in first
    assert "--export" in second
    (bench.directory / "busy").touch()
    done = bench.run(text, "groups")
    (bench.directory / "busy").unlink()
    assert done.returncode == 1
    assert "Group billing does not have these offsets" in done.stderr


def test_a_group_without_a_place_stops_it_until_a_person_says_so(bench: Bench) -> None:
    missing = place("lost", downstream_offset=None, reason="no map of it")
    odd = [place("nul\0"), place("half\ud800"), place("")]
    text = script(plan([place("billing"), missing, *odd]))
    done = bench.run(text, "groups")
    assert (done.returncode, (bench.directory / "calls").exists()) == (1, False)
    assert "No resume offset for lost in orders-0: no map of it" in done.stdout
    assert "a command line cannot contain the name" in done.stdout
    assert "4 group-partitions have no offset" in done.stderr
    assert bench.run(text, "groups", ACCEPT_MISSING="yes").returncode == 0
    assert [call[2] for call in bench.calls()] == ["--group=billing"] * 2


def test_addresses_and_logins_come_from_the_environment_when_they_are_given(bench: Bench) -> None:
    text = script(plan([place("billing")]))
    login = {"TARGET": "x:2", "TARGET_CONFIG": "/etc/a b.properties", "SOURCE": "y:3"}
    bench.run(text, "verify", **login)
    assert bench.calls()[0][:4] == [
        "--bootstrap-server",
        "x:2",
        "--command-config",
        "/etc/a b.properties",
    ]
    bench.run(text, "unfence", **login)
    (call,) = bench.calls()
    assert call[:3] == ["--bootstrap-server", "y:3", "--remove"]
    assert bench.run(text).returncode == 64


def test_the_same_plan_gives_the_same_text() -> None:
    rows = [place("b"), place("a")]
    assert script(plan(rows)) == script(plan(rows[::-1]))
