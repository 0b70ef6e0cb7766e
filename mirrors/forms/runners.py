"""The form of a runner: its Spark master and its slots."""

from __future__ import annotations

from typing import Any

from django import forms

from mirrors.forms.base import SettingsForm, text_field
from mirrors.models import Runner


class RunnerForm(SettingsForm):
    rest = ""
    name = text_field("Name", required=True, max_length=100)
    master = text_field("Spark master", required=True, max_length=255, initial="local[256,4]")
    slots = forms.IntegerField(label="Slots", min_value=1, max_value=100_000, initial=256)
    host = text_field("Host", max_length=255, placeholder="the host of the worker that starts it")
    failover_hosts = text_field("Other hosts", max_length=1000, placeholder="none: it stays there")
    pool = text_field("Pool", max_length=63, placeholder="none")
    auto_balance = forms.BooleanField(label="Move flows automatically", required=False)
    event_log = text_field("Spark event log", max_length=500, placeholder="none")
    spark_ui = forms.BooleanField(label="Open Spark's UI", required=False)

    def __init__(self, *args: Any, runner: Runner | None = None, **kwargs: Any) -> None:
        columns = (
            *("name", "master", "slots", "host", "failover_hosts", "event_log", "spark_ui"),
            *("pool", "auto_balance"),
        )
        initial = {name: getattr(runner, name) for name in columns} if runner else None
        super().__init__(*args, initial=initial, **kwargs)
        self.fields["name"].disabled = runner is not None
        self.fields["name"].help_text = "Short name; it cannot change later."
        self.fields["master"].help_text = "local[256,4] on one host, or spark://host:7077."
        self.fields[
            "failover_hosts"
        ].help_text = (
            "Hosts that take the runner over when its host dies, with commas; * for every host."
        )
        self.fields["pool"].help_text = "Runners with the same pool share their flows."
        self.fields[
            "auto_balance"
        ].help_text = (
            "Within the pool, to and from this runner, when one copies much more than another."
        )
        self.fields[
            "event_log"
        ].help_text = "A directory on its host, or an address such as hdfs://namenode/spark-logs."
        self.fields["spark_ui"].help_text = (
            "It has no login. With a local master it listens on 127.0.0.1 of the runner's host; "
            "on a cluster it needs `spark.ui.filters`."
        )
        self.fields["slots"].help_text = "Used until the runner reports the slots of its executors."
