"""The rules that every flow has from its first second; they can be changed, turned off, deleted."""

from django.db import migrations

RULES = [
    ("Behind by more than 30 s", "time_lag", 30.0, 60, "warning"),
    ("Behind by more than 5 min", "time_lag", 300.0, 60, "critical"),
    ("Stands while its source grows", "stands", 60.0, 30, "critical"),
    ("Failed", "flow_failed", None, 0, "critical"),
    ("Degraded", "flow_degraded", None, 120, "warning"),
    ("A gap waits for a decision", "gap", None, 0, "critical"),
    ("Sends no figures", "stale", 60.0, 30, "critical"),
    ("Runner is down", "runner_down", None, 60, "critical"),
]


def make(apps, schema_editor):
    rule = apps.get_model("monitoring", "AlertRule")
    for name, kind, threshold, for_seconds, severity in RULES:
        rule.objects.get_or_create(
            name=name,
            defaults={
                "kind": kind,
                "threshold": threshold,
                "for_seconds": for_seconds,
                "severity": severity,
            },
        )


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0002_alerts")]

    operations = [migrations.RunPython(make, migrations.RunPython.noop)]
