"""docker-compose.yml as data, and its services as processes instead of containers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.image.clean_root import inside
from tests.image.recipe import stages_of

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "understudy"
# Where `make test-image` has built the image; the services run from it then.
IMAGE_ROOT = os.environ.get("UNDERSTUDY_IMAGE_ROOT", "")
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")
# What has no default comes from .env.
_REQUIRED = re.compile(r"\$\{(\w+):\?[^}]*\}")


def load() -> dict[str, Any]:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text)["services"])


def ours() -> dict[str, dict[str, Any]]:
    """The services that run our image."""
    return {name: one for name, one in load().items() if one["image"] == IMAGE}


def environment_of(service: Mapping[str, Any]) -> dict[str, str]:
    """What a container sees when nothing is set where `docker compose` is called."""
    given = service.get("environment", {})
    texts = {name: _DEFAULT.sub(r"\1", str(value)) for name, value in given.items()}
    return {name: _REQUIRED.sub(r"of-env-\1", text) for name, text in texts.items()}


def _owner(root: Path, user: str) -> tuple[int, int]:
    """The numbers that a user of the image has there."""
    lines = (root / "etc" / "passwd").read_text(encoding="utf-8").splitlines()
    entry = next(line.split(":") for line in lines if line.startswith(f"{user}:"))
    return int(entry[2]), int(entry[3])


class Process:
    """One service on this machine: its own command, with other addresses and directories."""

    def __init__(self, name: str, directory: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.service = ours()[name]
        self.log = directory / f"{name}.log"
        self.data = directory / f"{name}-data"
        self.data.mkdir()
        theirs = {key: self._here(value) for key, value in environment_of(self.service).items()}
        self.environment = {**os.environ, **theirs, **environment}
        self._of_the_image = {**theirs, **environment}
        self.popen: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> list[str]:
        """Without tini, which a machine with an init of its own needs not."""
        before = self.service.get("entrypoint", ["tini", "--"])
        assert before[:2] == ["tini", "--"]
        own = [*before[2:], *(self._here(word) for word in shlex.split(self.service["command"]))]
        return self._in_the_image(own) if IMAGE_ROOT else own

    def _in_the_image(self, command: list[str]) -> list[str]:
        """As a container runs it: the image's user, variables and folder, and its own volume."""
        image = stages_of((ROOT / "Dockerfile").read_text(encoding="utf-8"))[-1]
        root = Path(IMAGE_ROOT)
        shutil.chown(self.data, *_owner(root, image.user))
        return inside(
            root,
            command,
            user=image.user,
            directory=image.directory,
            environment={**image.environment, **self._of_the_image},
            shared=[self.data],
            read_only=bool(self.service.get("read_only")),
        )

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def run(self, seconds: float) -> None:
        """Start it and wait for its good end."""
        self.start()
        assert self.popen is not None
        assert self.popen.wait(seconds) == 0, self.said()

    def is_healthy(self, ports: Mapping[str, str]) -> bool:
        """By the health check as it is written, at the ports of here."""
        kind, *command = self.service["healthcheck"]["test"]
        assert kind == "CMD"
        for theirs, here in ports.items():
            command = [word.replace(f"127.0.0.1/{theirs}", f"127.0.0.1/{here}") for word in command]
        assert self.popen is not None
        assert self.popen.poll() is None, f"{self.name} ended: {self.said()}"
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=5)
        except subprocess.TimeoutExpired:
            # To an engine a check that takes too long has failed, and the next one counts.
            return False
        return done.returncode == 0

    def ask_to_stop(self) -> list[psutil.Process]:
        """As an engine does; answers the processes that must be gone soon."""
        assert self.popen is not None
        tree = psutil.Process(self.popen.pid).children(recursive=True)
        self.popen.send_signal(signal.SIGTERM)
        return tree

    def wait(self, until: float) -> None:
        assert self.popen is not None
        try:
            self.popen.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not stop in time: {self.said()}") from None

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def _here(self, word: str) -> str:
        word = word.replace("/data", str(self.data)).replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        return re.sub(r"(KAFKA_ADVERTISE)=.*", r"\1=127.0.0.1", word)
