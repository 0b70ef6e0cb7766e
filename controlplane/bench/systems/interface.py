"""What a system under test is asked to do, and what each of them must be able to do for us."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from controlplane.bench.errors import BenchError

_SAID = 8_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Link:
    """One flow of an order: two aliases that no other run uses, and the topics to copy."""

    source_alias: str
    target_alias: str
    topics: tuple[str, ...]

    def remote(self, topic: str) -> str:
        return f"{self.source_alias}.{topic}"

    @property
    def name(self) -> str:
        return f"{self.source_alias}->{self.target_alias}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplicationTask:
    """Copy these topics from one cluster to the other, earliest record first, until stopped."""

    source: str
    target: str
    links: tuple[Link, ...]
    codec: str
    # What to trust when both clusters are reached over TLS.
    ca: Path | None = None

    @property
    def renamed(self) -> dict[str, str]:
        """Remote topic of each topic."""
        return {topic: link.remote(topic) for link in self.links for topic in link.topics}


class System(abc.ABC):
    """A replicator that can be started for an order, measured by its processes, and stopped.

    `system` and `delivery` go into the results; `label` names it among several of its kind.
    """

    label: str
    system: str
    delivery: str
    # Among how many the partitions of a flow are shared out.
    tasks = 1
    # Whether the remote topics must be there before the start.
    wants_topics = False
    # Topics beside those that carry an alias of its order, to be deleted after a run.
    leaves: tuple[str, ...] = ()

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.environment = dict(environment)

    @abc.abstractmethod
    def start(self, order: ReplicationTask) -> None:
        """Start and return at once."""

    @property
    @abc.abstractmethod
    def roots(self) -> list[int]:
        """The processes whose trees are the whole system."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raise BenchError with its last words when it died or says that it cannot continue."""

    def lane(self) -> str:
        """How it copies, in its own words, while it runs; nothing where there is one way only."""
        return ""

    def epoch(self) -> int:
        """How many tasks have copied one after the other; none where nothing is handed over."""
        return 0

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop cleanly, so that all it has taken is on the target; at worst by force."""

    @abc.abstractmethod
    def configuration(self, order: ReplicationTask) -> str:
        """What a person would write down to run it the same way."""


class ProcessSystem(System):
    """A system that is one process, with its output in a file."""

    stop_s = 40.0

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        super().__init__(directory, environment)
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, command: Sequence[str]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "output.log").open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.directory,
                start_new_session=True,
            )

    @property
    def roots(self) -> list[int]:
        return [self._process.pid] if self._process else []

    def check(self) -> None:
        if self._process is not None and (code := self._process.poll()) is not None:
            raise BenchError(
                f"{self.label} ended by itself with code {code}: {self.exit_reason()}. Its files "
                f"are in {self.directory}."
            )

    def exit_reason(self) -> str:
        text = ""
        for path in sorted(self.directory.glob("*.log")):
            with contextlib.suppress(OSError):
                text += path.read_text(errors="replace")[-_SAID:]
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        told = [line for line in lines if "ERROR" in line or "Exception" in line or "Error" in line]
        return (told or lines or ["it said nothing"])[-1][:300]

    def stop(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(self.stop_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


def wait_until(moment: float) -> None:
    """Sleep until a moment of the monotonic clock; at once when it is past."""
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)
