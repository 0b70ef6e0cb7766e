"""A real Apicurio Registry in memory, which speaks Confluent's REST API: fetched from Maven.

UNDERSTUDY_TEST_REGISTRY=http://127.0.0.1:PORT/apis/ccompat/v7 uses one that runs already.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
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
        files = _unpacked()
        self._classes = files / f"classes-{_java_version()}.jsa"
        self._new_classes = directory / "classes.jsa"
        self._leaves_classes = not self._classes.exists()
        option = f"-XX:SharedArchiveFile={self._classes}"
        if self._leaves_classes:
            option = f"-XX:ArchiveClassesAtExit={self._new_classes}"
        self._log = directory / "apicurio.log"
        jar = f"apicurio-registry-app-{VERSION}-runner.jar"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["java", *_JVM, option, "-jar", jar],
                cwd=files,
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
        if self._leaves_classes:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(START_S)
        self._process.kill()
        if self._process.wait(30) >= 0 and self._new_classes.exists():
            new = self._classes.with_suffix(f".{os.getpid()}")
            shutil.move(self._new_classes, new)
            new.replace(self._classes)


def _unpacked() -> Path:
    """Its files, unpacked once a machine; a server writes none."""
    packed = fetched(ARTIFACT, name=f"apicurio-{VERSION}", sha256=SHA256)
    files = packed.parent.with_name(f"apicurio-{VERSION}-files")
    if not files.is_dir():
        new = files.with_name(f"{files.name}-{os.getpid()}.new")
        with tarfile.open(packed) as archive:
            archive.extractall(new, filter="data")
        # Another session may have been quicker.
        with contextlib.suppress(OSError):
            new.rename(files)
        shutil.rmtree(new, ignore_errors=True)
    return files


@functools.cache
def _java_version() -> str:
    """Of the archive of classes, since Java refuses that of another version."""
    java = Path(shutil.which("java") or "java").resolve()
    return hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:16]


def call(url: str, method: str, path: str, body: Any = None) -> Any:
    answer = requests.request(method, url + path, json=body, timeout=30)
    assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json()


def register(url: str, subject: str, schema: Any, **more: Any) -> int:
    """The id of the schema; a schema that is no text is written as JSON."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    found = call(url, "POST", f"/subjects/{subject}/versions", {"schema": text, **more})
    return int(found["id"])
