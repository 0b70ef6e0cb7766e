"""A master of another Spark version is refused in one sentence, before Spark waits 100 s for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mirrors import launcher
from spark_runner.spark import cluster_version
from spark_runner.spark.cluster_version import address_refusal, version_on, version_refusal
from tests.schemas.fake_registry import FakeRegistry
from tests.spark.standalone import SHARED, standalone_cluster
from tests.spark.test_spark_settings import written
from tests.spark.two_hosts import ROOT

# What a runner does whose Spark has another version than this installation's. Its Java is the same,
# so the same class-data archive fits.
OTHER_VERSION = """
import sys, pyspark
from spark_runner.spark import java
archive = java.archive_of(java.check_java())
java.archive_of = lambda _: archive
pyspark.__version__ = "4.9.2"
from spark_runner.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("page", "version"),
    [
        ('<a><img/>\n<span class="version" style="margin-right: 15px;">4.0.1</span></a>', "4.0.1"),
        ('<a><img/>\n<span class="version me-3">4.3.0</span></a>', "4.3.0"),
        ("<html>Login</html>", ""),
    ],
)
def test_the_version_is_read_from_a_masters_page(page: str, version: str) -> None:
    assert version_on(page) == version


@pytest.mark.parametrize(
    ("found", "own", "refused"),
    [
        ("4.0.1", "4.3.0", True),
        ("3.5.6", "4.3.0", True),
        ("4.3.1", "4.3.0", False),
        ("4.3.0-SNAPSHOT", "4.3.0", False),
        ("", "4.3.0", False),
    ],
)
def test_only_another_release_is_refused(found: str, own: str, refused: bool) -> None:
    assert bool(version_refusal("m:7077", found, own)) is refused


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254:7077", "2852039166:7077", "[fd00:ec2::254]:7077"),
        *("[::ffff:169.254.169.254]:7077", "100.100.100.200:7077"),
    ],
)
def test_no_master_is_a_metadata_service(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting allows it; refused before Java starts, which would connect."""
    monkeypatch.setenv("UNDERSTUDY_EGRESS_ALLOW", "*")
    assert "metadata service: no connection is made" in address_refusal(address)
    assert address_refusal("127.0.0.1:7077") == ""
    assert address_refusal("no-such-host.invalid:7077") == ""


def test_a_masters_page_leads_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master names the port of its page, and the page may be anybody's."""
    master, other = FakeRegistry(), FakeRegistry()
    port = int(master.url.rpartition(":")[2])
    page = b'<span class="version">4.0.1</span>'
    master.answers["/"], other.answers["/"] = (200, page), (200, page)
    monkeypatch.setattr(cluster_version, "_port_of_page", lambda _: port)
    monkeypatch.setenv("http_proxy", other.url)
    try:
        assert version_on(cluster_version._page_of("localhost:7077")) == "4.0.1"
        master.answers["/"], master.location = (302, b""), f"{other.url}/"
        assert version_on(cluster_version._page_of("localhost:7077")) == ""
    finally:
        master.close()
        other.close()
    assert other.paths == []
    assert version_on(f'<b class="version">4.0{"x" * 500}</b>') == ""


def test_a_runner_of_another_version_says_so_and_ends(
    tmp_path: Path, runner_env: dict[str, str]
) -> None:
    env = {**runner_env, **written(tmp_path / "conf", SHARED), "SPARK_LOCAL_IP": "127.0.0.1"}
    with standalone_cluster(tmp_path / "cluster", env, workers=0) as cluster:
        words = ["--dir", str(tmp_path / "runner"), "--name", "r", "--master", cluster.master]
        done = subprocess.run(
            [sys.executable, "-c", OTHER_VERSION, *words],
            env=env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
    log = (tmp_path / "runner" / launcher.LOG_FILE).read_text()
    assert done.returncode == launcher.EXIT_BAD_MASTER, done.stderr + log
    [sentence] = [line for line in done.stderr.splitlines() if line.startswith("The Spark master")]
    address = cluster.master.removeprefix("spark://")
    assert f"{address} runs Spark 4.3.0, and this runner has Spark 4.9.2" in sentence
    assert "install Spark 4.9" in sentence
    # It is the last one, which the runner's page shows, whole.
    assert done.stderr.strip().splitlines()[-1] == sentence
    assert len(sentence) < 300
    assert "Traceback" not in done.stderr + log
