"""Compiles and starts the relay that puts a broker far away (`relay.c` says how it behaves)."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

from controlplane.bench.errors import BenchError
from controlplane.demo.processes.ports import HOST

SOURCE = Path(__file__).with_name("relay.c")
_COMPILE_S, _STOP_S = 60.0, 5.0


Side = Literal["source", "target"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkProfile:
    """The line to the clusters that are far away.

    - `rtt_ms`, `jitter_ms`: a round trip, and what is added at random in each direction.
    - `mbit_s`: capacity in each direction, 0 for no limit.
    - `window_bytes`: what one connection may have on its way. 64 MB: kernels whose limits were
      raised; 6 MB: those of Linux as installed.
    """

    far: Side | Literal["both"]
    rtt_ms: float
    jitter_ms: float = 0.0
    mbit_s: float = 0.0
    window_bytes: int = 64 << 20

    def is_far(self, side: Side) -> bool:
        return self.far in (side, "both")

    @property
    def bytes_s(self) -> float:
        return self.mbit_s * 125_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelayedBytes:
    """What a relay carried so far, in bytes, and its open connections."""

    to_broker: int
    from_broker: int
    connections: int


def build(directory: Path) -> Path:
    """The compiled relay in this directory; it is compiled once."""
    program = directory / "relay"
    if program.exists():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise BenchError("There is no C compiler, and the relay needs one: run make system.")
    directory.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O2", "-std=c11", "-o", str(program), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
    if done.returncode:
        raise BenchError(f"The relay does not compile: {done.stderr.strip()[-500:]}")
    return program


class Relay:
    """A relay process before one broker. It ends with this process at the latest."""

    def __init__(self, program: Path, *, port: int, broker_port: int, line: NetworkProfile) -> None:
        self.port = port
        numbers = (
            int(line.rtt_ms * 500),
            int(line.jitter_ms * 1000),
            int(line.bytes_s),
            line.window_bytes,
        )
        self._process = subprocess.Popen(
            [str(program), HOST, str(port), HOST, str(broker_port), *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self._answer() != "ready":
            raise BenchError(f"The relay did not start on port {port}. Is the port taken?")

    @property
    def pid(self) -> int:
        return self._process.pid

    def stall(self, seconds: float) -> None:
        """Deliver nothing for so long; nothing is lost."""
        self._order(f"stall {int(seconds * 1000)}")

    def cut(self) -> None:
        """Reset all connections, with what is on its way."""
        self._order("cut")

    def carried(self) -> RelayedBytes:
        to_broker, from_broker, connections = map(int, self._order("count").split())
        return RelayedBytes(to_broker=to_broker, from_broker=from_broker, connections=connections)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._checked(self._process.stdin).close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_S)
        self._checked(self._process.stdout).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _order(self, text: str) -> str:
        orders = self._checked(self._process.stdin)
        orders.write(text + "\n")
        orders.flush()
        return self._answer()

    def _answer(self) -> str:
        # It answers at once, or has died: both end the read.
        return self._checked(self._process.stdout).readline().strip()

    @staticmethod
    def _checked(pipe: IO[str] | None) -> IO[str]:
        if pipe is None:
            raise BenchError("The relay has no pipe to this process.")
        return pipe
