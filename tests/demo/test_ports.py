"""Ports for servers that are about to start: no port is given to two of them."""

from __future__ import annotations

import random
from collections import deque

import pytest

from controlplane.demo.processes import ports


def test_a_port_that_was_given_out_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens on it yet, so it still looks free: a broker took one for two listeners."""
    monkeypatch.setattr(ports, "_given", deque(maxlen=100))
    drawn = iter([25_001, 25_001, 25_002])
    monkeypatch.setattr(random.SystemRandom, "randint", lambda *_: next(drawn))
    monkeypatch.setattr(ports, "is_free", lambda _: True)
    assert [ports.free_port(), ports.free_port()] == [25_001, 25_002]
