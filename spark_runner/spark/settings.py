"""Spark's settings: an operator's choice takes precedence over the defaults here."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pyspark

from mirrors.domain.java_properties import read_properties

log = logging.getLogger("spark_runner")

_JAVA = "spark.driver.extraJavaOptions"

# Small, quick to start, without features that nobody uses.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    # Spark's UI has no authentication.
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.worker.idleTimeoutSeconds": "0",
    "spark.python.task.killTimeout": "500ms",
    "spark.driver.memory": "512m",
    # Otherwise one thread per slot of the master, used or not.
    "spark.rpc.netty.dispatcher.numThreads": "4",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
}
_LOCAL_DEFAULTS = {
    # The executor is in the same process.
    "spark.executor.heartbeatInterval": "30s",
}
_CLUSTER_DEFAULTS = {"spark.executor.memory": "512m"}

# Fixed: otherwise flows would starve each other, or a speculative task would fence its twin.
_FIXED = {
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",
}
# The same file may serve a runner on a cluster. A local runner listens on this machine only.
_LOCAL_FIXED = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "spark_runner.spark.worker_daemon",
}


def operator_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """`spark-defaults.conf`, looked up as spark-submit does. Spark reads the file itself as
    well."""
    home = environment.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    path = Path(environment.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-defaults.conf")
    try:
        lines, _ = read_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return {}
    return {line.key: line.value.strip() for line in lines if line.key.startswith("spark.")}


def merge_settings(
    chosen: Mapping[str, str], *, local: bool, directory: Path, java_options: str
) -> dict[str, str]:
    """The settings to add to the operator's. They take precedence over that file."""
    defaults = {
        **_DEFAULTS,
        **(_LOCAL_DEFAULTS if local else _CLUSTER_DEFAULTS),
        "spark.local.dir": str(directory / "spark"),
    }
    fixed = _FIXED | (_LOCAL_FIXED if local else {})
    for key in _FIXED.keys() & chosen.keys():
        if chosen[key].lower() != _FIXED[key].lower():
            log.warning("%s=%s has no effect: it stays %s", key, chosen[key], _FIXED[key])
    # Java uses the last of two contradicting options.
    java = " ".join(filter(None, (java_options, chosen.get(_JAVA, ""))))
    return {k: v for k, v in defaults.items() if k not in chosen} | fixed | {_JAVA: java}
