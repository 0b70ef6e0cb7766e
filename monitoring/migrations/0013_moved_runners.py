"""The rule that fires when another host took a runner over."""

from django.db import migrations, models

from monitoring.domain.alerts.rules import KINDS


def make_rule(apps, schema_editor):
    rule = apps.get_model("monitoring", "AlertRule")
    facts = {"kind": "runner_moved", "for_seconds": 0, "severity": "warning"}
    rule.objects.get_or_create(name="Another host took a runner over", defaults=facts)


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0012_full_steps")]

    operations = [
        migrations.AlterField(
            model_name="alertrule",
            name="kind",
            field=models.CharField(choices=[(kind, kind) for kind in KINDS], max_length=16),
        ),
        migrations.RunPython(make_rule, migrations.RunPython.noop),
    ]
