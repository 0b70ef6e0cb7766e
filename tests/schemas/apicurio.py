"""A real Apicurio Registry in memory, which speaks Confluent's REST API: fetched from Maven.

UNDERSTUDY_TEST_REGISTRY=http://127.0.0.1:PORT/apis/ccompat/v7 uses one that runs already.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests

from controlplane.demo.processes.ports import free_port
from tests.maven import fetched

VERSION = "2.6.13.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
PATH = "/apis/ccompat/v7"
START_S = 200.0
# Quick to start beats quick under load.
_JVM = ("-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Apicurio:
    """The process, and requests that do not use the client under test."""

    def __init__(self, directory: Path, guard: Mapping[str, str]) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}{PATH}"
        with tarfile.open(fetched(ARTIFACT, name=f"apicurio-{VERSION}", sha256=SHA256)) as archive:
            archive.extractall(directory, filter="data")
        self._log = directory / "apicurio.log"
        jar = f"apicurio-registry-app-{VERSION}-runner.jar"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["java", *_JVM, "-jar", jar],
                cwd=directory,
                env={
                    **os.environ,
                    **guard,
                    "QUARKUS_HTTP_HOST": "127.0.0.1",
                    "QUARKUS_HTTP_PORT": str(port),
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        until = time.monotonic() + START_S
        while True:
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < until, self._log.read_text()[-3000:]
            try:
                if requests.get(f"{self.url}/subjects", timeout=5).ok:
                    return
            except requests.RequestException:
                time.sleep(0.5)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)


def call(url: str, method: str, path: str, body: Any = None) -> Any:
    answer = requests.request(method, url + path, json=body, timeout=30)
    assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json()


def register(url: str, subject: str, schema: Any, **more: Any) -> int:
    """The id of the schema; a schema that is no text is written as JSON."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    found = call(url, "POST", f"/subjects/{subject}/versions", {"schema": text, **more})
    return int(found["id"])
