"""Spark's settings: an operator's choice takes precedence over the defaults here."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
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
    "spark.eventLog.compress": "true",
    # The environment of Python workers is the same for all jobs, with rules and without. Otherwise
    # Spark starts another process of 80 MB that imports everything, to fork those of rules.
    "spark.buffer.size": "4096",
    "spark.sql.execution.pandas.udf.buffer.size": "4096",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Extensions of Spark's own jars: functions of MLlib, which no rule may call. To register them
    # takes two seconds of processor time.
    "spark.sql.extensions.test.loadFromCp": "false",
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
_CLUSTER_DEFAULTS = {
    "spark.executor.memory": "512m",
    # An executor whose host is cut off counts as lost after 20 to 25 s. Spark's own values make
    # that 120 to 180 s.
    "spark.executor.heartbeatInterval": "5s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "20s",
    "spark.network.timeoutInterval": "5s",
}

AUTHENTICATE = "spark.authenticate"
_SECRETS = ("spark.authenticate.secret", "spark.authenticate.secret.file")
# Spark's RPC and block manager deserialize Java objects, so nobody else may send them any. A local
# runner's secret exists in the memory of its Java process only.
_AUTHENTICATED = {
    AUTHENTICATE: "true",
    "spark.authenticate.enableSaslEncryption": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    # Also for blocks that are written to the local disk.
    "spark.io.encryption.enabled": "true",
}
UNAUTHENTICATED = "UNDERSTUDY_SPARK_UNAUTHENTICATED"

# Fixed: otherwise flows would starve each other, or a speculative task would fence its twin.
# - Dynamic allocation gives executors to tasks that wait and takes them from those that are idle.
#   Slices run as long as the flow, and a flow takes only slots that exist.
_FIXED = {
    "spark.dynamicAllocation.enabled": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",
}
# The same file may serve a runner on a cluster. A local runner listens on this machine only.
_LOCAL_FIXED = {
    **_AUTHENTICATED,
    # On a cluster, a master or shuffle service may know SASL only. It asks for the same secret.
    "spark.network.crypto.saslFallback": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "spark_runner.spark.worker_daemon",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparkViews:
    """What people see of the application: Spark's UI, and its event log.

    `event_log`: a directory or an address that Spark can write to; empty for none.
    """

    ui: bool = False
    event_log: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """They take precedence over the operator's file."""
        found = {"spark.ui.enabled": "true"} if self.ui else {}
        if self.event_log:
            is_path = self.event_log.startswith("/")
            found["spark.eventLog.enabled"] = "true"
            found["spark.eventLog.dir"] = f"file://{self.event_log}" if is_path else self.event_log
        return found


def usable_views(
    wanted: SparkViews, chosen: Mapping[str, str], *, local: bool
) -> tuple[SparkViews, tuple[str, ...]]:
    """The views that this runner can offer, and a sentence for each that it cannot.

    Copying never waits for them. Creates a directory for the event log (mode 0700).
    """
    told = []
    if wanted.ui and not local and not chosen.get("spark.ui.filters"):
        told.append(
            "The Spark UI stays off: it has no login, and on a cluster it listens on an address "
            "that others reach. Set spark.ui.filters in spark-defaults.conf to a filter that "
            "demands one, then restart the runner."
        )
        wanted = dataclasses.replace(wanted, ui=False)
    if wanted.event_log.startswith("/"):
        try:
            os.makedirs(wanted.event_log, mode=0o700, exist_ok=True)
            if not os.access(wanted.event_log, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            told.append(
                f"No event log is written: {wanted.event_log} cannot be used "
                f"({error.strerror or error}). Make it writable for the worker's user, or choose "
                "another directory."
            )
            wanted = dataclasses.replace(wanted, event_log="")
    return wanted, tuple(told)


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


def authentication_refusal(
    master: str, chosen: Mapping[str, str], environment: Mapping[str, str]
) -> str:
    """Why a runner may not use this cluster's master; empty when it may.

    YARN and Kubernetes distribute a secret of their own. A standalone master knows only the one
    that it was started with.
    """
    if environment.get(UNAUTHENTICATED, "").strip().lower() in {"1", "true", "yes", "on"}:
        return ""
    if chosen.get(AUTHENTICATE, "true").lower() != "true":
        return (
            f"{AUTHENTICATE} is false, so anybody who reaches the driver could run code in it. "
            f"Set it to true, or allow it with {UNAUTHENTICATED}=1."
        )
    named = any(chosen.get(key) for key in _SECRETS) or environment.get("_SPARK_AUTH_SECRET")
    if master.startswith("spark://") and not named:
        return (
            "A standalone master needs a secret that it shares with the runner: set "
            f"{AUTHENTICATE}=true and {_SECRETS[0]} in the spark-defaults.conf (mode 0600) of "
            f"master, workers and runner. Without it, allow that with {UNAUTHENTICATED}=1."
        )
    return ""


def merge_settings(
    chosen: Mapping[str, str],
    *,
    local: bool,
    directory: Path,
    java_options: str,
    unauthenticated: bool = False,
    views: SparkViews | None = None,
) -> dict[str, str]:
    """The settings to add to the operator's. They take precedence over that file.

    `unauthenticated`: a cluster without a secret is allowed.
    """
    is_allowed = unauthenticated and chosen.get(AUTHENTICATE, "").lower() != "true"
    authenticated = {} if is_allowed else _AUTHENTICATED
    defaults = {
        **_DEFAULTS,
        **(_LOCAL_DEFAULTS if local else _CLUSTER_DEFAULTS | authenticated),
        "spark.local.dir": str(directory / "spark"),
    }
    fixed = _FIXED | (_LOCAL_FIXED if local else {})
    for key in _FIXED.keys() & chosen.keys():
        if chosen[key].lower() != _FIXED[key].lower():
            log.warning("%s=%s has no effect: it stays %s", key, chosen[key], _FIXED[key])
    # Java uses the last of two contradicting options.
    java = " ".join(filter(None, (java_options, chosen.get(_JAVA, ""))))
    ours = {key: text for key, text in defaults.items() if key not in chosen}
    return ours | (views.settings if views else {}) | fixed | {_JAVA: java}
