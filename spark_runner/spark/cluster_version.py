"""Whether a standalone cluster runs the Spark version of this runner.

Spark's messages are Java objects whose classes change between versions. A master of another version
drops the registration, and Spark gives up after 100 s with "All masters are unresponsive". So the
master is asked before: `BoundPortsRequest` is understood by all versions of Spark 4 (tried with
4.0.1 and 4.3.0). It returns the port of the master's page, which shows its version.

- Only major and minor version count: Spark keeps its messages within them.
- A master that does not respond, or has no page, is not refused. Spark itself reports it.
- No master is at a link-local address or a cloud's metadata service. Its page is asked at a checked
  address, and a redirect is not followed: the page may be anybody's.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from typing import Any

import pyspark
import urllib3
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.dns import resolve_host
from mirrors.kafka.security.egress import permitted_targets

log = logging.getLogger("spark_runner.spark")

# The Java process has just started, so its first request takes seconds on a busy machine.
ANSWER_S = 15.0
PAGE_S = 15.0
_PAGE_BYTES = 1 << 20
_RESOLVE_S = 5.0
_VERSION = re.compile(r'class="version[^"]*"[^>]*>\s*(\d+\.\d+[\w.-]{0,20})\s*<')


def version_on(page: str) -> str:
    """The version on a page of a Spark master; empty if it shows none."""
    found = _VERSION.search(page)
    return found[1] if found else ""


def version_refusal(address: str, found: str, own: str) -> str:
    """Why this runner cannot use the master; empty if it can, or if its version is unknown."""
    if not found or _release(found) == _release(own):
        return ""
    return (
        f"The Spark master {address} runs Spark {found}, and this runner has Spark {own}. Both "
        f"need the same version: install Spark {_release(own)} on the master and its workers, or "
        "use a local master."
    )


def address_refusal(address: str) -> str:
    """Why no master may be at `host:port`; empty if one may, or if the name does not resolve."""
    try:
        _permitted(address)
    except KafkaUnavailable as error:
        return f"The Spark master {address} cannot be used: {error.message}"
    except (OSError, ValueError):
        return ""
    return ""


def check_version(conf: SparkConf, addresses: list[str]) -> str:
    """Ask the masters, in order, until one has answered. Starts Java; `version_refusal`'s answer.

    `addresses`: host and port of each. `conf`: the settings of the context that will be opened.
    """
    ensure: Any = SparkContext._ensure_initialized
    ensure(conf=conf)
    for address in addresses:
        try:
            found = version_on(_page_of(address))
        except (Py4JError, OSError, KafkaUnavailable) as error:
            log.info("The version of the Spark master %s is unknown: %s", address, _cause(error))
            continue
        return version_refusal(address, found, pyspark.__version__)
    return ""


def _release(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _permitted(address: str) -> list[str]:
    """The IP addresses of `host:port`. Raises KafkaUnavailable, OSError or ValueError."""
    host, _, port = address.rpartition(":")
    found = permitted_targets(resolve_host(host.strip("[]"), int(port), _RESOLVE_S), int(port))
    return list(dict.fromkeys(str(target[0]) for _, target in found))


def _page_of(address: str) -> str:
    """The first page of the master's UI. Raises OSError if no address of its host has one."""
    host, port = address.rpartition(":")[0], _port_of_page(address)
    failed = OSError("its host has no address")
    for ip in _permitted(f"{host}:{port}"):
        try:
            return _read_page(ip, port, host)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            failed = OSError(str(error))
    raise failed


def _read_page(ip: str, port: int, host: str) -> str:
    ends = time.monotonic() + PAGE_S
    with urllib3.HTTPConnectionPool(ip, port, timeout=urllib3.Timeout(total=PAGE_S)) as pool:
        answer = pool.urlopen(
            "GET",
            "/",
            headers={"Host": f"{host}:{port}"},
            redirect=False,
            retries=False,
            preload_content=False,
        )
        body = b""
        while len(body) < _PAGE_BYTES and time.monotonic() < ends:
            if not (piece := answer.read1(1 << 16)):
                break
            body += piece
        return body.decode("utf-8", "replace")


def _port_of_page(address: str) -> int:
    java: Any = SparkContext._jvm
    # It has the operator's settings and those that the gateway was started with.
    conf = java.org.apache.spark.SparkConf(True)
    nothing = getattr(getattr(java.scala, "Option$"), "MODULE$").empty()
    entries = getattr(getattr(java.org.apache.spark.internal.config, "package$"), "MODULE$")
    security = java.org.apache.spark.SecurityManager(conf, nothing, entries.AUTH_SECRET_FILE())
    here = conf.get("spark.driver.host", "localhost")
    bound = conf.get("spark.driver.bindAddress", here)
    rpc = java.org.apache.spark.rpc.RpcEnv.create(
        "version", bound, here, 0, conf, security, 0, True
    )
    try:
        milliseconds = java.java.util.concurrent.TimeUnit.MILLISECONDS
        limit = java.scala.concurrent.duration.FiniteDuration(int(ANSWER_S * 1000), milliseconds)
        opening = rpc.asyncSetupEndpointRefByURI(f"spark://Master@{address}")
        master = java.scala.concurrent.Await.result(opening, limit)
        messages = java.org.apache.spark.deploy.master
        question = getattr(getattr(messages, "MasterMessages$BoundPortsRequest$"), "MODULE$")
        timeout = java.org.apache.spark.rpc.RpcTimeout(limit, "understudy")
        return int(master.askSync(question, timeout, java.scala.reflect.ClassTag.Any()).webUIPort())
    finally:
        with contextlib.suppress(Py4JError):
            rpc.shutdown()


def _cause(error: Exception) -> str:
    return str(getattr(error, "java_exception", None) or error).strip().split("\n", 1)[0][:300]
