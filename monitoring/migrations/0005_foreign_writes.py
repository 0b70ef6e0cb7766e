from django.db import migrations, models

NAME = "Another producer writes remote topics"
KINDS = [
    "time_lag",
    "offset_lag",
    "stands",
    "flow_failed",
    "flow_degraded",
    "gap",
    "stale",
    "runner_down",
    "forecast",
    "heartbeat",
    "checkpoint",
    "open_transaction",
    "foreign_writes",
]


def make_rule(apps, schema_editor):
    rule = apps.get_model("monitoring", "AlertRule")
    facts = {"kind": "foreign_writes", "for_seconds": 0, "severity": "critical"}
    rule.objects.get_or_create(name=NAME, defaults=facts)


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0004_sweeps_and_forecasts")]

    operations = [
        migrations.AlterField(
            model_name="alertrule",
            name="kind",
            field=models.CharField(choices=[(kind, kind) for kind in KINDS], max_length=16),
        ),
        migrations.RunPython(make_rule, migrations.RunPython.noop),
    ]
