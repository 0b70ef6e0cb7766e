"""The rule that fires when scheduled comparisons do not verify records for eight days."""

from django.db import migrations, models

from monitoring.domain.alerts.rules import KINDS

EIGHT_DAYS_S = 691_200


def make_rule(apps, schema_editor):
    rule = apps.get_model("monitoring", "AlertRule")
    facts = {
        "kind": "unverified",
        "threshold": EIGHT_DAYS_S,
        "for_seconds": 60,
        "severity": "warning",
    }
    rule.objects.get_or_create(name="Records not verified for 8 days", defaults=facts)


class Migration(migrations.Migration):
    dependencies = [
        ("monitoring", "0015_usage_by_minute"),
        ("mirrors", "0076_partition_map_age"),
    ]

    operations = [
        migrations.AlterField(
            model_name="alertrule",
            name="kind",
            field=models.CharField(choices=[(kind, kind) for kind in KINDS], max_length=16),
        ),
        migrations.RunPython(make_rule, migrations.RunPython.noop),
    ]
