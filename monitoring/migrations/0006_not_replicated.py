"""The rule that fires for selected topics which are not replicated; samples say what is unknown."""

from django.db import migrations, models

from monitoring.domain.alerts.rules import KINDS


def make_rule(apps, schema_editor):
    rule = apps.get_model("monitoring", "AlertRule")
    facts = {"kind": "not_replicated", "for_seconds": 30, "severity": "critical"}
    rule.objects.get_or_create(name="A selected topic is not replicated", defaults=facts)


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0005_foreign_writes")]

    operations = [
        migrations.AddField(
            model_name="lagsample",
            name="unknown_partitions",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="kind",
            field=models.CharField(choices=[(kind, kind) for kind in KINDS], max_length=16),
        ),
        migrations.RunPython(make_rule, migrations.RunPython.noop),
    ]
