"""The demo's directory: one demo at a time, secrets for its owner, nothing left by a refusal."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from controlplane.demo.errors import DemoError
from controlplane.demo.workspace import Workspace


def test_a_second_demo_in_the_same_directory_is_told_where_the_first_is(tmp_path: Path) -> None:
    first = Workspace(tmp_path / "demo")
    first.enter()
    first.remember(url="http://127.0.0.1:1")
    with pytest.raises(DemoError) as refused:
        Workspace(tmp_path / "demo").enter()
    assert str(refused.value) == (
        f"A demo already runs in {tmp_path / 'demo'} (process {os.getpid()} at "
        "http://127.0.0.1:1): use that one, stop it with Ctrl-C, or give this one a directory "
        "with --dir."
    )
    with pytest.raises(DemoError, match="already runs"):
        Workspace(tmp_path / "demo").clean()
    first.leave()
    Workspace(tmp_path / "demo").enter()


def test_what_a_killed_demo_left_is_ended_by_the_next(tmp_path: Path) -> None:
    first = Workspace(tmp_path)
    first.enter()
    path = {"PATH": os.environ["PATH"]}
    left = [
        subprocess.Popen(["sleep", "600"], env={**first.process_mark.environment, **path}),
        subprocess.Popen(["sleep", "600"], env=path),
    ]
    first.process_mark.note(left[1].pid)
    first.leave()
    second = Workspace(tmp_path)
    assert second.enter() == 2
    assert all(process.wait(5) is not None for process in left)
    assert second.process_mark.mark != first.process_mark.mark


def test_secrets_stay_the_same_and_are_the_owners(tmp_path: Path) -> None:
    one = Workspace(tmp_path)
    one.enter()
    password = one.secret("password")
    one.publish({"password": password})
    for name in ("secrets.json", "demo.json", "state.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert json.loads((tmp_path / "demo.json").read_text()) == {"password": password}
    one.leave()
    assert not (tmp_path / "demo.json").exists()
    again = Workspace(tmp_path)
    again.enter()
    assert again.secret("password") == password


def test_a_full_disk_is_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=12_000_000))
    with pytest.raises(DemoError, match="has 12 MB free, and the demo needs 1,000"):
        Workspace(tmp_path / "a" / "demo").enter()
    assert not (tmp_path / "a").exists()


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DemoError, match="cannot keep its files"):
        Workspace(tmp_path / "file" / "demo").enter()


def test_a_refused_start_removes_what_it_made_and_only_that(tmp_path: Path) -> None:
    new = Workspace(tmp_path / "new")
    new.enter()
    new.abandon()
    assert not new.directory.exists()
    (tmp_path / "old").mkdir()
    old = Workspace(tmp_path / "old")
    old.enter()
    old.abandon()
    assert old.directory.exists()


def test_clean_removes_everything(tmp_path: Path) -> None:
    space = Workspace(tmp_path / "demo")
    space.clean()
    space.enter()
    space.leave()
    space.clean()
    assert not space.directory.exists()
    assert psutil.pid_exists(os.getpid())


def test_services_that_start_at_the_same_time_have_the_same_secrets(tmp_path: Path) -> None:
    for attempt in range(20):
        workspace = Workspace(tmp_path / f"demo-{attempt}")
        workspace.enter()
        everyone = threading.Barrier(6)

        def ask(
            number: int, here: Workspace = workspace, all_: threading.Barrier = everyone
        ) -> str:
            all_.wait()
            if number % 3 == 0:
                here.keep_secret(f"token-{number}", "known")
            return here.secret("redis_password")

        with ThreadPoolExecutor(6) as pool:
            told = set(pool.map(ask, range(6)))
        assert told == {workspace.secret("redis_password")}
        assert workspace.known_secret("token-0") == workspace.known_secret("token-3") == "known"
        workspace.leave()
