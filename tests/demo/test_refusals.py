"""What a person sees when the demo cannot start: one sentence, and nothing left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command

from controlplane.demo.errors import DemoError
from controlplane.demo.kafka import jars
from controlplane.demo.processes.java import find_java
from controlplane.demo.processes.ports import HOST, free_port

ROOT = Path(__file__).resolve().parents[2]


Refusal = Callable[[Path], str]


def one_sentence(output: str) -> str:
    """A traceback or a second line would not be one."""
    assert "Traceback" not in output
    lines = [line for line in output.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Refusal:
    """The one sentence of the command, called here with the environment of the test."""

    def refused(directory: Path) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            call_command("demo", dir=directory)
        assert ended.value.code == 1
        told = capsys.readouterr()
        return one_sentence(told.out + told.err)

    return refused


def fake_java(directory: Path, script: str) -> str:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(directory)


def test_no_java(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "manage.py", "demo", "--dir", str(tmp_path / "demo")],
        env={**os.environ, "PATH": str(tmp_path / "empty"), "JAVA_HOME": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    said = one_sentence(done.stdout + done.stderr)
    assert said.startswith("Java is missing: none is on PATH. Install a Java 17")
    assert not (tmp_path / "demo").exists()


def test_a_java_home_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME points at {tmp_path}, which has no bin/java" in refusal(tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_a_java_that_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    home = fake_java(tmp_path, "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    monkeypatch.setenv("JAVA_HOME", home)
    assert refusal(tmp_path / "demo").startswith(f"Java 11 at {home}/bin/java is too old")
    assert not (tmp_path / "demo").exists()


def test_java_eight_counts_as_eight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, "echo 'java version \"1.8.0_1\"' >&2"))
    with pytest.raises(DemoError, match="Java 8 at"):
        find_java()


@pytest.mark.parametrize("name", ["WEB", "REDIS", "PRIMARY", "BACKUP"])
def test_an_occupied_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal, name: str
) -> None:
    variable = f"UNDERSTUDY_DEMO_{name}_PORT"
    with socket.create_server((HOST, free_port())) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv(variable, str(port))
        said = refusal(tmp_path / "demo")
    assert f"Port {port}, which {variable} sets for the demo's {name.lower()}" in said
    assert not (tmp_path / "demo").exists()


def test_a_port_that_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    monkeypatch.setenv("UNDERSTUDY_DEMO_WEB_PORT", "http")
    assert "is 'http'; a port is a number" in refusal(tmp_path / "demo")


def test_jars_that_cannot_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "case \"$1\" in -version) echo 'version \"17\"' >&2;; *) echo 'Exception: no route'; esac"
    )
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, script))
    monkeypatch.setattr(jars.time, "sleep", lambda _: None)
    said: list[str] = []
    with pytest.raises(DemoError, match=r"could not be fetched: .* is missing .* \(.*no route\)"):
        jars.kafka_jars(said.append, cache=tmp_path / "cache" / "kafka")
    assert len(said) == jars.ATTEMPTS - 1
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kafka.lock"]


def test_a_jar_with_another_checksum_is_not_run(tmp_path: Path) -> None:
    for name in jars.BROKER.wanted:
        (tmp_path / name).write_bytes(b"not it")
    (tmp_path / "more.jar").write_bytes(b"")
    wrong = jars.differences(tmp_path)
    assert wrong[0] == "more.jar is not wanted"
    assert all("another checksum" in sentence for sentence in wrong[1:])
    assert len(wrong) == 1 + len(jars.BROKER.wanted)
