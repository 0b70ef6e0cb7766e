"""The Java programs of one broker: their command line, and the formatting of its directory."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from controlplane.demo.kafka.jars import JarSet, kafka_jars
from controlplane.demo.processes.java import find_java

FORMAT_DEADLINE = 90.0
BROKER = "kafka.Kafka"
_FORMAT = ("kafka.tools.StorageTool", "format", "-t")


def new_cluster_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # The storage tool would take a leading dash for another option.
        if not text.startswith("-"):
            return text


class BrokerJava:
    """What each Java of this broker gets: options, log settings, class path, environment."""

    def __init__(
        self,
        directory: Path,
        options: Sequence[str],
        environment: Mapping[str, str],
        jars: JarSet,
    ) -> None:
        self.environment = dict(environment)
        self.settings = str(directory / "server.properties")
        self._directory = directory
        self._jars = jars
        self._options = list(options)

    def command(self, main: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}"
        every = [*self._options, *options, logging, "-cp", f"{kafka_jars(jars=self._jars)}/*"]
        return [find_java(), *every, main, *arguments]

    def format(self, cluster_id: str, options: Sequence[str]) -> str:
        """Once; what Java said when it failed, nothing when it did not.

        Where it was interrupted there is nothing yet, and it is done again.
        """
        data, begun = self._directory / "data", self._directory / "formatting"
        if begun.exists():
            shutil.rmtree(data, ignore_errors=True)
        if (data / "meta.properties").exists():
            return ""
        begun.touch()
        done = subprocess.run(
            self.command(*_FORMAT, cluster_id, "-c", self.settings, options=options),
            capture_output=True,
            text=True,
            timeout=FORMAT_DEADLINE,
            env=self.environment,
        )
        if done.returncode != 0:
            return done.stdout + done.stderr or f"it ended with {done.returncode}"
        begun.unlink()
        return ""
