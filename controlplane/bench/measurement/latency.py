"""Delay from intended send to receipt, on the source itself and on the target, in one run."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

from controlplane.bench.errors import BenchError
from controlplane.bench.measurement.steady_window import percentile

PROGRAM = Path(__file__).with_name("latency_clients.py")
_READY_S = 30.0
_DRAIN_S = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is sent while the delay is measured; the first `warm_s` do not count."""

    topic: str
    remote: str
    partitions: int
    codec: str
    record_bytes: int
    rate: float
    warm_s: float
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Delays:
    """Milliseconds; nan where nothing arrived. `missing` never came, `repeats` came again."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    missing: int
    repeats: int


def summarise(pairs: Sequence[int], *, skip_before: int, sent: int) -> Delays:
    """Delays of (intended, received, intended, received, ...) in nanoseconds."""
    intended, received = pairs[::2], pairs[1::2]
    # Each record has its own moment.
    once = set(intended)
    delays = sorted(
        (two - one) / 1e6 for one, two in zip(intended, received, strict=True) if one >= skip_before
    )
    return Delays(
        p50_ms=percentile(delays, 0.50),
        p90_ms=percentile(delays, 0.90),
        p99_ms=percentile(delays, 0.99),
        max_ms=delays[-1] if delays else math.nan,
        missing=max(0, sent - len(once)),
        repeats=len(intended) - len(once),
    )


def measure(
    source: str, target: str, traffic: Traffic, directory: Path, environment: Mapping[str, str]
) -> tuple[Delays, Delays]:
    """Send the traffic and return the delays on the source and on the target."""
    sides = [("source", source, traffic.topic), ("target", target, traffic.remote)]
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(_reader(name, bootstrap, topic, traffic, directory, environment))
            for name, bootstrap, topic in sides
        ]
        for reader in readers:
            _await_ready(reader)
        began = time.monotonic_ns()
        sent = _produce(source, traffic, environment)
        time.sleep(min(_DRAIN_S, 2.0))
        for reader in readers:
            reader.send_signal(signal.SIGTERM)
        for reader in readers:
            reader.wait(_DRAIN_S)
    skip = began + int(traffic.warm_s * 1e9)
    found = []
    for name, _, _ in sides:
        pairs = array("q", (directory / f"{name}.delays").read_bytes())
        found.append(summarise(pairs, skip_before=skip, sent=sent))
    return found[0], found[1]


@contextlib.contextmanager
def _reader(name, bootstrap, topic, traffic, directory, environment):  # type: ignore[no-untyped-def]
    command = [sys.executable, "-P", str(PROGRAM), "consume", bootstrap, topic]
    command += [str(traffic.partitions), str(directory / f"{name}.delays")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(environment))
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def _await_ready(reader: subprocess.Popen[str]) -> None:
    until = time.monotonic() + _READY_S
    # A line comes at once or the program dies: both end the read.
    if reader.stdout is None or reader.stdout.readline().strip() != "ready":
        raise BenchError("A reader for the latency run did not start; see its words above.")
    if time.monotonic() > until:
        raise BenchError(f"A reader for the latency run was not ready within {_READY_S:.0f} s.")


def _produce(source: str, traffic: Traffic, environment: Mapping[str, str]) -> int:
    seconds = traffic.warm_s + traffic.seconds
    command = [sys.executable, "-P", str(PROGRAM), "produce", source, traffic.topic]
    command += [str(traffic.partitions), traffic.codec, str(traffic.record_bytes)]
    command += [str(traffic.rate), str(seconds)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(environment),
        timeout=seconds + 60,
        check=True,
    )
    return int(done.stdout)
