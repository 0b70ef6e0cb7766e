"""Default rules get names in the field's words, unless a person has renamed them."""

from django.db import migrations

# Kind, name of earlier versions, name.
NAMES = [
    ("time_lag", "Behind by more than 30 s", "RPO above 30 s"),
    ("time_lag", "Behind by more than 5 min", "RPO above 5 min"),
    ("stands", "Stands while its source grows", "Stalled"),
    ("flow_failed", "Failed", "Flow failed"),
    ("flow_degraded", "Degraded", "Flow degraded"),
    ("gap", "A gap waits for a decision", "Data loss needs a decision"),
    ("stale", "Sends no figures", "No metrics"),
    ("forecast", "Retention overtakes it within 6 h", "Data loss by retention within 6 h"),
    ("open_transaction", "A transaction stays open", "Transaction open for more than 15 min"),
]


def rename(apps, schema_editor):
    rules = apps.get_model("monitoring", "AlertRule").objects
    alerts = apps.get_model("monitoring", "Alert").objects
    for kind, before, after in NAMES:
        rule = rules.filter(kind=kind, name=before, flow=None).first()
        if rule is None or rules.filter(name=after).exists():
            continue
        rules.filter(pk=rule.pk).update(name=after)
        # Ended alerts keep the name under which people were notified.
        alerts.filter(rule=rule, rule_name=before).exclude(state="resolved").update(rule_name=after)


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0008_topic_history")]

    operations = [migrations.RunPython(rename, migrations.RunPython.noop)]
