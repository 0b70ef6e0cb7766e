"""The rule that fires when a rule of a flow fails for records."""

from django.db import migrations, models

from monitoring.domain.alerts.rules import KINDS


def make_rule(apps, schema_editor):
    rule = apps.get_model("monitoring", "AlertRule")
    facts = {"kind": "dead_letters", "for_seconds": 0, "severity": "warning"}
    rule.objects.get_or_create(name="Records went to a dead-letter topic", defaults=facts)


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0013_moved_runners")]

    operations = [
        migrations.AlterField(
            model_name="alertrule",
            name="kind",
            field=models.CharField(choices=[(kind, kind) for kind in KINDS], max_length=16),
        ),
        migrations.RunPython(make_rule, migrations.RunPython.noop),
    ]
