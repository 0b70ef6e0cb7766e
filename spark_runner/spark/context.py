"""The Spark context of a runner: small, quick to start, without secrets in its settings.

A SparkContext without a session, one JVM with a small heap and only the C1 compiler. The first
clean stop leaves a class-data archive that later starts use. An operator's settings in
SPARK_CONF_DIR take precedence (`spark.settings`), as for any Spark program.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.transforms.modules import FUNCTIONS_DIR
from mirrors.kafka.security import librdkafka_egress
from mirrors.kafka.security.secret_scopes import RESERVED_FILES
from spark_runner.native import loader
from spark_runner.spark.cluster_version import address_refusal, check_version
from spark_runner.spark.java import class_path_of, java_options, keep_archive
from spark_runner.spark.settings import (
    UNAUTHENTICATED,
    SparkViews,
    authentication_refusal,
    merge_settings,
    operator_settings,
)

MASTER_DEADLINE_S = 5.0
# How long a runner that stops waits for its Java.
END_DEADLINE_S = 8.0
STANDALONE = "spark://"
# Threads of a local master cost nothing until used. The 4 is the number of tries of a task.
LOCAL = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?$")
CLUSTER = re.compile(r"(spark://[^/\s]+:\d+(,[^/\s]+:\d+)*|yarn|k8s://\S+)$")
_SENT_PACKAGES = ("spark_runner", "mirrors/domain", "mirrors/kafka")
_SENT_MODULES = ("mirrors/__init__.py", "mirrors/installation.py")


class InvalidMaster(UnderstudyError):
    code = "bad_master"


def check_master(master: str) -> None:
    if LOCAL.match(master):
        return
    if not CLUSTER.match(master):
        raise InvalidMaster(
            f"{master!r} is not a Spark master. Use local[N,4], spark://host:port, yarn or k8s://…"
        )
    _check_host_name()
    if master.startswith(STANDALONE):
        _check_reachable(master)


def _check_host_name() -> None:
    """Spark asks for the address of this machine's name, unless it has been given one."""
    if os.environ.get("SPARK_LOCAL_IP"):
        return
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError as error:
        raise InvalidMaster(
            f"The name of this machine, {name}, has no address here, and executors reach the "
            "runner by it. Add it to /etc/hosts or to DNS, or set SPARK_LOCAL_IP to the address "
            "at which they reach this machine."
        ) from error


def addresses_of(master: str) -> list[str]:
    """Host and port of each master of a standalone cluster; none of another master."""
    if not master.startswith(STANDALONE):
        return []
    return [address for address in master.removeprefix(STANDALONE).split(",") if address]


def is_local(master: str) -> bool:
    return LOCAL.match(master) is not None


def open_context(
    *,
    name: str,
    master: str,
    directory: Path,
    java: str,
    views: SparkViews | None = None,
    leaves_archive: bool = False,
) -> SparkContext:
    """Start the JVM and the context. Raises InvalidMaster, and what Spark raises.

    `leaves_archive`: as for `java_options`.
    """
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = python = sys.executable
        # The UI listens on this address, by default on all.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_DRIVER_PYTHON"] = python
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    conf = SparkConf().setMaster(master).setAppName(f"understudy-{name}")
    chosen = operator_settings(os.environ)
    if not is_local(master) and (why := authentication_refusal(master, chosen, os.environ)):
        raise InvalidMaster(why)
    settings = merge_settings(
        chosen,
        local=is_local(master),
        unauthenticated=bool(os.environ.get(UNAUTHENTICATED)),
        directory=directory,
        java_options=java_options(
            java,
            directory,
            class_path=class_path_of(chosen, os.environ),
            leaves_archive=leaves_archive,
        ),
        views=views,
    )
    for key, value in settings.items():
        conf.set(key, value)
    if not is_local(master):
        # Only paths: references that an executor resolves cannot reach these files either.
        conf.set(f"spark.executorEnv.{RESERVED_FILES}", os.environ.get(RESERVED_FILES, ""))
        # The same path on each host; the files there are checked where they run.
        conf.set(f"spark.executorEnv.{FUNCTIONS_DIR}", os.environ.get(FUNCTIONS_DIR, ""))
    addresses = addresses_of(master)
    # Before Java starts, which connects to each of them.
    if why := "".join(filter(None, map(address_refusal, addresses))):
        raise InvalidMaster(why)
    if addresses and (why := check_version(conf, addresses)):
        raise InvalidMaster(why)
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    if not is_local(master):
        context.addPyFile(str(_zipped_package(directory)))
    return context


def close_context(context: SparkContext, java: str, deadline_s: float = END_DEADLINE_S) -> None:
    """Stop Spark and the JVM. Keep the class-data archive that the JVM leaves."""
    gateway: Any = SparkContext._gateway
    # A Java process that has died cannot be stopped.
    with contextlib.suppress(Py4JError, OSError):
        context.stop()
    if gateway is None:
        return
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        try:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            # Otherwise it would write its archive when nobody uses it any more.
            process.kill()
    keep_archive(java, ended_well=process is not None and process.poll() == 0)


def _check_reachable(master: str) -> None:
    failures = []
    for address in addresses_of(master):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), MASTER_DEADLINE_S):
                return
        except OSError as error:
            failures.append(f"{address}: {error.strerror or error}")
    raise InvalidMaster(
        f"No Spark master responds ({'; '.join(failures)}). Check that it runs and the address."
    )


def _zipped_package(directory: Path) -> Path:
    """A zip of this program for remote executors. Dependencies must be installed there."""
    root = Path(__file__).resolve().parents[2]
    path = directory / "understudy.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _SENT_MODULES:
            archive.write(root / name, name)
        for package in _SENT_PACKAGES:
            for file in sorted((root / package).rglob("*.py")):
                archive.write(file, str(file.relative_to(root)))
        machine_code = loader.directory()
        for file in loader.files(machine_code).values():
            archive.write(file, loader.IN_ZIP + str(file.relative_to(machine_code)))
        if (plugin := librdkafka_egress.find()) is not None:
            archive.write(plugin, loader.IN_ZIP + plugin.name)
    return path
