"""Spark's settings: an operator's values, else our defaults; a few are fixed."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest
import yaml

from spark_runner.spark import context
from spark_runner.spark.settings import (
    SparkViews,
    merge_settings,
    operator_settings,
    usable_views,
)


def written(directory: Path, text: str) -> dict[str, str]:
    """The environment of a runner with such a spark-defaults.conf."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spark-defaults.conf").write_text(text)
    return {"SPARK_CONF_DIR": str(directory)}


def beside(chosen: dict[str, str], *, local: bool = True) -> dict[str, str]:
    return merge_settings(chosen, local=local, directory=Path("/r"), java_options="-Xa")


def test_what_an_operator_sets_is_left_alone_and_the_rest_is_ours(tmp_path: Path) -> None:
    chosen = operator_settings(
        written(
            tmp_path,
            "# ours\nspark.ui.enabled   true\nspark.eventLog.enabled=true\n"
            "spark.executor.memory: 2g\nspark.driver.extraJavaOptions -Xb -Xc\nother 1\n",
        )
    )
    assert "other" not in chosen
    for local in (True, False):
        ours = beside(chosen, local=local)
        set_by_hand = chosen.keys() - {"spark.driver.extraJavaOptions"}
        assert not set_by_hand & ours.keys()
        assert ours["spark.driver.memory"] == "512m"
        assert ours["spark.driver.extraJavaOptions"] == "-Xa -Xb -Xc"
    assert beside({}, local=False)["spark.executor.memory"] == "512m"
    assert beside({})["spark.ui.enabled"] == "false"
    assert beside({})["spark.driver.extraJavaOptions"] == "-Xa"


def test_where_there_is_no_file_all_is_ours(tmp_path: Path) -> None:
    assert operator_settings({"SPARK_CONF_DIR": str(tmp_path / "none")}) == {}
    home = tmp_path / "spark"
    written(home / "conf", "spark.ui.enabled true")
    assert operator_settings({"SPARK_HOME": str(home)}) == {"spark.ui.enabled": "true"}


def test_all_that_the_example_for_kubernetes_sets_has_effect(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/kubernetes/executors.yaml").read_text()
    [file] = [part["data"] for part in yaml.safe_load_all(text) if part["kind"] == "ConfigMap"]
    chosen = operator_settings(written(tmp_path, file["spark-defaults.conf"]))
    assert chosen["spark.executor.memory"] == "512m"
    assert not chosen.keys() & beside(chosen, local=False).keys()


def test_what_flows_rely_on_stays_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    dynamic = "spark.dynamicAllocation.enabled"
    chosen = {"spark.speculation": "true", "spark.scheduler.mode": "fair", dynamic: "true"}
    with caplog.at_level(logging.WARNING, "spark_runner"):
        for local in (True, False):
            assert beside(chosen, local=local)["spark.speculation"] == "false"
            assert beside(chosen, local=local)[dynamic] == "false"
    assert set(caplog.messages) == {
        "spark.speculation=true has no effect: it stays false",
        "spark.dynamicAllocation.enabled=true has no effect: it stays false",
    }


def test_a_local_runner_listens_here_alone_though_its_file_is_also_a_clusters() -> None:
    chosen = {"spark.driver.host": "worker", "spark.driver.bindAddress": "10.0.0.1"}
    assert beside(chosen)["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in beside(chosen, local=False)


def test_a_ui_without_a_login_opens_on_this_machine_alone(tmp_path: Path) -> None:
    wanted = SparkViews(ui=True, event_log=str(tmp_path / "new" / "log"))
    views, warnings = usable_views(wanted, {}, local=True)
    assert (views, warnings) == (wanted, ())
    assert (tmp_path / "new" / "log").stat().st_mode & 0o777 == 0o700
    ours = merge_settings(
        {"spark.ui.enabled": "false"}, local=True, directory=tmp_path, java_options="", views=views
    )
    assert ours["spark.ui.enabled"] == "true"
    assert ours["spark.eventLog.dir"] == f"file://{tmp_path}/new/log"
    views, [sentence] = usable_views(wanted, {}, local=False)
    assert not views.ui
    assert "has no login" in sentence
    assert "spark.ui.filters" in sentence
    views, warnings = usable_views(wanted, {"spark.ui.filters": "a.Login"}, local=False)
    assert views.ui
    assert not warnings


def test_a_directory_that_cannot_be_used_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wanted = SparkViews(event_log=str(tmp_path / "file" / "log"))
    views, [sentence] = usable_views(wanted, {}, local=True)
    assert (views.event_log, views.settings) == ("", {})
    assert f"{tmp_path}/file/log cannot be used (Not a directory)" in sentence
    # Spark creates what it needs behind an address.
    there = SparkViews(event_log="hdfs://n/logs")
    assert usable_views(there, {}, local=True)[0].settings["spark.eventLog.dir"] == "hdfs://n/logs"


def test_a_machine_whose_name_has_no_address_is_told_how_to_give_it_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_address(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    monkeypatch.setattr(socket, "gethostname", lambda: "box-7")
    context.check_master("local[2,4]")
    with pytest.raises(context.InvalidMaster, match=r"box-7, has no address .* SPARK_LOCAL_IP"):
        context.check_master("yarn")
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    context.check_master("yarn")
