"""The rule that fires when the target may lack schemas."""

from django.db import migrations, models

from monitoring.domain.alerts.rules import KINDS


def make_rule(apps, schema_editor):
    rule = apps.get_model("monitoring", "AlertRule")
    # A new schema is pending until the next run of its sync task.
    facts = {"kind": "schemas", "for_seconds": 300, "severity": "warning"}
    rule.objects.get_or_create(name="Schemas are missing on the target", defaults=facts)


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0016_unverified_records")]

    operations = [
        migrations.AlterField(
            model_name="alertrule",
            name="kind",
            field=models.CharField(choices=[(kind, kind) for kind in KINDS], max_length=16),
        ),
        migrations.RunPython(make_rule, migrations.RunPython.noop),
    ]
