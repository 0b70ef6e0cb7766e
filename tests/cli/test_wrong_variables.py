"""A wrong environment variable ends a program with one sentence, and repeats no secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import environment
from controlplane.environment import WrongVariable

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "hunter2"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("UNDERSTUDY_SMTP_PORT", "smtp", "UNDERSTUDY_SMTP_PORT is 'smtp'; it must be a whole"),
        ("UNDERSTUDY_READ_SECONDS", "nan", "UNDERSTUDY_READ_SECONDS is 'nan'; it must be a number"),
        ("UNDERSTUDY_AUDIT_DAYS", "-1", "it must be a whole number of 0 or more."),
        ("UNDERSTUDY_MAX_BODY", "4M", "UNDERSTUDY_MAX_BODY is '4M'"),
        ("UNDERSTUDY_HTTPS", "ture", "UNDERSTUDY_HTTPS is 'ture'; it must be 1 or 0."),
        ("UNDERSTUDY_GROUP_ROLES", "a=root", "'a=root' is not GROUP=ROLE"),
        ("UNDERSTUDY_SECRET_KEY_FILE", "/not/there", "cannot be read: No such file or directory."),
        ("DATABASE_URL", f"mysql://u:{PASSWORD}@h/n", "DATABASE_URL begins with 'mysql'; it must"),
        ("DATABASE_URL", f"postgresql://u:{PASSWORD}@h:abc/n", "DATABASE_URL has a port or host"),
        ("DATABASE_URL", f"postgresql://u:{PASSWORD}/x@h/n", "DATABASE_URL has a port or host"),
    ],
)
def test_a_wrong_value_is_one_sentence(name: str, value: str, sentence: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "environment.md" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert PASSWORD not in done.stderr


def test_right_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in {"1": True, "ON": True, "no": False, "0": False, "": True}.items():
        monkeypatch.setenv("SWITCH", text)
        assert environment.env_bool("SWITCH", default=True) is expected
    monkeypatch.setenv("NUMBER", " 7 ")
    assert environment.env_int("NUMBER", 3) == 7
    assert environment.env_float("ANOTHER", 0.5) == 0.5
    with pytest.raises(WrongVariable, match=r"must be a whole number of 8 or more"):
        environment.env_int("NUMBER", 9, least=8)
