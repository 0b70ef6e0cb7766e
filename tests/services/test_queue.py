"""The queue is closed to others, and values that examples show are refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import redis
import yaml
from pytest_django import Settings

from controlplane import checks
from controlplane.demo.errors import DemoError
from controlplane.demo.processes.ports import free_port
from controlplane.demo.processes.valkey import configuration, valkey_server
from tests.services import compose

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "of-this-test-only"


def test_without_a_password_it_listens_to_this_machine_only(tmp_path: Path) -> None:
    for bind in ("0.0.0.0", "::", "10.0.0.1", "127.0.0.1 10.0.0.1", "queue.example"):  # noqa: S104
        with pytest.raises(DemoError, match="without a password"):
            configuration(tmp_path, port=1, bind=bind, password="")
    for bind in ("127.0.0.1", "::1", "localhost"):
        assert "requirepass" not in configuration(tmp_path, port=1, bind=bind, password="")
    with pytest.raises(DemoError, match="line break"):
        configuration(tmp_path, port=1, bind="::1", password='x"\nprotected-mode no')


def test_it_demands_its_password_and_shows_it_nowhere(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "manage.py", "redis", str(tmp_path / "q"), "--port", str(port)]
    environment = {**os.environ, "UNDERSTUDY_REDIS_PASSWORD": PASSWORD}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
    try:
        client = redis.Redis(port=port, password=PASSWORD, socket_timeout=5)
        until = time.monotonic() + 60
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert time.monotonic() < until
                time.sleep(0.1)
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port, socket_timeout=5).set("x", "1")
        there = psutil.Process(process.pid)
        assert PASSWORD not in " ".join(there.cmdline())
        assert PASSWORD not in str(there.environ())
        files = [path for path in (tmp_path / "q").rglob("*") if path.is_file()]
        assert all(PASSWORD.encode() not in path.read_bytes() for path in files)
        version = client.info("server")["redis_version"]
        assert "valkey" not in valkey_server() or int(version.split(".")[0]) >= 7
    finally:
        process.kill()
        process.wait()


def test_values_of_examples_are_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY = "a-key-of-this-test-and-of-nobody-else"
    settings.REDIS_URL = "redis://:a-password-of-this-test@queue:6379/0"
    monkeypatch.setitem(settings.DATABASES["default"], "PASSWORD", "another-one")
    assert checks.known_secrets(None) == []
    settings.SECRET_KEY = "change-me-before-anyone-else-can-reach-this"
    monkeypatch.setitem(settings.DATABASES["default"], "PASSWORD", "Understudy")
    settings.REDIS_URL = "redis://:redis@queue:6379/0"
    assert [found.id for found in checks.known_secrets(None)] == ["understudy.E012"] * 3
    settings.REDIS_URL = "redis://queue:6379/0"
    assert "has no password" in str(checks.known_secrets(None)[-1].msg)


def test_the_example_has_no_secret_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    for _ in range(2):
        subprocess.run(["bash", ".ci/compose-secrets", str(file)], cwd=ROOT, check=True)
    values = dict(line.split("=") for line in file.read_text().splitlines())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(set(values.values())) == 3
    assert all(len(value) > 30 for value in values.values())
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    for name in values:
        assert f"${{{name}:?" in text


def test_every_service_of_the_example_is_confined() -> None:
    for name, service in compose.load().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_every_pod_has_a_policy_and_none_reaches_metadata_services() -> None:
    text = (ROOT / "docs/kubernetes/network-policies.yaml").read_text(encoding="utf-8")
    everyone, *_ = list(yaml.safe_load_all(text))
    assert everyone["spec"]["podSelector"] == {"matchLabels": {"app": "understudy"}}
    blocks = [to["ipBlock"] for rule in everyone["spec"]["egress"] for to in rule.get("to", [])]
    assert blocks
    assert all(block["except"] for block in blocks)
