"""The rule that fires when keys differ after producers wrote them on both sides."""

from django.db import migrations, models

from monitoring.domain.alerts.rules import KINDS


def make_rule(apps, schema_editor):
    rule = apps.get_model("monitoring", "AlertRule")
    facts = {"kind": "conflicts", "for_seconds": 0, "severity": "warning"}
    rule.objects.get_or_create(name="Conflicting keys differ on both sides", defaults=facts)


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0017_schemas")]

    operations = [
        migrations.AlterField(
            model_name="alertrule",
            name="kind",
            field=models.CharField(choices=[(kind, kind) for kind in KINDS], max_length=16),
        ),
        migrations.RunPython(make_rule, migrations.RunPython.noop),
    ]
