"""`manage.py bench` as a person starts and stops it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.bench.session import Session
from controlplane.bench.workload.scenarios import Scenario


def test_an_order_to_end_is_heard_as_ctrl_c_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned = []

    def run(session: Session, cells: Sequence[Scenario], *, command: str) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            cleaned.append(session)

    monkeypatch.setattr(Session, "run", run)
    before = signal.getsignal(signal.SIGTERM)
    # Where nobody listens the process just ends, and with it this session of tests.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(CommandError, match="Stopped; all started processes have ended"):
            call_command("bench", "--quick", dir=tmp_path, lock=tmp_path / "lock")
        assert cleaned
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
